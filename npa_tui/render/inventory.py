"""The grouped list of what is there, its filter, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from npa_tui.items import Item
from npa_tui.render.ink import Ink
from npa_tui.render.numbers import amount, since
from npa_tui.stands import Stand
from npa_tui.wording import plural

NARROW_NAME = 25
WITH_ID = 74
WITH_AGE = 88
STATE = 9
PRICE = 7

_ID = 31


@dataclass(frozen=True, slots=True)
class Head:
    """The head of one kind's group. `per_hour`: the sum of its known prices."""

    kind: str
    count: int
    per_hour: float


Line = Head | Item


def grouped(items: Iterable[Item]) -> tuple[Line, ...]:
    """Rows by kind, each group under its head; kinds and rows in the order of the inventory."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.row.ref.kind, []).append(item)
    lines: list[Line] = []
    for kind, rows in groups.items():
        lines.append(Head(kind, len(rows), sum(i.row.per_hour or 0.0 for i in rows)))
        lines.extend(rows)
    return tuple(lines)


# -- filter ---------------------------------------------------------------------------------------------------------------


def matching(items: Sequence[Item], query: str) -> tuple[Item, ...]:
    """The items that every word of the query matches. `kind:` `name:` `id:` `state:` `phase:` narrow a word to one field."""
    words = query.lower().split()
    return tuple(i for i in items if all(_matches(i, w) for w in words)) if words else tuple(items)


def plain_words(query: str) -> tuple[str, ...]:
    """The words of a query that are looked for in names, to be marked there."""
    return tuple(
        w.partition(":")[2] if w.startswith("name:") else w for w in query.lower().split() if _in_name(w)
    )


def _in_name(word: str) -> bool:
    field, colon, _ = word.partition(":")
    return not colon or field == "name" or field not in _FIELDS


def _matches(item: Item, word: str) -> bool:
    field, colon, value = word.partition(":")
    if colon and (get := _FIELDS.get(field)):
        return value in get(item).lower() if field != "phase" else _is_phase(item, value)
    return any(word in get(item).lower() for get in _FIELDS.values())


def _is_phase(item: Item, value: str) -> bool:
    if value.isdigit():
        return item.goes == int(value)
    return value in item.row.phase


_FIELDS: dict[str, Callable[[Item], str]] = {
    "kind": lambda i: i.row.ref.kind,
    "name": lambda i: i.row.name,
    "id": lambda i: i.row.ref.id,
    "state": lambda i: f"{i.word} {i.row.state}",
    "phase": lambda i: f"{i.row.phase}",
}


# -- rows -----------------------------------------------------------------------------------------------------------------


def head_row(head: Head, ink: Ink, width: int) -> Text:
    title = plural(head.kind.replace("_", " ")).capitalize()
    left = Text.assemble((f" {title}", ink.strong), (f"  {head.count}", ink.muted))
    day = head.per_hour * 24.0
    return ink.fit(left, Text(f"{day:,.2f} " if day >= 0.005 else " ", style=ink("muted", bold=True)), width)


def item_row(
    item: Item, words: Sequence[str], ink: Ink, width: int, now: datetime, *, cursor: bool = False
) -> Text:
    """Glyph, name, state and price a day; from 74 columns the id, from 88 the age as well."""
    row = item.row
    name = Text.assemble("   ", ink.sign(item.stand), " ")
    start = len(name)
    name.append(row.name or row.ref.id, ink.text)
    for word in words:
        if word and (at := row.name.lower().find(word)) >= 0:
            name.stylize(ink("st-ask", underline=True), start + at, start + at + len(word))
    quiet = item.stand is Stand.WAITS
    price = amount(row.per_hour, ink.glyphs.dot)
    right = Text.assemble(
        (f"{item.word[:STATE]:<{STATE}}", ink.muted if quiet else ink.stand(item.stand)),
        " ",
        (f"{price:>{PRICE}}", ink.text if row.per_hour else ink.muted if cursor else ink.faint),
        " ",
    )
    if width >= WITH_AGE:
        right = Text.assemble((f"{since(row.created_at, now):>7}  ", ink.muted), right)
    if width >= WITH_ID:
        widest = NARROW_NAME + max(0, (width - WITH_AGE) // 2)
        room = min(widest, width - right.cell_len - _ID - 2)
        name = ink.short(name, room)
        # An id is shown whole or not at all: the detail has it in any case.
        whole = row.name and room + 2 + len(row.ref.id) + right.cell_len <= width
        name = Text.assemble(name, " " * (room + 1 - name.cell_len), (row.ref.id if whole else "", ink.muted))
    return ink.fit(name, right, width)
