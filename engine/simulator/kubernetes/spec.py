"""What is in a cluster at first, as a world file says it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a static pod's image in the API."""


class Part(BaseModel):
    """Base of everything in a cluster. A string stands for a thing with that name and nothing else said."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, given: object) -> object:
        return {"name": given} if isinstance(given, str) else given


class NodeSpec(Part):
    """A node."""

    name: str = Field(description="name of the node")
    labels: dict[str, str] = Field(default={}, description="labels beside its hostname, system and group")
    pool: str = Field(default="", description="id of the node group that it belongs to")
    gpus: int = Field(default=0, ge=0, description="GPUs that it offers")
    ready: bool = Field(default=True, description="its kubelet reports")
    unschedulable: bool = Field(default=False, description="cordoned")
    provider_id: str = Field(default="", description="`nebius://` and the id of its VM")


class PodSpec(Part):
    """A pod."""

    name: str = Field(description="name of the pod")
    namespace: str = Field(default="default", description="its namespace, which is there then")
    node: str = Field(default="", description="where it runs; the first node when empty")
    labels: dict[str, str] = Field(default={}, description="its labels")
    annotations: dict[str, str] = Field(default={}, description="its annotations")
    owner: str = Field(
        default="", description="KIND/NAME of its controller, which is there then; pods share it by name"
    )
    recreate: bool = Field(
        default=True, description="its controller replaces it when it goes; without owner nothing does"
    )
    phase: Literal["Pending", "Running", "Succeeded", "Failed"] = Field(
        default="Running", description="its phase; a pending one has a node only when it says so"
    )
    ready: bool = Field(default=True, description="passes its readiness probe, while it is running")
    finalizers: list[str] = Field(
        default=[], description="while one is there, the deleted pod stays Terminating"
    )
    local_data: bool = Field(default=False, description="has an emptyDir volume")
    mirror: bool = Field(default=False, description="static pod of its node")
    claim: str = Field(default="", description="persistent volume claim that it mounts")


class BudgetSpec(Part):
    """A PodDisruptionBudget."""

    name: str = Field(description="name of the budget")
    namespace: str = Field(default="default", description="its namespace")
    selector: dict[str, str] | None = Field(
        default=None, description="labels of its pods; {} is every pod of the namespace, unset none"
    )
    min_available: int | str | None = Field(
        default=None, description="pods, or percent as `50%`; 1 when max_unavailable is unset too"
    )
    max_unavailable: int | str | None = Field(default=None, description="pods, or percent, instead")
    policy: Literal["IfHealthyBudget", "AlwaysAllow"] | None = Field(
        default=None, description="when pods that are not ready may be evicted"
    )
    labels: dict[str, str] = Field(default={}, description="its labels")
    annotations: dict[str, str] = Field(default={}, description="its annotations")

    @model_validator(mode="after")
    def _one_of_both(self) -> BudgetSpec:
        if self.min_available is not None and self.max_unavailable is not None:
            raise ValueError("a budget has min_available or max_unavailable, not both")
        return self


class ServiceSpec(Part):
    """A service of type LoadBalancer."""

    name: str = Field(description="name of the service")
    namespace: str = Field(default="default", description="its namespace")
    address: str = Field(default="", description="address of its load balancer; still pending when empty")
    labels: dict[str, str] = Field(default={}, description="its labels")


class VolumeSpec(Part):
    """A PersistentVolume of the provider's driver."""

    name: str = Field(description="name of the volume")
    handle: str = Field(default="", description="id of its disk at the provider; its name when empty")
    capacity: str = Field(default="10Gi", description="its size")
    claim: str = Field(default="", description="NAMESPACE/NAME of the claim that it is bound to")
    reclaim: Literal["Delete", "Retain"] = Field(
        default="Delete", description="what its driver does with the disk when the claim goes"
    )


class KubernetesSpec(BaseModel):
    """A cluster."""

    model_config = ConfigDict(extra="forbid")

    nodes: list[NodeSpec] = Field(default=[], description="its nodes")
    pods: list[PodSpec] = Field(default=[], description="pods beside the system's")
    budgets: list[BudgetSpec] = Field(default=[], description="budgets beside the system's")
    load_balancers: list[ServiceSpec] = Field(default=[], description="services of type LoadBalancer")
    volumes: list[VolumeSpec] = Field(default=[], description="persistent volumes")
    system: bool = Field(
        default=True, description="the four workloads of kube-system, each with a budget that lets no pod go"
    )
    grace_seconds: float = Field(
        default=2.0, ge=0, description="nominal seconds that a deleted pod stays Terminating"
    )
    budget_seconds: float = Field(
        default=0.0, ge=0, description="nominal seconds until a changed budget has been observed"
    )
    forbidden: list[str] = Field(
        default=[],
        description="globs on `VERB RESOURCE` of what callers may not, such as `list pods`, `create pods/eviction`, `* nodes`",
    )


SYSTEM = ("cilium-operator", "coredns", "coredns-autoscaler", "metrics-server")


def system_parts() -> tuple[list[PodSpec], list[BudgetSpec]]:
    """The workloads that every cluster of the provider runs: one replica each, and a budget that wants that one."""
    pods = [
        PodSpec(
            name=f"{name}-0", namespace="kube-system", labels={"k8s-app": name}, owner=f"ReplicaSet/{name}-1"
        )
        for name in SYSTEM
    ]
    budgets = [
        BudgetSpec(name=name, namespace="kube-system", selector={"k8s-app": name}, min_available=1)
        for name in SYSTEM
    ]
    return pods, budgets
