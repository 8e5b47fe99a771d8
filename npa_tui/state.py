"""Everything that is on the screen, as one frozen value: a pure fold of what the console has seen so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.inventory.model import HOURS_A_DAY, Inventory, SourceReport
from engine.ledger.state import Run
from engine.run.faces import Account, ProjectLine, RunnerInfo
from engine.words.identity import Identity
from engine.words.plans import Plan
from engine.words.reasons import Refusal
from npa_tui.badge import Mode, badge
from npa_tui.items import Item, items_of
from npa_tui.moments import moment
from npa_tui.phases import PROTECTED, Circumstances, PhaseView, fold
from npa_tui.stands import FINISHED
from npa_tui.trail import Trail

if TYPE_CHECKING:
    from engine.run.preview import PhasePreview

OLD_INVENTORY = timedelta(minutes=5)


class Scene(StrEnum):
    """What stands in the plan's place when there is no plan to show."""

    EMPTY = "empty"
    CHOOSE = "choose"
    READING = "reading"
    ERROR = "error"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the console has, gathered from the reader, the journal and the lease.

    plan      the newest answer of the engine about the aimed project's records
    first     the first complete inventory since the console was aimed at it
    spends    project key -> (USD a day, hazards), of every project that was read in this session
    asked     phases whose consent this console has put in the inbox and nobody has answered
    since     when the console was aimed at the project: a run that ended later is still shown
    problem   what went wrong while reading, when it was no provider's answer
    """

    now: datetime
    since: datetime
    projects: tuple[ProjectLine, ...] | None = None
    aimed: str = ""
    plan: Plan | Refusal | None = None
    trail: Trail = field(default_factory=Trail)
    trouble: str = ""
    runner: RunnerInfo | None = None
    account: Account | None = None
    inventory: Inventory | None = None
    first: Inventory | None = None
    reports: tuple[SourceReport, ...] = ()
    reading: bool = False
    halted: bool = False
    problem: str = ""
    previews: Mapping[str, PhasePreview] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    spends: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    receipt: str = ""
    journal: str = ""


@dataclass(frozen=True, slots=True)
class RunView:
    """The run that the plan belongs to, as far as head, receipt and run view need it."""

    id: str
    started: str
    ended: str
    operators: tuple[str, ...]
    receipt_id: str
    closed: bool
    """Converged: nothing of it is left to do."""
    flying: int
    retries: int
    paused: str


@dataclass(frozen=True, slots=True)
class View:
    """What is on the screen. Widgets get parts of it and compare them; equal parts are not painted again."""

    now: datetime
    scene: Scene = Scene.EMPTY
    mode: Mode = Mode.PLAN
    sentence: str = ""
    projects: tuple[ProjectLine, ...] = ()
    spends: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    aimed: str = ""
    line: ProjectLine | None = None
    identity: Identity | None = None
    account: Account | None = None
    plan: Plan | None = None
    digest: str = ""
    phases: tuple[PhaseView, ...] = ()
    run: RunView | None = None
    runner: RunnerInfo | None = None
    inventory: Inventory | None = None
    items: tuple[Item, ...] = ()
    gone: int = 0
    spend: float | None = None
    spend_floor: bool = False
    """Something that is there has no known price: the spend is at least this."""
    spend_before: float | None = None
    reports: tuple[SourceReport, ...] = ()
    reading: bool = False
    halted: bool = False
    refusal: Refusal | None = None
    problem: str = ""
    receipt: str = ""
    journal: str = ""

    @property
    def done(self) -> int:
        return sum(p.stand in FINISHED for p in self.phases)

    @property
    def protected(self) -> bool:
        return self.line is not None and self.line.protected

    @property
    def age(self) -> timedelta | None:
        """How old the inventory is."""
        at = moment(self.inventory.at) if self.inventory else None
        return max(timedelta(0), self.now - at) if at else None

    @property
    def old(self) -> bool:
        return self.age is not None and self.age > OLD_INVENTORY

    @property
    def failed_sources(self) -> tuple[SourceReport, ...]:
        return tuple(s for s in self.reports if not s.ok)

    def phase(self, name: str) -> PhaseView | None:
        return next((p for p in self.phases if p.name == name), None)

    def numbered(self, number: int) -> PhaseView | None:
        return next((p for p in self.phases if p.number == number), None)


def view(seen: Seen) -> View:
    """The screen for what was seen."""
    line = next((p for p in seen.projects or () if p.key == seen.aimed), None)
    run = _run(seen)
    plan = run.plan if run else seen.plan if isinstance(seen.plan, Plan) else None
    alive = run is not None and seen.runner is not None and seen.runner.run == run.id
    phases: tuple[PhaseView, ...] = ()
    if plan is not None:
        around = Circumstances(alive, seen.asked, seen.previews, _holds(plan, line, seen.inventory))
        phases = fold(plan, run, seen.trail, around)
    scene = _scene(seen, run, plan)
    shown = run if scene is Scene.READY else None
    mode, sentence = badge(shown, seen.runner, alive, seen.trail.paused, phases)
    items, gone = (
        items_of(seen.inventory, seen.first, seen.trail, plan, phases) if seen.inventory else ((), 0)
    )
    read = seen.inventory if seen.inventory and seen.inventory.complete else None
    spend = sum(i.row.per_hour for i in items if i.row.per_hour) * HOURS_A_DAY if read else None
    refusal = seen.plan if isinstance(seen.plan, Refusal) and plan is None else None
    return View(
        now=seen.now,
        scene=scene,
        mode=mode,
        sentence=sentence,
        projects=seen.projects or (),
        spends={**seen.spends, seen.aimed: (spend, len(read.hazards))}
        if read and spend is not None
        else seen.spends,
        aimed=seen.aimed,
        line=line,
        identity=plan.identity if plan else None,
        account=seen.account,
        plan=plan,
        digest=plan.digest if plan else "",
        phases=phases,
        run=_run_view(run, seen.trail) if run else None,
        runner=seen.runner,
        inventory=seen.inventory,
        items=items,
        gone=gone,
        spend=spend,
        spend_floor=any(i.row.per_hour is None for i in items) or bool(read and read.prices_gap),
        spend_before=_before(seen, run),
        reports=seen.reports,
        reading=seen.reading,
        halted=seen.halted,
        refusal=refusal,
        problem=seen.trouble or seen.problem,
        receipt=seen.receipt,
        journal=seen.journal,
    )


def _run(seen: Seen) -> Run | None:
    """The destroy run to show: the open one, else one that ended while we looked, else one after which nothing is left to plan."""
    run = next((r for r in reversed(seen.trail.state.runs.values()) if r.command == "destroy"), None)
    if run is None or run.open:
        return run
    ended = moment(run.ended)
    if ended is not None and ended >= seen.since:
        return run
    over = not isinstance(seen.plan, Plan) or not any(True for _ in seen.plan.targets())
    return run if over and seen.plan is not None else None


def _scene(seen: Seen, run: Run | None, plan: Plan | None) -> Scene:
    if seen.projects is None:
        return Scene.READING
    if seen.trouble or (isinstance(seen.plan, Refusal) and plan is None):
        return Scene.ERROR
    if not seen.aimed:
        return Scene.CHOOSE if seen.projects else Scene.ERROR if seen.problem else Scene.EMPTY
    if run is not None:
        return Scene.READY  # its plan was recorded: no inventory is needed to show it
    if plan is None or seen.inventory is None:
        return Scene.ERROR if seen.problem or seen.halted else Scene.READING
    return Scene.READY if seen.inventory.complete else Scene.ERROR


def _holds(plan: Plan, line: ProjectLine | None, inventory: Inventory | None) -> dict[str, tuple[str, str]]:
    """Phases that nobody may start now, and why."""
    if line is not None and line.protected:
        why = "The project is protected: it is shown, and never torn down."
        return {p.phase: (PROTECTED, why) for p in plan.phases}
    homeless = [r for r in inventory.rows if not r.phase and r.ref.kind != "project"] if inventory else []
    if homeless and plan.phase("delete_project"):
        first = homeless[0]
        kind = first.ref.kind.replace("_", " ")
        short = f"1 {kind}" if len(homeless) == 1 else f"{len(homeless)} others"
        names = ", ".join(f"{r.ref.kind.replace('_', ' ')} {r.name or r.ref.id}" for r in homeless[:6])
        more = f" and {len(homeless) - 6} more" if len(homeless) > 6 else ""
        verb = "is" if len(homeless) == 1 else "are"
        why = f"{names}{more} {verb} in no phase of this plan. Delete or move {'it' if verb == 'is' else 'them'}, then read again."
        return {"delete_project": (short, why[0].upper() + why[1:])}
    return {}


def _before(seen: Seen, run: Run | None) -> float | None:
    """The spend a day before the run; None when nobody measured it: an inventory from a run's middle is no beginning."""
    if seen.first is None or run is None:
        return None
    read, began = moment(seen.first.at), moment(run.started)
    return seen.first.per_day if read and began and read <= began else None


def _run_view(run: Run, trail: Trail) -> RunView:
    return RunView(
        id=run.id,
        started=run.started,
        ended=run.ended,
        operators=tuple(dict.fromkeys(c.by for c in run.consents)),
        receipt_id=run.receipt_id,
        closed=not run.open,
        flying=len(trail.flying),
        retries=trail.retries,
        paused=trail.paused,
    )
