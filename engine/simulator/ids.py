"""The ids of a world's things: every kind's prefix, a routing code, and the suffix that the world gives."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from engine.simulator.world import AgentWorld, ClusterWorld, ProjectWorld, StorageWorld


@dataclass(frozen=True)
class AgentIds:
    instance: str
    disk: str
    data_disk: str
    network: str
    subnet: str
    security_group: str
    allocation: str
    account: str
    key: str


@dataclass(frozen=True)
class ClusterIds:
    cluster: str
    network: str
    subnet: str
    account: str
    cpu_group: str
    gpu_group: str


@dataclass(frozen=True)
class StorageIds:
    bucket: str
    account: str
    key: str
    group: str
    permit: str
    membership: str
    aws_key: str
    aws_secret: str


def agent_ids(project: ProjectWorld, a: AgentWorld) -> AgentIds:
    """An agent's own ids; account and key are shared by all agents of a project."""
    s, p = a.suffix, short(project)
    return AgentIds(
        a.instance or f"computeinstance-e00{s}", f"computedisk-e00{s}", f"computedisk-e00{s}data", f"vpcnetwork-e00{s}", f"vpcsubnet-e00{s}",
        f"vpcsecuritygroup-e00{s}", f"vpcallocation-e00{s}", f"serviceaccount-e00{p}agnt", f"accesskey-e00{p}agnt",
    )  # fmt: skip


def agent_ip(project: ProjectWorld, a: AgentWorld) -> str:
    """An agent's public address, of a range for examples."""
    return f"198.51.100.{20 + project.agents.index(a)}"


def cluster_ids(c: ClusterWorld) -> ClusterIds:
    s = c.suffix
    return ClusterIds(
        f"mk8scluster-e00{s}", f"vpcnetwork-e00{s}", f"vpcsubnet-e00{s}", f"serviceaccount-e00{s}node", f"mk8snodegroup-e00{s}cpu", f"mk8snodegroup-e00{s}gpu",
    )  # fmt: skip


def storage_ids(s: StorageWorld) -> StorageIds:
    x = s.suffix
    return StorageIds(
        s.bucket_id or f"storagebucket-e00{x}", f"serviceaccount-e00{x}stor", f"accesskey-e00{x}stor", f"group-e00{x}", f"accesspermit-e00{x}",
        f"groupmembership-e00{x}", f"NAKEXAMPLE{x.upper()[:10]:0<10}", f"example-secret-of-{x}",
    )  # fmt: skip


def short(project: ProjectWorld) -> str:
    """The body of a project's id."""
    return project.id.removeprefix("project-e00")


def operation_id(command: str, project_id: str, kind: str, name: str) -> str:
    """The CLI's formula for an operation's id."""

    def slug(text: str) -> str:
        return "".join(c if c.isalnum() or c in "_.-" else "-" for c in text).strip("-._")[:48].lower()

    digest = hashlib.sha256("\0".join((command, project_id, kind, name)).encode()).hexdigest()[:16]
    return f"{slug(kind)[:8]}-{slug(name)[:12]}-{digest}"


def agent_operation(project: ProjectWorld, a: AgentWorld) -> str:
    return operation_id("npa agent deploy", project.id, "agent", a.name)


def cluster_operation(project: ProjectWorld, c: ClusterWorld) -> str:
    return operation_id("npa provision-if-absent", project.id, "cluster", c.context)
