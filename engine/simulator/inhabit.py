"""Puts a world's things into the simulated cloud, its clusters, its job queue and its object store."""

from __future__ import annotations

import json
import uuid
from typing import Any

from engine.simulator.cloud import Cloud
from engine.simulator.ids import agent_ids, agent_ip, agent_operation, cluster_ids, short, storage_ids
from engine.simulator.kubernetes import KubernetesSpec, PodSpec
from engine.simulator.object_store import BucketSpec
from engine.simulator.world import AgentWorld, ClusterWorld, ProjectWorld, StorageWorld, World

USER_HASH = "abcd1234"
CONTROLLER = f"sky-jobs-controller-{USER_HASH}"
WORKFLOW = "physical-ai-data-factory"
"""The workflow that all runs are of."""


def inhabit(cloud: Cloud, world: World) -> None:
    """Everything of every project."""
    for tenant in dict.fromkeys(p.tenant_id for p in world.projects):
        cloud.add("tenant", tenant, "", "example-tenant", status={"tenantState": "ACTIVE"})
    for p in world.projects:
        cloud.add(
            "project",
            p.id,
            p.tenant_id,
            p.alias,
            spec={"region": p.region},
            status={"projectState": "ACTIVE"},
        )
        if p.agents:
            _agent_account(cloud, p)
        for a in p.agents:
            _agent(cloud, p, a)
        for c in p.clusters:
            _cluster(cloud, p, c)
        if p.storage:
            _storage(cloud, p, p.storage)
        if p.default_network:
            _default_network(cloud, p)
        if p.registry:
            _registry(cloud, p)
        for e in p.extras:
            cloud.add(e.kind, e.id, e.parent or p.id, e.name, labels=e.labels, **e.attrs)


def _network(
    cloud: Cloud, project: str, network: str, subnet: str, name: str, labels: dict[str, str] | None = None
) -> None:
    cloud.add(
        "network", network, project, f"{name}-network", labels=labels, spec={}, status={"state": "READY"}
    )
    cloud.add(
        "subnet",
        subnet,
        project,
        f"{name}-subnet",
        labels=labels,
        spec={"networkId": network},
        status={"state": "READY"},
    )
    group = network.replace("vpcnetwork", "vpcsecuritygroup") + "auto"
    cloud.add(
        "securitygroup",
        group,
        project,
        "default-security-group-" + network[-6:],
        spec={"networkId": network},
        status={"state": "READY", "default": True},
    )


def _agent_account(cloud: Cloud, p: ProjectWorld) -> None:
    ids = agent_ids(p, p.agents[0])
    cloud.add("serviceaccount", ids.account, p.id, "npa-agent", spec={}, status={"active": True})
    _key(cloud, p, ids.key, ids.account, "npa-agent-access-key", "NAKEXAMPLEAGENT00001")


def _key(cloud: Cloud, p: ProjectWorld, key: str, account: str, name: str, aws: str) -> None:
    spec = {"account": {"serviceAccount": {"id": account}}}
    cloud.add("accesskey", key, p.id, name, spec=spec, status={"state": "ACTIVE", "awsAccessKeyId": aws})


def _agent(cloud: Cloud, p: ProjectWorld, a: AgentWorld) -> None:
    ids, labels = agent_ids(p, a), {"npa-operation-id": agent_operation(p, a)}
    name = f"agent-{p.alias}-{a.name}"
    _network(cloud, p.id, ids.network, ids.subnet, name, labels)
    cloud.add(
        "securitygroup",
        ids.security_group,
        p.id,
        f"{name}-sg",
        labels=labels,
        spec={"networkId": ids.network},
        status={"state": "READY"},
    )
    for port in (22, 443):
        cloud.add(
            "securityrule", f"{ids.security_group.replace('securitygroup', 'securityrule')}p{port}", ids.security_group, f"allow-npa-agent-{port}",
            spec={"access": "ALLOW", "protocol": "TCP", "ingress": {"sourceCidrs": ["0.0.0.0/0"], "destinationPorts": [port]}},
            status={"state": "READY", "direction": "INGRESS"},
        )  # fmt: skip
    used = {"assignment": {"networkInterface": {"instanceId": ids.instance, "name": "eth0"}}}
    if a.static_ip or not a.vm_gone:
        cloud.add(
            "allocation", ids.allocation, p.id, f"{name}-ip", labels=labels if a.static_ip else {}, spec={"ipv4Public": {"subnetId": ids.subnet}},
            status={
                "static": a.static_ip, "details": {"allocatedCidr": f"{agent_ip(p, a)}/32", "subnetId": ids.subnet},
                **({"state": "ALLOCATED"} if a.vm_gone else {"state": "ASSIGNED", **used}),
            },
        )  # fmt: skip
    if a.vm_gone:
        return
    cloud.add(
        "disk", ids.disk, p.id, f"{name}-boot", labels=labels, spec={"sizeGibibytes": "64", "type": "NETWORK_SSD"},
        status={"state": "READY", "readWriteAttachment": ids.instance, "sizeBytes": str(64 << 30)},
    )  # fmt: skip
    spec: dict[str, Any] = {
        "serviceAccountId": ids.account, "resources": {"platform": a.platform, "preset": a.preset}, "bootDisk": {"existingDisk": {"id": ids.disk}},
        "networkInterfaces": [{"name": "eth0", "subnetId": ids.subnet, "securityGroups": [{"id": ids.security_group}]}],
    }  # fmt: skip
    if a.data_disk:
        cloud.add(
            "disk", ids.data_disk, p.id, f"{name}-data", spec={"sizeGibibytes": "256", "type": "NETWORK_SSD"},
            status={"state": "READY", "readWriteAttachment": ids.instance, "sizeBytes": str(256 << 30)},
        )  # fmt: skip
        spec["secondaryDisks"] = [{"existingDisk": {"id": ids.data_disk}}]
    status = {
        "state": "RUNNING",
        "networkInterfaces": [
            {
                "name": "eth0",
                "publicIpAddress": {"address": f"{agent_ip(p, a)}/32", "allocationId": ids.allocation},
            }
        ],
    }
    cloud.add("instance", ids.instance, p.id, name, labels=labels, spec=spec, status=status)


def _cluster(cloud: Cloud, p: ProjectWorld, c: ClusterWorld) -> None:
    ids = cluster_ids(c)
    _network(cloud, p.id, ids.network, ids.subnet, c.context)
    cloud.add(
        "serviceaccount",
        ids.account,
        p.id,
        f"{c.context}-k8s-node-group-sa",
        spec={},
        status={"active": True},
    )
    cloud.add(
        "cluster", ids.cluster, p.id, c.context, spec={"controlPlane": {"version": "1.33", "subnetId": ids.subnet}},
        status={"state": "RUNNING", "controlPlane": {"endpoints": {"publicEndpoint": ""}}},
    )  # fmt: skip
    for group, count, platform, preset in (
        (ids.cpu_group, c.cpu_nodes, "cpu-e2", "4vcpu-16gb"),
        (ids.gpu_group, c.gpu_nodes, c.gpu_platform, c.gpu_preset),
    ):
        if not count:
            continue
        word = "gpu" if group == ids.gpu_group else "cpu"
        template = {"resources": {"platform": platform, "preset": preset}, "serviceAccountId": ids.account}
        cloud.add(
            "nodegroup", group, ids.cluster, f"{c.context}-{word}", spec={"fixedNodeCount": str(count), "template": template},
            status={"state": "RUNNING", "nodeCount": str(count), "readyNodeCount": str(count)},
        )  # fmt: skip
        for n in range(count):
            _node(
                cloud,
                p,
                ids.cluster,
                ids.subnet,
                group,
                f"{c.suffix}{word}{n}",
                f"{c.context}-{word}-{n}",
                platform,
                preset,
            )


def _node(
    cloud: Cloud,
    p: ProjectWorld,
    cluster: str,
    subnet: str,
    group: str,
    suffix: str,
    name: str,
    platform: str,
    preset: str,
) -> None:
    labels = {"mk8s-cluster-id": cluster, "mk8s-node-group-id": group}
    instance, disk = f"computeinstance-e00{suffix}", f"computedisk-e00{suffix}"
    cloud.add(
        "disk", disk, p.id, f"{name}-boot", labels=labels, spec={"sizeGibibytes": "96", "type": "NETWORK_SSD"},
        status={"state": "READY", "readWriteAttachment": instance, "managedBy": instance, "sizeBytes": str(96 << 30)},
    )  # fmt: skip
    spec = {
        "resources": {"platform": platform, "preset": preset}, "bootDisk": {"existingDisk": {"id": disk}},
        "networkInterfaces": [{"name": "eth0", "subnetId": subnet}],
    }  # fmt: skip
    cloud.add("instance", instance, p.id, name, labels=labels, spec=spec, status={"state": "RUNNING"})


def _storage(cloud: Cloud, p: ProjectWorld, s: StorageWorld) -> None:
    ids, spec = storage_ids(s), contents(p, s)
    cloud.add(
        "bucket", ids.bucket, p.id, s.bucket, spec={},
        status={
            "state": "ACTIVE", "region": p.region,
            "counters": [{"storageClass": "STANDARD", "counters": {"simpleObjectsQuantity": str(spec.objects), "simpleObjectsSize": str(spec.objects * spec.bytes_each)}}],
        },
    )  # fmt: skip
    cloud.add("serviceaccount", ids.account, p.id, "lerobot-training", spec={}, status={"active": True})
    _key(cloud, p, ids.key, ids.account, "lerobot-access-key", ids.aws_key)
    cloud.add(
        "group",
        ids.group,
        p.id,
        f"npa-storage-object-editors-{p.id}",
        spec={},
        status={"state": "ACTIVE", "membersCount": 1, "serviceAccountsCount": 1},
    )
    cloud.add("groupmembership", ids.membership, ids.group, "", spec={"memberId": ids.account})
    cloud.add(
        "accesspermit", ids.permit, ids.group, "", spec={"resourceId": p.id, "role": "storage.object-editor"}
    )


def _default_network(cloud: Cloud, p: ProjectWorld) -> None:
    n = short(p)
    network = f"vpcnetwork-e00{n}dflt"
    cloud.add("network", network, p.id, "default-network", spec={}, status={"state": "READY"})
    cloud.add(
        "subnet",
        f"vpcsubnet-e00{n}dflt",
        p.id,
        f"default-subnet-{n[:6]}",
        spec={"networkId": network},
        status={"state": "READY"},
    )
    cloud.add(
        "securitygroup", f"vpcsecuritygroup-e00{n}dflt", p.id, f"default-security-group-{n[:6]}", spec={"networkId": network},
        status={"state": "READY", "default": True},
    )  # fmt: skip
    cloud.add(
        "routetable",
        f"vpcroutetable-e00{n}dflt",
        p.id,
        "default-route-table",
        spec={"networkId": network},
        status={"state": "READY", "default": True},
    )


def _registry(cloud: Cloud, p: ProjectWorld) -> None:
    registry = f"registry-e00{short(p)}"
    cloud.add(
        "registry", registry, p.id, "sandbox-images", spec={}, status={"state": "ACTIVE", "imagesCount": 2}
    )
    for n, name in enumerate(("trainer:latest", "trainer:cache")):
        digest = "sha256:" + f"{n}" * 64
        cloud.add(
            "artifact",
            f"artifact-e00{short(p)}{n}",
            registry,
            name,
            type="MANIFEST",
            digest=digest,
            size="1000",
            status="ACTIVE",
            tags=[name],
        )


def contents(p: ProjectWorld, s: StorageWorld) -> BucketSpec:
    """What is in the bucket: what the world says, and what agents and runs keep there."""
    spec = s.contents or BucketSpec(name=s.bucket, objects=40)
    files = {f"npa/terraform-state/{p.alias}/{a.name}/terraform.tfstate": agent_state(p, a) for a in p.agents}
    for r in p.runs:
        if r.job and r.manifest:
            files[f"{WORKFLOW}/{r.run_id}/npa-workflow/manifest.json"] = json.dumps(
                {
                    "run_id": r.run_id,
                    "workflow": WORKFLOW,
                    "state": r.job.status,
                    "sky_job_id": str(r.job.job_id),
                }
            )
    return spec.model_copy(update={"name": s.bucket, "files": {**files, **spec.files}})


def agent_state(p: ProjectWorld, a: AgentWorld) -> str:
    """The Terraform state of an agent; one whose ids are not recorded has none in it."""
    if not a.ids_recorded:
        return json.dumps({"version": 4, "serial": 3, "resources": []}, separators=(",", ":"))
    ids, name = agent_ids(p, a), f"agent-{p.alias}-{a.name}"
    rows = [
        ("nebius_vpc_v1_network", ids.network, f"{name}-network"), ("nebius_vpc_v1_subnet", ids.subnet, f"{name}-subnet"),
        ("nebius_vpc_v1_security_group", ids.security_group, f"{name}-sg"), ("nebius_vpc_v1_allocation", ids.allocation, f"{name}-ip"),
        ("nebius_compute_v1_disk", ids.disk, f"{name}-boot"), ("nebius_compute_v1_instance", ids.instance, name),
    ]  # fmt: skip
    resources = [
        {
            "mode": "managed", "type": type, "name": "workbench", "provider": 'provider["registry.example/nebius/nebius"]',
            "instances": [{"schema_version": 0, "attributes": {"id": id, "name": called, "parent_id": p.id}}],
        }
        for type, id, called in rows
    ]  # fmt: skip
    lineage = str(uuid.uuid5(uuid.NAMESPACE_URL, ids.instance))
    return json.dumps({"version": 4, "serial": 3, "lineage": lineage, "outputs": {}, "resources": resources})


def kubernetes_spec(c: ClusterWorld) -> KubernetesSpec:
    """The objects of a cluster: its nodes, the system's pods, and the controller where it has one."""
    nodes = [f"{c.context}-cpu-{n}" for n in range(c.cpu_nodes)] + [
        f"{c.context}-gpu-{n}" for n in range(c.gpu_nodes)
    ]
    pods = list(c.kubernetes.pods)
    if c.controller:
        cloud_name = f"{CONTROLLER}-{USER_HASH}"
        labels = {
            "parent": "skypilot", "skypilot-cluster": CONTROLLER, "skypilot-cluster-name": cloud_name, "skypilot-user": "operator",
            "ray-cluster-name": cloud_name, "ray-node-type": "head", "skypilot-head-node": "1",
        }  # fmt: skip
        pods.append(PodSpec(name=f"{cloud_name}-head", namespace="default", labels=labels))
    return c.kubernetes.model_copy(update={"nodes": nodes, "pods": pods})
