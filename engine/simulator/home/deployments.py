"""The operations by which the CLI made what a project has: the project itself, its storage, its agents, its clusters."""

from __future__ import annotations

from pathlib import Path

from engine.simulator.home.folder import AT
from engine.simulator.home.operations import Operation, resource
from engine.simulator.ids import (
    agent_ids,
    agent_operation,
    cluster_ids,
    cluster_operation,
    operation_id,
    storage_ids,
)
from engine.simulator.inhabit import agent_state
from engine.simulator.kinds import Doc
from engine.simulator.world import AgentWorld, ClusterWorld, ProjectWorld, StorageWorld


def project_operation(p: ProjectWorld) -> Operation:
    labels = {"region": p.region, "tenant_id": p.tenant_id}
    return Operation(
        operation_id("npa fleet deploy", p.id, "project", p.alias), "npa fleet deploy", "project", p.alias, "fleet-project-create",
        [resource(p, "nebius_project", p.id, p.alias, "provider-create-response", labels)],
        again=("npa", "fleet", "status"), down=("npa", "destroy", "--all", "--delete-project"),
    )  # fmt: skip


def storage_operation(p: ProjectWorld, s: StorageWorld) -> Operation:
    ids, source = storage_ids(s), "storage-provider-create-callback"
    rows = [
        resource(p, "storage_service_account", ids.account, "lerobot-training", source),
        resource(p, "storage_bucket", ids.bucket, s.bucket, "storage-write-probe"),
        resource(p, "storage_iam_group", ids.group, f"npa-storage-object-editors-{p.id}", source),
        resource(p, "storage_iam_access_permit", ids.permit, ids.permit, source),
        resource(p, "storage_access_key", ids.key, "lerobot-access-key", source),
    ]
    if not s.owned:
        rows = [{**row, "ownership": "pre_existing"} for row in rows]
    return Operation(
        operation_id("npa provision-if-absent", p.id, "storage", s.bucket), "npa provision-if-absent", "storage", s.bucket, "storage-setup", rows,
        backend={"bucket": s.bucket, "region": p.region}, phases=("prepared", "mutating", "state-durable", "committed"),
        again=("npa", "provision-if-absent", "--project", p.alias, "--skip-k8s"),
    )  # fmt: skip


def agent_deployment(p: ProjectWorld, a: AgentWorld, s3: str) -> Operation:
    """An agent's deployment. `s3`: URL of the object store that holds its Terraform state."""
    ids, operation = agent_ids(p, a), agent_operation(p, a)
    labels, name = {"npa-operation-id": operation}, f"agent-{p.alias}-{a.name}"
    rows = [
        resource(p, "compute_instance", ids.instance, name, "terraform-output-and-operation-label", labels)
    ]
    parts = [
        ("boot_disk", ids.disk, "boot"), ("network", ids.network, "network"), ("subnet", ids.subnet, "subnet"),
        ("security_group", ids.security_group, "sg"),
    ]  # fmt: skip
    if a.static_ip:
        parts.append(("public_ip", ids.allocation, "ip"))
    source = "terraform-state-and-operation-instance-label"
    rows += [
        resource(p, kind, id if a.ids_recorded else "", f"{name}-{end}", source, labels)
        for kind, id, end in parts
    ]
    who = ("--project", p.alias, "--name", a.name)
    backend = {
        "bucket": p.storage.bucket if p.storage else "", "credential_source": "project_saved", "endpoint": s3, "region": p.region,
        "state_key": f"npa/terraform-state/{p.alias}/{a.name}/terraform.tfstate",
    }  # fmt: skip
    made = {
        "vm_identity_durable": {
            "instance_id": ids.instance,
            "setup_phase": "vm_identity_durable",
            "recorded_at": AT,
        }
    }
    return Operation(
        operation, "npa agent deploy", "agent", a.name, "agent-deploy-cli", rows, backend=backend,
        phases=("prepared", "mutating", "resource-created", "vm_identity_durable", "state-durable", "committed"),
        again=("npa", "agent", "deploy", *who), down=("npa", "agent", "destroy", *who, "--yes"), checkpoints=made,
        state=agent_state(p, a) if p.storage else "",
    )  # fmt: skip


def cluster_deployment(p: ProjectWorld, c: ClusterWorld, module: Path) -> Operation:
    """A cluster's deployment. `module`: folder of the Terraform module that made it."""
    ids = cluster_ids(c)
    rows: list[Doc] = [
        resource(p, "managed_kubernetes_cluster", ids.cluster, c.context, "terraform-output-and-state"),
        resource(p, "network", ids.network, f"{c.context}-network", "terraform-state"),
        resource(p, "subnet", ids.subnet, f"{c.context}-subnet", "terraform-state"),
        resource(p, "service_account", ids.account, f"{c.context}-k8s-node-group-sa", "terraform-state"),
    ]
    return Operation(
        cluster_operation(p, c), "npa provision-if-absent", "cluster", c.context, "provision-if-absent", rows,
        backend={"kind": "local-state", "terraform_dir": str(module)}, again=("npa", "provision-if-absent", "--project", p.alias),
        down=("npa", "cluster", "down", "--project", p.alias, "--context", c.context, "--force"),
    )  # fmt: skip
