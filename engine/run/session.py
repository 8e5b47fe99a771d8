"""One project, opened for reading: who it is, what its records say, its plan, and the phases that would carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine import settings as environment
from engine.clock import Clock
from engine.home.operation_ids import next_operation_id, operation_id
from engine.home.project_index import ProjectIndex, load_project_index
from engine.home.receipt_rules import receipt_id_for
from engine.home.records import Records
from engine.home.roots import Roots, roots
from engine.ledger.journal import Altered, Journal, file_name, load
from engine.ledger.operations import COMMAND, RESOURCE_TYPE
from engine.ledger.state import State
from engine.phases.shape import Phase
from engine.run.clients import Clients
from engine.run.phases import build_phases
from engine.run.planner import make_plan, recorded_scope, relabelled
from engine.run.selection import Selection, resolve
from engine.settings import Settings
from engine.words.identity import Identity
from engine.words.plans import Plan
from engine.words.reasons import Reason, Refusal, Refused


@dataclass(slots=True)
class Live:
    """The state that phases consult: what was on disk at first, then the runner's own."""

    state: State


@dataclass(frozen=True, slots=True)
class Session:
    """Everything a face or a runner needs for one project. Opening one reads local records only."""

    settings: Settings
    roots: Roots
    clock: Clock
    index: ProjectIndex
    identity: Identity
    records: Records
    state: State
    plan: Plan
    phases: Mapping[str, Phase[Any]]
    clients: Clients
    operation_id: str
    receipt_id: str
    live: Live
    resumes: str = ""
    """The run whose recorded plan this is; empty for a new plan."""

    def with_clients(self, clients: Clients) -> Session:
        """The same project over clients that are open already."""
        phases = build_phases(self.records, clients, lambda: self.live.state)
        return replace(self, clients=clients, phases=phases)

    def watch(self, journal: Journal) -> None:
        """From now on phases that ask how far the teardown is are told by this journal."""
        self.live.state = journal.state

    @property
    def journal_path(self) -> Path:
        return journal_path(self.roots, self.identity.project_id)

    @property
    def inbox(self) -> Path:
        return inbox(self.roots, self.identity.project_id)

    @property
    def finished(self) -> bool:
        """The newest run converged, and the configuration knows the project no more: there is nothing to do but to look."""
        newest = self.state.newest
        return (
            newest is not None
            and not newest.open
            and newest.command == "destroy"
            and not self.records.stanzas
        )


def journal_path(r: Roots, project_id: str) -> Path:
    """Where a project's journal is, whether or not it exists."""
    return r.ours / file_name(project_id)


def inbox(r: Roots, project_id: str) -> Path:
    """Where a project's runner looks for requests."""
    return r.ours / "requests" / file_name(project_id).removesuffix(".jsonl")


def open_session(
    wanted: Selection,
    environ: Mapping[str, str] | None = None,
    *,
    new_plan: bool = False,
    settings: Settings | None = None,
) -> Session:
    """Read what is on disk and plan. Raises `Refused`; calls nobody and writes nothing."""
    settings = settings or environment.read(environ)
    clock = Clock(settings.time_scale)
    r = roots(settings.environ)
    index = load_project_index(r)
    identity, records = resolve(r, index, wanted)
    clients = Clients(settings, r, clock, records)
    settings.refuse_time_scale(clients.endpoints())
    state = _state(r, identity)
    live = Live(state)
    phases = build_phases(records, clients, lambda: live.state)
    resumed = None if new_plan else state.resumable("destroy")
    newest = state.newest
    op, scope = _operation(records, identity)
    if resumed is not None:
        plan = relabelled(resumed.plan, identity)
        op = resumed.operation_id
    elif newest is not None and not records.stanzas and not new_plan:
        plan = relabelled(
            newest.plan, identity
        )  # forgotten and done: the records that a new plan would need are gone
    else:
        plan = make_plan(identity, records, phases, scope)
    receipt = resumed.receipt_id if resumed else _receipt(records, identity)
    return Session(
        settings=settings,
        roots=r,
        clock=clock,
        index=index,
        identity=replace(identity, receipt_id=identity.receipt_id or receipt),
        records=records,
        state=state,
        plan=plan,
        phases=phases,
        clients=clients,
        operation_id=op,
        receipt_id=receipt,
        live=live,
        resumes=resumed.id if resumed else "",
    )


def _state(r: Roots, identity: Identity) -> State:
    try:
        return load(journal_path(r, identity.project_id))
    except Altered as altered:
        raise Refused(
            Refusal(
                Reason.JOURNAL_ALTERED,
                f"the journal was altered: {altered}. Nothing is done on its basis",
                f"keep a copy of {altered.path} and restore the file from a backup",
            )
        ) from altered


def _operation(records: Records, identity: Identity) -> tuple[str, frozenset[str] | None]:
    """The operation to go under, and the phases of a plan that the existing CLI recorded and did not finish."""
    recorded = recorded_scope(records)
    if recorded is not None:
        journal, scope = recorded
        return journal.operation_id, scope
    base = operation_id(COMMAND, identity.project_id, RESOURCE_TYPE, identity.alias or identity.project_id)
    return next_operation_id(base, {j.operation_id: j.terminal for j in records.operations.journals}), None


def _receipt(records: Records, identity: Identity) -> str:
    """One receipt per project: the one that is there, else the one that its alias and id name."""
    own = receipt_id_for(identity.alias, identity.project_id)
    named = [x.receipt_id for x in records.receipts if x.project_id == identity.project_id]
    return own if own in named or not named else named[0]
