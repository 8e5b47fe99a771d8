"""Keys and signs: generated from the command list and the table of signs, so that neither can disagree with the program."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from npa_tui.commands.base import Command, Group
from npa_tui.render.glyphs import SIGNS
from npa_tui.render.ink import Ink, lines

_SAFE = (
    "Nothing is deleted before a dialog that",
    "you opened yourself and answered.",
    "Closing the console stops nothing: the",
    "run goes on, and the next console finds",
    "it. The journal says what was done.",
)
COLUMN = 47
TWO_COLUMNS = 84


def help_text(commands: Iterable[Command], ink: Ink, width: int) -> Text:
    """Two columns from 84 cells on, else one below the other."""
    left, right = _keys(commands, ink), _signs(ink)
    if width < TWO_COLUMNS:
        return lines([*left, *right])
    rows = []
    for n in range(max(len(left), len(right))):
        a = left[n] if n < len(left) else Text("")
        b = right[n] if n < len(right) else Text("")
        a = ink.short(a, COLUMN)
        rows.append(Text.assemble(a, " " * (COLUMN + 2 - a.cell_len), b))
    return lines(rows)


def _keys(commands: Iterable[Command], ink: Ink) -> list[Text]:
    by_group: dict[Group, dict[str, list[str]]] = {g: {} for g in Group}
    for c in commands:
        if c.key:
            keys = by_group[c.group].setdefault(c.family or c.help, [])
            if c.shown_key not in keys:
                keys.append(c.shown_key)
    rows: list[Text] = []
    for group, entries in by_group.items():
        rows.append(Text(str(group), style=ink.strong))
        if group is Group.MOVE:
            rows.append(Text.assemble((f" {'j k, arrows':<14}", ink.key), ("up and down", ink.text)))
        rows += [
            Text.assemble((f" {' '.join(keys):<14}", ink.key), (what, ink.text))
            for what, keys in entries.items()
        ]
        rows.append(Text(""))
    return rows


def _signs(ink: Ink) -> list[Text]:
    rows = [Text("Status", style=ink.strong)]
    for stand, sign in SIGNS.items():
        word = sign.word if len(sign.word) <= 13 else "not known"
        rows.append(
            Text.assemble(" ", ink.sign(stand), " ", (f"{word:<14}", ink.text), (sign.meaning, ink.muted))
        )
    g = ink.glyphs
    rows += [
        Text(""),
        Text("In the plan", style=ink.strong),
        Text.assemble((f" {g.needed} ", ink.key), ("the highlighted phase needs it", ink.muted)),
        Text.assemble((f" {g.unblocked} ", ink.key), ("the highlighted phase unblocks it", ink.muted)),
        Text(""),
        Text("Safe to know", style=ink.strong),
    ]
    return rows + [Text(f" {line}", style=ink.muted) for line in _SAFE]
