"""The kinds of object that the API serves: their groups, their names, and what discovery says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Doc = dict[str, Any]
"""An object of the API as JSON."""


@dataclass(frozen=True)
class Kind:
    """`plural` is its name in paths; `group` is empty for the core."""

    plural: str
    name: str
    group: str = ""
    namespaced: bool = True
    short: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def qualified(self) -> str:
        """As error messages have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


NODES = Kind("nodes", "Node", namespaced=False, short="no")
PODS = Kind("pods", "Pod", short="po")
SERVICES = Kind("services", "Service", short="svc")
VOLUMES = Kind("persistentvolumes", "PersistentVolume", namespaced=False, short="pv")
CLAIMS = Kind("persistentvolumeclaims", "PersistentVolumeClaim", short="pvc")
NAMESPACES = Kind("namespaces", "Namespace", namespaced=False, short="ns")
DEPLOYMENTS = Kind("deployments", "Deployment", "apps", short="deploy")
REPLICA_SETS = Kind("replicasets", "ReplicaSet", "apps", short="rs")
STATEFUL_SETS = Kind("statefulsets", "StatefulSet", "apps", short="sts")
DAEMON_SETS = Kind("daemonsets", "DaemonSet", "apps", short="ds")
BUDGETS = Kind("poddisruptionbudgets", "PodDisruptionBudget", "policy", short="pdb")
KINDS = (
    NODES, PODS, SERVICES, VOLUMES, CLAIMS, NAMESPACES, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, BUDGETS,
)  # fmt: skip
OWNERS = {k.name: k for k in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS)}
"""Kinds that keep pods, by their names."""
REVIEWS = "authorization.k8s.io"
_VERBS = ["create", "delete", "get", "list", "patch"]


def find(group: str, plural: str) -> Kind | None:
    return next((k for k in KINDS if (k.group, k.plural) == (group, plural)), None)


def groups() -> list[Doc]:
    """All groups but the core, as in an APIGroupList."""
    return [group(name) for name in ("apps", "policy", REVIEWS)]


def group(name: str) -> Doc:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def resources(name: str) -> Doc:
    """What a group has, as an APIResourceList."""
    rows: list[Doc] = [
        {
            "name": k.plural, "singularName": k.name.lower(), "namespaced": k.namespaced, "kind": k.name, "verbs": _VERBS,
            "shortNames": [k.short],
        }
        for k in KINDS
        if k.group == name
    ]  # fmt: skip
    if not name:
        rows.append(
            {
                "name": "pods/eviction", "singularName": "", "namespaced": True, "kind": "Eviction", "group": "policy", "version": "v1",
                "verbs": ["create"],
            }
        )  # fmt: skip
    if name == REVIEWS:
        rows.append(
            {
                "name": "selfsubjectaccessreviews", "singularName": "", "namespaced": False, "kind": "SelfSubjectAccessReview",
                "verbs": ["create"],
            }
        )  # fmt: skip
    version = f"{name}/v1" if name else "v1"
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": rows}
