"""What a command is. Key, footer, palette and help are generated from it; it knows why it cannot act."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal, Protocol

from engine.run.faces import ProjectLine
from npa_tui.items import Item
from npa_tui.phases import PhaseView
from npa_tui.state import View

Pane = Literal["projects", "plan", "inventory", "receipt", "log"]
PANES: tuple[Pane, ...] = ("projects", "plan", "inventory", "receipt", "log")


class Scope(StrEnum):
    """Where a key is heard: everywhere, on a screen, or in a pane that has the focus."""

    APP = "app"
    MAIN = "main"
    RUN = "run"
    CONFIRM = "confirm"
    HELP = "help"
    QUIT = "quit"
    PROJECTS = "projects"
    PLAN = "plan"
    INVENTORY = "inventory"
    RECEIPT = "receipt"
    LOG = "log"


class Group(StrEnum):
    """The help's chapters."""

    MOVE = "Move"
    ACT = "Act"
    KEEP = "Keep"


@dataclass(frozen=True, slots=True)
class Where:
    """What a command looks at to know whether it can act: the view, and what is highlighted and focused."""

    view: View
    pane: str = ""
    phase: PhaseView | None = None
    item: Item | None = None
    filtered: bool = False
    following: bool = True
    project: ProjectLine | None = None


class Hands(Protocol):
    """What the console can be asked to do."""

    def open_phase(self, phase: PhaseView) -> None: ...
    def aim_at_highlighted(self) -> None: ...
    def show_pane(self, pane: Pane) -> None: ...
    def next_pane(self, step: int) -> None: ...
    def fold_stage(self) -> None: ...
    def start_filter(self) -> None: ...
    def step_back(self) -> None: ...
    def read_again(self) -> None: ...
    def copy_highlighted(self) -> None: ...
    def write_receipt(self) -> None: ...
    def request(self, what: Literal["keep", "pause", "resume", "stop"], phase: str = "") -> None: ...
    def follow_log(self) -> None: ...
    def include_project(self) -> None: ...
    def open_help(self) -> None: ...
    def leave(self) -> None: ...


class Command(ABC):
    """One thing that can be done by a key, from the footer, or from the palette.

    id     names it in keymaps and tests, `scope.what`
    key    as Textual names it; several with commas. Empty: the palette only
    footer its place among the commands of its scope, from 1; 0 keeps it out of the footer
    priority is heard in dialogs and fields too
    family help shows the keys of a family in one row, under this text
    """

    id: ClassVar[str]
    key: ClassVar[str] = ""
    label: ClassVar[str]
    help: ClassVar[str]
    scope: ClassVar[Scope]
    group: ClassVar[Group] = Group.ACT
    footer: ClassVar[int] = 0
    family: ClassVar[str] = ""
    priority: ClassVar[bool] = False

    def reason(self, at: Where) -> str:
        """Why it cannot act now, in a sentence; empty when it can."""
        return ""

    @abstractmethod
    def run(self, hands: Hands, at: Where) -> None: ...

    @property
    def shown_key(self) -> str:
        """The key as a person reads it."""
        first = self.key.split(",")[0]
        return {
            "slash": "/",
            "question_mark": "?",
            "escape": "esc",
        }.get(first, first)
