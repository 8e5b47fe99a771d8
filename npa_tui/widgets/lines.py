"""A list on the line API: only visible rows are made, and a changed entry repaints alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from npa_tui.render.ink import Ink
from npa_tui.widgets.inked import ink_of

E = TypeVar("E")


class Lines(ScrollView, Generic[E], can_focus=True):
    """Entries of one or more rows each, with a cursor over whole entries.

    Subclasses say how an entry looks (`rows`), how high it is (`height_of`), what it is (`key_of`: the cursor stays on it when
    the list changes) and whether the cursor may stand on it (`selectable`).
    """

    DEFAULT_CSS = """
    Lines {
        background: $background; overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable;
        scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0;
    }
    Lines:focus { background-tint: $background 0%; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False, id="list.down"),
        Binding("up,k", "move(-1)", "Up", show=False, id="list.up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="list.page-down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="list.page-up"),
        Binding("home", "edge(0)", "First", show=False, id="list.home"),
        Binding("end", "edge(1)", "Last", show=False, id="list.end"),
    ]

    class Highlighted(Message):
        """The cursor stands on something else, or what it stands on has changed."""

        def __init__(self, lines: Widget) -> None:
            super().__init__()
            self.lines = lines

        @property
        def control(self) -> Widget:
            return self.lines

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: list[E] = []
        self.cursor = -1
        self._starts: list[int] = [0]
        self._laid_for = 0
        self._made: dict[tuple[int, bool], list[Text]] = {}

    # -- for subclasses -------------------------------------------------------------------------------------------------

    def rows(self, entry: E, ink: Ink, width: int, *, cursor: bool) -> list[Text]:
        raise NotImplementedError

    def height_of(self, entry: E, width: int) -> int:
        return 1

    def key_of(self, entry: E) -> Hashable:
        return entry if isinstance(entry, Hashable) else id(entry)

    def selectable(self, entry: E) -> bool:
        return True

    def shows_cursor(self) -> bool:
        return True

    def when_empty(self, ink: Ink) -> Text:
        """What stands in the first row when there are no entries."""
        return Text("")

    # -- contents -------------------------------------------------------------------------------------------------------

    @property
    def current(self) -> E | None:
        """The entry under the cursor."""
        return self.entries[self.cursor] if 0 <= self.cursor < len(self.entries) else None

    def set_entries(self, entries: Sequence[E]) -> None:
        """Show these entries. The cursor stays on its entry, or as near to it as it can."""
        new = list(entries)
        if new == self.entries:
            return
        old, before = self.entries, self.current
        same_shape = len(old) == len(new) and all(
            self.key_of(a) == self.key_of(b)
            and (a == b or self.height_of(a, self._laid_for) == self.height_of(b, self._laid_for))
            for a, b in zip(old, new, strict=True)
        )
        self.entries = new
        if same_shape:
            for index, (a, b) in enumerate(zip(old, new, strict=True)):
                if a != b:
                    self.repaint(index)
        else:
            self._place_cursor(before)
            self._lay_out()
        if self.current != before:
            self.post_message(self.Highlighted(self))

    def extend(self, entries: Sequence[E]) -> None:
        """Add entries at the end, without laying the others out again."""
        width = self._laid_for
        self.entries.extend(entries)
        for entry in entries:
            self._starts.append(self._starts[-1] + (self.height_of(entry, width) if width else 1))
        self.virtual_size = Size(width, self._starts[-1])
        self.refresh()

    def _place_cursor(self, before: E | None) -> None:
        if before is not None:
            key = self.key_of(before)
            found = next((i for i, e in enumerate(self.entries) if self.key_of(e) == key), None)
            if found is not None:
                self.cursor = found
                return
        self.cursor = self._nearest(max(0, self.cursor))

    def _nearest(self, index: int) -> int:
        able = [i for i, e in enumerate(self.entries) if self.selectable(e)]
        return min(able, key=lambda i: (abs(i - index), i), default=-1)

    # -- layout ---------------------------------------------------------------------------------------------------------

    @property
    def row_width(self) -> int:
        return max(1, self.scrollable_content_region.width)

    def _lay_out(self) -> None:
        width = self._laid_for = self.row_width
        starts = [0]
        for entry in self.entries:
            starts.append(starts[-1] + self.height_of(entry, width))
        self._starts = starts
        self._made.clear()
        self.virtual_size = Size(width, starts[-1])
        self.refresh()

    def on_resize(self, _event: events.Resize) -> None:
        if self.row_width != self._laid_for:
            self._lay_out()
        if self.shows_cursor():
            self.call_after_refresh(self.show_cursor)

    def repaint(self, index: int) -> None:
        """Make an entry's rows again, and only these."""
        for cursor in (False, True):
            self._made.pop((index, cursor), None)
        if 0 <= index < len(self.entries):
            first, last = self._starts[index], self._starts[index + 1]
            self.refresh(Region(0, first - self.scroll_offset.y, self.size.width, last - first))

    def repaint_all(self) -> None:
        self._made.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._made.clear()

    # -- cursor ---------------------------------------------------------------------------------------------------------

    def move_to(self, index: int) -> None:
        """Put the cursor there, and show it."""
        if not self.entries or index == self.cursor:
            self.show_cursor()
            return
        before, self.cursor = self.cursor, index
        self.repaint(before)
        self.repaint(index)
        self.show_cursor()
        self.post_message(self.Highlighted(self))

    def show_cursor(self) -> None:
        if not 0 <= self.cursor < len(self.entries) or not self.size.height:
            return
        first, last = self._starts[self.cursor], self._starts[self.cursor + 1]
        if all(not self.selectable(e) for e in self.entries[: self.cursor]):
            first = 0  # with the head above the first row
        self.scroll_to_region(Region(0, first, 1, last - first), animate=False, force=True, x_axis=False)

    def _step(self, from_: int, by: int) -> int:
        """The selectable entry so many steps on, or the last one in that direction."""
        able = [i for i, e in enumerate(self.entries) if self.selectable(e)]
        if not able:
            return -1
        at = bisect_right(able, from_) - 1 if by > 0 else bisect_right(able, from_ - 1)
        return able[max(0, min(len(able) - 1, at + by))]

    def action_move(self, by: int) -> None:
        self.move_to(self._step(self.cursor, by))

    def action_page(self, direction: int) -> None:
        self.move_to(self._step(self.cursor, direction * max(1, self.size.height - 1)))

    def action_edge(self, last: int) -> None:
        self.move_to(self._step(len(self.entries), 1) if last else self._step(0, -1))

    def on_click(self, event: events.Click) -> None:
        index = self._entry_at(event.y + self.scroll_offset.y)
        if index is not None and self.selectable(self.entries[index]):
            self.move_to(index)

    def on_focus(self) -> None:
        self.repaint(self.cursor)

    def on_blur(self) -> None:
        self.repaint(self.cursor)

    # -- painting -------------------------------------------------------------------------------------------------------

    def _entry_at(self, row: int) -> int | None:
        index = bisect_right(self._starts, row) - 1
        return index if 0 <= index < len(self.entries) else None

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        index = self._entry_at(row)
        width, base = self.size.width, self.rich_style
        if index is None and not self.entries and row == 0:
            return self._strip(self.when_empty(ink_of(self)), base, False, width)
        if index is None:
            return Strip.blank(width, base)
        at_cursor = index == self.cursor and self.shows_cursor()
        texts = self._made.get((index, at_cursor))
        if texts is None:
            texts = self.rows(
                self.entries[index], ink_of(self), self.row_width, cursor=at_cursor and self.has_focus
            )
            if len(self._made) > 1000:
                self._made.clear()
            self._made[index, at_cursor] = texts
        offset = row - self._starts[index]
        text = texts[offset] if offset < len(texts) else Text("")
        return self._strip(text, base, at_cursor, width)

    def _strip(self, text: Text, base: Style, at_cursor: bool, width: int) -> Strip:
        over = base + ink_of(self).cursor(self.has_focus) if at_cursor else base
        plain = [
            Segment(s.text, base + s.style if s.style else base)
            for s in text.render(self.app.console)
            if s.text
        ]
        strip = Strip(plain).adjust_cell_length(width, base)
        if not at_cursor:
            return strip
        tint = ink_of(self).cursor(self.has_focus)
        return Strip([Segment(s.text, (s.style or over) + tint) for s in strip], width)
