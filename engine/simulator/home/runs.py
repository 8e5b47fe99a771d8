"""Workflow runs: the ledger of each submission, and the record of the last run of a workflow."""

from __future__ import annotations

import hashlib
import re

from engine.simulator.home.folder import AT, Folder
from engine.simulator.inhabit import WORKFLOW
from engine.simulator.kinds import Doc
from engine.simulator.world import ProjectWorld, RunWorld


def lay_runs(folder: Folder, p: ProjectWorld) -> None:
    """Write them for all runs of a project."""
    for r in p.runs:
        base = f".npa/workflow-submissions/{p.alias}/{r.run_id}"
        folder.json(f"{base}.json", _submission(p, r))
        folder.lock(f"{base}.lock")
    if launched := [r for r in p.runs if r.job]:
        base = f".npa/workflow-runs/{_scope(p.id)}/{_scope(WORKFLOW)}.json"
        folder.json(base, _last_run(p, launched[-1]))
        folder.lock(f"{base}.lock")


def _submission(p: ProjectWorld, r: RunWorld) -> Doc:
    document: Doc = {
        "schema_version": "npa.workflow.submission.v1", "project": p.alias, "run_id": r.run_id, "updated_at": AT,
        "launch_state": "planned" if r.job else "reserved", "workflow": {"name": WORKFLOW, "kind": "npa.workflow/v0.0.1"},
    }  # fmt: skip
    if r.job is None:
        return {**document, "planning": {"source": "prepare-run", "state": "durable"}}
    document["launch"] = {"status": "submitted", "sky_job_id": str(r.job.job_id), "job_name": r.job.name}
    if p.storage:
        document["workflow"]["run_prefix_uri"] = f"s3://{p.storage.bucket}/{WORKFLOW}/{r.run_id}"
    return document


def _last_run(p: ProjectWorld, r: RunWorld) -> Doc:
    return {
        "schema_version": "npa.workflow.first-run.v1", "run_id": r.run_id, "project_identity": p.id, "project_alias": p.alias,
        "project_identity_source": "configured_project_id", "workflow_identity": WORKFLOW, "created_at": AT, "last_used_at": AT,
        "source": "explicit_new", "last_known_state": "UNKNOWN", "last_verification_status": "UNVERIFIED",
    }  # fmt: skip


def _scope(value: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", value)[:48]
    return f"{slug}-{hashlib.sha256(value.encode()).hexdigest()[:12]}"
