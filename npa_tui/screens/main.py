"""Projects, plan, and inventory, receipt or log, side by side or one at a time."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Input

from engine.run.faces import ProjectLine
from npa_tui.badge import Mode
from npa_tui.commands.base import PANES, Pane, Scope
from npa_tui.items import Item
from npa_tui.phases import PhaseView
from npa_tui.render.detail import item_detail, phase_detail
from npa_tui.render.ink import Ink, lines
from npa_tui.render.notice import notice
from npa_tui.render.plan import phase_row
from npa_tui.render.receipt import receipt
from npa_tui.screens.framed import Framed
from npa_tui.state import Scene, View
from npa_tui.widgets.chrome import KeyBar, PaneTitle, ViewTabs
from npa_tui.widgets.inked import bindings, console
from npa_tui.widgets.inventory import InventoryList
from npa_tui.widgets.lines import Lines
from npa_tui.widgets.log import LogView
from npa_tui.widgets.plan import PlanTree, StageEntry
from npa_tui.widgets.projects import ProjectList
from npa_tui.widgets.prose import Bar, Prose

SIDE: tuple[Pane, ...] = ("inventory", "receipt", "log")
_FOCUS: dict[Pane, str] = {
    "projects": "#project-list",
    "plan": "#tree",
    "inventory": "#items",
    "receipt": "#receipt",
    "log": "#lines",
}
_SCOPE: dict[Pane, Scope] = {p: Scope(p) for p in PANES}


class Query(Input):
    """A field that filters a list beside it."""

    def __init__(self, placeholder: str, *, id: str) -> None:
        super().__init__(placeholder=placeholder, id=id, compact=True, select_on_focus=False)
        self.cursor_blink = False


class ReceiptPane(VerticalScroll):
    """Scrolls, and hears the receipt's keys."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.RECEIPT)


class MainScreen(Framed):
    CSS_PATH = "main.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.MAIN)
    AUTO_FOCUS = ""

    def __init__(self) -> None:
        super().__init__()
        self.pane: Pane = "plan"
        self._scene: Scene | None = None
        self._mode: Mode | None = None

    def compose(self) -> ComposeResult:
        yield Bar(id="mast")
        yield ViewTabs(id="views")
        with Horizontal(id="body"):
            with Vertical(id="pane-projects", classes="pane"):
                yield PaneTitle(["projects"], id="title-projects")
                yield ProjectList(id="project-list")
            with Vertical(id="pane-plan", classes="pane"):
                yield PaneTitle(["plan"], id="title-plan")
                yield PlanTree(id="tree")
                with VerticalScroll(classes="detail", id="phase-box", can_focus=False):
                    yield Prose(id="phase-detail")
                with VerticalScroll(id="notice-box", can_focus=False):
                    yield Prose(id="notice")
            with Vertical(id="pane-side", classes="pane"):
                yield PaneTitle(SIDE, id="title-side")
                with ContentSwitcher(initial="inventory", id="side"):
                    with Vertical(id="inventory"):
                        yield Query("/  name, kind:disk, state:held, phase:8", id="filter")
                        yield InventoryList(id="items")
                        with VerticalScroll(classes="detail", id="item-box", can_focus=False):
                            yield Prose(id="item-detail")
                    with ReceiptPane(id="receipt"):
                        yield Prose(id="receipt-text")
                    with Vertical(id="log"):
                        yield Query("/  find in the log", id="find")
                        yield LogView(id="lines")
        yield KeyBar(id="keys")
        yield Prose(id="small")

    def on_mount(self) -> None:
        self.paint(console(self).view)
        self.show_pane("plan")

    # -- showing --------------------------------------------------------------------------------------------------------

    def paint(self, view: View) -> None:
        super().paint(view)
        self._show_scene(view)
        self.query_one(ProjectList).show(view)
        self.query_one(PlanTree).show(view)
        self.query_one(InventoryList).show(view)
        self.query_one(LogView).show(console(self).trail)
        self.query_one("#notice", Prose).show(
            lambda ink, width: notice(view, ink, width),
            view.scene, view.reports, view.refusal, view.problem, view.halted, view.run is None,
        )  # fmt: skip
        self.query_one("#receipt-text", Prose).show(
            lambda ink, width: receipt(view, ink, max(30, width)),
            view.identity, view.digest, view.phases, view.run, view.spend, view.spend_before, view.mode, view.receipt,
            view.journal, view.account,
        )  # fmt: skip
        self._show_details(view)
        self._show_notes(view)

    def _show_scene(self, view: View) -> None:
        ready = view.scene is Scene.READY
        if view.scene is not self._scene:
            before, self._scene = self._scene, view.scene
            self.set_class(not ready, "-no-plan")
            if view.scene is Scene.CHOOSE:
                self.show_pane("projects")
            elif before is Scene.CHOOSE:
                self.show_pane("plan")
            # At once, so that no key meant for the plan reaches the projects; and again once the pane is laid out.
            self._focus_pane()
            self.call_after_refresh(self._focus_pane)
        if view.mode is Mode.DONE and self._mode is not Mode.DONE:
            self._bring_up("receipt")  # the focus stays where it is
        self._mode = view.mode

    def _show_details(self, view: View) -> None:
        tree = self.query_one(PlanTree)
        phase = view.phase(tree.phase.name) if tree.phase else None
        stage = tree.stage
        self.query_one("#phase-detail", Prose).show(
            lambda ink, width: _detail(phase, stage, view, ink, width),
            phase, stage, view.phases, view.runner,
        )  # fmt: skip
        item = self.query_one(InventoryList).item
        self.query_one("#item-detail", Prose).show(
            lambda ink, width: item_detail(item, view, ink, width) if item else Text(""), item, view.phases
        )

    def _show_notes(self, view: View) -> None:
        ready = view.scene is Scene.READY
        self.query_one("#title-projects", PaneTitle).show(note="$ a day" if view.projects else "")
        done = f"{view.done} of {len(view.phases)} done" if ready else ""
        self.query_one("#title-plan", PaneTitle).show(note=done)
        self.query_one("#title-side", PaneTitle).show(note=self._side_note(view) if ready else "")
        self.show_keys(*self._scopes())

    def _side_note(self, view: View) -> str:
        items = self.query_one(InventoryList)
        match self.query_one("#title-side", PaneTitle).current:
            case "log":
                return self.query_one(LogView).note
            case "inventory" if view.inventory is None:
                return "reading" if view.reading else "not available"
            case "inventory" if items.query_text:
                return f"{items.shown} of {len(view.items)}"
            case "inventory":
                return f"{len(view.items)} left" + (f", {view.gone} gone" if view.gone else "")
            case _:
                return ""

    def _scopes(self) -> list[Scope]:
        return [_SCOPE[self.pane if self._scene is Scene.READY else "projects"], Scope.MAIN]

    # -- panes ----------------------------------------------------------------------------------------------------------

    def show_pane(self, pane: Pane) -> None:
        """Bring a pane to the front, and the focus into it."""
        self.pane = pane
        column = "side" if pane in SIDE else pane
        for name in ("projects", "plan", "side"):
            self.set_class(name == column, f"-show-{name}")
        if pane in SIDE:
            self._bring_up(pane)
        self.query_one(ViewTabs).show_pane(pane)
        self.call_after_refresh(self._focus_pane)
        self._show_notes(console(self).view)

    def _bring_up(self, pane: Pane) -> None:
        """Show a pane at the side."""
        self.query_one("#side", ContentSwitcher).current = pane
        self.query_one("#title-side", PaneTitle).show(current=pane)

    def next_pane(self, step: int) -> None:
        side = self.query_one("#title-side", PaneTitle).current
        ready = self._scene is Scene.READY
        order: list[Pane] = ["projects", "plan", side] if ready else ["projects", "plan"]
        at = order.index(self.pane) if self.pane in order else 0
        self.show_pane(order[(at + step) % len(order)])

    def _focus_pane(self) -> None:
        if not self.app.is_running:
            return
        # Without a plan there is nothing in its pane to stand on: the projects stay usable meanwhile.
        pane = self.pane if self._scene is Scene.READY else "projects"
        if not isinstance(self.focused, Input):
            self.set_focus(self.query_one(_FOCUS[pane]), scroll_visible=False)

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _focus_moved(self) -> None:
        if not self.app.is_running:
            return
        self._mark_focus()
        self._show_notes(console(self).view)

    def _mark_focus(self) -> None:
        here = self._pane_of(self.focused) if self.focused else None
        if here and self._scene is Scene.READY:
            self.pane = here
        shown = here or self.pane
        column = "side" if shown in SIDE else shown
        for name in ("projects", "plan", "side"):
            self.query_one(f"#title-{name}", PaneTitle).show(active=name == column)

    def _pane_of(self, widget: Widget) -> Pane | None:
        ids = {a.id for a in widget.ancestors_with_self}
        if "pane-side" in ids:
            return self.query_one("#title-side", PaneTitle).current
        return next((p for p in PANES if f"pane-{p}" in ids), None)

    @on(PaneTitle.Picked)
    def _picked(self, event: PaneTitle.Picked) -> None:
        self.show_pane(event.pane)

    @on(Lines.Highlighted)
    def _highlighted(self) -> None:
        if not self.app.is_running:
            return  # a late message of a screen that is being taken apart
        view = console(self).view
        self._show_details(view)
        self._show_notes(view)

    def find_start(self) -> None:
        self.query_one(PlanTree).find_start()

    def fold_stage(self) -> None:
        self.query_one(PlanTree).fold()

    # -- finding --------------------------------------------------------------------------------------------------------

    def start_filter(self) -> None:
        if self.pane != "log":
            self.show_pane("inventory")
        field = self.query_one("#find" if self.pane == "log" else "#filter", Query)
        self.call_after_refresh(field.focus)

    def clear_filter(self) -> bool:
        """Clear the filter or leave its field; whether there was anything to do."""
        field = self.query_one("#find" if self.pane == "log" else "#filter", Query)
        if field.value:
            field.value = ""
            return True
        if field.has_focus:
            self.query_one(_FOCUS[self.pane]).focus()
            return True
        return False

    @property
    def filtered(self) -> bool:
        return any(q.value for q in self.query(Query))

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        self.query_one(InventoryList).filter(event.value)
        self._show_notes(console(self).view)

    @on(Input.Changed, "#find")
    def _find(self, event: Input.Changed) -> None:
        self.query_one(LogView).find(event.value)
        self._show_notes(console(self).view)

    @on(Input.Submitted)
    def _to_the_list(self) -> None:
        self.query_one(_FOCUS[self.pane]).focus()

    # -- what is highlighted --------------------------------------------------------------------------------------------

    @property
    def phase(self) -> PhaseView | None:
        return self.query_one(PlanTree).phase

    @property
    def item(self) -> Item | None:
        return self.query_one(InventoryList).item

    @property
    def project(self) -> ProjectLine | None:
        entry = self.query_one(ProjectList).current
        return entry.line if entry else None


def _detail(phase: PhaseView | None, stage: StageEntry | None, view: View, ink: Ink, width: int) -> Text:
    """The highlighted phase in full; of a stage, its phases."""
    if phase is not None:
        return phase_detail(phase, view, ink, width)
    if stage is None:
        return Text("")
    head = Text(stage.stage, style=ink.strong)
    return lines([head, *(phase_row(p, "", ink, width, view.now) for p in stage.phases)])
