"""Gathers what reader and journal have into one view, and has read again what the journal makes old."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.words.plans import Plan
from npa_tui.following import Asking, Following
from npa_tui.moments import Moments, moment
from npa_tui.reader import Reader, Store
from npa_tui.state import Scene, Seen, View, view
from npa_tui.trail import Trail

if TYPE_CHECKING:
    from engine.run.preview import PhasePreview
    from npa_tui.source import Source

READ_AGAIN = 5.0
"""Seconds that pass at least between two readings of the inventory that a run brings about by itself."""

_NO_TRAIL = Trail()


class Gathering:
    """`tick` is called ten times a second; `view` is what it came to. Nothing here waits for anything."""

    def __init__(self, source: Source, moments: Moments, project: str) -> None:
        self.reader = Reader(source)
        self.asking = Asking()
        self.starting: frozenset[str] = frozenset()
        """Phases whose runner is being started."""
        self.delete_project = False
        self._source = source
        self._moments = moments
        self._wanted: str | None = project
        self._since = moments.now()
        self._following: Following | None = None
        self._followed = ""
        self._previews: dict[str, PhasePreview] = {}
        self._looks = 0
        self._processes = 0
        self._check: Future[None] | None = None
        self._read_at = 0.0
        self._settled: datetime | None = None
        self._replanned_for = ""
        self._told = 0
        self._news: list[str] = []
        self._key: tuple[object, ...] = ()
        self._shown: Store | None = None
        self.view = View(now=self._since.replace(microsecond=0), scene=Scene.READING)

    @property
    def trail(self) -> Trail:
        return self._following.trail if self._following else _NO_TRAIL

    @property
    def operator(self) -> str:
        """Who consents: the cloud account, else the user of this machine."""
        account = self.view.account
        if account and account.name:
            return account.name
        import getpass

        return getpass.getuser()

    def news(self) -> Iterator[str]:
        """What a person is to be told, each once."""
        while self._news:
            yield self._news.pop(0)

    # -- the tick -------------------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """Take in what is new; whether the view is another one now."""
        now = self._moments.now().replace(microsecond=0)
        self._aim_first()
        self._follow()
        if self._following and self._following.poll():
            self._check = self.reader.check_runner(anew=self.trail.processes != self._processes)
        if self.trail.processes != self._processes:
            # Another process works on the run, or did: nothing is said about it before its lease was looked at.
            if self._check is not None and not self._check.done():
                return False
            self._processes = self.trail.processes
        self._take_back()
        store = self.reader.store
        asked = self.asking.phases | self.starting
        key = (self._following.version if self._following else -1, now, asked, self._looks)
        if key == self._key and store is self._shown:
            return False
        self._key, self._shown = key, store
        self.view = view(self._seen(store, now, asked))
        self._tell_refusals()
        self._read_what_is_old()
        return True

    def _seen(self, store: Store, now: datetime, asked: frozenset[str]) -> Seen:
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
            journal=_short(self._source.journal_path(project_id)) if project_id else "",
        )

    def _aim_first(self) -> None:
        """Aim at what was named, else at the only project there is. More than one: a person chooses."""
        projects = self.reader.store.projects
        if projects is None or self._wanted is None:
            return
        wanted, self._wanted = self._wanted, None
        if not wanted and len(projects) == 1:
            wanted = projects[0].key
        if wanted:
            self.aim(next((p.key for p in projects if wanted in (p.alias, p.project_id)), wanted))

    def _follow(self) -> None:
        """Follow the journal of what is aimed at, as soon as its id is known."""
        store = self.reader.store
        project_id = next((p.project_id for p in store.projects or () if p.key == store.aimed), "")
        if not project_id and isinstance(store.plan, Plan):
            project_id = store.plan.identity.project_id
        if project_id and project_id != self._followed:
            self._followed = project_id
            self._following = Following(self._source.journal_path(project_id))
            self.asking = Asking()
            self.reader.watch(project_id)

    def _read_what_is_old(self) -> None:
        run = self.view.run
        read = moment(self.view.inventory.at) if self.view.inventory else None
        settled = moment(self.trail.settled_at)
        now = self._moments.monotonic()
        news = settled is not None and settled != self._settled and (read is None or settled > read)
        if news and not self.view.reading and now - self._read_at > READ_AGAIN:
            self._read_at, self._settled = now, settled
            self.reader.read_again()
        if run and run.closed and run.id != self._replanned_for:
            self._replanned_for = run.id
            self.reader.replan(delete_project=self.delete_project)

    def _take_back(self) -> None:
        taken = self.asking.settle(self.reader.store.runner is not None, self._moments.monotonic())
        self._news += [f"Nobody took the answer for {n.replace('_', ' ')}: it was taken back." for n in taken]

    def _tell_refusals(self) -> None:
        refused = self.trail.refusals
        ours = [r for r in refused[self._told :] if r.by == self.operator]
        self._news += [f"The runner refused to {r.what}: {r.detail}" for r in ours]
        self._told = len(refused)

    # -- what a person asks for -----------------------------------------------------------------------------------------

    def aim(self, project: str) -> None:
        """Look at another project. What was shown of the present one is dropped."""
        self._since = self._moments.now()
        self._following, self._followed = None, ""
        self._processes = self._told = 0
        self._previews, self.starting = {}, frozenset()
        self.reader.aim(project, delete_project=self.delete_project)

    def read_again(self) -> None:
        self._forget_looks()
        self.reader.read_again()
        if self.view.run is None or self.view.run.closed:
            self.reader.replan(delete_project=self.delete_project)

    def include_project(self) -> bool:
        """Plan with the project itself, or without it again; which of the two it is now."""
        self.delete_project = not self.delete_project
        self._forget_looks()
        self.reader.replan(delete_project=self.delete_project)
        return self.delete_project

    def ask(self, what: Literal["keep", "pause", "resume", "stop"], phase: str) -> bool:
        """Ask the run's process for something; whether there is one that could hear it."""
        run = self.view.run
        if run is None or self.view.runner is None:
            return False
        inbox = self._source.inbox(self._followed)
        self.asking.other(inbox, run.id, what, self.operator, phase, self._moments.monotonic())
        return True

    def remember(self, preview: PhasePreview) -> None:
        """What a dialog saw also says in the tree whether a guard holds the phase."""
        self._previews[preview.phase] = preview
        self._looks += 1

    def _forget_looks(self) -> None:
        self._previews = {}
        self._looks += 1


def _short(path: Path) -> str:
    """A path with the home folder as `~`."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
