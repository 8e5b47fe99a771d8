"""The last row: keys that do something now."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from npa_tui.commands.base import Command
from npa_tui.render.ink import Ink

MOST = 7


def footer(commands: Iterable[Command], ink: Ink, width: int) -> Text:
    """As many commands as there is room for, the first ones first."""
    row = Text("")
    for command in fitting(commands, width):
        row.append_text(_piece(command, ink))
    return row


def fitting(commands: Iterable[Command], width: int) -> list[Command]:
    shown: list[Command] = []
    for command in list(commands)[:MOST]:
        if sum(map(width_of, shown)) + width_of(command) > width:
            break
        shown.append(command)
    return shown


def width_of(command: Command) -> int:
    """Cells that a command takes in the footer."""
    return len(command.shown_key) + len(command.label) + 3


def _piece(command: Command, ink: Ink) -> Text:
    return Text.assemble((f" {command.shown_key}", ink.key), (f" {command.label} ", ink.muted))
