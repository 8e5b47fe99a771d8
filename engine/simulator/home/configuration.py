"""`config.yaml`: projects, their Terraform state and agents, and the owner of the shared controller."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engine.simulator.ids import agent_ids, agent_ip, cluster_ids, cluster_operation, storage_ids
from engine.simulator.kinds import Doc
from engine.simulator.world import AgentWorld, ClusterWorld, ProjectWorld, World


def configuration(world: World, npa: Path, s3: str) -> Doc:
    """The whole document. `npa`: the `.npa` folder it is for; `s3`: URL of the object store."""
    sky: Doc = {"sky_bin": str(npa / "skypilot-venv/bin/sky")}
    for p in world.projects:
        for c in p.clusters:
            if c.controller:
                sky["controller_owner"] = _owner(p, c)
    projects = {p.alias: _project(p, npa, s3) for p in world.projects}
    return {"projects": projects, "default_project": world.projects[0].alias, "skypilot": sky}


def _project(p: ProjectWorld, npa: Path, s3: str) -> Doc:
    stanza: Doc = {"project_id": p.id, "tenant_id": p.tenant_id, "region": p.region}
    if p.storage:
        ids = storage_ids(p.storage)
        stanza["terraform_state"] = {
            "bucket": p.storage.bucket, "endpoint": s3, "access_key": ids.aws_key, "secret_key": ids.aws_secret,
        }  # fmt: skip
    if p.agents:
        stanza["agents"] = {a.name: _agent(p, a, npa) for a in p.agents}
    return stanza


def _agent(p: ProjectWorld, a: AgentWorld, npa: Path) -> Doc:
    ids = agent_ids(p, a)
    return {
        "project_id": p.id, "tenant_id": p.tenant_id, "region": p.region, "public_ip": agent_ip(p, a), "instance_id": ids.instance,
        "service_account_id": ids.account, "agent_url": f"https://{agent_ip(p, a)}/", "auth_user": "npa",
        "auth_secret_path": str(npa / f"agents/{p.alias}/{a.name}/auth.env"),
        "llm": {"provider": "token-factory", "model": "example/model", "models": ["example/model"]}, "ssh_key_path": "~/.ssh/id_ed25519",
        "public_https": True, "setup_state": "healthy",
    }  # fmt: skip


def _owner(p: ProjectWorld, c: ClusterWorld) -> Doc:
    cluster = cluster_ids(c).cluster
    mark = hashlib.sha256(f"{p.id}\0{cluster}\0{c.context}\0".encode()).hexdigest()
    return {
        "schema_version": "npa.controller-owner.v1", "project_alias": p.alias, "project_id": p.id, "cluster_id": cluster, "cluster_name": c.context,
        "context": c.context, "context_fingerprint": mark, "mode": "kubernetes", "namespace": "sky-system", "name": "jobs-controller",
        "operation_id": cluster_operation(p, c),
    }  # fmt: skip
