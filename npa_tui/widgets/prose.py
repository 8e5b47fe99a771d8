"""Text that is made for the width it gets, as high as it needs to be."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from npa_tui.render.ink import Ink
from npa_tui.widgets.inked import ink_of

Make = Callable[[Ink, int], Text]


def nothing(_ink: Ink, _width: int) -> Text:
    return Text("")


class Prose(Widget):
    """Shows what `make` makes. `show` repaints only when the values it was made of differ."""

    DEFAULT_CSS = "Prose { height: auto; }"

    _make: Make = staticmethod(nothing)
    _of: tuple[object, ...] = ()

    def show(self, make: Make, *of: object) -> None:
        """Make the text with `make`; `of` is everything that the text depends on beside ink and width."""
        if of and of == self._of:
            return
        self._make, self._of = make, of
        self.refresh(layout=True)

    def render(self) -> Text:
        return self._make(ink_of(self), max(1, self.size.width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._make(ink_of(self), width).plain.count("\n") + 1 if width > 0 else 0


class Bar(Widget):
    """Rows of a fixed number that are made for the width: the chrome."""

    DEFAULT_CSS = "Bar { height: 1; }"

    _make: Make = staticmethod(nothing)
    _of: tuple[object, ...] = ()

    def show(self, make: Make, *of: object) -> None:
        if of and of == self._of:
            return
        self._make, self._of = make, of
        self.refresh()

    def render(self) -> Text:
        return self._make(ink_of(self), max(1, self.size.width))
