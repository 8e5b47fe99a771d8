"""The log: follows until somebody moves up; finding runs over all lines that are kept."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import BindingType

from engine.run.narration import Line
from npa_tui.commands.base import Scope
from npa_tui.render.ink import Ink
from npa_tui.render.log import found, log_rows
from npa_tui.render.numbers import number
from npa_tui.trail import Trail
from npa_tui.widgets.inked import bindings
from npa_tui.widgets.lines import Lines

_PLAIN = Ink()


class LogView(Lines[Line]):
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.LOG)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.following = True
        self.words: tuple[str, ...] = ()
        self._trail: Trail | None = None
        self._told = 0

    def show(self, trail: Trail) -> None:
        """Show what the trail has told since the last time."""
        if trail is not self._trail or trail.count < self._told:
            self._trail, self._told = trail, 0
            self.set_entries([])
        fresh = trail.count - self._told
        if not fresh:
            return
        self._told = trail.count
        new = list(trail.lines)[-fresh:]
        kept = [line for line in new if found(line, self.words)] if self.words else new
        limit = trail.lines.maxlen or 0
        if limit and len(self.entries) + len(kept) > limit:
            self._refill()
        elif kept:
            self.extend(kept)
        self._keep_up()

    def find(self, query: str) -> None:
        self.words = tuple(query.lower().split())
        self._refill()
        self.repaint_all()
        self._keep_up()

    def _refill(self) -> None:
        lines = list(self._trail.lines) if self._trail else []
        self.set_entries([line for line in lines if found(line, self.words)])

    def follow(self) -> None:
        self.following = True
        self._keep_up()

    def _keep_up(self) -> None:
        if not self.following:
            return
        before, self.cursor = self.cursor, len(self.entries) - 1
        self.repaint(before)
        self.scroll_end(animate=False, force=True, x_axis=False)
        self.post_message(self.Highlighted(self))

    @property
    def note(self) -> str:
        """What the pane's title says beside it."""
        if self._trail is None or not self._trail.count:
            return "no run yet"
        count = self._trail.count
        where = "following" if self.following else f"stopped at line {self.cursor + 1}, f follows"
        lines = (
            f"{number(len(self.entries))} of {number(count)} lines"
            if self.words
            else f"{number(count)} lines"
        )
        warnings = self._trail.warnings
        loud = f"   {warnings} warning{'s' if warnings > 1 else ''}" if warnings else ""
        return f"{where}   {lines}{loud}"

    def move_to(self, index: int) -> None:
        self.following = index >= len(self.entries) - 1
        super().move_to(index)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self.following = False

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._keep_up()

    def shows_cursor(self) -> bool:
        return not self.following

    def rows(self, entry: Line, ink: Ink, width: int, *, cursor: bool) -> list[Text]:
        return [Text.assemble(" ", row) for row in log_rows(entry, self.words, ink, width - 2)]

    def height_of(self, entry: Line, width: int) -> int:
        return len(log_rows(entry, (), _PLAIN, width - 2))

    def key_of(self, entry: Line) -> Hashable:
        return id(entry)
