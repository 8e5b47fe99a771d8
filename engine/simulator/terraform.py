"""The Terraform module of a simulated cluster: `terraform_data` whose destroy provisioners tell the cloud, and a matching state."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

from engine.simulator.ids import ClusterIds, cluster_ids
from engine.simulator.world import ClusterWorld

Doc = dict[str, Any]

TELL = '''"""Tells the cloud that Terraform destroys a thing, and waits until it is gone."""
import json, sys, urllib.error, urllib.request
control, kind, id = sys.argv[1:4]
request = urllib.request.Request(control + "/terraform/destroy", json.dumps({"kind": kind, "id": id}).encode(), {"Content-Type": "application/json"})
try:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=3600).read()
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())
'''


def rows(ids: ClusterIds, gpu: bool, cpu: bool) -> list[tuple[str, str, str, str]]:
    """(address, kind, id, what it depends on), in the order of creation."""
    found = [
        ("node_service_account", "serviceaccount", ids.account, ""),
        ("network", "network", ids.network, ""),
        ("subnet", "subnet", ids.subnet, "network"),
        ("cluster", "cluster", ids.cluster, "subnet node_service_account"),
    ]
    if cpu:
        found.append(("cpu_nodes", "nodegroup", ids.cpu_group, "cluster"))
    if gpu:
        found.append(("gpu_nodes", "nodegroup", ids.gpu_group, "cluster"))
    return found


def lay_module(folder: Path, cluster: ClusterWorld, control: str) -> None:
    """Write module, script and state; real Terraform finds nothing to change in them."""
    ids = cluster_ids(cluster)
    things = rows(ids, bool(cluster.gpu_nodes), bool(cluster.cpu_nodes))
    folder.mkdir(parents=True)
    (folder / "tell.py").write_text(TELL)
    (folder / "main.tf").write_text("\n".join(_block(folder, control, *row) for row in things))
    (folder / "versions.tf").write_text('terraform {\n  required_version = ">= 1.12.0"\n}\n')
    (folder / "outputs.tf").write_text(
        'output "kube_cluster" {\n  value = {\n    id   = terraform_data.cluster.input.id\n    name = "'
        + cluster.context
        + '"\n  }\n}\n'
    )
    (folder / "terraform.tfvars").write_text(f'# cluster_name = "{cluster.context}"\n')
    (folder / "terraform.tfstate").write_text(
        json.dumps(_state(folder, control, cluster, ids, things), indent=2)
    )


def _input(folder: Path, control: str, kind: str, id: str) -> dict[str, str]:
    """What a resource knows. Its destroy provisioner may use nothing else; without a shell, no path needs quoting."""
    return {
        "control": control,
        "id": id,
        "kind": kind,
        "python": sys.executable,
        "script": str(folder / "tell.py"),
    }


def _block(folder: Path, control: str, address: str, kind: str, id: str, needs: str) -> str:
    pairs = "\n".join(f"    {k} = {json.dumps(v)}" for k, v in _input(folder, control, kind, id).items())
    depends = ", ".join(f"terraform_data.{n}" for n in needs.split())
    return (
        f'resource "terraform_data" "{address}" {{\n  input = {{\n{pairs}\n  }}\n'
        + (f"  depends_on = [{depends}]\n" if depends else "")
        + '  provisioner "local-exec" {\n    when        = destroy\n'
        + '    interpreter = [self.output.python, "-S", self.output.script, self.output.control, self.output.kind]\n'
        + "    command     = self.output.id\n  }\n}\n"
    )


def _state(
    folder: Path,
    control: str,
    cluster: ClusterWorld,
    ids: ClusterIds,
    things: list[tuple[str, str, str, str]],
) -> Doc:
    def instance(kind: str, id: str, needs: str) -> Doc:
        value = _input(folder, control, kind, id)
        typed = {"value": value, "type": ["object", dict.fromkeys(value, "string")]}
        made: Doc = {
            "schema_version": 0, "sensitive_attributes": [],
            "attributes": {"id": str(uuid.uuid5(uuid.NAMESPACE_URL, id)), "input": typed, "output": typed, "triggers_replace": None},
        }  # fmt: skip
        if needs:
            made["dependencies"] = [f"terraform_data.{n}" for n in sorted(_closure(needs, things))]
        return made

    resources = [
        {
            "mode": "managed", "type": "terraform_data", "name": address, "provider": 'provider["terraform.io/builtin/terraform"]',
            "instances": [instance(kind, id, needs)],
        }
        for address, kind, id, needs in sorted(things)
    ]  # fmt: skip
    output = {
        "kube_cluster": {
            "value": {"id": ids.cluster, "name": cluster.context},
            "type": ["object", {"id": "string", "name": "string"}],
        }
    }
    return {
        "version": 4, "terraform_version": "1.12.0", "serial": 7, "lineage": str(uuid.uuid5(uuid.NAMESPACE_URL, ids.cluster + "/lineage")),
        "outputs": output, "resources": resources, "check_results": None,
    }  # fmt: skip


def _closure(needs: str, things: list[tuple[str, str, str, str]]) -> set[str]:
    direct = {address: set(n.split()) for address, _, _, n in things}
    found: set[str] = set()
    pending = list(needs.split())
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += direct[name]
    return found
