"""The provider's own SDK against the simulated gRPC services: reads, pages, deletions that take time, refusals, prices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import simulated
import yaml

PROJECT = "project-e00tests"
DISKS = 23


def disk(name: str, **status: Any) -> dict[str, Any]:
    spec = {"sizeGibibytes": "100", "type": "NETWORK_SSD"}
    return {
        "kind": "disk", "id": f"computedisk-e00{name}", "name": name, "attrs": {"spec": spec, "status": {"state": "READY", **status}},
    }  # fmt: skip


WORLD: dict[str, Any] = {
    "description": "what the tests of the services need",
    "page_size": 10,
    "seconds": {"default": 2, "cluster": 4},
    "prices": {"cpu-e2": 0.2, "gpu-l40s-a/1gpu-16vcpu-64gb": 1.5, "disk_gib": 0.001},
    "projects": [
        {
            "alias": "demo", "id": PROJECT, "tenant_id": "tenant-e00tests",
            "agents": [{"name": "fixed", "suffix": "fixed"}, {"name": "floating", "suffix": "floating", "static_ip": False}],
            "clusters": [{"context": "mk8s", "suffix": "mk8s", "gpu_nodes": 2}],
            "storage": {"bucket": "npa-bucket-tests", "suffix": "bkt"},
            "extras": [*(disk(f"many{n:03}") for n in range(DISKS)), disk("fails"), disk("back"), disk("twin"), disk("sticks")],
        },
        {"alias": "other", "id": "project-e00other", "tenant_id": "tenant-e00tests", "default_network": False},
    ],
    "stumbles": [
        {"id": "computedisk-e00fails", "kind": "operation_fails", "code": "INTERNAL", "message": "the host did not answer"},
        {"id": "computedisk-e00back", "kind": "comes_back", "after": 20, "seconds": 20},
        {"id": "computedisk-e00twin", "kind": "comes_back", "after": 20, "new_id": "computedisk-e00twin2"},
        {"id": "computedisk-e00sticks", "kind": "sticks"},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simulated.Simulation]:
    folder = tmp_path_factory.mktemp("world")
    (folder / "world.yaml").write_text(yaml.safe_dump(WORLD))
    with simulated.simulation(str(folder / "world.yaml"), folder / "home") as running:
        yield running


@pytest.fixture
async def sdk(sim: simulated.Simulation) -> AsyncIterator[Any]:
    client = connect(sim)
    yield client
    await client.close()


def connect(sim: simulated.Simulation) -> Any:
    import grpc
    import nebius.base.options
    from nebius.base.resolver import Constant
    from nebius.sdk import SDK

    return SDK(
        resolver=Constant(sim.env["NEBIUS_ENDPOINT"]),
        options=[(nebius.base.options.INSECURE, True), ("grpc.enable_http_proxy", 0)],
        credentials=(sim.home / ".nebius/token").read_text().strip(),
        tls_credentials=grpc.ssl_channel_credentials(),
        user_agent_prefix="test/1",
    )


async def refused(call: Any) -> Any:
    """The status of a call that must be refused."""
    from nebius.aio.service_error import RequestError

    with pytest.raises(RequestError) as caught:
        await call
    return caught.value.status


async def gone(sim: simulated.Simulation, kind: str, id: str) -> None:
    async with asyncio.timeout(5):
        while id in sim.ids().get(kind, set()):  # noqa: ASYNC110 - the server is asked
            await asyncio.sleep(0.02)


async def test_a_listing_comes_in_pages_that_hold_everything_once(sdk: Any) -> None:
    from nebius.api.nebius.compute.v1 import DiskServiceClient, ListDisksRequest

    disks, seen, sizes, token = DiskServiceClient(sdk), [], [], ""
    while True:
        page = await disks.list(ListDisksRequest(parent_id=PROJECT, page_size=1000, page_token=token))
        sizes.append(len(page.items))
        seen += [d.metadata.id for d in page.items]
        token = page.next_page_token
        if not token:
            break
    assert len(seen) == len(set(seen)) > DISKS
    assert {f"computedisk-e00many{n:03}" for n in range(DISKS)} <= set(seen)
    assert max(sizes) == sizes[0] == 10, "the world caps the page whatever is asked for"
    first = page.items[0]
    assert first.metadata.parent_id == PROJECT
    assert first.metadata.created_at.tzinfo is not None


async def test_a_page_that_is_not_sized_has_ten_items_and_a_foreign_token_is_refused(sdk: Any) -> None:
    from nebius.api.nebius.compute.v1 import DiskServiceClient, ListDisksRequest

    disks = DiskServiceClient(sdk)
    assert len((await disks.list(ListDisksRequest(parent_id=PROJECT))).items) == 10
    status = await refused(disks.list(ListDisksRequest(parent_id=PROJECT, page_token="?")))
    assert status.code.name == "INVALID_ARGUMENT"
    assert (await refused(disks.list(ListDisksRequest()))).code.name == "INVALID_ARGUMENT"


async def test_another_projects_listing_is_empty_and_not_an_error(sdk: Any) -> None:
    from nebius.api.nebius.compute.v1 import DiskServiceClient, ListDisksRequest

    page = await DiskServiceClient(sdk).list(ListDisksRequest(parent_id="project-e00other"))
    assert list(page.items) == []


async def test_what_is_not_there_is_a_structured_not_found(sdk: Any) -> None:
    from nebius.api.nebius.common.v1 import GetByNameRequest
    from nebius.api.nebius.compute.v1 import DiskServiceClient, GetDiskRequest

    disks = DiskServiceClient(sdk)
    status = await refused(disks.get(GetDiskRequest(id="computedisk-e00nowhere")))
    assert status.code.name == "NOT_FOUND"
    assert status.service_errors[0].resource_not_found.resource_id == "computedisk-e00nowhere"
    assert status.request_id
    assert status.trace_id
    found = await disks.get_by_name(GetByNameRequest(parent_id=PROJECT, name="many003"))
    assert found.metadata.id == "computedisk-e00many003"
    named = await refused(disks.get_by_name(GetByNameRequest(parent_id="project-e00other", name="many003")))
    assert named.code.name == "NOT_FOUND", "a name belongs to its parent"
    instance = await refused(disks.get(GetDiskRequest(id="computeinstance-e00fixed")))
    assert instance.code.name == "NOT_FOUND", "an id belongs to its kind"


async def test_a_deletion_is_pending_then_over_then_gone(sim: simulated.Simulation, sdk: Any) -> None:
    from nebius.api.nebius.common.v1 import GetOperationRequest, ListOperationsRequest
    from nebius.api.nebius.compute.v1 import DeleteDiskRequest, DiskServiceClient, GetDiskRequest

    disks, id = DiskServiceClient(sdk), "computedisk-e00many000"
    operation = await disks.delete(DeleteDiskRequest(id=id))
    assert not operation.done()
    assert operation.resource_id == id
    assert operation.id.startswith("computeoperation-e00")
    assert (await disks.get(GetDiskRequest(id=id))).status.state.name == "DELETING"
    assert operation.id in sim.get("/state")["operations_running"]
    status = await refused(disks.delete(DeleteDiskRequest(id=id)))
    assert status.code.name == "ABORTED"
    assert status.service_errors[0].operation_conflict.conflicting_operation_id == operation.id
    resumed = await disks.operation_service().get(GetOperationRequest(id=operation.id))
    await resumed.wait(interval=0.02, timeout=5)
    assert resumed.successful()
    assert (await refused(disks.get(GetDiskRequest(id=id)))).code.name == "NOT_FOUND"
    listed = await disks.operation_service().list(ListOperationsRequest(resource_id=id))
    assert [o.id for o in listed.operations] == [operation.id]
    assert (await refused(disks.delete(DeleteDiskRequest(id=id)))).code.name == "NOT_FOUND"


async def test_one_idempotency_key_is_one_operation(sdk: Any) -> None:
    from nebius.api.nebius.compute.v1 import DeleteDiskRequest, DiskServiceClient

    disks, key = DiskServiceClient(sdk), [("x-idempotency-key", "a-key-of-mine")]
    request = DeleteDiskRequest(id="computedisk-e00many001")
    first = await disks.delete(request, metadata=key)
    assert (await disks.delete(request, metadata=key)).id == first.id
    await first.wait(interval=0.02, timeout=5)
    again = await disks.delete(request, metadata=key)
    assert (again.id, again.successful()) == (first.id, True), "also when the thing is long gone"
    other = await refused(disks.delete(DeleteDiskRequest(id="computedisk-e00many002"), metadata=key))
    assert other.code.name == "INVALID_ARGUMENT"


async def test_an_operation_can_fail_and_leaves_the_thing_as_it_was(
    sim: simulated.Simulation, sdk: Any
) -> None:
    from nebius.aio.operation import OperationError
    from nebius.api.nebius.compute.v1 import DeleteDiskRequest, DiskServiceClient, GetDiskRequest

    disks, id = DiskServiceClient(sdk), "computedisk-e00fails"
    operation = await disks.delete(DeleteDiskRequest(id=id))
    with pytest.raises(OperationError, match="the host did not answer"):
        await operation.wait(interval=0.02, timeout=5)
    assert not operation.successful()
    assert (await disks.get(GetDiskRequest(id=id))).status.state.name == "READY"
    second = await disks.delete(DeleteDiskRequest(id=id))
    await second.wait(interval=0.02, timeout=5)
    assert second.successful(), "it fails as often as the world says"


async def test_a_thing_comes_back_for_a_while_or_as_another(sim: simulated.Simulation, sdk: Any) -> None:
    from nebius.api.nebius.compute.v1 import DeleteDiskRequest, DiskServiceClient, GetDiskRequest

    disks = DiskServiceClient(sdk)
    for id in ("computedisk-e00back", "computedisk-e00twin"):
        await (await disks.delete(DeleteDiskRequest(id=id))).wait(interval=0.01, timeout=5)
        assert id not in sim.ids()["disk"]
    async with asyncio.timeout(5):
        while not {"computedisk-e00back", "computedisk-e00twin2"} <= sim.ids()["disk"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (await disks.get(GetDiskRequest(id="computedisk-e00back"))).status.state.name == "READY"
    twin = await disks.get(GetDiskRequest(id="computedisk-e00twin2"))
    assert twin.metadata.name == "twin"
    assert (await refused(disks.get(GetDiskRequest(id="computedisk-e00twin")))).code.name == "NOT_FOUND"
    await gone(sim, "disk", "computedisk-e00back")
    assert "computedisk-e00twin2" in sim.ids()["disk"]


async def test_what_stands_in_the_way_is_named(sdk: Any) -> None:
    from nebius.api.nebius.compute.v1 import DeleteDiskRequest, DiskServiceClient
    from nebius.api.nebius.iam.v1 import (
        DeleteGroupRequest,
        DeleteServiceAccountRequest,
        GroupServiceClient,
        ServiceAccountServiceClient,
    )
    from nebius.api.nebius.iam.v2 import DeleteProjectRequest, ProjectServiceClient
    from nebius.api.nebius.vpc.v1 import (
        DeleteNetworkRequest,
        DeleteSecurityGroupRequest,
        DeleteSubnetRequest,
        NetworkServiceClient,
        SecurityGroupServiceClient,
        SubnetServiceClient,
    )

    for call, blocker in (
        (DiskServiceClient(sdk).delete(DeleteDiskRequest(id="computedisk-e00fixed")), "computeinstance-e00fixed"),
        (SubnetServiceClient(sdk).delete(DeleteSubnetRequest(id="vpcsubnet-e00fixed")), "computeinstance-e00fixed"),
        (NetworkServiceClient(sdk).delete(DeleteNetworkRequest(id="vpcnetwork-e00fixed")), "vpcsubnet-e00fixed"),
        (
            SecurityGroupServiceClient(sdk).delete(DeleteSecurityGroupRequest(id="vpcsecuritygroup-e00testsdflt")),
            "goes with its network",
        ),
        (
            ServiceAccountServiceClient(sdk).delete(DeleteServiceAccountRequest(id="serviceaccount-e00bktstor")),
            "accesskey-e00bktstor",
        ),
        (GroupServiceClient(sdk).delete(DeleteGroupRequest(id="group-e00bkt")), "accesspermit-e00bkt"),
        (ProjectServiceClient(sdk).delete(DeleteProjectRequest(id=PROJECT, dry_run=True)), "accesskey"),
    ):  # fmt: skip
        status = await refused(call)
        assert status.code.name == "FAILED_PRECONDITION"
        assert blocker in status.message
        assert status.service_errors[0].bad_resource_state.message == status.message
    fine = await ProjectServiceClient(sdk).delete(DeleteProjectRequest(id="project-e00other", dry_run=True))
    assert fine.successful()


async def test_a_vm_takes_its_managed_disk_and_floating_address_and_leaves_the_rest(
    sim: simulated.Simulation, sdk: Any
) -> None:
    from nebius.api.nebius.compute.v1 import DeleteInstanceRequest, InstanceServiceClient

    instances = InstanceServiceClient(sdk)
    for name in ("fixed", "floating"):
        operation = await instances.delete(DeleteInstanceRequest(id=f"computeinstance-e00{name}"))
        await operation.wait(interval=0.02, timeout=5)
    left = sim.ids()
    assert {"computedisk-e00fixed", "computedisk-e00floating"} <= left["disk"]
    assert "vpcallocation-e00floating" not in left["allocation"]
    (address,) = [
        a for a in sim.get("/state")["resources"]["allocation"] if a["id"] == "vpcallocation-e00fixed"
    ]
    assert address["state"] == "ALLOCATED"
    (boot,) = [d for d in sim.get("/state")["resources"]["disk"] if d["id"] == "computedisk-e00fixed"]
    assert "readWriteAttachment" not in boot["doc"]["status"]


async def test_a_network_goes_from_the_top_and_takes_its_defaults(
    sim: simulated.Simulation, sdk: Any
) -> None:
    from nebius.api.nebius.vpc.v1 import (
        DeleteNetworkRequest,
        DeleteSubnetRequest,
        ListSecurityGroupsByNetworkRequest,
        NetworkServiceClient,
        SecurityGroupServiceClient,
        SubnetServiceClient,
    )

    groups = await SecurityGroupServiceClient(sdk).list_by_network(
        ListSecurityGroupsByNetworkRequest(network_id="vpcnetwork-e00testsdflt")
    )
    assert [g.status.default for g in groups.items] == [True]
    subnet = await SubnetServiceClient(sdk).delete(DeleteSubnetRequest(id="vpcsubnet-e00testsdflt"))
    await subnet.wait(interval=0.02, timeout=5)
    network = await NetworkServiceClient(sdk).delete(DeleteNetworkRequest(id="vpcnetwork-e00testsdflt"))
    await network.wait(interval=0.02, timeout=5)
    left = sim.ids()
    assert "vpcsecuritygroup-e00testsdflt" not in left["securitygroup"]
    assert "vpcroutetable-e00testsdflt" not in left.get("routetable", set())


async def test_a_cluster_takes_its_nodes_and_its_api_with_it(sim: simulated.Simulation, sdk: Any) -> None:
    from nebius.api.nebius.mk8s.v1 import (
        ClusterServiceClient,
        DeleteClusterRequest,
        ListNodeGroupsRequest,
        NodeGroupServiceClient,
    )

    groups = await NodeGroupServiceClient(sdk).list(ListNodeGroupsRequest(parent_id="mk8scluster-e00mk8s"))
    assert sorted(g.status.node_count for g in groups.items) == [1, 2]
    before = sim.ids()
    assert len([i for i in before["instance"] if "mk8s" in i]) == 3
    operation = await ClusterServiceClient(sdk).delete(DeleteClusterRequest(id="mk8scluster-e00mk8s"))
    states = {r["state"] for r in sim.get("/state")["resources"]["instance"] if "mk8s" in r["id"]}
    assert states == {"DELETING"}
    await operation.wait(interval=0.02, timeout=5)
    left = sim.ids()
    assert not [
        id
        for kind in ("instance", "disk", "nodegroup", "cluster")
        for id in left.get(kind, ())
        if "mk8s" in id
    ]
    assert "vpcsubnet-e00mk8s" in left["subnet"]
    assert sim.get("/state")["kubernetes"]["mk8s"]["stopped"] is True


async def test_a_bucket_is_scheduled_had_back_and_purged(sim: simulated.Simulation, sdk: Any) -> None:
    from nebius.api.nebius.storage.v1 import (
        BucketServiceClient,
        DeleteBucketRequest,
        GetBucketRequest,
        PurgeBucketRequest,
        UndeleteBucketRequest,
    )

    buckets, id = BucketServiceClient(sdk), "storagebucket-e00bkt"
    assert (await refused(buckets.purge(PurgeBucketRequest(id=id)))).code.name == "FAILED_PRECONDITION"
    asked = await buckets.delete(DeleteBucketRequest(id=id))
    assert asked.successful(), "the deletion is scheduled, and that is all the operation does"
    seen = await buckets.get(GetBucketRequest(id=id))
    assert seen.status.state.name == "SCHEDULED_FOR_DELETION"
    assert seen.status.purge_at > datetime.now(UTC) + timedelta(hours=1)
    await buckets.undelete(UndeleteBucketRequest(id=id))
    assert (await buckets.get(GetBucketRequest(id=id))).status.state.name == "ACTIVE"
    await buckets.delete(DeleteBucketRequest(id=id, ttl=timedelta(days=2)))
    await buckets.purge(PurgeBucketRequest(id=id))
    await gone(sim, "bucket", id)
    assert sim.get("/state")["object_store"] == {}


async def test_listings_by_account_member_and_aws_id(sdk: Any) -> None:
    from nebius.api.nebius.iam.v1 import (
        AccessPermitServiceClient,
        Account,
        GroupMembershipServiceClient,
        ListAccessPermitRequest,
        ListGroupMembershipsRequest,
        ListMemberOfRequest,
    )
    from nebius.api.nebius.iam.v2 import (
        AccessKeyServiceClient,
        GetAccessKeyByAwsIdRequest,
        ListAccessKeysByAccountRequest,
    )

    account = "serviceaccount-e00bktstor"
    keys, memberships = AccessKeyServiceClient(sdk), GroupMembershipServiceClient(sdk)
    who = Account(service_account=Account.ServiceAccount(id=account))
    found = await keys.list_by_account(ListAccessKeysByAccountRequest(account=who))
    assert [k.metadata.id for k in found.items] == ["accesskey-e00bktstor"]
    assert not found.items[0].status.secret
    same = await keys.get_by_aws_id(
        GetAccessKeyByAwsIdRequest(aws_access_key_id=found.items[0].status.aws_access_key_id)
    )
    assert same.metadata.id == "accesskey-e00bktstor"
    groups = await memberships.list_member_of(ListMemberOfRequest(subject_id=account))
    assert [g.metadata.id for g in groups.items] == ["group-e00bkt"]
    members = await memberships.list_members(ListGroupMembershipsRequest(parent_id="group-e00bkt"))
    assert [m.spec.member_id for m in members.memberships] == [account]
    permits = await AccessPermitServiceClient(sdk).list(ListAccessPermitRequest(parent_id="group-e00bkt"))
    assert [(p.spec.role, p.spec.resource_id) for p in permits.items] == [("storage.object-editor", PROJECT)]


async def test_who_am_i_and_where(sdk: Any) -> None:
    from nebius.api.nebius.iam.v2 import (
        GetProjectRequest,
        ListProjectsRequest,
        ListTenantsRequest,
        ProjectServiceClient,
        TenantServiceClient,
    )

    profile = await sdk.whoami()
    assert profile.user_profile.attributes.email == "operator@example"
    assert [t.tenant_id for t in profile.user_profile.tenants] == ["tenant-e00tests"]
    tenants = await TenantServiceClient(sdk).list(ListTenantsRequest())
    projects = ProjectServiceClient(sdk)
    listed = await projects.list(ListProjectsRequest(parent_id=tenants.items[0].metadata.id))
    assert {p.metadata.id for p in listed.items} == {PROJECT, "project-e00other"}
    one = await projects.get(GetProjectRequest(id=PROJECT))
    assert (one.spec.region, one.status.project_state.name) == ("eu-north1", "ACTIVE")


async def test_both_calculators_say_the_worlds_prices(sdk: Any) -> None:
    from nebius.api.nebius.billing import v1, v1alpha1
    from nebius.api.nebius.common.v1 import ResourceMetadata
    from nebius.api.nebius.compute.v1 import (
        CreateDiskRequest,
        CreateInstanceRequest,
        DiskSpec,
        InstanceSpec,
        ResourcesSpec,
    )

    meta = ResourceMetadata(parent_id=PROJECT)
    vm = CreateInstanceRequest(
        metadata=meta, spec=InstanceSpec(resources=ResourcesSpec(platform="gpu-l40s-a", preset="1gpu-16vcpu-64gb"))
    )  # fmt: skip
    volume = CreateDiskRequest(metadata=meta, spec=DiskSpec(size_gibibytes=100))
    unknown = CreateInstanceRequest(
        metadata=meta, spec=InstanceSpec(resources=ResourcesSpec(platform="gpu-none"))
    )
    calculator, spec = v1alpha1.CalculatorServiceClient(sdk), v1alpha1.ResourceSpec
    one = await calculator.estimate(v1alpha1.EstimateRequest(resource_spec=spec(compute_instance_spec=vm)))
    assert float(one.hourly_cost.general.total.cost) == 1.5
    assert float(one.monthly_cost.general.total.cost) == pytest.approx(1.5 * 730)
    both = [spec(compute_instance_spec=vm), spec(compute_disk_spec=volume)]
    sum_ = await calculator.estimate_batch(v1alpha1.EstimateBatchRequest(resource_specs=both))
    assert float(sum_.hourly_cost.general.total.cost) == pytest.approx(1.6)
    none = calculator.estimate(v1alpha1.EstimateRequest(resource_spec=spec(compute_instance_spec=unknown)))
    assert (await refused(none)).code.name == "INVALID_ARGUMENT"

    pack = (
        v1.ResourceSpec.__registry__.pack_any
        if hasattr(v1.ResourceSpec, "__registry__")
        else v1.REGISTRY.pack_any
    )
    packed = [v1.ResourceSpec(spec=pack(r)) for r in (vm, volume)]
    answer = await v1.CalculatorServiceClient(sdk).estimate_batch(
        v1.EstimateBatchRequest(resource_specs=packed, currency="USD")
    )
    assert [float(r.general.total.cost) for r in answer.resource_costs] == pytest.approx([1.5, 0.1])
    assert [float(t.general.total.cost) for t in answer.total_costs] == pytest.approx([1.6])


async def test_a_method_that_is_not_offered_is_unimplemented(sdk: Any) -> None:
    from nebius.api.nebius.compute.v1 import CreateDiskRequest, DiskServiceClient

    assert (await refused(DiskServiceClient(sdk).create(CreateDiskRequest()))).code.name == "UNIMPLEMENTED"


async def test_every_request_is_in_the_log_with_its_outcome_and_key(
    sim: simulated.Simulation, sdk: Any
) -> None:
    from nebius.api.nebius.compute.v1 import DiskServiceClient, GetDiskRequest

    before = len(sim.get("/log"))
    await refused(
        DiskServiceClient(sdk).get(
            GetDiskRequest(id="computedisk-e00unlogged"), metadata=[("x-idempotency-key", "k")]
        )
    )
    (row,) = sim.get("/log")[before:]
    assert (row["service"], row["call"], row["subject"], row["code"], row["key"], row["principal"]) == (
        "nebius", "DiskService/Get", "computedisk-e00unlogged", "NOT_FOUND", "k", "operator",
    )  # fmt: skip


async def test_faults_look_like_the_providers(sim: simulated.Simulation) -> None:
    """Retries of the SDK are off: what comes back is what the server said."""
    from nebius.api.nebius.compute.v1 import DiskServiceClient, GetDiskRequest

    def fault(id: str, **more: Any) -> dict[str, Any]:
        return {"service": "nebius", "match": f"DiskService/Get {id}", **more}

    sim.post("/faults", [
        fault("throttled", kind="status", status="RESOURCE_EXHAUSTED", retry_after=3, times=1),
        fault("denied", kind="status", status="PERMISSION_DENIED"),
        fault("lost", kind="drop"),
        fault("hangs", kind="hang", seconds=5, times=1),
        fault("wrong", kind="status", status="NOT_FOUND"),
    ])  # fmt: skip
    client = connect(sim)
    try:
        disks = DiskServiceClient(client)
        request = disks.get(GetDiskRequest(id="throttled"), retries=1)
        status = await refused(request)
        assert status.code.name == "RESOURCE_EXHAUSTED"
        assert status.service_errors[0].details.field == "too_many_requests"
        assert (await request.trailing_metadata()).get_one("retry-after", "") == "3"
        denied = await refused(disks.get(GetDiskRequest(id="denied"), retries=1))
        assert denied.service_errors[0].permission_denied.resource_id == "denied"
        for id in ("lost", "hangs"):
            assert (await refused(disks.get(GetDiskRequest(id=id), retries=1))).code.name == "UNAVAILABLE"
        wrong = await refused(disks.get(GetDiskRequest(id="wrong"), retries=1))
        assert (wrong.code.name, len(wrong.service_errors)) == ("NOT_FOUND", 0), (
            "an error is no proof of absence"
        )
    finally:
        sim.post("/faults/end", {})
        await client.close()


async def test_what_sticks_goes_on_when_the_faults_end(sim: simulated.Simulation, tmp_path: Path) -> None:
    """A world of its own: ending the faults is for the whole simulation."""
    from nebius.api.nebius.compute.v1 import DeleteDiskRequest, DiskServiceClient, GetDiskRequest

    (tmp_path / "world.yaml").write_text(yaml.safe_dump(WORLD))
    with simulated.simulation(str(tmp_path / "world.yaml"), tmp_path / "home") as own:
        client = connect(own)
        try:
            disks, id = DiskServiceClient(client), "computedisk-e00sticks"
            operation = await disks.delete(DeleteDiskRequest(id=id))
            with pytest.raises(TimeoutError):
                await operation.wait(interval=0.02, timeout=0.5)
            assert (await disks.get(GetDiskRequest(id=id))).status.state.name == "DELETING"
            own.post("/faults/end", {})
            await operation.wait(interval=0.02, timeout=5)
            assert operation.successful()
        finally:
            await client.close()


@pytest.mark.parametrize(("lag", "listed", "found"), [("list_lag", True, False), ("get_lag", False, True)])
async def test_listings_and_get_can_disagree_for_a_while(
    tmp_path: Path, lag: str, listed: bool, found: bool
) -> None:
    from nebius.aio.service_error import RequestError
    from nebius.api.nebius.compute.v1 import (
        DeleteDiskRequest,
        DiskServiceClient,
        GetDiskRequest,
        ListDisksRequest,
    )

    (tmp_path / "world.yaml").write_text(yaml.safe_dump({**WORLD, lag: 50, "page_size": 100}))
    with simulated.simulation(str(tmp_path / "world.yaml"), tmp_path / "home") as own:
        client = connect(own)
        try:
            disks, id = DiskServiceClient(client), "computedisk-e00many004"
            operation = await disks.delete(DeleteDiskRequest(id=id))
            await operation.wait(interval=0.02, timeout=5)

            async def sees() -> tuple[bool, bool]:
                page = await disks.list(ListDisksRequest(parent_id=PROJECT, page_size=100))
                try:
                    await disks.get(GetDiskRequest(id=id))
                except RequestError:
                    return id in {d.metadata.id for d in page.items}, False
                return id in {d.metadata.id for d in page.items}, True

            assert await sees() == (listed, found)
            assert id not in own.ids()["disk"], "it is gone, whatever is said"
            async with asyncio.timeout(5):
                while await sees() != (False, False):  # noqa: ASYNC110 - the server is asked
                    await asyncio.sleep(0.05)
        finally:
            await client.close()


async def test_a_bucket_with_contents_is_refused_where_the_world_says_so(tmp_path: Path) -> None:
    from nebius.api.nebius.storage.v1 import BucketServiceClient, DeleteBucketRequest

    (tmp_path / "world.yaml").write_text(yaml.safe_dump({**WORLD, "bucket_delete_needs_empty": True}))
    with simulated.simulation(str(tmp_path / "world.yaml"), tmp_path / "home") as own:
        client = connect(own)
        try:
            buckets, id = BucketServiceClient(client), "storagebucket-e00bkt"
            for request in (DeleteBucketRequest(id=id), DeleteBucketRequest(id=id, ttl=timedelta(0))):
                status = await refused(buckets.delete(request))
                assert status.code.name == "FAILED_PRECONDITION"
                assert "BucketNotEmpty" in status.message
            accepted = await buckets.delete(DeleteBucketRequest(id=id, ttl=timedelta(seconds=30)))
            assert accepted.successful()
            await gone(own, "bucket", id)
        finally:
            await client.close()
