"""`credentials.yaml`: the store of storage accounts with its compatibility views, the setup journal, the agents' account, tokens."""

from __future__ import annotations

from engine.simulator.home.folder import AT
from engine.simulator.ids import agent_ids, storage_ids
from engine.simulator.kinds import Doc
from engine.simulator.world import ProjectWorld, StorageWorld, World

_ATTEMPT = "97698c45220f40a8a1e02c09378d410b"
_PROOF = (
    "service_account_id",
    "service_account_name",
    "service_account_project_id",
    "service_account_managed_by",
)


def credentials(world: World, s3: str) -> Doc:
    """The whole document. `s3`: URL of the object store. All secrets in it are invented."""
    document: Doc = {}
    storages = [(p, p.storage) for p in world.projects if p.storage]
    if setups := {p.id: _setup(p, s) for p, s in storages if s.owned}:
        document["storage_setup"] = {"version": 1, "projects": setups}
    if records := {p.id: _record(p, s, s3) for p, s in storages}:
        current = next(iter(records))
        document["project_credentials"] = {
            "schema_version": "npa.project-credentials.v2", "projects": records, "current_project_id": current,
        }  # fmt: skip
        record = records[current]
        document["storage"] = record["storage"]
        if proof := {k: record["storage_iam"][k] for k in _PROOF if k in record["storage_iam"]}:
            document["storage_iam"] = proof
        document["nebius"] = record["nebius"]
    document["tokens"] = {
        "HF_TOKEN": "hf_example_not_a_token", "NEBIUS_TOKEN_FACTORY_KEY": "v1.example", "CUSTOM_VENDOR_TOKEN": "keep-me",
    }  # fmt: skip
    document["ngc"] = {"api_key": "nvapi-example", "org": "example-org"}
    document["ssh"] = {"host": "198.51.100.7", "user": "ubuntu", "key_path": "~/.ssh/id_ed25519"}
    if accounts := {p.id: _agent_account(p) for p in world.projects if p.agents}:
        document["agent_iam"] = {"version": 1, "projects": accounts}
    return document


def _record(p: ProjectWorld, s: StorageWorld, s3: str) -> Doc:
    ids = storage_ids(s)
    # A generation carries the proof of ownership only where there is one.
    proof = dict(zip(_PROOF, (ids.account, "lerobot-training", p.id, "npa"), strict=True)) if s.owned else {}
    binding = {
        "state": "created", "role": "storage.object-editor", "scope_id": p.id, "group_id": ids.group,
        "group_name": f"npa-storage-object-editors-{p.id}", "access_permit_id": ids.permit, "group_managed_by": "npa", "access_permit_managed_by": "npa",
    }  # fmt: skip
    generations = [{**proof, "access_key_ids": [ids.key], "binding": binding}] if s.owned else []
    return {
        "storage": {"aws_access_key_id": ids.aws_key, "aws_secret_access_key": ids.aws_secret, "endpoint_url": s3, "bucket": f"s3://{s.bucket}/"},
        "nebius": {"service_account_id": ids.account},
        "storage_iam": {**proof, "active_service_account_id": ids.account, "generations": generations},
        "project_id": p.id, "aliases": [p.alias], "updated_at": AT,
    }  # fmt: skip


def _setup(p: ProjectWorld, s: StorageWorld) -> Doc:
    ids = storage_ids(s)
    made = {"created_by": "npa", "project_id": p.id, "attempt_id": _ATTEMPT, "created_at": AT}
    return {
        "version": 1, "status": "complete", "phase": "credentials_committed", "attempt_id": _ATTEMPT, "project_id": p.id, "tenant_id": p.tenant_id,
        "region": p.region, "bucket_name": s.bucket, "project_alias": p.alias, "next_command": "", "updated_at": AT, "last_error": "",
        "probe_cleanup_succeeded": True,
        "resources": {
            "service_account": {"name": "lerobot-training", "id": ids.account, **made},
            "bucket": {"name": s.bucket, "id": ids.bucket, **made},
            "iam_group": {"name": f"npa-storage-object-editors-{p.id}", "id": ids.group, **made},
            "iam_permit": {"id": ids.permit, "group_id": ids.group, **made},
            "access_keys": {ids.key: {"name": "lerobot-access-key", "id": ids.key, "service_account_id": ids.account, **made}},
        },
    }  # fmt: skip


def _agent_account(p: ProjectWorld) -> Doc:
    ids = agent_ids(p, p.agents[0])
    made = {"created_by": "npa", "project_id": p.id, "created_at": AT}
    return {
        "status": "complete",
        "resources": {
            "service_account": {"id": ids.account, "name": "npa-agent", **made},
            "access_keys": {ids.key: {"id": ids.key, "name": "npa-agent-access-key", **made}},
        },
    }
