"""What all full screens share: the masthead, the width classes, and one sentence when the window is too small."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rich.text import Text
from textual.screen import Screen

from npa_tui.commands import for_footer
from npa_tui.commands.base import Scope
from npa_tui.phases import PhaseView
from npa_tui.render.ink import Ink, hang
from npa_tui.render.masthead import masthead
from npa_tui.state import View
from npa_tui.widgets.chrome import KeyBar
from npa_tui.widgets.inked import console
from npa_tui.widgets.prose import Bar, Prose

LEAST = (60, 16)


@runtime_checkable
class Viewing(Protocol):
    """A screen that follows the view."""

    def show(self, view: View) -> None: ...


class Framed(Screen[None]):
    """`show` gives the screen a new view; parts that did not change are not painted again. Subclasses extend `paint`."""

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-tiny"),
        (LEAST[0], "-narrow"),
        (100, "-wide"),
        (150, "-xwide"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (LEAST[1], "-tall")]  # noqa: RUF012

    def show(self, view: View) -> None:
        """Show this view. A screen that is still being put together will ask for it when it is mounted."""
        if self.is_mounted:
            self.paint(view)

    def paint(self, view: View) -> None:
        self.query_one("#mast", Bar).show(lambda ink, width: masthead(view, ink, width), view)
        size = self.app.size
        self.query_one("#small", Prose).show(lambda ink, width: _too_small(ink, width, *size), size)

    def show_keys(self, *scopes: Scope) -> None:
        """Put the commands that can act now into the footer."""
        at = console(self).where()
        self.query_one(KeyBar).show_commands([c for c in for_footer(*scopes, Scope.APP) if not c.reason(at)])


class AtWork(Framed):
    """The run view, as far as the application needs to know it before it is opened for the first time."""

    @property
    def phase(self) -> PhaseView | None:
        raise NotImplementedError

    def start_filter(self) -> None:
        raise NotImplementedError

    def clear_filter(self) -> bool:
        raise NotImplementedError


def _too_small(ink: Ink, width: int, columns: int, rows: int) -> Text:
    words = f"This window is {columns}x{rows}. The console needs {LEAST[0]}x{LEAST[1]}. The run goes on."
    return hang(Text(words, style=ink.text), width, 0)
