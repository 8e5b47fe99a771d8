"""The application: shows the gathered view, and carries out what a person asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.notifications import SeverityLevel
from textual.screen import Screen

from engine.words.redact import redact
from npa_tui import commands
from npa_tui.badge import Mode
from npa_tui.commands.base import Pane, Scope, Where
from npa_tui.gathering import Gathering
from npa_tui.moments import Moments
from npa_tui.phases import PhaseView
from npa_tui.reader import Reader
from npa_tui.render.glyphs import Glyphs
from npa_tui.render.ink import Ink
from npa_tui.screens.framed import AtWork, Viewing
from npa_tui.screens.main import MainScreen
from npa_tui.stands import Stand
from npa_tui.state import Scene, View
from npa_tui.themes import THEMES, ink_colours
from npa_tui.trail import Trail
from npa_tui.widgets.inked import bindings
from npa_tui.widgets.log import LogView

if TYPE_CHECKING:
    from engine.run.preview import PhasePreview
    from npa_tui.question import Question
    from npa_tui.source import Source

PUMP = 0.1
"""Seconds between two looks at journal and store."""


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
        self.gathering = Gathering(source, self.moments, project)
        self.glyphs = Glyphs(ascii_only)
        self.crash = ""
        """The traceback of what ended the console, without secrets."""
        for one in THEMES:
            self.register_theme(one)
        self.theme = theme
        self.ink = Ink(self.glyphs, ink_colours(theme), theme == "npa-ansi")
        self.set_class(ascii_only, "-ascii")
        self.set_class(self.ink.native, "-native")
        if keymap:
            self.set_keymap(dict(keymap))

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """A toast. Its text may come from a provider: it is no markup."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def _fatal_error(self) -> None:
        """Keep the traceback for the log, in place of the toolkit's own, which prints the values of locals to the screen."""
        import traceback

        self.crash = "\n".join(redact(line, 2000) for line in traceback.format_exc().splitlines())
        self.exit(70, 70)

    # -- life -----------------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.main = MainScreen()
        self.push_screen(self.main)
        self.set_interval(PUMP, self.pump)
        self.call_after_refresh(self.reader.start)  # the first paint has the processor for itself

    def on_unmount(self) -> None:
        self.reader.stop()

    @property
    def view(self) -> View:
        return self.gathering.view

    @property
    def trail(self) -> Trail:
        return self.gathering.trail

    @property
    def reader(self) -> Reader:
        return self.gathering.reader

    def pump(self) -> None:
        """Show what is new."""
        if not self.is_running:
            return  # being taken apart
        if self.gathering.tick():
            for screen in self.screen_stack:
                if isinstance(screen, Viewing):
                    screen.show(self.view)
        for words in self.gathering.news():
            self.notify(words, severity="warning", timeout=12)

    # -- commands -------------------------------------------------------------------------------------------------------

    def where(self) -> Where:
        """What commands look at."""
        screen = self.screen
        if isinstance(screen, AtWork):
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
        run_view = isinstance(screen, AtWork)
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
        from npa_tui.screens.confirm import ConfirmScreen
        from npa_tui.screens.run import RunScreen

        at_work = phase.stand in (Stand.RUNNING, Stand.DONE)
        tried = phase.stand in (Stand.FAILED, Stand.UNKNOWN, Stand.LEFTOVERS)
        if at_work or (tried and self.view.runner is not None):
            self.push_screen(RunScreen(phase.name))
        else:
            self.push_screen(ConfirmScreen(plan, phase), self._answered)

    def aim_at_highlighted(self) -> None:
        if self.main.project:
            self.gathering.aim(self.main.project.key)
            self.main.show_pane("plan")

    def show_pane(self, pane: Pane) -> None:
        self.main.show_pane(pane)

    def next_pane(self, step: int) -> None:
        self.main.next_pane(step)

    def fold_stage(self) -> None:
        self.main.fold_stage()

    def start_filter(self) -> None:
        screen = self.screen
        if isinstance(screen, MainScreen | AtWork):
            screen.start_filter()

    def step_back(self) -> None:
        screen = self.screen
        if isinstance(screen, MainScreen | AtWork) and screen.clear_filter():
            return
        if isinstance(screen, AtWork):
            self.pop_screen()
        elif self.view.reading:
            self.reader.halt()

    def read_again(self) -> None:
        self.gathering.read_again()

    def copy_highlighted(self) -> None:
        from npa_tui.keeping import highlighted
        from npa_tui.render.log import plain

        at = self.where()
        line = self.screen.query_one(LogView).current if at.pane == "log" else None
        text = plain(line) if line else highlighted(at)
        if not text:
            self.notify("There is nothing to copy here.")
            return
        self.copy_to_clipboard(text)
        self.notify(text, title="Copied")

    def write_receipt(self) -> None:
        """Write the receipt beside where the console was started."""
        from npa_tui.keeping import write_receipt

        try:
            path = write_receipt(self.view, Path.cwd())
        except OSError as error:
            self.notify(f"{error.filename}: {error.strerror}", title="Not written", severity="error")
        else:
            self.notify(str(path), title="Written")

    def request(self, what: Literal["keep", "pause", "resume", "stop"], phase: str = "") -> None:
        if self.gathering.ask(what, phase):
            self.notify(_ASKED[what])

    def follow_log(self) -> None:
        self.screen.query_one(LogView).follow()

    def include_project(self) -> None:
        included = self.gathering.include_project()
        self.notify(f"The plan {'ends with' if included else 'leaves'} the project itself.")

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

    def remember(self, preview: PhasePreview) -> None:
        self.gathering.remember(preview)

    def _answered(self, question: Question | None) -> None:
        if question is not None:
            self.gathering.starting |= {question.preview.phase}
            self.run_worker(self._hand_over(question), group="consent", exit_on_error=False)

    async def _hand_over(self, question: Question) -> None:
        from npa_tui.handover import Handover, NotStarted

        here = self.gathering
        handover = Handover(self.source, here.reader, lambda: here.view, lambda: here.trail)
        try:
            await handover.deliver(question, here.asking, here.operator, self.moments.monotonic())
        except NotStarted as why:
            words = f"{why}\n{why.advice}" if why.advice else str(why)
            self.notify(words, title="Nothing was started", severity="error", timeout=20)
        finally:
            here.starting -= {question.preview.phase}


_ASKED = {
    "keep": "Asked to keep it.",
    "pause": "Asked to pause before the next step.",
    "resume": "Asked to go on.",
    "stop": "Asked to stop: calls in flight finish, no new ones start.",
}
