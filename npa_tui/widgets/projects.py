"""The projects that local records name."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType

from engine.run.faces import ProjectLine
from npa_tui.commands.base import Scope
from npa_tui.render.ink import Ink
from npa_tui.render.projects import project_rows
from npa_tui.state import View
from npa_tui.widgets.inked import bindings
from npa_tui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class ProjectEntry:
    """One project with what is known of its spend: (USD a day, hazards), or nothing."""

    line: ProjectLine
    spend: tuple[float, int] | None
    aimed: bool


class ProjectList(Lines[ProjectEntry]):
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.PROJECTS)

    def show(self, view: View) -> None:
        self.set_entries(
            [ProjectEntry(p, view.spends.get(p.key), p.key == view.aimed) for p in view.projects]
        )

    def rows(self, entry: ProjectEntry, ink: Ink, width: int, *, cursor: bool) -> list[Text]:
        spends = {entry.line.key: entry.spend} if entry.spend else {}
        return list(project_rows(entry.line, spends, entry.aimed, ink, width - 1).split("\n"))

    def height_of(self, entry: ProjectEntry, width: int) -> int:
        return 2

    def key_of(self, entry: ProjectEntry) -> Hashable:
        return entry.line.project_id, entry.line.alias
