"""A destroy that died on the way: its journal in recovery with the plan that it recorded, its lease, its events."""

from __future__ import annotations

from collections.abc import Sequence

from engine.simulator.home.folder import AT, Folder
from engine.simulator.home.operations import Operation, journal, lease, lease_folder
from engine.simulator.ids import agent_ids, cluster_ids, operation_id, storage_ids
from engine.simulator.kinds import Doc
from engine.simulator.world import ProjectWorld

_ERROR = "one or more independent teardown phases remain"
_AFTER = ("workflows", "agents", "controller", "clusters")


def lay_half_done(folder: Folder, p: ProjectWorld) -> None:
    """Write journal and lease of a `npa destroy` that is to be resumed."""
    o = _operation(p)
    base = f".npa/operations/{o.id}"
    folder.json(f"{base}/journal.json", {**journal(p, o), **_recovery(p)})
    folder.lock(f"{base}/.lock")
    folder.lock(f"{base}/.execution.lock")
    folder.json(f"{lease_folder(p)}/lease.json", lease(p, o, phase="recovery-required", lifecycle="failed"))


def half_done_events(p: ProjectWorld) -> list[Doc]:
    """What the receipt says of it: the runs were stopped, an agent was being destroyed."""
    event = {"context": "", "errors": [], "project_alias": p.alias, "project_id": p.id, "recorded_at": AT}
    done = {
        **event, "phase": "project_destroy_workflows", "resource": p.alias, "terminal_state": "completed", "precheck": {"planned_command_count": 1},
        "action": {"executed_count": 1, "kind": "npa_guarded_phase"}, "verification": {"converged": True, "remote_absence_only": False},
        "identity": {},
    }  # fmt: skip
    started = [
        {
            **event, "phase": "agent", "resource": a.name, "terminal_state": "in_progress", "action": {"kind": "terraform_agent_destroy", "purge_iam": True},
            "precheck": {
                "identity_resolved": True, "identity_source": "explicit_exact_arguments", "local_record_present": True, "terraform_state_present": True,
            },
            "verification": {"remote_destroy": "pending"},
            "identity": {
                "agent_name": a.name, "instance_id": agent_ids(p, a).instance, "project_alias": p.alias, "project_id": p.id, "region": p.region,
                "service_account_id": agent_ids(p, a).account, "tenant_id": p.tenant_id,
            },
        }
        for a in p.agents
    ]  # fmt: skip
    return [done, *started]


def _operation(p: ProjectWorld) -> Operation:
    return Operation(
        operation_id("npa destroy", p.id, "project-teardown", p.alias), "npa destroy", "project-teardown", p.alias, "project-destroy-cli", [],
        phases=("prepared", "mutating", "recovery-required"), again=("npa", "destroy", "--project", p.alias, "--all", "--yes", "--json"),
    )  # fmt: skip


def _recovery(p: ProjectWorld) -> Doc:
    def beat(phase: str) -> Doc:
        return {"phase": "mutating", "lifecycle": "heartbeat", "details": {"phase": phase}, "recorded_at": AT}

    failed = {
        "phase": "recovery-required",
        "error": _ERROR,
        "details": {"error_type": "PartialProjectTeardown"},
        "recorded_at": AT,
    }
    started = [{"phase": phase, "recorded_at": AT} for phase in ("prepared", "mutating")]
    return {
        "phase": "recovery-required", "lifecycle": "failed", "result": "failed", "last_error": _ERROR, "last_error_type": "PartialProjectTeardown",
        "events": [*started, beat("workflows"), beat("agents"), failed],
        "preflight_plan": {
            "decision": "execute", "project_alias": p.alias, "project_id": p.id, "tenant_id": p.tenant_id, "region": p.region, "receipt_id": "",
            "topology": {"phases": _phases(p)},
        },
        "preflight_evaluations": [{"decision": "execute", "quotas": [], "reasons": [], "recorded_at": AT}],
    }  # fmt: skip


def _phases(p: ProjectWorld) -> list[Doc]:
    """The plan that it recorded, with the commands that it would have run."""
    who, same = ("--project", p.alias), ("--project-id", p.id)
    found: list[Doc] = []

    def phase(
        name: str,
        detail: str,
        commands: Sequence[Sequence[str]],
        requires: Sequence[str] = (),
        **metadata: object,
    ) -> None:
        argvs = [["npa", *argv] for argv in commands]
        found.append(
            {
                "phase": name,
                "detail": detail,
                "commands": argvs,
                "requires": list(requires),
                "metadata": metadata,
            }
        )

    clusters = [(cluster_ids(c).cluster, c) for c in p.clusters]
    phase(
        "workflows", "Inventory durable runs, then cancel each exact run before controller teardown.",
        [("workbench", "workflow", "list", *who, "--json")],
    )  # fmt: skip
    phase(
        "agents", "Destroy every configured project agent.",
        [("agent", "destroy", *who, "--name", a.name, "--yes", "--json") for a in p.agents],
    )  # fmt: skip
    phase(
        "controller", "Remove the exact bound shared controller.",
        [
            ("skypilot", "cleanup-controller", *who, *same, "--context", c.context, "--cluster-id", id, "--cluster-name", c.context, "--yes", "--json")
            for id, c in clusters if c.controller
        ],
        ["workflows"],
    )  # fmt: skip
    phase(
        "clusters", "Destroy exact project-matched cluster identities.",
        [("cluster", "down", *who, *same, "--cluster-id", id, "--context", c.context, "--force", "--json") for id, c in clusters],
        ["workflows", "controller"],
    )  # fmt: skip
    if p.storage:
        account = storage_ids(p.storage).account
        phase(
            "bucket", "Delete and verify the exact state bucket.",
            [("storage", "bucket", "delete", *who, *same, "--name", p.storage.bucket, "--yes", "--wait", "--json")],
            _AFTER, logical_name=p.storage.bucket, project_id=p.id,
        )  # fmt: skip
        phase(
            "storage_iam", "Delete only project-scoped NPA-owned storage IAM.",
            [("storage", "service-account", "delete", *who, *same, "--id", account, "--yes", "--json")],
            [*_AFTER, "bucket"], generation_ids=[account], logical_names=["lerobot-training"], project_id=p.id,
        )  # fmt: skip
    cloud = [row["phase"] for row in found]
    phase(
        "local_cleanup", "Remove only project-scoped local residue; preserve shared runtime state.",
        [("cleanup", *who, "--yes", "--keep-sky", "--json")],
    )  # fmt: skip
    phase(
        "forget_alias", "Forget the alias only after cloud and IAM phases converge.",
        [("configure", "--forget-project", p.alias)], [*cloud, "local_cleanup"],
    )  # fmt: skip
    phase(
        "final_audit", "Remove remaining exact-project secrets after owned jobs/controllers are stopped; shared machine SkyPilot state remains preserved.",
        [("cleanup", "--project", p.id, "--full", "--yes", "--include-sky", "--skip-jobs", "--attest-no-active-jobs", "--json")],
        ["forget_alias"],
    )  # fmt: skip
    return found
