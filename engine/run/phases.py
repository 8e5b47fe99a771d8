"""Builds the phases over a session's clients. The only place that names every phase's module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.home.controller_owner import ControllerOwner
from engine.home.records import Records
from engine.ledger.state import State
from engine.phases.agent_iam import AgentIam
from engine.phases.agents import Agents
from engine.phases.bucket import Bucket
from engine.phases.clusters import Clusters
from engine.phases.controller import Controller
from engine.phases.controller_place import PlaceReader, current_owner
from engine.phases.final_audit import FinalAudit
from engine.phases.forget_alias import ForgetAlias
from engine.phases.jobs import Claims, read_claims
from engine.phases.local_cleanup import LocalCleanup
from engine.phases.shape import Phase
from engine.phases.storage_iam import StorageIam
from engine.phases.workflows import Workflows
from engine.run.clients import Clients
from engine.words.outcomes import Status
from engine.words.presence import Unknown


def build_phases(records: Records, clients: Clients, state: Callable[[], State]) -> Mapping[str, Phase[Any]]:
    """Every phase by its name. Building makes no client and asks nobody."""
    roots, clock, nebius = records.roots, clients.clock, clients.nebius
    places = PlaceReader(nebius, clients.kubernetes)

    def claims() -> Claims:
        return read_claims(roots, records.project_id, records.aliases)

    def owner() -> ControllerOwner | Unknown | None:
        return current_owner(roots)

    built: list[Phase[Any]] = [
        Workflows(clients.sky, places, clock, claims),
        Agents(roots, nebius),
        AgentIam(roots, nebius),
        Controller(roots, clients.sky, places, clients.kubernetes, clock, claims, owner),
        Clusters(
            roots, nebius, clients.terraform, clients.kubernetes, clients.sky, places, clock, claims, owner
        ),
        Bucket(roots, nebius, clients.object_store, clock, state),
        StorageIam(roots, nebius),
        LocalCleanup(roots, clock, state),
        ForgetAlias(roots, nebius, clock),
        FinalAudit(nebius, lambda: _kept_ids(state())),
    ]
    return {phase.name: phase for phase in built}


def _kept_ids(state: State) -> frozenset[str]:
    """Ids of all parts of the phases that the newest run keeps, or does not begin because of one that it keeps."""
    run = state.newest
    if run is None:
        return frozenset()
    kept = {ended.phase for ended in run.phases.values() if ended.status is Status.KEPT}
    return frozenset(
        part.ref.id
        for phase, target in run.plan.targets()
        if phase.phase in kept and phase.wants == "absent"
        for part in target.parts
        if part.ref.id != run.plan.identity.project_id
    )
