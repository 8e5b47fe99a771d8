"""A Kubernetes API: what the official client and kubectl need to read a cluster, to drain it, and to change budgets."""

from engine.simulator.kubernetes.cluster import KubernetesCluster
from engine.simulator.kubernetes.spec import (
    BudgetSpec,
    KubernetesSpec,
    NodeSpec,
    PodSpec,
    ServiceSpec,
    VolumeSpec,
)

__all__ = [
    "BudgetSpec",
    "KubernetesCluster",
    "KubernetesSpec",
    "NodeSpec",
    "PodSpec",
    "ServiceSpec",
    "VolumeSpec",
]
