"""Pane titles, the row of views for narrow terminals, and the footer."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widget import Widget

from npa_tui.commands.base import PANES, Command, Pane
from npa_tui.render.footer import fitting, footer, width_of
from npa_tui.render.ink import Ink
from npa_tui.widgets.inked import console, ink_of
from npa_tui.widgets.prose import Bar

TITLES: dict[Pane, str] = {
    "projects": "Projects",
    "plan": "Plan",
    "inventory": "Inventory",
    "receipt": "Receipt",
    "log": "Log",
}


class PaneTitle(Widget):
    """One row. Focus is a mark, bold and a tint: never the colour alone."""

    class Picked(Message):
        """A tab was clicked."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, panes: Sequence[Pane], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.panes = tuple(panes)
        self.current: Pane = self.panes[0]
        self.note = ""
        self.active = False

    def show(
        self, *, current: Pane | None = None, note: str | None = None, active: bool | None = None
    ) -> None:
        before = self.current, self.note, self.active
        self.current = self.current if current is None else current
        self.note = self.note if note is None else note
        self.active = self.active if active is None else active
        if before != (self.current, self.note, self.active):
            self.set_class(self.active, "-active")
            self.refresh()

    def render(self) -> Text:
        ink = ink_of(self)
        left = Text.assemble((ink.glyphs.mark if self.active else " ", ink.key))
        for n, pane in enumerate(self.panes):
            chosen = pane == self.current
            many = len(self.panes) > 1
            style = ink(
                "foreground" if (chosen if many else self.active) else "muted",
                bold=chosen if many else self.active,
                underline=chosen and many,
            )
            left.append("   " if n else "")
            left.append(TITLES[pane], style)
        note = self.note.split("   ")  # its parts are dropped whole, the last one first: the titles stay
        while len(note) > 1 and left.cell_len + len("   ".join(note)) + 2 > self.size.width:
            note.pop()
        return ink.fit(left, Text(f"{'   '.join(note)} ", style=ink.muted), self.size.width)

    def on_click(self, event: events.Click) -> None:
        x = 1
        for pane in self.panes:
            end = x + len(TITLES[pane]) + 3
            if x <= event.x < end:
                self.post_message(self.Picked(pane))
                return
            x = end


class ViewTabs(Bar):
    """Narrow terminals: one view at a time, picked with 1 to 5."""

    def show_pane(self, pane: Pane) -> None:
        self.show(lambda ink, width: _tabs(pane, ink, width), pane)


def _tabs(current: Pane, ink: Ink, width: int) -> Text:
    row = Text(" ")
    for n, pane in enumerate(PANES, 1):
        chosen = pane == current
        piece = Text.assemble(
            (f" {n} ", ink.key),
            (TITLES[pane], ink("foreground" if chosen else "muted", bold=chosen, underline=chosen)),
            "  ",
        )
        row.append_text(piece)
    return ink.fit(row, Text("? help ", style=ink.muted), width)


class KeyBar(Bar):
    """The footer; a command in it can be clicked."""

    commands: tuple[Command, ...] = ()

    def show_commands(self, commands: Sequence[Command]) -> None:
        found = self.commands = tuple(commands)
        self.show(lambda ink, width: footer(found, ink, width), found)

    def on_click(self, event: events.Click) -> None:
        x = 0
        for command in fitting(self.commands, self.size.width):
            x += width_of(command)
            if event.x < x:
                console(self).action_command(command.id)
                return
