"""Which kind of thing an id names."""

from __future__ import annotations

KIND_BY_PREFIX = {
    "project": "project",
    "tenant": "tenant",
    "serviceaccount": "service_account",
    "accesskey": "access_key",
    "accesspermit": "access_permit",
    "group": "group",
    "groupmembership": "group_membership",
    "storagebucket": "bucket",
    "bucket": "bucket",
    "mk8scluster": "cluster",
    "mk8snodegroup": "node_group",
    "computeinstance": "instance",
    "computedisk": "disk",
    "computefilesystem": "filesystem",
    "vpcnetwork": "network",
    "vpcsubnet": "subnet",
    "vpcsecuritygroup": "security_group",
    "vpcsecurityrule": "security_rule",
    "vpcallocation": "allocation",
    "vpcroutetable": "route_table",
    "registry": "registry",
    "artifact": "artifact",
}


def kind_of(id: str) -> str:
    """The kind that an id's prefix names, or an empty string."""
    return KIND_BY_PREFIX.get(id.partition("-")[0], "")
