"""The phase DAG as a tree of stages; dependencies are words and marks, not lines."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType

from npa_tui.commands.base import Scope
from npa_tui.phases import PhaseView, Step
from npa_tui.render.ink import Ink
from npa_tui.render.plan import phase_row, stage_row, stages, step_row
from npa_tui.stands import FINISHED, Stand
from npa_tui.state import View
from npa_tui.widgets.inked import bindings
from npa_tui.widgets.lines import Lines

_STILL = datetime.min.replace(tzinfo=UTC)
"""The time of rows that do not depend on it: they are equal from one second to the next."""


@dataclass(frozen=True, slots=True)
class StageEntry:
    stage: str
    phases: tuple[PhaseView, ...]
    unfolded: bool


@dataclass(frozen=True, slots=True)
class PhaseEntry:
    phase: PhaseView
    relation: str
    now: datetime


@dataclass(frozen=True, slots=True)
class StepEntry:
    phase: PhaseView
    step: Step


Entry = StageEntry | PhaseEntry | StepEntry


class PlanTree(Lines[Entry]):
    """`show` keeps the cursor where it is; only the first time it looks for what waits for an answer."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.PLAN)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._view: View | None = None
        self._folds: dict[str, bool] = {}
        self._over: dict[str, bool] = {}
        self._digest = ""

    def show(self, view: View) -> None:
        new = view.digest != self._digest
        self._view, self._digest = view, view.digest
        if new:
            self._folds.clear()
        self._fill()
        if new:
            self.find_start()

    def find_start(self) -> None:
        """Put the cursor on what failed, else on what waits for an answer."""
        wanted = (Stand.FAILED, Stand.UNKNOWN, Stand.CONFIRM)
        for stand in wanted:
            for index, entry in enumerate(self.entries):
                if isinstance(entry, PhaseEntry) and entry.phase.stand is stand:
                    self.move_to(index)
                    self._fill()
                    return
        if self.entries:
            self.move_to(0)
            self._fill()

    @property
    def phase(self) -> PhaseView | None:
        """The highlighted phase; of a step, the phase that it is of."""
        entry = self.current
        return None if entry is None or isinstance(entry, StageEntry) else entry.phase

    @property
    def stage(self) -> StageEntry | None:
        entry = self.current
        return entry if isinstance(entry, StageEntry) else None

    def fold(self) -> None:
        """Open or close the stage of the cursor."""
        entry = self.current
        if entry is None:
            return
        stage = entry.stage if isinstance(entry, StageEntry) else entry.phase.row.stage
        head = next(e for e in self.entries if isinstance(e, StageEntry) and e.stage == stage)
        self._folds[stage] = not head.unfolded
        index = self.entries.index(head)
        self.move_to(index)
        self._fill()

    def _fill(self) -> None:
        if self._view is None:
            self.set_entries([])
            return
        self.set_entries(self._entries(self._view, self._relations()))

    def _relations(self) -> dict[int, str]:
        phase = self.phase
        if phase is None or self._view is None:
            return {}
        now = self._view.phase(phase.name) or phase
        return dict.fromkeys(now.needs, "needed") | dict.fromkeys(now.unblocks, "unblocked")

    def _entries(self, view: View, relations: dict[int, str]) -> list[Entry]:
        entries: list[Entry] = []
        for stage, phases in stages(view.phases).items():
            over = all(p.stand in FINISHED for p in phases)
            if self._over.get(stage) != over:
                self._folds.pop(stage, None)
                self._over[stage] = over
            unfolded = self._folds.get(stage, not over)
            entries.append(StageEntry(stage, tuple(phases), unfolded))
            for phase in phases if unfolded else ():
                running = phase.stand is Stand.RUNNING
                now = view.now if running else _STILL
                entries.append(PhaseEntry(phase, relations.get(phase.number, ""), now))
                if running:
                    entries += [StepEntry(phase, s) for s in phase.steps if s.stand is Stand.RUNNING]
        return entries

    def on_lines_highlighted(self) -> None:
        self._fill()

    def rows(self, entry: Entry, ink: Ink, width: int, *, cursor: bool) -> list[Text]:
        match entry:
            case StageEntry():
                row = stage_row(entry.stage, list(entry.phases), entry.unfolded, ink, width - 2)
                return [Text.assemble(" ", row)]
            case PhaseEntry():
                row = phase_row(entry.phase, entry.relation, ink, width - 4, entry.now, cursor=cursor)
                return [Text.assemble("   ", row)]
            case StepEntry():
                return [Text.assemble("     ", step_row(entry.step, ink, width - 6))]

    def key_of(self, entry: Entry) -> Hashable:
        match entry:
            case StageEntry():
                return "stage", entry.stage
            case PhaseEntry():
                return "phase", entry.phase.name
            case StepEntry():
                return "step", entry.step.key
