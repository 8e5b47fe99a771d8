"""The gate in front of every destructive phase: what exactly goes, what else that touches, and an answer bound to both.

It opens only by a key. What it shows was looked at for it; while it is open the phase is looked at again and again, and as soon as
an answer would no longer fit what is shown, it locks and names what changed. Nothing on it is refreshed silently.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from engine.run.preview import PhasePreview
from engine.words.consent import Tier
from engine.words.plans import Plan
from engine.words.redact import redact
from npa_tui.phases import PhaseView
from npa_tui.question import Question, changes
from npa_tui.render import dialog
from npa_tui.render.ink import Ink, hang, lines
from npa_tui.stands import Stand
from npa_tui.state import View
from npa_tui.widgets.inked import console
from npa_tui.widgets.prose import Prose

GUARD = 0.4
"""Seconds after opening, and after the button got the focus, in which no press counts: a double tap is no answer."""

LOOK_EVERY = 5.0
"""Seconds between two looks while the dialog is open."""

VALID = 600.0
"""Seconds after which what is shown is too old to be agreed to."""

WIDTH = 86
_FRAME = 6


class ConfirmScreen(ModalScreen[Question | None]):
    """Gives back the question that was agreed to, or None."""

    CSS_PATH = "confirm.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "keep", "Keep everything", show=False, id="confirm.keep"),
        Binding("y", "yes", "Go on", show=False, id="confirm.yes"),
        Binding("r", "look", "Look again", show=False, id="confirm.look"),
        Binding("pagedown", "scroll_body(1)", "Page down", show=False, id="confirm.page-down"),
        Binding("pageup", "scroll_body(-1)", "Page up", show=False, id="confirm.page-up"),
    ]

    def __init__(self, plan: Plan, phase: PhaseView) -> None:
        super().__init__()
        self._plan = plan
        self._phase = phase
        self._question: Question | None = None
        self._changed: tuple[str, ...] = ()
        self._problem = ""
        self._looked = 0.0
        self._armed = 0.0
        self._looking = False

    # -- layout ---------------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Prose(id="head")
            with VerticalScroll(id="confirm-body", can_focus=False):
                yield Prose(id="who")
                yield Prose(id="title", classes="heading")
                yield Prose(id="things")
                yield Prose(id="touches-title", classes="heading")
                yield Prose(id="touches")
            yield Prose(id="question")
            with Horizontal(id="answer"):
                yield Prose(id="prompt")
                field = Input(id="field", compact=True, select_on_focus=False)
                field.cursor_blink = False
                yield field
                yield Prose(id="match")
            with Horizontal(id="buttons"):
                yield Button("Keep everything", id="keep", compact=True)
                go = Button("", id="go", compact=True, disabled=True)
                go.active_effect_duration = 0  # a press that came too early must not swallow the next one
                yield go

    def on_mount(self) -> None:
        self._arm()
        self.query_one("#keep").focus()
        self._paint()
        self.action_look()
        self.set_interval(LOOK_EVERY, self.look_in_passing)

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    @property
    def inner(self) -> int:
        return min(WIDTH, self.app.size.width) - _FRAME

    def _fit(self) -> None:
        """The body scrolls when the window is short; question and buttons stay in sight."""
        height = self.app.size.height
        self.set_class(height < 30, "-short")
        body = self.query_one("#confirm-body")
        around = 9 if height >= 30 else 6
        body.styles.max_height = max(3, height - around)

    # -- looking --------------------------------------------------------------------------------------------------------

    def action_look(self) -> None:
        """Look at the phase, and start over with what is seen."""
        if self._looking or (self._question is not None and not self._locked):
            return
        self._looking = True
        self._question, self._changed, self._problem = None, (), ""
        self.query_one("#field", Input).value = ""
        self.query_one("#keep").focus()
        self._paint()
        self.run_worker(self._first_look(), group="look", exit_on_error=False)

    async def _first_look(self) -> None:
        try:
            preview = await asyncio.wrap_future(self._ask())
        except Exception as bug:  # whatever a look fails with, the dialog says so and stays shut
            self._problem = redact(str(bug) or type(bug).__name__)
        else:
            console(self).remember(preview)
            self._question = Question(preview)
            self._looked = console(self).moments.monotonic()
        finally:
            self._looking = False
        self._arm()
        self._paint()
        self._focus_first()

    def look_in_passing(self) -> None:
        if self._question is not None and not self._changed and not self._looking:
            self._check_age()
            self.run_worker(
                self._second_look(self._question), group="look", exclusive=True, exit_on_error=False
            )

    async def _second_look(self, question: Question) -> None:
        try:
            now = await asyncio.wrap_future(self._ask())
            changed = changes(question.preview, now)
        except Exception as bug:
            changed = (f"it could not be looked at again: {redact(str(bug) or type(bug).__name__)}",)
        if changed and question is self._question:
            self._lock(changed)

    def _ask(self) -> Future[PhasePreview]:
        return console(self).reader.preview(self._plan, self._phase.name)

    def show(self, view: View) -> None:
        """The console's view has moved: another plan, or a phase that went on without us, makes the answer void."""
        question = self._question
        if question is None or self._changed or not self.is_mounted:
            return
        phase = view.phase(self._phase.name)
        if view.digest and view.digest != question.preview.plan.digest:
            self._lock((f"the plan is {view.digest[:8]} now",))
        elif phase is not None and phase.stand in (Stand.RUNNING, Stand.READY, Stand.DONE):
            self._lock((f"{phase.number:02} was started elsewhere",))
        else:
            self._check_age()

    def _check_age(self) -> None:
        if self._question is not None and console(self).moments.monotonic() - self._looked > VALID:
            self._lock(("this was looked at more than ten minutes ago",))

    def _lock(self, changed: tuple[str, ...]) -> None:
        self._changed = changed
        self._paint()
        self.query_one("#keep").focus()

    @property
    def _locked(self) -> bool:
        return self._question is None or bool(self._changed) or not self._question.askable

    # -- painting -------------------------------------------------------------------------------------------------------

    def _paint(self) -> None:
        question, view, changed = self._question, console(self).view, self._changed
        if question is None:
            self._paint_waiting()
        else:
            show = {
                "head": lambda ink, width: dialog.head(question, ink, width),
                "who": lambda ink, width: dialog.identities(question, view, bool(changed), ink, width),
                "title": lambda ink, _w: Text(dialog.title(question), style=ink.muted),
                "things": lambda ink, width: dialog.things(question, ink, width),
                "touches-title": lambda ink, _w: Text("What else this touches", style=ink.muted),
                "touches": lambda ink, width: dialog.touches(question, view, changed, ink, width),
                "question": lambda ink, _w: dialog.question_line(question, ink),
            }
            for name, make in show.items():
                self.query_one(f"#{name}", Prose).show(make)
        typing = question is not None and question.tier > Tier.RECREATABLE and question.askable
        self.query_one("#box").set_class(question is not None and question.tier is Tier.DATA_DIES, "-danger")
        self.query_one("#answer").display = typing
        self.query_one("#prompt", Prose).show(lambda ink, _w: Text(ink.glyphs.unblocked, style=ink.key))
        self.query_one("#field", Input).disabled = self._locked
        self._paint_answer()
        self._fit()

    def _paint_waiting(self) -> None:
        phase, problem = self._phase, self._problem
        self.query_one("#head", Prose).show(
            lambda ink, _w: Text.assemble((f"{phase.number:02} ", ink.muted), (phase.row.label, ink.strong))
        )
        self.query_one("#who", Prose).show(lambda ink, width: _waiting(problem, ink, width))
        for name in ("title", "things", "touches-title", "touches", "question"):
            self.query_one(f"#{name}", Prose).show(lambda _ink, _w: Text(""))

    def _paint_answer(self) -> None:
        question, go = self._question, self.query_one("#go", Button)
        typed = self.query_one("#field", Input).value
        go.display = question is not None
        if question is None:
            go.disabled = True
            return
        locked = "look again first" if self._changed else ""
        fits = not self._locked and typed == question.wanted
        go.disabled = not fits
        go.label = question.deed if fits else f"{question.deed}, locked"
        self.query_one("#match", Prose).show(
            lambda ink, width: dialog.match(question, typed, locked, ink, width)
        )

    def _focus_first(self) -> None:
        question = self._question
        field = self.query_one("#field", Input)
        if question is not None and not self._locked and question.tier > Tier.RECREATABLE:
            field.focus()
        else:
            self.query_one("#keep").focus()

    # -- answering ------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        self._armed = console(self).moments.monotonic()

    @property
    def _guarded(self) -> bool:
        return console(self).moments.monotonic() - self._armed < GUARD

    @on(events.DescendantFocus, "#go")
    def _button_focused(self) -> None:
        self._arm()

    @on(Input.Changed, "#field")
    def _typed(self) -> None:
        self._paint_answer()

    @on(Input.Submitted, "#field")
    def _entered(self) -> None:
        go = self.query_one("#go", Button)
        if not go.disabled:
            go.focus()

    @on(Button.Pressed, "#go")
    def _go(self) -> None:
        self._agree()

    @on(Button.Pressed, "#keep")
    def _kept(self) -> None:
        self.dismiss(None)

    def action_keep(self) -> None:
        self.dismiss(None)

    def action_yes(self) -> None:
        if self._question is not None and self._question.tier is Tier.RECREATABLE:
            self._agree()

    def _agree(self) -> None:
        self._check_age()
        if self._guarded or self._locked or self._question is None:
            self.app.bell()
            return
        if self.query_one("#field", Input).value == self._question.wanted:
            self.dismiss(self._question)

    def action_scroll_body(self, direction: int) -> None:
        body = self.query_one("#confirm-body")
        body.scroll_relative(y=direction * max(1, body.size.height - 1), animate=False)


def _waiting(problem: str, ink: Ink, width: int) -> Text:
    if not problem:
        return Text("Looking at what is there. Nothing is changed by looking.", style=ink.muted)
    return lines(
        [
            Text.assemble(ink.sign(Stand.FAILED), (" It could not be looked at", ink.strong)),
            hang(Text(problem, style=ink.text), width, 0),
            Text(""),
            Text.assemble(("Nothing was changed.  ", ink.muted), ("r", ink.key), (" looks again", ink.muted)),
        ]
    )
