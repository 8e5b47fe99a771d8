"""Every character that the console draws, in a Unicode and an ASCII set, and the words and colours that go with a stand."""

from __future__ import annotations

from dataclasses import dataclass

from npa_tui.stands import Stand


@dataclass(frozen=True, slots=True)
class Sign:
    """How a stand looks. `colour` is a theme variable; `meaning` is the legend's text."""

    glyph: str
    ascii: str
    word: str
    colour: str
    meaning: str


SIGNS: dict[Stand, Sign] = {
    Stand.DONE: Sign("✓", "+", "done", "st-done", "finished and checked"),
    Stand.RUNNING: Sign("●", ">", "running", "st-run", "in progress"),
    Stand.CONFIRM: Sign("◆", "?", "confirm", "st-ask", "waits for you"),
    Stand.READY: Sign("○", "o", "ready", "st-ready", "starts by itself"),
    Stand.WAITS: Sign("·", ".", "waits", "faint", "after other phases"),
    Stand.HELD: Sign("‖", "=", "held", "st-held", "by policy, a guard or you"),
    Stand.FAILED: Sign("✗", "x", "failed", "st-fail", "something is still there"),
    Stand.UNKNOWN: Sign("?", "~", "outcome not known", "st-ask", "read again to find out"),
    Stand.LEFTOVERS: Sign("◇", "%", "leftovers", "st-ask", "gone, but something stayed"),
    Stand.NOTHING: Sign("–", "-", "nothing to do", "faint", "nothing was there"),
}


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The character set in use."""

    ascii: bool = False

    def of(self, stand: Stand) -> str:
        sign = SIGNS[stand]
        return sign.ascii if self.ascii else sign.glyph

    @property
    def bar(self) -> tuple[str, str]:
        return ("#", "-") if self.ascii else ("━", "─")

    @property
    def unfolded(self) -> str:
        return "v" if self.ascii else "▾"

    @property
    def folded(self) -> str:
        return ">" if self.ascii else "▸"

    @property
    def dot(self) -> str:
        return "." if self.ascii else "·"

    @property
    def mark(self) -> str:
        return "|" if self.ascii else "▌"

    @property
    def needed(self) -> str:
        return "<" if self.ascii else "‹"

    @property
    def unblocked(self) -> str:
        return ">" if self.ascii else "›"

    @property
    def rule(self) -> str:
        return "-" if self.ascii else "─"

    @property
    def more(self) -> str:
        return "..." if self.ascii else "…"
