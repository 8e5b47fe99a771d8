"""Agents and clusters whose Terraform state lies in a bucket: without it, nobody could tell what they consist of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.home.operations import Journal
from engine.home.storage_keys import bucket_name
from engine.ledger.state import State
from engine.phases.bucket.deciding import Dependent
from engine.phases.parts import command, selector
from engine.words.outcomes import Verdict
from engine.words.plans import Target
from engine.words.presence import Ref

if TYPE_CHECKING:
    from engine.home.records import Records

_MAIN = {"compute_instance": "instance", "managed_kubernetes_cluster": "cluster"}


@dataclass(frozen=True, slots=True)
class Claimant:
    """One operation with its state in the bucket. `refs`: what must be gone before the state may go; empty: nobody knows."""

    dependent: Dependent
    refs: tuple[Ref, ...]


def claimants(records: Records, target: Target, state: State) -> Iterator[Claimant]:
    """Operations that have their Terraform state in the bucket and that this teardown has not finished."""
    name = target.detail["bucket"]
    done = {key for key, outcome in state.outcomes.items() if outcome.verdict is Verdict.DONE}
    for journal in records.journals:
        if bucket_name(journal.backend.get("bucket", "")) != name or not journal.backend.get("state_key"):
            continue
        if journal.phase == "destroyed" or (journal.phase == "rolled-back" and journal.rollback_completed):
            continue
        refs = tuple(
            Ref(kind, row.provider_id)
            for row in journal.resources
            if (kind := _MAIN.get(row.resource_type)) and row.provider_id
        )
        phase = "agents" if journal.resource_type == "agent" else "clusters"
        keys = {f"{phase}/{id}" for id in (journal.operation_id, *(ref.id for ref in refs))}
        if not keys & done:
            yield Claimant(_dependent(journal, target), refs)


def _dependent(journal: Journal, target: Target) -> Dependent:
    who = selector(target)
    if journal.resource_type == "agent":
        name = journal.requested_name
        return Dependent(f"agent {name}", command("npa", "agent", "destroy", *who, "--name", name, "--yes"))
    context = journal.requested_name
    down = command("npa", "cluster", "down", *who, "--context", context, "--force")
    return Dependent(f"{journal.resource_type} {context}", down)
