"""Who owns the shared SkyPilot controller: one record for the machine, and an older one per project."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from engine.home.errors import Fault
from engine.home.fields import Fields

SCHEMA = "npa.controller-owner.v1"
NEVER_BOUND = frozenset(
    {"ABSENT", "DELETED", "DELETING", "DESTROYED", "NOT_FOUND", "ROLLED_BACK", "ROLLED-BACK"}
)
"""Cluster states that forbid binding a controller to it."""


def fingerprint(project_id: str, cluster_id: str, context: str) -> str:
    """SHA-256, in hex, over the three ids, each followed by a NUL."""
    return hashlib.sha256(f"{project_id}\0{cluster_id}\0{context}\0".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ControllerOwner:
    """The owner. `field` is where it stands in the configuration; `legacy`: in a project's stanza, from an older version."""

    field: str
    project_alias: str
    project_id: str
    cluster_id: str
    context: str
    cluster_name: str = ""
    context_fingerprint: str = ""
    mode: str = "kubernetes"
    namespace: str = "sky-system"
    name: str = "jobs-controller"
    operation_id: str = ""
    legacy: bool = False

    @property
    def same(self) -> tuple[str, ...]:
        """What two records of one owner have in common. The alias is a label."""
        return (
            self.project_id,
            self.cluster_id,
            self.context_fingerprint,
            self.mode,
            self.namespace,
            self.name,
        )


def read_owner(parent: Fields, *, legacy: bool) -> ControllerOwner | None:
    """The `controller_owner` of a mapping; None when there is none or it is empty.

    The CLI ignores an incomplete record; here it is a problem, since a controller that it means would then have no owner.
    Raises `RecordError`, also when the fingerprint does not fit the ids.
    """
    found = parent.child("controller_owner")
    if not found:
        return None
    found.schema("schema_version", SCHEMA, None, "")
    owner = ControllerOwner(
        field=found.where,
        project_alias=found.needed("project_alias"),
        project_id=found.needed("project_id"),
        cluster_id=found.needed("cluster_id"),
        context=found.needed("context"),
        cluster_name=found.text("cluster_name"),
        context_fingerprint=found.text("context_fingerprint"),
        mode=found.text("mode") or "kubernetes",
        namespace=found.text("namespace") or "sky-system",
        name=found.text("name") or "jobs-controller",
        operation_id=found.text("operation_id"),
        legacy=legacy,
    )
    expected = fingerprint(owner.project_id, owner.cluster_id, owner.context)
    if owner.context_fingerprint not in ("", expected):
        raise found.error(
            "context_fingerprint",
            "does not fit project_id, cluster_id and context: one of them was changed",
            fault=Fault.CONFLICT,
        )
    return replace(owner, context_fingerprint=expected)
