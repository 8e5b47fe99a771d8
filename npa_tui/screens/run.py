"""One phase at work: its head, its targets, the log."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input

from npa_tui.commands.base import Scope
from npa_tui.phases import PhaseView
from npa_tui.render.run import run_head, run_steps
from npa_tui.screens.framed import AtWork
from npa_tui.screens.main import Query
from npa_tui.state import View
from npa_tui.widgets.chrome import KeyBar, PaneTitle
from npa_tui.widgets.inked import bindings, console
from npa_tui.widgets.lines import Lines
from npa_tui.widgets.log import LogView
from npa_tui.widgets.prose import Bar, Prose


class RunScreen(AtWork):
    """Leaving it stops nothing."""

    CSS_PATH = "run.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.RUN)
    AUTO_FOCUS = "LogView"

    def __init__(self, phase: str) -> None:
        super().__init__()
        self.phase_name = phase

    def compose(self) -> ComposeResult:
        yield Bar(id="mast")
        yield Prose(id="run-head")
        with Horizontal(id="run-body"):
            with Vertical(id="run-steps"):
                yield Bar(id="title-steps")
                with VerticalScroll(id="steps-box", can_focus=False):
                    yield Prose(id="steps")
            with Vertical(id="run-log"):
                yield PaneTitle(["log"], id="title-log")
                yield Query("/  find in the log", id="find")
                yield LogView(id="lines")
        yield KeyBar(id="keys")
        yield Prose(id="small")

    def on_mount(self) -> None:
        self.query_one("#title-log", PaneTitle).show(active=True)
        self.query_one("#title-steps", Bar).show(lambda ink, _width: Text(" Steps", style=ink.muted), "steps")
        self.paint(console(self).view)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_steps)

    def paint(self, view: View) -> None:
        super().paint(view)
        phase = view.phase(self.phase_name)
        if phase is not None:
            running = phase.began and not phase.ended
            self.query_one("#run-head", Prose).show(
                lambda ink, width: run_head(phase, view, ink, width),
                phase,
                view.run,
                view.now if running else None,
            )
            self._show_steps()
        self.query_one(LogView).show(console(self).trail)
        self._show_notes()

    def _show_steps(self) -> None:
        view = console(self).view
        phase = view.phase(self.phase_name)
        if phase is None:
            return
        one_line = self.app.size.width < 100
        running = phase.began and not phase.ended
        self.query_one("#steps", Prose).show(
            lambda ink, width: run_steps(phase, view, ink, width, one_line=one_line),
            phase, view.phases, one_line, view.now if running else None,
        )  # fmt: skip

    @on(Lines.Highlighted)
    @on(events.DescendantFocus)
    def _show_notes(self) -> None:
        self.query_one("#title-log", PaneTitle).show(note=self.query_one(LogView).note)
        self.show_keys(Scope.LOG, Scope.RUN)

    @property
    def phase(self) -> PhaseView | None:
        return console(self).view.phase(self.phase_name)

    # -- finding --------------------------------------------------------------------------------------------------------

    def start_filter(self) -> None:
        self.query_one(Query).focus()

    def clear_filter(self) -> bool:
        field = self.query_one(Query)
        if field.value:
            field.value = ""
            return True
        if field.has_focus:
            self.query_one(LogView).focus()
            return True
        return False

    @on(Input.Changed)
    def _find(self, event: Input.Changed) -> None:
        self.query_one(LogView).find(event.value)
        self._show_notes()

    @on(Input.Submitted)
    def _to_the_log(self) -> None:
        self.query_one(LogView).focus()
