"""The last row: keys that do something now."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style
from rich.text import Text

from npa_tui.commands.base import Command
from npa_tui.render.ink import Ink

MOST = 7


def footer(commands: Iterable[Command], ink: Ink, width: int) -> Text:
    """As many commands as there is room for, the first ones first; each can be clicked."""
    row = Text("")
    for command in list(commands)[:MOST]:
        piece = Text.assemble((f" {command.shown_key}", ink.key), (f" {command.label} ", ink.muted))
        if row.cell_len + piece.cell_len > width:
            break
        piece.stylize(Style(meta={"@click": f"app.command('{command.id}')"}))
        row.append_text(piece)
    return row
