"""Asked before the console closes while something runs. Nothing here can harm the run."""

from __future__ import annotations

from typing import ClassVar, Literal

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Button

from npa_tui.render.ink import Ink, hang, lines
from npa_tui.widgets.prose import Prose
from npa_tui.wording import nouns

Choice = Literal["stay", "leave", "stop"]


class LeavingScreen(ModalScreen[Choice]):
    CSS_PATH = "leaving.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stay", "Stay", show=False, id="leaving.stay"),
    ]

    def __init__(self, flying: int) -> None:
        super().__init__()
        self._flying = flying

    def compose(self) -> ComposeResult:
        with Vertical(id="leaving-box"):
            yield Prose(id="leaving-text")
            yield Button("Stay", id="stay", compact=True)
            yield Button("Quit, the run goes on", id="leave", compact=True)
            calls = f" after {nouns(self._flying, 'call')} in flight" if self._flying else ""
            yield Button(f"Stop{calls}, then quit", id="stop", compact=True)

    def on_mount(self) -> None:
        self.query_one(Prose).show(_words, "leaving")
        self.query_one("#stay").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        choices: dict[str, Choice] = {"stay": "stay", "leave": "leave", "stop": "stop"}
        self.dismiss(choices[event.button.id or "stay"])

    def action_stay(self) -> None:
        self.dismiss("stay")


def _words(ink: Ink, width: int) -> Text:
    text = (
        "The runner is a process of its own: it goes on without the console, and the next console finds it."
    )
    return lines(
        [Text("Something is running", style=ink.strong), hang(Text(text, style=ink.muted), width, 0)]
    )
