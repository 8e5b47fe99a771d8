"""The inventory in the light of a run: what is still there, where it stands, and what has gone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from engine.inventory.model import Inventory, Row
from engine.words.plans import Plan
from engine.words.presence import Absent
from engine.words.redact import visible
from npa_tui.moments import moment
from npa_tui.phases import PROTECTED, PhaseView, Step
from npa_tui.stands import Stand
from npa_tui.trail import Trail


@dataclass(frozen=True, slots=True)
class Item:
    """One row of the inventory, with where it stands in the teardown. `goes`: the phase that takes it, 0 when none does."""

    row: Row
    stand: Stand
    word: str
    goes: int = 0


def items_of(
    inventory: Inventory,
    first: Inventory | None,
    trail: Trail,
    plan: Plan | None,
    phases: tuple[PhaseView, ...],
) -> tuple[tuple[Item, ...], int]:
    """The rows that are still there, and how many of the `first` inventory are not."""
    proven = _proven_since(trail, moment(inventory.at))
    by_name = {p.name: p for p in phases}
    steps = {s.key: s for p in phases for s in p.steps}
    owner = {q.ref.id: steps.get(t.key) for _, t in plan.targets() for q in t.parts} if plan else {}
    rows = [r for r in inventory.rows if r.ref.id not in proven]
    items = tuple(_item(r, by_name.get(r.phase), owner.get(r.ref.id)) for r in rows)
    before = {r.ref.id for r in first.rows} if first else set()
    return items, len(before - {r.ref.id for r in rows})


def _proven_since(trail: Trail, at: datetime | None) -> set[str]:
    """Ids that were seen gone, twice, after the inventory was read."""
    found = set[str]()
    for proof in trail.state.proofs.values():
        for o in proof:
            when = moment(o.at)
            if isinstance(o.presence, Absent) and when and at and when > at:
                found.add(o.ref.id)
    return found


def _item(row: Row, phase: PhaseView | None, step: Step | None) -> Item:
    if (name := visible(row.name)) != row.name:
        row = replace(row, name=name)  # a name from outside does not steer the terminal
    number = phase.number if phase else 0
    if step is not None and step.stand in (Stand.FAILED, Stand.HELD, Stand.UNKNOWN):
        word = {Stand.FAILED: "left", Stand.HELD: "held", Stand.UNKNOWN: "not known"}[step.stand]
        return Item(row, step.stand, word, number)
    if row.leaving or (step is not None and step.stand is Stand.RUNNING):
        return Item(row, Stand.RUNNING, "deleting", number)
    if phase is not None and phase.stand is Stand.HELD and phase.held != PROTECTED:
        return Item(row, Stand.HELD, "held", number)
    return Item(row, Stand.WAITS, row.state.replace("_", " ").lower() or "there", number)
