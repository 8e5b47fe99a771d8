"""How each kind behaves: its service, how its messages say that it is going, what stands in its way, what goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Doc = dict[str, Any]
"""A message in protobuf JSON: names in camelCase, 64-bit integers as text."""


@dataclass(frozen=True)
class Kind:
    """One kind.

    package, service  `nebius.<package>.<service>Service`, and the message `<service>`
    operation         what ids of its operations begin with
    going             the word for going; empty where its message has none
    state             path of its state
    flat              no metadata block: its fields stand in the message itself
    list_field        field of a listing's answer that holds the items
    """

    name: str
    package: str
    service: str
    operation: str
    going: str = "DELETING"
    state: tuple[str, ...] = ("status", "state")
    flat: bool = False
    list_field: str = "items"


_ROWS = (
    Kind("tenant", "iam.v2", "Tenant", "iamoperation", "", ("status", "tenantState")),
    Kind("project", "iam.v2", "Project", "iamoperation", "PURGING", ("status", "projectState")),
    Kind("serviceaccount", "iam.v1", "ServiceAccount", "iamoperation", ""),
    Kind("accesskey", "iam.v2", "AccessKey", "iamoperation"),
    Kind("accesspermit", "iam.v1", "AccessPermit", "iamoperation", ""),
    Kind("group", "iam.v1", "Group", "iamoperation", ""),
    Kind("groupmembership", "iam.v1", "GroupMembership", "iamoperation", "", list_field="memberships"),
    Kind("bucket", "storage.v1", "Bucket", "storageoperation", "SCHEDULED_FOR_DELETION"),
    Kind("cluster", "mk8s.v1", "Cluster", "mk8soperation"),
    Kind("nodegroup", "mk8s.v1", "NodeGroup", "mk8soperation"),
    Kind("instance", "compute.v1", "Instance", "computeoperation"),
    Kind("disk", "compute.v1", "Disk", "computeoperation"),
    Kind("filesystem", "compute.v1", "Filesystem", "computeoperation"),
    Kind("image", "compute.v1", "Image", "computeoperation"),
    Kind("disksnapshot", "compute.v1", "DiskSnapshot", "computeoperation"),
    Kind("gpucluster", "compute.v1", "GpuCluster", "computeoperation", ""),
    Kind("network", "vpc.v1", "Network", "vpcoperation"),
    Kind("subnet", "vpc.v1", "Subnet", "vpcoperation"),
    Kind("securitygroup", "vpc.v1", "SecurityGroup", "vpcoperation", ""),
    Kind("securityrule", "vpc.v1", "SecurityRule", "vpcoperation"),
    Kind("allocation", "vpc.v1", "Allocation", "vpcoperation"),
    Kind("routetable", "vpc.v1", "RouteTable", "vpcoperation"),
    Kind("route", "vpc.v1", "Route", "vpcoperation", ""),
    Kind("registry", "registry.v1", "Registry", "registryoperation"),
    Kind("artifact", "registry.v1", "Artifact", "registryoperation", state=("status",), flat=True),
)
KINDS: Mapping[str, Kind] = {k.name: k for k in _ROWS}
BY_SERVICE: Mapping[str, Kind] = {f"nebius.{k.package}.{k.service}Service": k for k in _ROWS}


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


def filesystems(doc: Doc) -> list[str]:
    """Ids of the filesystems that an instance mounts."""
    return [id for row in at(doc, "spec", "filesystems") or [] if (id := at(row, "existingFilesystem", "id"))]


def subnets(doc: Doc) -> list[str]:
    return [i["subnetId"] for i in at(doc, "spec", "networkInterfaces") or [] if i.get("subnetId")]


def allocations(doc: Doc) -> list[str]:
    """Ids of the addresses that an instance holds."""
    rows = at(doc, "status", "networkInterfaces") or []
    ends = [row.get(name) or {} for row in rows for name in ("publicIpAddress", "ipAddress")]
    return [end["allocationId"] for end in ends if end.get("allocationId")]


def security_groups(doc: Doc) -> list[str]:
    rows = at(doc, "spec", "networkInterfaces") or []
    return [group["id"] for row in rows for group in row.get("securityGroups", []) if group.get("id")]


def blocks(kind: str, id: str, other_kind: str, other: Doc, parent: str) -> bool:
    """Whether another thing (its kind, its message, its parent's id) stands in the way of a deletion."""
    match kind, other_kind:
        case "disk", "instance":
            return id in attached(other)
        case "filesystem", "instance":
            return id in filesystems(other)
        case "allocation", "instance":
            return id in allocations(other)
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
            return id in security_groups(other)
        case "registry", "artifact":
            return parent == id
        case "serviceaccount", "accesskey":
            return bool(at(other, "spec", "account", "serviceAccount", "id") == id)
        case "group", "groupmembership" | "accesspermit":
            return parent == id
        case "project", _:
            return parent == id
        case _:
            return False


def goes_with(kind: str, id: str, other_kind: str, other: Doc, parent: str) -> bool:
    """Whether another thing (its kind, its message, its parent's id) is taken along by a deletion."""
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
        case "instance", "allocation":
            user = at(other, "status", "assignment", "networkInterface", "instanceId")
            return bool(user == id and not at(other, "status", "static"))
        case "network", "securitygroup" | "routetable":
            return bool(at(other, "spec", "networkId") == id and at(other, "status", "default"))
        case "securitygroup", "securityrule":
            return parent == id
        case "routetable", "route":
            return parent == id
        case _:
            return False
