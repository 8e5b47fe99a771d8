"""Text with the theme's colours, and the few ways in which rows are laid out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rich.console import Console
from rich.style import Style
from rich.text import Text

from npa_tui.render.glyphs import SIGNS, Glyphs
from npa_tui.stands import Stand

Piece = str | tuple[str, Style] | Text


@dataclass(frozen=True)
class Ink:
    """What rows are drawn with. Without colours every style is plain, which is what tests of text want.

    colours  theme variable -> colour as Rich names it
    native   the terminal's own palette is used: no tints, so a cursor is reverse or underline
    """

    glyphs: Glyphs = field(default_factory=Glyphs)
    colours: Mapping[str, str] = field(default_factory=dict)
    native: bool = False
    cache: dict[tuple[str, bool, bool, bool], Style] = field(default_factory=dict, compare=False, repr=False)

    def __call__(
        self, variable: str, *, bold: bool = False, underline: bool = False, reverse: bool = False
    ) -> Style:
        key = (variable, bold, underline, reverse)
        if (style := self.cache.get(key)) is None:
            style = self.cache[key] = Style(
                color=self.colours.get(variable),
                bold=bold or None,
                underline=underline or None,
                reverse=reverse or None,
            )
        return style

    @property
    def text(self) -> Style:
        return self("foreground")

    @property
    def strong(self) -> Style:
        return self("foreground", bold=True)

    @property
    def muted(self) -> Style:
        return self("muted")

    @property
    def faint(self) -> Style:
        return self("faint")

    @property
    def key(self) -> Style:
        return self("accent", bold=True)

    def stand(self, stand: Stand, *, bold: bool = False) -> Style:
        return self(SIGNS[stand].colour, bold=bold)

    def sign(self, stand: Stand) -> tuple[str, Style]:
        """A stand's glyph in its colour."""
        return self.glyphs.of(stand), self.stand(stand, bold=True)

    def badge(self, words: str, variable: str) -> tuple[str, Style]:
        return f" {words} ", self(variable, bold=True, reverse=True)

    def bar(self, done: int, total: int, width: int) -> Text:
        """A progress bar. It is full only when everything is done, and shows a beginning as soon as there is one."""
        full, rest = self.glyphs.bar
        n = 0 if total <= 0 else width * done // total
        if 0 < done < total:
            n = min(width - 1, max(1, n))
        return Text.assemble((full * n, self("st-run")), (rest * (width - n), self("line")))

    def cursor(self, focused: bool) -> Style:
        """What lies over the row under the cursor."""
        if self.native:
            return Style(reverse=True) if focused else Style(underline=True)
        name = "block-cursor-background" if focused else "block-cursor-blurred-background"
        return Style(bgcolor=self.colours.get(name), bold=focused or None)

    # -- layout -------------------------------------------------------------------------------------------------------

    def short(self, text: Text, width: int) -> Text:
        """At most so wide; what is cut is marked. Only for names, notes and paths."""
        if text.cell_len <= width:
            return text
        more = self.glyphs.more[: max(0, width)]
        cut = text.copy()
        cut.truncate(max(0, width - len(more)), overflow="crop")
        return Text.assemble(cut, (more, cut.spans[-1].style if cut.spans else ""))

    def fit(self, left: Text, right: Text, width: int) -> Text:
        """Left text and right-aligned text in one row of exactly this width. The left one gives way."""
        left = self.short(left, max(0, width - right.cell_len - 1))
        row = Text.assemble(left, " " * max(0, width - left.cell_len - right.cell_len), right)
        row.truncate(width, overflow="crop")
        return row

    def fields(self, pairs: Iterable[tuple[str, Text]], indent: int, width: int) -> Text:
        """`Name  value` rows; values wrap under themselves and are never cut."""
        return lines(
            hang(Text.assemble((f"{name if n == 0 else '':<{indent}}", self.muted), row), width, indent)
            for name, value in pairs
            for n, row in enumerate(value.split("\n"))
        )


_PLAIN = Console(width=200, legacy_windows=False, color_system=None)


def wrap(text: Text, width: int) -> list[Text]:
    """Broken at blanks where there are any; a word that is too long is folded, not lost."""
    return list(text.wrap(_PLAIN, max(8, width))) if text.cell_len > width else [text]


def hang(text: Text, width: int, indent: int) -> Text:
    """Wrapped with a hanging indent: the first `indent` cells stand alone."""
    if text.cell_len <= width:
        return text
    head, tail = text[:indent], text[indent:]
    return lines(
        Text.assemble(head if i == 0 else " " * indent, row)
        for i, row in enumerate(wrap(tail, width - indent))
    )


def lines(rows: Iterable[Text]) -> Text:
    return Text("\n").join(rows)


def joined(parts: Iterable[Text], gap: Text | str) -> Text:
    """Parts with a gap between them."""
    return (gap if isinstance(gap, Text) else Text(gap)).join(parts)
