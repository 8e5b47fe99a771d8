"""A cluster's Kubernetes API, asked by its exact context and never by a current one."""

from engine.clouds.kubernetes.changes import EvictResult
from engine.clouds.kubernetes.client import Kubernetes
from engine.clouds.kubernetes.drain import Blocker, DrainPreview
from engine.clouds.kubernetes.kubeconfig import Kubeconfig, read_kubeconfig

__all__ = ["Blocker", "DrainPreview", "EvictResult", "Kubeconfig", "Kubernetes", "read_kubeconfig"]
