"""How each kind behaves: its service, how its messages say that it is going, what stands in its way, what goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Doc = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """`state`: path of its state in the message and the word for going; None where it has none. `flat`: no metadata block."""

    name: str
    package: str
    service: str
    state: tuple[str, str, str] | None = ("status", "state", "DELETING")
    flat: bool = False
    list_field: str = "items"


KINDS: dict[str, Kind] = {
    k.name: k
    for k in (
        Kind("tenant", "iam.v2", "Tenant", None),
        Kind("project", "iam.v2", "Project", ("status", "projectState", "PURGING")),
        Kind("serviceaccount", "iam.v1", "ServiceAccount", None),
        Kind("accesskey", "iam.v2", "AccessKey"),
        Kind("accesspermit", "iam.v1", "AccessPermit", None),
        Kind("group", "iam.v1", "Group", None),
        Kind("groupmembership", "iam.v1", "GroupMembership", None, list_field="memberships"),
        Kind("bucket", "storage.v1", "Bucket", ("status", "state", "SCHEDULED_FOR_DELETION")),
        Kind("cluster", "mk8s.v1", "Cluster"),
        Kind("nodegroup", "mk8s.v1", "NodeGroup"),
        Kind("instance", "compute.v1", "Instance"),
        Kind("disk", "compute.v1", "Disk"),
        Kind("filesystem", "compute.v1", "Filesystem"),
        Kind("image", "compute.v1", "Image"),
        Kind("disksnapshot", "compute.v1", "DiskSnapshot"),
        Kind("gpucluster", "compute.v1", "GpuCluster", None),
        Kind("network", "vpc.v1", "Network"),
        Kind("subnet", "vpc.v1", "Subnet"),
        Kind("securitygroup", "vpc.v1", "SecurityGroup", None),
        Kind("securityrule", "vpc.v1", "SecurityRule"),
        Kind("allocation", "vpc.v1", "Allocation"),
        Kind("routetable", "vpc.v1", "RouteTable"),
        Kind("route", "vpc.v1", "Route", None),
        Kind("registry", "registry.v1", "Registry"),
        Kind("artifact", "registry.v1", "Artifact", None, flat=True),
    )
}


def at(doc: Doc, *path: str) -> Any:
    """A value inside a document, or None."""
    here: Any = doc
    for name in path:
        here = here.get(name) if isinstance(here, dict) else None
    return here


def attached(doc: Doc) -> list[str]:
    """Ids of the disks that an instance uses, boot disk first."""
    rows = [at(doc, "spec", "bootDisk"), *(at(doc, "spec", "secondaryDisks") or [])]
    return [id for row in rows if (id := at(row or {}, "existingDisk", "id"))]


def subnets(doc: Doc) -> list[str]:
    return [i["subnetId"] for i in at(doc, "spec", "networkInterfaces") or [] if i.get("subnetId")]


def blocks(kind: str, id: str, other_kind: str, other: Doc, parent: str) -> bool:
    """Whether another thing stands in the way of a deletion."""
    match kind, other_kind:
        case "disk", "instance":
            return id in attached(other)
        case "allocation", "instance":
            return any(
                at(i, "publicIpAddress", "allocationId") == id
                for i in at(other, "status", "networkInterfaces") or []
            )
        case "subnet", "instance":
            return id in subnets(other)
        case "subnet", "allocation":
            return bool(at(other, "status", "details", "subnetId") == id)
        case "subnet", "cluster":
            return bool(at(other, "spec", "controlPlane", "subnetId") == id)
        case "network", "subnet":
            return bool(at(other, "spec", "networkId") == id)
        case "network", "securitygroup":
            return bool(at(other, "spec", "networkId") == id and not at(other, "status", "default"))
        case "securitygroup", "instance":
            return any(
                g.get("id") == id
                for i in at(other, "spec", "networkInterfaces") or []
                for g in i.get("securityGroups", [])
            )
        case "registry", "artifact":
            return parent == id
        case "serviceaccount", "accesskey":
            return bool(at(other, "spec", "account", "serviceAccount", "id") == id)
        case "group", "groupmembership" | "accesspermit":
            return parent == id
        case "project", _:
            return parent == id and other_kind not in ("tenant", "project")
        case _:
            return False


def goes_with(kind: str, id: str, other_kind: str, other: Doc, parent: str) -> bool:
    """Whether another thing is taken along by a deletion."""
    labels = at(other, "metadata", "labels") or {}
    match kind, other_kind:
        case "cluster", "nodegroup":
            return parent == id
        case "cluster", "instance":
            return bool(labels.get("mk8s-cluster-id") == id)
        case "nodegroup", "instance":
            return bool(labels.get("mk8s-node-group-id") == id)
        case "instance", "disk":
            return bool(at(other, "status", "managedBy") == id)
        case "network", "securitygroup" | "routetable":
            return bool(at(other, "spec", "networkId") == id and bool(at(other, "status", "default")))
        case "securitygroup", "securityrule":
            return parent == id
        case "routetable", "route":
            return parent == id
        case _:
            return False
