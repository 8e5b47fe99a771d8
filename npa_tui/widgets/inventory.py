"""What is there, by kind."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType

from npa_tui.commands.base import Scope
from npa_tui.items import Item
from npa_tui.render.ink import Ink
from npa_tui.render.inventory import Head, Line, grouped, head_row, item_row, matching, plain_words
from npa_tui.state import View
from npa_tui.widgets.inked import bindings
from npa_tui.widgets.lines import Lines


class InventoryList(Lines[Line]):
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.INVENTORY)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.query_text = ""
        self._items: tuple[Item, ...] = ()
        self._now = datetime.min.replace(tzinfo=UTC)
        self._read = False

    def show(self, view: View) -> None:
        self._now = view.now
        if self._read != (view.inventory is not None):
            self._read = view.inventory is not None
            self.repaint_all()
        if view.items != self._items:
            self._items = view.items
            self._fill()

    def filter(self, query: str) -> None:
        self.query_text = query
        self._fill()
        self.repaint_all()

    @property
    def item(self) -> Item | None:
        entry = self.current
        return entry if isinstance(entry, Item) else None

    @property
    def shown(self) -> int:
        return sum(isinstance(e, Item) for e in self.entries)

    def _fill(self) -> None:
        self.set_entries(grouped(matching(self._items, self.query_text)))

    def rows(self, entry: Line, ink: Ink, width: int, *, cursor: bool) -> list[Text]:
        if isinstance(entry, Head):
            return [head_row(entry, ink, width)]
        return [item_row(entry, plain_words(self.query_text), ink, width, self._now, cursor=cursor)]

    def when_empty(self, ink: Ink) -> Text:
        if self._items:
            return Text(" Nothing matches. esc clears the filter.", style=ink.muted)
        return Text(" Nothing is there." if self._read else "", style=ink.muted)

    def selectable(self, entry: Line) -> bool:
        return isinstance(entry, Item)

    def key_of(self, entry: Line) -> Hashable:
        return entry.kind if isinstance(entry, Head) else entry.row.ref
