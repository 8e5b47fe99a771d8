"""Which clusters a project's records name, with what was created in the same operation, and why each is ours. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.home.clusters import ClusterFolder, ManagedBy
from engine.home.operations import Journal, OperationResource
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part, PhasePlan, Target
from engine.words.presence import Ref

if TYPE_CHECKING:
    from engine.home.records import Records

CLUSTER = "cluster"
KIND_OF_ROW = {
    "managed_kubernetes_cluster": CLUSTER,
    "network": "network",
    "subnet": "subnet",
    "service_account": "service_account",
}
"""Kinds of a cluster operation's resources that this phase takes down; node groups go with their cluster."""

NO_METADATA = "missing"


@dataclass(slots=True)
class _Candidate:
    """What the records say of one cluster, or of an operation that never came as far as a cluster."""

    cluster_id: str
    folder: ClusterFolder | None = None
    rows: list[tuple[Journal, OperationResource]] = field(default_factory=list)

    @property
    def journal(self) -> Journal | None:
        return self.rows[-1][0] if self.rows else None


def plan_clusters(records: Records) -> PhasePlan:
    """One target per cluster id of a saved record or of an operation that was not undone."""
    found: dict[str, _Candidate] = {}
    for folder in records.clusters:
        if folder.cluster is not None:
            found[folder.cluster.cluster_id] = _Candidate(folder.cluster.cluster_id, folder)
    loose: list[_Candidate] = []
    unread: list[str] = []
    for journal in records.journals:
        if journal.resource_type == "cluster" and not _undone(journal):
            rows = [(journal, r) for r in journal.resources if r.resource_type in KIND_OF_ROW]
            ids = [
                r.provider_id for _, r in rows if KIND_OF_ROW[r.resource_type] == CLUSTER and r.provider_id
            ]
            for id in ids[:-1]:  # an earlier generation of the same name: the rest was made for the last one
                candidate = found.setdefault(id, _Candidate(id))
                candidate.rows += [row for row in rows if row[1].provider_id == id]
            if ids:
                candidate = found.setdefault(ids[-1], _Candidate(ids[-1]))
                candidate.rows += [row for row in rows if row[1].provider_id not in ids[:-1]]
            elif rows:
                loose.append(_Candidate("", rows=rows))
    targets: list[Target] = []
    for candidate in (*found.values(), *loose):
        target = _target(records, candidate)
        if target.parts:
            targets.append(target)
        if not target.detail.get("terraform_dir"):
            unread += _nameless(candidate)
    known = {t.detail["context"] for t in targets}
    unread += [
        f"{f.path}: {', '.join(f.evidence)}, but no record of the cluster's id"
        for f in records.clusters
        if f.cluster is None and f.evidence and f.context not in known
    ]
    unread += [str(p) for p in records.problems_of("clusters", "operations")]
    return PhasePlan("clusters", tuple(targets), unread=tuple(dict.fromkeys(unread)))


def _undone(journal: Journal) -> bool:
    return journal.phase == "destroyed" or (journal.phase == "rolled-back" and journal.rollback_completed)


def _nameless(candidate: _Candidate) -> Iterable[str]:
    """What an operation created and cannot name: without Terraform nothing could find it."""
    return (
        f"{journal.record}: {row.field}: a {row.resource_type} was created, but its id was not recorded"
        for journal, row in candidate.rows
        if row.created and not row.provider_id
    )


def _target(records: Records, candidate: _Candidate) -> Target:
    folder, journal = candidate.folder, candidate.journal
    cluster = folder.cluster if folder else None
    parts: dict[Ref, Part] = {}
    if candidate.cluster_id:
        name = cluster.name if cluster else journal.requested_name if journal else ""
        ref = Ref(CLUSTER, candidate.cluster_id)
        parts[ref] = Part(ref, name, _cluster_owned(candidate))
    for made_by, row in candidate.rows:
        ref = Ref(KIND_OF_ROW[row.resource_type], row.provider_id)
        if row.provider_id and row.created and ref.kind != CLUSTER:
            owned = Ownership(Evidence.CREATE_RESPONSE, made_by.record, row.field)
            parts.setdefault(ref, Part(ref, row.requested_name, owned))
    context = folder.context if folder else journal.requested_name if journal else ""
    ours = any(row.created for _, row in candidate.rows)
    detail = {
        "project": records.alias or records.project_id,
        "project_id": records.project_id,
        "tenant_id": records.tenant_id,
        "region": (cluster.region if cluster else "") or records.region,
        "context": context,
        "managed_by": _managed_by(folder),
        "cluster_name": cluster.provider_name if cluster else "",
        "kubeconfig": str(folder.kubeconfig) if folder and folder.kubeconfig else "",
        "terraform_dir": _module(folder, journal),
        "backend": journal.backend.get("kind", "") if journal else "",
        "operation_id": journal.operation_id if journal and ours else "",
    }
    kept = {name: value for name, value in detail.items() if value or name == "context"}
    id = candidate.cluster_id or next((ref.id for ref in parts), "")
    return Target(f"clusters/{id}", context or id, tuple(parts.values()), kept)


def _cluster_owned(candidate: _Candidate) -> Ownership:
    """A create response in a journal; else the record that is written after one, where Terraform made it."""
    rows = [(j, r) for j, r in candidate.rows if r.provider_id == candidate.cluster_id]
    for journal, row in rows:
        if row.created:
            return Ownership(Evidence.CREATE_RESPONSE, journal.record, row.field)
    folder = candidate.folder
    if rows or folder is None or folder.metadata is None:
        return NOT_PROVEN
    if folder.metadata.manager is not ManagedBy.TERRAFORM:
        return NOT_PROVEN
    return Ownership(Evidence.CREATE_RESPONSE, f"clusters/{folder.context}/cluster.json", "cluster_id")


def _managed_by(folder: ClusterFolder | None) -> str:
    if folder is None or folder.cluster is None:
        return ""
    return (folder.metadata.managed_by if folder.metadata else "") or NO_METADATA


def _module(folder: ClusterFolder | None, journal: Journal | None) -> str:
    recorded = folder.inventory.terraform_dir if folder and folder.inventory else ""
    return recorded or (journal.backend.get("terraform_dir", "") if journal else "")
