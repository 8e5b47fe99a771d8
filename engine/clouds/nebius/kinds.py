"""What the provider offers, one row per kind: how to name, list, read, delete and price it, and what to keep of it.

A new kind of resource is one row here. The rows are data, so that importing them loads neither the SDK nor gRPC; the names
of requests and fields are checked against the SDK's own descriptors by a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from engine.clouds.nebius import attributes as a

PAGE_SIZE = 100
"""Items asked for per page: the SDK's decoder holds the interpreter for about 50 ms per 100 of them."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to list a kind.

    below    kind of the parent; empty for the one list that has none
    request  name of the request class, in the kind's package
    rpc      name of the client's method
    scope    field of the request that takes the parent's id; a function makes its value where that is no plain id
    items    field of the answer
    owned    whether the listing is by parent, so that every item must name this parent as its own
    service  the service that offers it, where it is not the kind's own
    """

    below: str
    request: str
    rpc: str = "list"
    scope: str = "parent_id"
    value: Callable[[str], object] | None = None
    items: str = "items"
    owned: bool = True
    service: str = ""


@dataclass(frozen=True, slots=True)
class KindRow:
    """One kind.

    kind       our word for it
    label      its plural, for people
    prefixes   what its ids begin with, before the first dash; empty where no page of the provider says
    package    below `nebius.api.nebius`
    service    `<service>ServiceClient`, `Get<service>Request`, `Delete<service>Request`
    ways       how it can be listed; the first one whose `below` is the parent's kind is taken
    state      path of its state, or a function; empty where it has none
    leaving    states in which its deletion is accepted
    due        path of the moment at which an accepted deletion is to happen
    attrs      what is kept of it, as plain text: `attributes` says how. A value that is unset is left out. Never a secret
    quote      field of the billing calculator's `ResourceSpec` that prices it; empty: it has no price of its own
    deletable  whether this program may delete it
    purge      name of the request that ends a scheduled deletion now
    flat       whether its fields stand in the message itself instead of in `metadata`; such a kind names no parent
    """

    kind: str
    label: str
    prefixes: tuple[str, ...]
    package: str
    service: str
    ways: tuple[Way, ...]
    state: a.Extract = "status.state"
    leaving: frozenset[str] = frozenset({"DELETING"})
    due: str = ""
    attrs: Mapping[str, a.Extract] = field(default_factory=dict)
    quote: str = ""
    deletable: bool = True
    purge: str = ""
    flat: bool = False

    def way(self, parent: str) -> Way | None:
        """How to list this kind below that parent, or None when the provider offers no such list."""
        if parent and not is_id(parent):
            return None
        below = kind_of(parent)
        return next(
            (way for way in self.ways if way.below == below and bool(parent) == bool(way.below)), None
        )

    def fits(self, id: str) -> bool:
        """Whether an id may be one of this kind. A name in the place of an id must not be asked for: its NotFound proves nothing."""
        if not is_id(id):
            return False
        if not self.prefixes:
            return kind_of(id) in ("", self.kind)
        prefix, _, rest = id.partition("-")
        return prefix in self.prefixes and bool(rest)


def _account(id: str) -> object:
    from nebius.api.nebius.iam.v1 import Account

    return Account(service_account=Account.ServiceAccount(id=id))


def _active(message: object) -> str:
    return "ACTIVE" if a.text(message, "status.active") else "INACTIVE"


_SIZE_TYPE_LOCK: dict[str, a.Extract] = {"type": "spec.type", "forbid_deletion": "spec.forbid_deletion"}

_ROWS: tuple[KindRow, ...] = (
    KindRow(
        "tenant", "Tenants", ("tenant",), "iam.v2", "Tenant",
        (Way("", "ListTenantsRequest", scope="", owned=False),),
        state="status.tenant_state", leaving=frozenset(), deletable=False,
    ),
    # region; tenant = the parent
    KindRow(
        "project", "Projects", ("project",), "iam.v2", "Project",
        (Way("tenant", "ListProjectsRequest"),),
        state="status.project_state", leaving=frozenset({"PURGING"}),
        attrs={"region": "spec.region", "tenant": "metadata.parent_id"},
    ),
    # active: "1"
    KindRow(
        "service_account", "Service accounts", ("serviceaccount",), "iam.v1", "ServiceAccount",
        (Way("project", "ListServiceAccountRequest"),),
        state=_active, leaving=frozenset(), attrs={"active": "status.active"},
    ),
    # account_id: the account it belongs to; a list answer can carry `status.secret`, which no path here reaches
    KindRow(
        "access_key", "Access keys", ("accesskey",), "iam.v2", "AccessKey",
        (
            Way("project", "ListAccessKeysRequest"),
            Way("service_account", "ListAccessKeysByAccountRequest", "list_by_account", "account", _account, owned=False),
        ),
        leaving=frozenset({"DELETING", "DELETED"}),
        attrs={
            "account_id": ("spec.account.service_account.id", "spec.account.user_account.id"),
            "state": "status.state", "aws_access_key_id": "status.aws_access_key_id", "expires_at": "spec.expires_at",
        },
    ),
    # resource_id and role: on what, and as what, the parent group may act
    KindRow(
        "access_permit", "Access permits", (), "iam.v1", "AccessPermit",
        (Way("group", "ListAccessPermitRequest"),),
        state=(), leaving=frozenset(), attrs={"resource_id": "spec.resource_id", "role": "spec.role"},
    ),
    # members, service_accounts: counts. Below a service account: the groups that it is a member of
    KindRow(
        "group", "Groups", ("group",), "iam.v1", "Group",
        (
            Way("tenant", "ListGroupsRequest"),
            Way("project", "ListGroupsRequest"),
            Way(
                "service_account", "ListMemberOfRequest", "list_member_of", "subject_id", owned=False, service="GroupMembership"
            ),
        ),
        leaving=frozenset(),
        attrs={"members": "status.members_count", "service_accounts": "status.service_accounts_count"},
    ),
    # member_id: the account that is a member of the parent group
    KindRow(
        "group_membership", "Group memberships", (), "iam.v1", "GroupMembership",
        (Way("group", "ListGroupMembershipsRequest", "list_members", items="memberships"),),
        state=(), leaving=frozenset(), attrs={"member_id": "spec.member_id"},
    ),
    # objects, versions (non-current), uploads: counts; bytes: all that is stored; each only where the provider counts
    KindRow(
        "bucket", "Buckets", ("storagebucket", "bucket"), "storage.v1", "Bucket",
        (Way("project", "ListBucketsRequest"),),
        leaving=frozenset({"SCHEDULED_FOR_DELETION"}), due="status.purge_at",
        attrs={
            "objects": a.bucket_objects, "bytes": a.bucket_bytes, "versions": a.bucket_versions,
            "versioning": "spec.versioning_policy", "purge_at": "status.purge_at", "region": "status.region",
            "suspended": "status.suspension_state",
        },
        purge="PurgeBucketRequest",
    ),
    # endpoint, private_endpoint: URLs of the control plane; ca_fingerprint: SHA-256 of the CA certificate's DER form
    KindRow(
        "cluster", "Kubernetes clusters", ("mk8scluster",), "mk8s.v1", "Cluster",
        (Way("project", "ListClustersRequest"),),
        attrs={
            "endpoint": "status.control_plane.endpoints.public_endpoint",
            "private_endpoint": "status.control_plane.endpoints.private_endpoint",
            "ca_fingerprint": a.ca_fingerprint, "version": "spec.control_plane.version",
            "subnet_id": "spec.control_plane.subnet_id",
        },
    ),
    # cluster = the parent; node_count, ready_nodes; gpu: "1" on a GPU platform
    KindRow(
        "node_group", "Node groups", ("mk8snodegroup",), "mk8s.v1", "NodeGroup",
        (Way("cluster", "ListNodeGroupsRequest"),),
        attrs={
            "cluster": "metadata.parent_id", "node_count": "status.node_count", "ready_nodes": "status.ready_node_count",
            "platform": "spec.template.resources.platform", "preset": "spec.template.resources.preset",
            "gpu": a.gpu_of("spec.template.resources.platform"), "service_account_id": "spec.template.service_account_id",
        },
    ),
    # disks: ids that stay when it goes; managed_disks: ids that go with it; subnets, security_groups, allocations, filesystems:
    # ids; public_ip, private_ip: CIDRs; gpu, preemptible, spot: "1". A cluster's node carries labels `mk8s-cluster-id`
    KindRow(
        "instance", "Instances", ("computeinstance",), "compute.v1", "Instance",
        (Way("project", "ListInstancesRequest"),),
        attrs={
            "platform": "spec.resources.platform", "preset": "spec.resources.preset", "gpu": a.gpu_of("spec.resources.platform"),
            "disks": a.foreign_disks, "managed_disks": a.managed_disks, "filesystems": "spec.filesystems.existing_filesystem.id",
            "subnets": "spec.network_interfaces.subnet_id",
            "security_groups": "spec.network_interfaces.security_groups.id",
            "allocations": (
                "status.network_interfaces.public_ip_address.allocation_id",
                "status.network_interfaces.ip_address.allocation_id",
            ),
            "public_ip": "status.network_interfaces.public_ip_address.address",
            "private_ip": "status.network_interfaces.ip_address.address",
            "service_account_id": "spec.service_account_id", "gpu_cluster": "spec.gpu_cluster.id",
            "preemptible": a.flag("spec.preemptible"),
            "spot": a.flag("spec.follows_spot_price", "spec.spot_pricing_policy"),
        },
        quote="compute_instance_spec",
    ),
    # attached_to: instances; managed_by: the instance that it goes with; locked_by: images and snapshots being made of it
    KindRow(
        "disk", "Disks", ("computedisk",), "compute.v1", "Disk",
        (Way("project", "ListDisksRequest"),),
        attrs={
            "size_gib": a.disk_gib, **_SIZE_TYPE_LOCK, "managed_by": "status.managed_by",
            "attached_to": ("status.read_write_attachment", "status.read_only_attachments"),
            "locked_by": ("status.lock_state.images", "status.lock_state.snapshots"),
        },
        quote="compute_disk_spec",
    ),
    # attached_to: instances
    KindRow(
        "filesystem", "Filesystems", ("computefilesystem",), "compute.v1", "Filesystem",
        (Way("project", "ListFilesystemsRequest"),),
        attrs={
            "size_gib": a.filesystem_gib, **_SIZE_TYPE_LOCK,
            "attached_to": ("status.read_write_attachments", "status.read_only_attachments"),
        },
        quote="compute_filesystem_spec",
    ),
    KindRow(
        "network", "Networks", ("vpcnetwork",), "vpc.v1", "Network",
        (Way("project", "ListNetworksRequest"),),
        attrs={"default_route_table_id": "status.default_route_table_id"},
    ),
    KindRow(
        "subnet", "Subnets", ("vpcsubnet",), "vpc.v1", "Subnet",
        (
            Way("project", "ListSubnetsRequest"),
            Way("network", "ListSubnetsByNetworkRequest", "list_by_network", "network_id", owned=False),
        ),
        attrs={"network_id": "spec.network_id", "route_table_id": "spec.route_table_id"},
    ),
    # default: "1" for the group that comes and goes with its network
    KindRow(
        "security_group", "Security groups", ("vpcsecuritygroup",), "vpc.v1", "SecurityGroup",
        (
            Way("project", "ListSecurityGroupsRequest"),
            Way("network", "ListSecurityGroupsByNetworkRequest", "list_by_network", "network_id", owned=False),
        ),
        leaving=frozenset(), attrs={"network_id": "spec.network_id", "default": "status.default"},
    ),
    KindRow(
        "security_rule", "Security rules", ("vpcsecurityrule",), "vpc.v1", "SecurityRule",
        (Way("security_group", "ListSecurityRulesRequest"),),
        attrs={
            "access": "spec.access", "protocol": "spec.protocol", "direction": "status.direction",
            "ports": ("spec.ingress.destination_ports", "spec.egress.destination_ports"),
        },
    ),
    # static: "1" when its life does not follow its user's; public: "1"; ip: a CIDR; used_by: an instance or load balancer
    KindRow(
        "allocation", "IP allocations", ("vpcallocation",), "vpc.v1", "Allocation",
        (
            Way("project", "ListAllocationsRequest"),
            Way("subnet", "ListAllocationsBySubnetRequest", "list_by_subnet", "subnet_id", owned=False),
        ),
        attrs={
            "subnet_id": ("status.details.subnet_id", "spec.ipv4_private.subnet_id", "spec.ipv4_public.subnet_id"),
            "static": "status.static", "ip": "status.details.allocated_cidr", "public": a.flag("spec.ipv4_public"),
            "used_by": ("status.assignment.network_interface.instance_id", "status.assignment.load_balancer.id"),
        },
    ),
    # default: "1" for the table that comes and goes with its network
    KindRow(
        "route_table", "Route tables", ("vpcroutetable",), "vpc.v1", "RouteTable",
        (
            Way("project", "ListRouteTablesRequest"),
            Way("network", "ListRouteTablesByNetworkRequest", "list_by_network", "network_id", owned=False),
        ),
        attrs={"network_id": "spec.network_id", "default": "status.default", "subnets": "status.assignment.subnets"},
    ),
    KindRow(
        "route", "Routes", ("vpcroute",), "vpc.v1", "Route",
        (Way("route_table", "ListRoutesRequest"),),
        leaving=frozenset(), attrs={"type": "status.type"},
    ),
    # images: a count
    KindRow(
        "registry", "Container registries", ("registry",), "registry.v1", "Registry",
        (Way("project", "ListRegistriesRequest"),),
        attrs={"images": "status.images_count", "host": "status.registry_fqdn"},
    ),
    KindRow(
        "artifact", "Registry artifacts", ("artifact",), "registry.v1", "Artifact",
        (Way("registry", "ListArtifactsRequest"),),
        state="status", attrs={"type": "type", "digest": "digest", "bytes": "size", "tags": "tags"}, flat=True,
    ),
    KindRow(
        "image", "Images", ("computeimage",), "compute.v1", "Image",
        (Way("project", "ListImagesRequest"),),
        attrs={"size_gib": a.bytes_gib("status.storage_size_bytes"), "source_disk_id": "spec.source_disk_id"},
    ),
    KindRow(
        "disk_snapshot", "Disk snapshots", ("computedisksnapshot",), "compute.v1", "DiskSnapshot",
        (Way("project", "ListDiskSnapshotsRequest"),),
        attrs={"size_gib": a.bytes_gib("status.storage_size_bytes"), "source_disk_id": "spec.source_disk_id"},
    ),
    # instances: ids
    KindRow(
        "gpu_cluster", "GPU clusters", ("computegpucluster",), "compute.v1", "GpuCluster",
        (Way("project", "ListGpuClustersRequest"),),
        state=(), leaving=frozenset(), attrs={"instances": "status.instances", "fabric": "spec.infiniband_fabric"},
    ),
)  # fmt: skip

KINDS: Mapping[str, KindRow] = MappingProxyType({row.kind: row for row in _ROWS})
"""Every kind by its name, in an order in which parents come before what lies below them."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_KIND_BY_PREFIX: Mapping[str, str] = {prefix: row.kind for row in _ROWS for prefix in row.prefixes} | {
    # Seen in public accounts of real projects, in no page of the provider: good for a hint, not for a refusal.
    "accesspermit": "access_permit",
    "groupmembership": "group_membership",
}


def is_id(text: str) -> bool:
    """Whether a text has the characters and the length of an id, of whatever kind."""
    return _ID.match(text) is not None


def kind_of(id: str) -> str:
    """The kind that an id's prefix names, or an empty string."""
    return _KIND_BY_PREFIX.get(id.partition("-")[0], "")


def in_project() -> Iterable[KindRow]:
    """The kinds that a project lists directly."""
    return (row for row in KINDS.values() if any(way.below == "project" for way in row.ways))
