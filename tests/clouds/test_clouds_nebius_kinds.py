"""The table of kinds: every name in it is one of the SDK's, and what it keeps of a message is what the message says."""

from __future__ import annotations

import hashlib
import ssl
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nebius_server import api, metadata

from engine.clouds.nebius.attributes import is_gpu
from engine.clouds.nebius.kinds import KINDS, KindRow, kind_of
from engine.clouds.nebius.reading import Malformed, fingerprint, resource
from engine.words import ids
from engine.words.presence import Resource

ROWS = [pytest.param(row, id=row.kind) for row in KINDS.values()]


def fields(message_class: Any) -> dict[str, Any]:
    return {field.name: field for field in message_class.get_descriptor().fields}


def reaches(message_class: Any, path: str) -> bool:
    head, _, rest = path.partition(".")
    found = fields(message_class).get(head)
    if found is None:
        return False
    if not rest:
        return True
    return bool(found.message_type) and reaches(
        message_class.__REGISTRY__.message_class(found.message_type.full_name), rest
    )


def answer_class(row: KindRow, service: str, rpc: str) -> Any:
    client = getattr(api(row.package), f"{service}ServiceClient")
    (method,) = (m for m in client.get_descriptor().methods if m.name == rpc.title().replace("_", ""))
    return client.__registry__.message_class(method.output_type.full_name)


def message_class(row: KindRow) -> Any:
    return answer_class(row, row.service, "get")


@pytest.mark.parametrize("row", ROWS)
def test_every_request_of_a_row_is_one_of_the_sdk(row: KindRow) -> None:
    package = api(row.package)
    assert "id" in fields(getattr(package, f"Get{row.service}Request"))
    if row.deletable:
        assert "id" in fields(getattr(package, f"Delete{row.service}Request"))
        assert answer_class(row, row.service, "delete").__name__ == "Operation"
    if row.purge:
        assert "id" in fields(getattr(package, row.purge))
        assert {"id", "ttl"} <= set(fields(getattr(package, f"Delete{row.service}Request")))
    assert row.ways
    for way in row.ways:
        request = fields(getattr(package, way.request))
        assert {"page_size", "page_token"} <= set(request)
        assert not way.scope or way.scope in request
        answer = answer_class(row, way.service or row.service, way.rpc)
        assert {way.items, "next_page_token"} <= set(fields(answer))
        assert (
            fields(answer)[way.items].message_type.full_name == message_class(row).get_descriptor().full_name
        )
        client = getattr(package, f"{way.service or row.service}ServiceClient")
        assert callable(getattr(client, way.rpc))
        assert way.below == "" or way.below in KINDS


@pytest.mark.parametrize("row", ROWS)
def test_every_path_of_a_row_is_one_of_the_sdk(row: KindRow) -> None:
    paths = [row.due] if row.due else []
    for how in (row.state, *row.attrs.values()):
        paths += [how] if isinstance(how, str) else list(how) if isinstance(how, tuple) else []
    for path in paths:
        assert reaches(message_class(row), path), path
        assert "secret" not in path
    assert row.flat == ("metadata" not in fields(message_class(row)))


@pytest.mark.parametrize("row", ROWS)
def test_the_states_of_a_row_are_states_of_the_sdk(row: KindRow) -> None:
    if not isinstance(row.state, str):
        assert not row.leaving
        return
    of, *path = message_class(row), *row.state.split(".")
    for name in path[:-1]:
        of = of.__REGISTRY__.message_class(fields(of)[name].message_type.full_name)
    states = {value.name for value in fields(of)[path[-1]].enum_type.values}
    assert row.leaving <= states
    assert {state for state in states if "DELET" in state or "PURG" in state} <= row.leaving


def test_each_kind_and_each_prefix_is_there_once() -> None:
    prefixes = [prefix for row in KINDS.values() for prefix in row.prefixes]
    assert len(prefixes) == len(set(prefixes))
    assert all(kind_of(f"{prefix}-e00x") == row.kind for row in KINDS.values() for prefix in row.prefixes)
    assert kind_of("nonsense") == kind_of("") == ""


def test_the_words_and_the_table_agree_on_prefixes() -> None:
    for prefix, kind in ids.KIND_BY_PREFIX.items():
        assert kind_of(f"{prefix}-e00x") == kind


@pytest.mark.parametrize("row", ROWS)
def test_an_empty_message_is_none_of_anything(row: KindRow) -> None:
    with pytest.raises(Malformed):
        resource(row, message_class(row)())


@pytest.mark.parametrize("row", [row for row in ROWS if row.id != "artifact"])
def test_a_message_with_an_id_alone_says_nothing_it_does_not_know(row: KindRow) -> None:
    found = resource(row, message_class(row)(metadata=metadata(f"{row.kind}-1")))
    assert found.presence.state in ("", "INACTIVE")
    assert not found.presence.leaving
    assert dict(found.attrs) == {}


@given(st.lists(st.tuples(st.text(), st.text(), st.text(), st.text()), min_size=2, max_size=2, unique=True))
def test_another_id_name_parent_or_birth_is_another_fingerprint(
    things: list[tuple[str, str, str, str]],
) -> None:
    one, other = (fingerprint(*(part.replace("\0", "") for part in thing)) for thing in things)
    same = [tuple(part.replace("\0", "") for part in thing) for thing in things]
    assert (one == other) == (same[0] == same[1])
    assert len(one) == 16


def read(kind: str, message: Any) -> Resource:
    return resource(KINDS[kind], message)


def test_an_instance() -> None:
    v1 = api("compute.v1")

    def existing(id: str) -> Any:
        return v1.AttachedDiskSpec(existing_disk=v1.ExistingDisk(id=id))

    instance = v1.Instance(
        metadata=metadata(
            "computeinstance-e00i", "project-e00p", "vm", **{"mk8s-cluster-id": "mk8scluster-e00c"}
        ),
        spec=v1.InstanceSpec(
            resources=v1.ResourcesSpec(platform="gpu-h100-sxm", preset="8gpu-128vcpu-1600gb"),
            boot_disk=existing("computedisk-e00boot"),
            secondary_disks=[
                existing("computedisk-e00data"),
                v1.AttachedDiskSpec(managed_disk=v1.ManagedDisk(name="m")),
            ],
            filesystems=[
                v1.AttachedFilesystemSpec(
                    existing_filesystem=v1.ExistingFilesystem(id="computefilesystem-e00f")
                )
            ],
            network_interfaces=[
                v1.NetworkInterfaceSpec(
                    subnet_id="vpcsubnet-e00s", security_groups=[v1.SecurityGroup(id="vpcsecuritygroup-e00g")]
                )
            ],
            service_account_id="serviceaccount-e00a",
            preemptible=v1.PreemptibleSpec(),
        ),
        status=v1.InstanceStatus(
            state=v1.InstanceStatus.InstanceState.DELETING,
            disk_attachments=[
                v1.DiskAttachmentStatus(id="computedisk-e00boot"),
                v1.DiskAttachmentStatus(id="computedisk-e00managed", is_managed=True),
            ],
            network_interfaces=[
                v1.NetworkInterfaceStatus(
                    public_ip_address=v1.PublicIPAddressStatus(
                        address="1.2.3.4/32", allocation_id="vpcallocation-e00a"
                    ),
                    ip_address=v1.IPAddressStatus(address="10.0.0.2/32"),
                )
            ],
        ),
    )
    found = read("instance", instance)
    assert (found.presence.state, found.presence.leaving) == ("DELETING", True)
    assert found.labels == {"mk8s-cluster-id": "mk8scluster-e00c"}
    assert dict(found.attrs) == {
        "platform": "gpu-h100-sxm",
        "preset": "8gpu-128vcpu-1600gb",
        "gpu": "1",
        "disks": "computedisk-e00boot computedisk-e00data",
        "managed_disks": "computedisk-e00managed",
        "filesystems": "computefilesystem-e00f",
        "subnets": "vpcsubnet-e00s",
        "security_groups": "vpcsecuritygroup-e00g",
        "allocations": "vpcallocation-e00a",
        "public_ip": "1.2.3.4/32",
        "private_ip": "10.0.0.2/32",
        "service_account_id": "serviceaccount-e00a",
        "preemptible": "1",
    }


def test_a_disk_and_a_filesystem() -> None:
    v1 = api("compute.v1")
    disk = v1.Disk(
        metadata=metadata("computedisk-e00d"),
        spec=v1.DiskSpec(size_mebibytes=1536, type=v1.DiskSpec.DiskType.NETWORK_SSD, forbid_deletion=True),
        status=v1.DiskStatus(
            state=v1.DiskStatus.State.READY,
            read_write_attachment="computeinstance-e00i",
            read_only_attachments=["computeinstance-e00j"],
            managed_by="computeinstance-e00i",
        ),
    )
    assert dict(read("disk", disk).attrs) == {
        "size_gib": "1.500",
        "type": "NETWORK_SSD",
        "forbid_deletion": "1",
        "managed_by": "computeinstance-e00i",
        "attached_to": "computeinstance-e00i computeinstance-e00j",
    }
    filesystem = v1.Filesystem(
        metadata=metadata("computefilesystem-e00f"),
        spec=v1.FilesystemSpec(size_gibibytes=1),
        status=v1.FilesystemStatus(size_bytes=2 << 40),
    )
    assert dict(read("filesystem", filesystem).attrs) == {"size_gib": "2048"}


def test_a_bucket_counts_over_storage_classes() -> None:
    v1 = api("storage.v1")
    counters = [
        v1.BucketCounters(
            counters=v1.CurrentBucketCounters(
                simple_objects_quantity=5, simple_objects_size=100, multipart_objects_quantity=1
            ),
            non_current_counters=v1.NonCurrentBucketCounters(
                simple_objects_quantity=3, simple_objects_size=30
            ),
        ),
        v1.BucketCounters(
            counters=v1.CurrentBucketCounters(
                simple_objects_quantity=2, multipart_objects_size=7, inflight_parts_size=1
            )
        ),
    ]
    bucket = v1.Bucket(
        metadata=metadata("storagebucket-e00b"),
        spec=v1.BucketSpec(versioning_policy=v1.VersioningPolicy.ENABLED),
        status=v1.BucketStatus(counters=counters),
    )
    found = read("bucket", bucket).attrs
    assert {name: found[name] for name in ("objects", "bytes", "versions", "versioning")} == {
        "objects": "8", "bytes": "138", "versions": "3", "versioning": "ENABLED",
    }  # fmt: skip


def certificate() -> str:
    """Any bytes will do: nothing here looks into the certificate."""
    return ssl.DER_cert_to_PEM_cert(b"certificate bytes")


@pytest.mark.parametrize("wrap", [str, lambda pem: __import__("base64").b64encode(pem.encode()).decode()])
def test_a_cluster(wrap: Any) -> None:
    v1 = api("mk8s.v1")
    control_plane = v1.ControlPlaneStatus(
        endpoints=v1.ControlPlaneStatusEndpoints(public_endpoint="https://1.2.3.4:443"),
        auth=v1.ControlPlaneStatusAuth(cluster_ca_certificate=wrap(certificate())),
    )
    cluster = v1.Cluster(
        metadata=metadata("mk8scluster-e00c"), status=v1.ClusterStatus(control_plane=control_plane)
    )
    found = read("cluster", cluster).attrs
    assert found["endpoint"] == "https://1.2.3.4:443"
    assert found["ca_fingerprint"] == hashlib.sha256(b"certificate bytes").hexdigest()


def test_a_cluster_with_an_unreadable_certificate_has_no_fingerprint() -> None:
    v1 = api("mk8s.v1")
    auth = v1.ControlPlaneStatusAuth(cluster_ca_certificate="no certificate")
    cluster = v1.Cluster(
        metadata=metadata("mk8scluster-e00c"),
        status=v1.ClusterStatus(control_plane=v1.ControlPlaneStatus(auth=auth)),
    )
    assert "ca_fingerprint" not in read("cluster", cluster).attrs


def test_network_parts() -> None:
    v1 = api("vpc.v1")
    allocation = v1.Allocation(
        metadata=metadata("vpcallocation-e00a"),
        spec=v1.AllocationSpec(ipv4_public=v1.IPv4PublicAllocationSpec(subnet_id="vpcsubnet-e00s")),
        status=v1.AllocationStatus(
            static=True,
            details=v1.AllocationDetails(allocated_cidr="1.2.3.4/32", subnet_id="vpcsubnet-e00s"),
            assignment=v1.Assignment(load_balancer=v1.LoadBalancerAssignment(id="loadbalancer-e00l")),
        ),
    )
    assert dict(read("allocation", allocation).attrs) == {
        "subnet_id": "vpcsubnet-e00s", "static": "1", "ip": "1.2.3.4/32", "public": "1", "used_by": "loadbalancer-e00l",
    }  # fmt: skip
    group = v1.SecurityGroup(
        metadata=metadata("vpcsecuritygroup-e00g"),
        spec=v1.SecurityGroupSpec(network_id="vpcnetwork-e00n"),
        status=v1.SecurityGroupStatus(default=True),
    )
    assert dict(read("security_group", group).attrs) == {"network_id": "vpcnetwork-e00n", "default": "1"}


def test_a_registry_without_a_status_is_not_being_created() -> None:
    v1 = api("registry.v1")
    assert read("registry", v1.Registry(metadata=metadata("registry-e00r"))).presence.state == ""
    stated = v1.Registry(metadata=metadata("registry-e00r"), status=v1.RegistryStatus(images_count=3))
    assert read("registry", stated).presence.state == "CREATING"
    assert read("registry", stated).attrs["images"] == "3"


def test_iam() -> None:
    v1 = api("iam.v1")
    permit = v1.AccessPermit(
        metadata=metadata("accesspermit-e00p", "group-e00g"),
        spec=v1.AccessPermitSpec(resource_id="project-e00p", role="editor"),
    )
    assert dict(read("access_permit", permit).attrs) == {"resource_id": "project-e00p", "role": "editor"}
    account = v1.ServiceAccount(
        metadata=metadata("serviceaccount-e00s"), status=v1.ServiceAccountStatus(active=True)
    )
    assert read("service_account", account).presence.state == "ACTIVE"
    iam2 = api("iam.v2")
    project = iam2.Project(
        metadata=metadata("project-e00p", "tenant-e00t"), spec=iam2.ProjectSpec(region="eu-north1")
    )
    assert dict(read("project", project).attrs) == {"region": "eu-north1", "tenant": "tenant-e00t"}


def test_gpu_platforms() -> None:
    assert is_gpu("gpu-l40s-a")
    assert not is_gpu("cpu-e2")
    assert not is_gpu("")
