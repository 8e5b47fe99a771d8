"""The application: gathers what was read into one view ten times a second, and carries out what a person asks for."""

from __future__ import annotations

import getpass
import os
import traceback
from asyncio import wrap_future
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Literal

from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from engine.run.preview import PhasePreview
from engine.words.plans import Plan
from engine.words.reasons import Refusal
from engine.words.redact import redact
from npa_tui import commands
from npa_tui.commands.base import Pane, Scope, Where
from npa_tui.following import Asking, Following
from npa_tui.moments import Moments
from npa_tui.phases import PhaseView
from npa_tui.question import Question
from npa_tui.reader import Reader, Store
from npa_tui.render.glyphs import Glyphs
from npa_tui.render.ink import Ink
from npa_tui.screens.confirm import ConfirmScreen
from npa_tui.screens.framed import Framed
from npa_tui.screens.main import MainScreen
from npa_tui.screens.run import RunScreen
from npa_tui.source import Source
from npa_tui.stands import SETTLED, Stand
from npa_tui.state import Mode, Scene, Seen, View, moment, view
from npa_tui.themes import THEMES, ink_colours
from npa_tui.trail import Trail
from npa_tui.widgets.inked import bindings

PUMP = 0.1
"""Seconds between two looks at journal and store."""

READ_AGAIN = 5.0
"""Seconds that pass at least between two readings of the inventory that a run brings about by itself."""

_NO_TRAIL = Trail()


class Console(App[int], inherit_bindings=False):
    """`source` is the engine. `project` is what to aim at; without it, the only project there is.

    Nothing here changes anything outside: it starts a runner, and puts requests into its inbox.
    """

    TITLE = "npa teardown"
    CSS_PATH = "console.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.APP)
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        source: Source,
        *,
        project: str = "",
        theme: str = "npa-dark",
        ascii_only: bool = False,
        keymap: Mapping[str, str] | None = None,
        moments: Moments | None = None,
    ) -> None:
        # Must be known here: the filter for NO_COLOR is chosen before any theme can be set, and the wrong one paints the
        # terminal's default colours black on black.
        super().__init__(ansi_color=True if theme == "npa-ansi" else None)
        self.source = source
        self.moments = moments or Moments()
        self.reader = Reader(source)
        self.glyphs = Glyphs(ascii_only)
        self.crash = ""
        """The traceback of what ended the console, without secrets."""
        self._wanted: str | None = project
        self._since = self.moments.now()
        self._following: Following | None = None
        self._followed = ""
        self._asking = Asking()
        self._starting: frozenset[str] = frozenset()
        self._previews: dict[str, PhasePreview] = {}
        self._read_at = 0.0
        self._settled: datetime | None = None
        self._replanned_for = ""
        self._delete_project = False
        self._told = 0
        self._looks = 0
        self._processes = 0
        self._check: Future[None] | None = None
        self._key: tuple[object, ...] = ()
        self._shown: Store | None = None
        self.view = View(now=self._since.replace(microsecond=0), scene=Scene.READING)
        for one in THEMES:
            self.register_theme(one)
        self.theme = theme
        self.ink = Ink(self.glyphs, ink_colours(theme), theme == "npa-ansi")
        self.set_class(ascii_only, "-ascii")
        self.set_class(self.ink.native, "-native")
        if keymap:
            self.set_keymap(dict(keymap))

    def _fatal_error(self) -> None:
        """Keep the traceback for the log, in place of the toolkit's own, which prints the values of locals to the screen."""
        self.crash = "\n".join(redact(line, 2000) for line in traceback.format_exc().splitlines())
        self.exit(70, 70)

    # -- life -----------------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.main = MainScreen()
        self.push_screen(self.main)
        self.reader.start()
        self.set_interval(PUMP, self.pump)

    def on_unmount(self) -> None:
        self.reader.stop()

    @property
    def trail(self) -> Trail:
        return self._following.trail if self._following else _NO_TRAIL

    def pump(self) -> None:
        """Take in what is new; show it if it changes anything."""
        if not self.is_running:
            return  # being taken apart
        store, now = self.reader.store, self.moments.now().replace(microsecond=0)
        self._aim_first()
        self._follow()
        grown = self._following.poll() if self._following else False
        if grown:
            self._check = self.reader.check_runner(anew=self.trail.processes != self._processes)
        if self.trail.processes != self._processes:
            # Another process works on the run, or did: nothing is said about it before its lease was looked at.
            if self._check is not None and not self._check.done():
                return
            self._processes, store = self.trail.processes, self.reader.store
        self._take_back()
        version = self._following.version if self._following else -1
        asked = self._asking.phases | self._starting
        key = (version, now, asked, self._looks)
        if key == self._key and store is self._shown:
            return
        self._key, self._shown = key, store
        self.view = view(self._seen(now, asked))
        for screen in self.screen_stack:
            if isinstance(screen, Framed | ConfirmScreen):
                screen.show(self.view)
        self._tell_refusals()
        self._after_news()

    def _seen(self, now: datetime, asked: frozenset[str]) -> Seen:
        store = self.reader.store
        following, project_id = self._following, self._followed
        return Seen(
            now=now,
            since=self._since,
            projects=store.projects,
            aimed=store.aimed,
            plan=store.plan,
            trail=self.trail if store.checked == project_id else _NO_TRAIL,
            trouble=following.trouble if following else "",
            runner=store.runner,
            account=store.account,
            inventory=store.inventory,
            first=store.first,
            reports=store.reports,
            reading=store.reading,
            halted=store.halted,
            problem=store.problem,
            previews=self._previews,
            asked=asked,
            spends=store.spends,
            receipt=_short(store.receipt) if store.receipt else "",
            journal=_short(self.source.journal_path(project_id)) if project_id else "",
        )

    def _aim_first(self) -> None:
        """Aim at what was named, else at the only project there is. More than one: a person chooses."""
        projects = self.reader.store.projects
        if projects is None or self._wanted is None:
            return
        if not self._wanted and len(projects) == 1 and projects[0].key:
            self._wanted = projects[0].key
        wanted, self._wanted = self._wanted, None
        if wanted:
            named = next((p.key for p in projects if wanted in (p.alias, p.project_id)), wanted)
            self.aim(named)

    def aim(self, project: str) -> None:
        """Look at another project. What was shown of the present one is dropped."""
        self._since = self.moments.now()
        self._following, self._followed = None, ""
        self._processes = 0
        self._previews, self._starting, self._told = {}, frozenset(), 0
        self.reader.aim(project, delete_project=self._delete_project)

    def _follow(self) -> None:
        """Follow the journal of what is aimed at, as soon as its id is known."""
        store = self.reader.store
        line = next((p for p in store.projects or () if p.key == store.aimed), None)
        project_id = (
            line.project_id
            if line
            else store.plan.identity.project_id
            if isinstance(store.plan, Plan)
            else ""
        )
        if project_id and project_id != self._followed:
            self._followed = project_id
            self._following = Following(self.source.journal_path(project_id))
            self._asking = Asking()
            self.reader.watch(project_id)

    def _after_news(self) -> None:
        """Read again what the journal has made old."""
        run = self.view.run
        read = moment(self.view.inventory.at) if self.view.inventory else None
        settled = moment(self.trail.settled_at)
        now = self.moments.monotonic()
        if (
            settled
            and settled != self._settled
            and (read is None or settled > read)
            and not self.view.reading
            and now - self._read_at > READ_AGAIN
        ):
            self._read_at, self._settled = now, settled
            self.reader.read_again()
        if run and run.closed and run.id != self._replanned_for:
            self._replanned_for = run.id
            self.reader.replan(delete_project=self._delete_project)

    def _take_back(self) -> None:
        taken = self._asking.settle(self.reader.store.runner is not None, self.moments.monotonic())
        for name in taken:
            self.notify(
                f"Nobody took the answer for {name.replace('_', ' ')}: it was taken back.", severity="warning"
            )

    def _tell_refusals(self) -> None:
        refused = self.trail.refusals
        for one in refused[self._told :]:
            if one.by == self.operator:
                self.notify(f"The runner refused to {one.what}: {one.detail}", severity="warning", timeout=12)
        self._told = len(refused)

    # -- commands -------------------------------------------------------------------------------------------------------

    def where(self) -> Where:
        """What commands look at."""
        screen = self.screen
        if isinstance(screen, RunScreen):
            log = screen.query_one("#lines")
            return Where(self.view, "log", screen.phase, following=bool(getattr(log, "following", True)))
        if not hasattr(self, "main") or not self.main.is_mounted:
            return Where(self.view)
        main = self.main
        log = main.query_one("#lines")
        return Where(
            self.view,
            main.pane if self.view.scene is Scene.READY else "projects",
            main.phase,
            main.item,
            main.filtered,
            bool(getattr(log, "following", True)),
            main.project,
        )

    def action_command(self, name: str) -> None:
        """Run a command, or say why it cannot be run now."""
        command, at = commands.BY_ID[name], self.where()
        reason = command.reason(at)
        if reason:
            self.notify(reason)
        else:
            command.run(self, at)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every command of the screens that are open which can act now."""
        at = self.where()
        run_view = isinstance(screen, RunScreen)
        for command in commands.ALL:
            here = (
                command.scope in (Scope.RUN, Scope.LOG, Scope.APP)
                if run_view
                else command.scope is not Scope.RUN
            )
            if here and not command.reason(at):
                yield SystemCommand(
                    command.label,
                    command.help,
                    lambda c=command.id: self.action_command(c),
                )

    # -- what can be asked of the console (commands.base.Hands) ---------------------------------------------------------

    def open_phase(self, phase: PhaseView) -> None:
        plan = self.view.plan
        if plan is None:
            return
        at_work = phase.stand in (Stand.RUNNING, Stand.DONE)
        tried = phase.stand in (Stand.FAILED, Stand.UNKNOWN, Stand.LEFTOVERS)
        if at_work or (tried and self.view.runner is not None):
            self.push_screen(RunScreen(phase.name))
        else:
            self.push_screen(ConfirmScreen(plan, phase), self._answered)

    def aim_at_highlighted(self) -> None:
        if self.main.project:
            self.aim(self.main.project.key)
            self.main.show_pane("plan")

    def show_pane(self, pane: Pane) -> None:
        self.main.show_pane(pane)

    def next_pane(self, step: int) -> None:
        self.main.next_pane(step)

    def fold_stage(self) -> None:
        self.main.fold_stage()

    def start_filter(self) -> None:
        screen = self.screen
        if isinstance(screen, MainScreen | RunScreen):
            screen.start_filter()

    def step_back(self) -> None:
        screen = self.screen
        if isinstance(screen, MainScreen | RunScreen) and screen.clear_filter():
            return
        if isinstance(screen, RunScreen):
            self.pop_screen()
        elif self.view.reading:
            self.reader.halt()

    def read_again(self) -> None:
        self._forget_looks()
        self.reader.read_again()
        if self.view.run is None or self.view.run.closed:
            self.reader.replan(delete_project=self._delete_project)

    def copy_highlighted(self) -> None:
        text = self._highlighted()
        if not text:
            self.notify("There is nothing to copy here.")
            return
        self.copy_to_clipboard(text)
        self.notify(text, title="Copied")

    def _highlighted(self) -> str:
        from npa_tui.render.log import plain
        from npa_tui.render.notice import details
        from npa_tui.widgets.log import LogView

        at = self.where()
        if isinstance(self.screen, RunScreen) or at.pane == "log":
            line = self.screen.query_one(LogView).current
            return plain(line) if line else ""
        match at.pane:
            case "inventory":
                return at.item.row.ref.id if at.item else ""
            case "receipt":
                return self.view.receipt or self.view.journal
            case "projects":
                return at.project.project_id if at.project else ""
            case _ if self.view.scene is Scene.ERROR:
                return details(self.view)
            case _:
                return self.view.digest

    def write_receipt(self) -> None:
        """Write the receipt as Markdown beside where the console was started; never over an existing file."""
        from npa_tui.render.receipt import markdown

        assert self.view.identity is not None
        name = f"teardown-{self.view.identity.label}-{self.view.digest[:8]}-{self.view.now:%Y%m%dT%H%M%SZ}.md"
        path = Path.cwd() / name.replace(os.sep, "-")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(markdown(self.view))
        except OSError as error:
            self.notify(f"{path}: {error.strerror}", title="Not written", severity="error")
        else:
            self.notify(str(path), title="Written")

    def request(self, what: Literal["keep", "pause", "resume", "stop"], phase: str = "") -> None:
        run = self.view.run
        if run is None or self.view.runner is None:
            return
        inbox = self.source.inbox(self._followed)
        self._asking.other(inbox, run.id, what, self.operator, phase, self.moments.monotonic())
        words = {
            "keep": "asked to keep it",
            "pause": "asked to pause before the next step",
            "resume": "asked to go on",
            "stop": "asked to stop: calls in flight finish, no new ones start",
        }
        self.notify(words[what][0].upper() + words[what][1:] + ".")

    def follow_log(self) -> None:
        from npa_tui.widgets.log import LogView

        self.screen.query_one(LogView).follow()

    def include_project(self) -> None:
        self._delete_project = not self._delete_project
        self._forget_looks()
        self.reader.replan(delete_project=self._delete_project)
        words = (
            "The plan ends with the project itself."
            if self._delete_project
            else "The plan leaves the project itself."
        )
        self.notify(words)

    def open_help(self) -> None:
        from npa_tui.screens.help import HelpScreen

        self.push_screen(HelpScreen())

    def leave(self) -> None:
        if self.view.mode is not Mode.LIVE or self.view.run is None:
            self.exit(0)
            return
        from npa_tui.screens.leaving import LeavingScreen

        if not isinstance(self.screen, LeavingScreen):
            self.push_screen(LeavingScreen(self.view.run.flying), self._left)

    def _left(self, choice: str | None) -> None:
        if choice == "stop":
            self.request("stop")
        if choice in ("stop", "leave"):
            self.exit(0)

    # -- consent --------------------------------------------------------------------------------------------------------

    @property
    def operator(self) -> str:
        """Who consents: the cloud account, else the user of this machine."""
        account = self.view.account
        return account.name if account and account.name else getpass.getuser()

    def remember(self, preview: PhasePreview) -> None:
        """What a dialog saw also says in the tree whether a guard holds the phase."""
        self._previews[preview.phase] = preview
        self._looks += 1

    def _forget_looks(self) -> None:
        self._previews = {}
        self._looks += 1

    def _answered(self, question: Question | None) -> None:
        if question is not None:
            self._starting |= {question.preview.phase}
            self.run_worker(self._hand_over(question), group="consent", exit_on_error=False)

    async def _hand_over(self, question: Question) -> None:
        """Bring an answer to the run that it is for; start the runner first where there is none."""
        plan, phase = question.preview.plan, question.preview.phase
        try:
            run = await self._run_for(plan)
            if run:
                consent = question.consent(self.operator, self._proven_before(run))
                inbox = self.source.inbox(plan.identity.project_id)
                self._asking.consent(inbox, run, consent, self.moments.monotonic())
        except OSError as error:
            self._say_not_started(f"{error.strerror}: {error.filename}", "")
        finally:
            self._starting -= {phase}

    def _proven_before(self, run: str) -> tuple[str, ...]:
        """Phases that an earlier process of this run finished, so that the present one has nobody's leave to look at them."""
        if self.view.run is None or self.view.run.id != run:
            return ()
        now = self.trail.ended_now if self.view.mode is Mode.LIVE else set()
        return tuple(p.name for p in self.view.phases if p.total and p.stand in SETTLED and p.name not in now)

    async def _run_for(self, plan: Plan) -> str:
        """The run that works on this plan, started if need be; empty, and said so, when there can be none now."""
        runner = await wrap_future(self.reader.runner(plan.identity.project_id))
        if runner is None:
            started = await wrap_future(
                self.reader.start_runner(plan, delete_project=plan.phase("delete_project") is not None)
            )
            if isinstance(started, Refusal):
                self._say_not_started(started.sentence, started.next_command)
                return ""
            return started
        run = self.trail.state.runs.get(runner.run)
        if run is not None and run.plan.digest == plan.digest:
            return run.id
        self._say_not_started(
            f"{runner.command or 'another program'} holds the project, pid {runner.pid}.", ""
        )
        return ""

    def _say_not_started(self, sentence: str, advice: str) -> None:
        words = f"{sentence}\n{advice}" if advice else sentence
        self.notify(words, title="Nothing was started", severity="error", timeout=20)


def _short(path: Path) -> str:
    """A path with the home folder as `~`."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
