"""Keys and signs, for every pane at once."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from npa_tui import commands
from npa_tui.render.help import help_text
from npa_tui.widgets.prose import Prose


class HelpScreen(ModalScreen[None]):
    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q", "dismiss", "Close", show=False, id="help.close"),
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help-box"):
            yield Prose(id="help-text")

    def on_mount(self) -> None:
        box = self.query_one("#help-box")
        box.border_title = " Keys and signs "
        box.border_subtitle = " esc closes "
        self.query_one(Prose).show(lambda ink, width: help_text(commands.ALL, ink, width), "help")
        box.focus()
