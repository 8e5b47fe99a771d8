"""The existing CLI's operation journal of a teardown, as a projection of ours: so that it is not blocked after us, and can read what we did."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from engine.ledger.state import Run
from engine.words import commandlines
from engine.words.identity import Identity
from engine.words.phases import needs
from engine.words.plans import Plan

SCHEMA = "npa.provisioning.operation.v2"
COMMAND = "npa destroy"
RESOURCE_TYPE = "project-teardown"

Document = dict[str, Any]


def phase_of(run: Run) -> tuple[str, str, str]:
    """(phase, lifecycle, result) of the operation, from a run."""
    if run.running:
        return "mutating", "running", ""
    if not run.open:
        return "committed", "succeeded", "succeeded"
    return "recovery-required", "interrupted" if run.exit == 130 else "failed", "failed"


def document(
    existing: Mapping[str, Any] | None,
    identity: Identity,
    plan: Plan,
    run: Run,
    pid: int,
    now: str,
) -> Document:
    """The journal as it is to be. What others wrote stays; the recorded phase plan is never replaced."""
    phase, lifecycle, result = phase_of(run)
    argv = commandlines.destroy_argv(identity, run.kept)
    line = shlex.join(argv)
    base: Document = {
        "schema_version": SCHEMA,
        "operation_id": run.operation_id,
        "command": COMMAND,
        "project_alias": identity.alias,
        "project_id": identity.project_id,
        "tenant_id": identity.tenant_id,
        "region": identity.region,
        "backend": {},
        "resource_type": RESOURCE_TYPE,
        "requested_name": identity.alias or identity.project_id,
        "ownership_source": "project-destroy-cli",
        "created_at": _seconds(run.started),
        "resume_count": 0,
        "resources": [],
        "config_mutations": [],
        "events": [],
        "recovery_commands": {
            "resume": line,
            "resume_argv": argv,
            "destroy": line,
            "destroy_argv": argv,
        },
        "preflight_plan": _preflight(identity, plan),
    }
    base.update(existing or {})
    events = [e for e in base["events"] if not _is_ours(e, run)]
    stamp = _seconds(run.ended) or now
    ours = [{"phase": "mutating", "recorded_at": _seconds(run.started), "details": {"journal": run.id}}]
    ours += [
        {
            "phase": "mutating",
            "lifecycle": "heartbeat",
            "recorded_at": _seconds(at),
            "details": {"phase": name, "journal": run.id},
        }
        for name, at in run.began.items()
    ]
    if not run.running:
        ours.append(
            {"phase": phase, "recorded_at": stamp, "details": {"journal": run.id, "exit": str(run.exit)}}
        )
    base.update(
        {
            "schema_version": SCHEMA,
            "phase": phase,
            "lifecycle": lifecycle,
            "result": result,
            "owner_pid": pid,
            "updated_at": stamp,
            "heartbeat_at": stamp,
            "events": events + ours,
            "last_error": "" if phase != "recovery-required" else "one or more teardown phases remain",
            "last_error_type": "" if phase != "recovery-required" else "PartialProjectTeardown",
        }
    )
    return base


def _is_ours(event: object, run: Run) -> bool:
    return (
        isinstance(event, Mapping)
        and isinstance(d := event.get("details"), Mapping)
        and d.get("journal") == run.id
    )


def _preflight(identity: Identity, plan: Plan) -> Document:
    names = [p.phase for p in plan.phases]
    return {
        "project_alias": identity.alias,
        "project_id": identity.project_id,
        "tenant_id": identity.tenant_id,
        "region": identity.region,
        "receipt_id": "",
        "decision": "execute",
        "topology": {
            "phases": [
                {
                    "phase": p.phase,
                    "commands": [c for t in p.targets if (c := commandlines.for_target(identity, t))],
                    "requires": list(needs(p.phase, names)),
                    "detail": "",
                    "metadata": {},
                }
                for p in plan.phases
            ]
        },
    }


def _seconds(at: str) -> str:
    return at[:19] + "Z" if len(at) > 19 else at
