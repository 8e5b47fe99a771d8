"""Operations and what the CLI derives from them: journals, the project's lease, the receipt's provisioning commits."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.simulator.home.folder import AT, Folder
from engine.simulator.kinds import Doc
from engine.simulator.world import ProjectWorld

DEAD = (1 << 22) + 1
"""A process id that no kernel gives: whoever wrote these records is gone."""


@dataclass(frozen=True)
class Operation:
    """A committed operation of a project.

    source      the part of the CLI that did it
    phases      of its journal, in order; a checkpoint's name instead of a phase stands for a `resource-created` event
    again       argv that resumes it; down: argv that destroys what it made
    state       the Terraform state that it preserved
    """

    id: str
    command: str
    kind: str
    name: str
    source: str
    resources: Sequence[Doc]
    backend: Doc = field(default_factory=dict)
    phases: Sequence[str] = ("prepared", "mutating", "resource-created", "state-durable", "committed")
    again: Sequence[str] = ()
    down: Sequence[str] = ()
    checkpoints: Doc = field(default_factory=dict)
    state: str = ""

    @property
    def recovery(self) -> Doc:
        return {
            "resume": shlex.join(self.again), "resume_argv": list(self.again), "destroy": shlex.join(self.down), "destroy_argv": list(self.down),
        }  # fmt: skip


def resource(
    p: ProjectWorld, kind: str, id: str, name: str, source: str, labels: dict[str, str] | None = None
) -> Doc:
    """A row of an operation: what it created, and what says so."""
    return {
        "resource_type": kind, "provider_id": id, "requested_name": name, "project_id": p.id, "ownership": "created_by_this_operation",
        "ownership_source": source, "labels": labels or {}, "creation_window_start": AT, "creation_window_end": AT, "recorded_at": AT,
    }  # fmt: skip


def journal(p: ProjectWorld, o: Operation) -> Doc:
    document = {
        "schema_version": "npa.provisioning.operation.v2", "operation_id": o.id, "command": o.command, "project_alias": p.alias, "project_id": p.id,
        "tenant_id": p.tenant_id, "region": p.region, "backend": o.backend, "resource_type": o.kind, "requested_name": o.name,
        "ownership_source": o.source, "phase": "committed", "lifecycle": "succeeded", "result": "succeeded", "created_at": AT, "updated_at": AT,
        "heartbeat_at": AT, "owner_pid": DEAD, "resume_count": 0, "resources": list(o.resources), "config_mutations": [],
        "events": [_event(o, phase) for phase in o.phases], "last_error": "", "last_error_type": "", "recovery_commands": o.recovery,
    }  # fmt: skip
    if o.checkpoints:
        document["checkpoints"] = o.checkpoints
    if o.state:
        body = o.state.encode()
        identity = {k: o.backend[k] for k in ("bucket", "endpoint", "region")}
        document["local_state_copies"] = [{
            "path": "state/verified-remote.tfstate", "sha256": hashlib.sha256(body).hexdigest(), "size_bytes": len(body), "operation_id": o.id,
            "backend_identity": identity, "preserved_at": AT,
        }]  # fmt: skip
    return document


def _event(o: Operation, phase: str) -> Doc:
    if phase in o.checkpoints:
        return {
            "phase": "resource-created",
            "checkpoint": phase,
            "lifecycle": "checkpoint",
            "recorded_at": AT,
        }
    details = {"storage_probe": "passed"} if o.kind == "storage" and phase == "state-durable" else None
    return {"phase": phase, "recorded_at": AT, **({"details": details} if details else {})}


def lease(p: ProjectWorld, o: Operation, *, phase: str = "committed", lifecycle: str = "succeeded") -> Doc:
    """The lease that an operation took; it is released when it succeeded."""
    document = {
        "schema_version": "npa.project.lifecycle-lease.v1", "project_identity": p.id, "project_id": p.id, "project_alias": p.alias, "operation_id": o.id,
        "command": o.command, "resource_type": o.kind, "phase": phase, "lifecycle": lifecycle, "owner_pid": DEAD, "acquired_at": AT,
        "recovery_commands": o.recovery,
    }  # fmt: skip
    return document | ({"released_at": AT} if lifecycle == "succeeded" else {})


def lease_folder(p: ProjectWorld) -> str:
    return f".npa/operations/.projects/{hashlib.sha256(p.id.encode()).hexdigest()}"


def receipt_id(p: ProjectWorld) -> str:
    return f"{p.alias}-{hashlib.sha256(p.id.encode()).hexdigest()[:12]}"


def receipt(p: ProjectWorld, operations: Sequence[Operation], npa: Path, more: Sequence[Doc] = ()) -> Doc:
    """The project's receipt: one event for each commit, then `more`."""
    identity = _identity(p)
    known = [_known(p, o, npa) for o in operations]
    events = [
        {
            "phase": f"provision-{o.kind}", "resource": o.name, "context": o.name, "project_alias": p.alias, "project_id": p.id,
            "precheck": {"operation_id": o.id}, "action": {"kind": "provisioning_commit"},
            "verification": {"operation_journal": str(npa / f"operations/{o.id}/journal.json")}, "terminal_state": "completed", "errors": [],
            "recorded_at": AT, "identity": {**identity, "operations": [row]},
        }
        for o, row in zip(operations, known, strict=True)
    ]  # fmt: skip
    return {
        "schema_version": "npa.teardown.receipt.v2", "receipt_id": receipt_id(p), "created_at": AT, "updated_at": AT, "project_alias": p.alias,
        "project_id": p.id, "identity": {**identity, "operations": known}, "events": [*events, *more],
    }  # fmt: skip


def _identity(p: ProjectWorld) -> Doc:
    return {
        "project_alias": p.alias, "project_id": p.id, "parent_id": p.id, "tenant_id": p.tenant_id, "region": p.region,
    }  # fmt: skip


def _known(p: ProjectWorld, o: Operation, npa: Path) -> Doc:
    """An operation as a receipt names it: no empty ids, no labels, no local backend."""
    kept = (
        "resource_type", "provider_id", "requested_name", "project_id", "ownership", "ownership_source", "creation_window_start", "creation_window_end",
    )  # fmt: skip
    row: dict[str, Any] = {
        "operation_id": o.id, "resource_type": o.kind, "requested_name": o.name, "project_alias": p.alias, "project_id": p.id,
        "tenant_id": p.tenant_id, "region": p.region, "resources": [{k: r[k] for k in kept if r[k]} for r in o.resources],
    }  # fmt: skip
    if "bucket" in o.backend:
        row["backend"] = {k: v for k, v in o.backend.items() if k != "credential_source"}
    if o.state:
        row["state_paths"] = [str(npa / f"operations/{o.id}/state/verified-remote.tfstate")]
    return row


def lay_operation(folder: Folder, p: ProjectWorld, o: Operation) -> None:
    """Write an operation's journal, locks and preserved state."""
    base = f".npa/operations/{o.id}"
    folder.json(f"{base}/journal.json", journal(p, o))
    folder.lock(f"{base}/.lock")
    folder.lock(f"{base}/.execution.lock")
    if o.state:
        folder.write(f"{base}/state/verified-remote.tfstate", o.state)
