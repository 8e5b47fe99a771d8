"""From records to a plan: which phases, in the table's order, each planned by its own module."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from engine.home.operations import Journal
from engine.home.records import Records
from engine.phases.shape import Phase
from engine.words.identity import Identity
from engine.words.phases import ROWS
from engine.words.plans import Plan


def make_plan(
    identity: Identity,
    records: Records,
    phases: Mapping[str, Phase[Any]],
    only: Collection[str] | None = None,
) -> Plan:
    """The plan of a destroy. Phases that are not built (or not among `only`) are not part of it."""
    rows = [r for r in ROWS if r.name in phases and (only is None or r.name in only)]
    return Plan(identity, tuple(phases[r.name].plan(records) for r in rows))


def recorded_scope(records: Records) -> tuple[Journal, frozenset[str]] | None:
    """A half-done `npa destroy` of the existing CLI, and the phases that its recorded plan has: a retry replays those."""
    open_ones = [
        j
        for j in records.journals
        if j.resource_type == "project-teardown" and not j.terminal and j.preflight_phases
    ]
    newest = max(open_ones, key=lambda j: j.updated_at, default=None)
    if newest is None:
        return None
    names = set(newest.preflight_phases)
    if "agents" in names:
        names.add("agent_iam")  # recorded plans from before it was a phase do it inside agents
    return newest, frozenset(names)


def relabelled(plan: Plan, identity: Identity) -> Plan:
    """A recorded plan under how its project is addressed now. Alias, receipt and sources are labels; the ids must be the same."""
    if plan.identity.project_id != identity.project_id:
        raise ValueError("a plan belongs to one project")
    return replace(
        plan, identity=replace(plan.identity, forgotten=identity.forgotten, receipt_id=identity.receipt_id)
    )
