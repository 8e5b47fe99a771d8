"""A cluster's records: `cluster.json`, `metadata.json`, `terraform-lifecycle.json` and its kubeconfig."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.simulator.home.folder import AT, Folder
from engine.simulator.ids import cluster_ids
from engine.simulator.world import ClusterWorld, ProjectWorld

TOKEN_SCRIPT = '''"""Prints the ExecCredential that a kubeconfig asks for: the token in a file."""
import json, sys
status = {"token": open(sys.argv[1]).read().strip()}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": status}))
'''


def lay_cluster(
    folder: Folder, p: ProjectWorld, c: ClusterWorld, module: Path, url: str, authority: str
) -> None:
    """Write them. `url`, `authority`: where the API is, and the CA's certificate as kubeconfigs hold it."""
    ids, base = cluster_ids(c), f".npa/clusters/{c.context}"
    gpu = bool(c.gpu_nodes)
    folder.json(f"{base}/cluster.json", {
        "name": c.context, "cluster_id": ids.cluster, "project_id": p.id, "region": p.region, "node_count": c.cpu_nodes + c.gpu_nodes,
        "node_platform": c.gpu_platform if gpu else "cpu-e2", "node_preset": c.gpu_preset if gpu else "4vcpu-16gb", "k8s_version": "1.33",
        "created_at": AT, "subnet_id": ids.subnet, "last_seen_state": "RUNNING", "last_seen_at": "", "node_group_id": "", "endpoint": url,
        "provider_name": c.context, "kubeconfig_path": str(folder.path / base / "kubeconfig"),
    })  # fmt: skip
    folder.json(f"{base}/metadata.json", {
        "managed_by": "npa cluster terraform", "event": "gpu_health_validated", "updated_at": AT,
        "teardown": "Run `npa cluster down --terraform-dir deploy/cluster --force` when finished.",
    })  # fmt: skip
    folder.json(f"{base}/terraform-lifecycle.json", {
        "version": 1, "managed_by": "npa", "kind": "cluster-terraform-inventory", "context": c.context, "terraform_dir": str(module),
        "status": "apply_started", "updated_at": AT,
    })  # fmt: skip
    token = {
        "apiVersion": "client.authentication.k8s.io/v1beta1", "command": sys.executable, "interactiveMode": "IfAvailable",
        "args": ["-S", str(folder.path / ".sim/kube_token.py"), str(folder.path / ".nebius/token")],
    }  # fmt: skip
    folder.yaml(f"{base}/kubeconfig", {
        "apiVersion": "v1", "kind": "Config", "current-context": c.context,
        "contexts": [{"name": c.context, "context": {"cluster": c.context, "user": c.context}}],
        "clusters": [{"name": c.context, "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": c.context, "user": {"exec": token}}],
    })  # fmt: skip
