"""What the client answers to reads, against a real gRPC server: every failure has its cause, and none of them is absence."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nebius_server import Cloud, api, hang, home_with_token_file, metadata, refuse, serving, settings

from engine.clock import Clock
from engine.clouds.nebius.client import Nebius
from engine.words.presence import Absent, Cause, Present, Ref, Unknown

PROJECT = "project-e00p"
BUCKET = Ref("bucket", "storagebucket-e00b1")


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with serving(Cloud()) as running:
        yield running


@pytest.fixture
async def nebius(cloud: Cloud, tmp_path: Path) -> AsyncIterator[Nebius]:
    home_with_token_file(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as client:
        yield client


def bucket(id: str = BUCKET.id, parent: str = PROJECT, **status: Any) -> Any:
    v1 = api("storage.v1")
    status.setdefault("state", v1.BucketStatus.State.ACTIVE)
    return v1.Bucket(
        metadata=metadata(id, parent, owner="npa"), spec=v1.BucketSpec(), status=v1.BucketStatus(**status)
    )


def refusing(code: str, message: str = "no", **details: Any) -> Any:
    async def behave(request: Any, context: Any) -> Any:
        await refuse(context, code, message, **details)

    return behave


def cause(presence: object) -> Cause:
    assert isinstance(presence, Unknown), presence
    return presence.cause


async def test_what_is_there_is_present_with_its_state_and_who_saw_it(cloud: Cloud, nebius: Nebius) -> None:
    cloud.put(bucket())
    seen, found = await nebius.get(BUCKET)
    assert isinstance(seen.presence, Present)
    assert (seen.presence.state, seen.presence.leaving) == ("ACTIVE", False)
    assert len(seen.presence.fingerprint) == 16
    assert seen.by == f"nebius 127.0.0.1:{cloud.port} req-1"
    assert found is not None
    assert (found.ref, found.parent, found.created_at) == (BUCKET, PROJECT, "2026-05-01T12:00:00.000Z")
    assert found.labels == {"owner": "npa"}
    assert await nebius.look(BUCKET) is not None


async def test_a_structured_not_found_of_that_id_is_absence(cloud: Cloud, nebius: Nebius) -> None:
    seen, found = await nebius.get(BUCKET)
    assert seen.presence == Absent()
    assert found is None
    assert seen.by.endswith("req-1")


async def test_a_plain_not_found_that_names_nothing_else_is_absence(cloud: Cloud, nebius: Nebius) -> None:
    cloud.behaviours["BucketService/Get"] = refusing("NOT_FOUND", "no such thing")
    assert (await nebius.look(BUCKET)).presence == Absent()


async def test_a_not_found_about_another_id_is_no_absence(cloud: Cloud, nebius: Nebius) -> None:
    parent = api("common.v1").ResourceNotFound(resource_id=PROJECT)
    cloud.behaviours["BucketService/Get"] = refusing("NOT_FOUND", "not found", resource_not_found=parent)
    assert cause((await nebius.look(BUCKET)).presence) is Cause.WRONG_SCOPE
    cloud.behaviours["BucketService/Get"] = refusing("NOT_FOUND", "container project-e00other not found")
    assert cause((await nebius.look(BUCKET)).presence) is Cause.WRONG_SCOPE


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("PERMISSION_DENIED", Cause.DENIED),
        ("UNAUTHENTICATED", Cause.UNAUTHENTICATED),
        ("RESOURCE_EXHAUSTED", Cause.THROTTLED),
        ("UNAVAILABLE", Cause.UNREACHABLE),
        ("INTERNAL", Cause.UNREACHABLE),
        ("DEADLINE_EXCEEDED", Cause.TIMED_OUT),
        ("UNIMPLEMENTED", Cause.MALFORMED),
        ("INVALID_ARGUMENT", Cause.MALFORMED),
    ],
)
async def test_every_refusal_has_its_cause(cloud: Cloud, nebius: Nebius, code: str, expected: Cause) -> None:
    cloud.behaviours["BucketService/Get"] = refusing(code, "because")
    seen, found = await nebius.get(BUCKET)
    assert cause(seen.presence) is expected
    assert found is None
    assert isinstance(seen.presence, Unknown)
    assert "because" in seen.presence.detail
    assert "req-" in seen.by


async def test_a_read_is_tried_three_times_and_only_for_what_may_pass(cloud: Cloud, nebius: Nebius) -> None:
    cloud.behaviours["BucketService/Get"] = refusing("UNAVAILABLE")
    await nebius.look(BUCKET)
    assert len(cloud.called("BucketService/Get")) == 3
    cloud.calls.clear()
    cloud.behaviours["BucketService/Get"] = refusing("PERMISSION_DENIED")
    await nebius.look(BUCKET)
    assert len(cloud.called("BucketService/Get")) == 1


async def test_throttled_then_fine(cloud: Cloud, nebius: Nebius) -> None:
    cloud.put(bucket())
    usual = cloud.behaviours.get("BucketService/Get")
    at: list[float] = []

    async def throttle(request: Any, context: Any) -> Any:
        at.append(time.monotonic())
        if len(at) < 3:
            await refuse(context, "RESOURCE_EXHAUSTED", "slow down", trailing=(("retry-after", "20"),))
        return cloud.things[request.id]

    assert usual is None
    cloud.behaviours["BucketService/Get"] = throttle
    assert isinstance((await nebius.look(BUCKET)).presence, Present)
    # Twenty nominal seconds at a hundredth of the time: longer than any backoff before the third attempt.
    assert all(later - earlier >= 0.2 for earlier, later in itertools.pairwise(at))


async def test_a_port_where_nobody_listens_is_unreachable_at_once(tmp_path: Path) -> None:
    home_with_token_file(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with Nebius(settings(tmp_path, port), Clock(0.001)) as nebius:
        await nebius.open()
        started = time.monotonic()
        assert cause((await nebius.look(BUCKET)).presence) is Cause.UNREACHABLE
        assert time.monotonic() - started < 1.5


async def test_a_server_that_hangs_times_out_but_never_before_two_real_seconds(
    cloud: Cloud, tmp_path: Path
) -> None:
    home_with_token_file(tmp_path)
    cloud.behaviours["BucketService/Get"] = hang
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.0001)) as nebius:
        await nebius.open()
        started = time.monotonic()
        assert cause((await nebius.look(BUCKET)).presence) is Cause.TIMED_OUT
        assert 1.9 < time.monotonic() - started < 3.5


async def test_a_cancelled_read_returns_at_once(cloud: Cloud, nebius: Nebius) -> None:
    arrived = asyncio.Event()

    async def arrive_and_hang(request: Any, context: Any) -> Any:
        arrived.set()
        await hang(request, context)

    cloud.behaviours["BucketService/Get"] = arrive_and_hang
    reading = asyncio.create_task(nebius.look(BUCKET))
    await arrived.wait()
    started = time.monotonic()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert time.monotonic() - started < 0.5


async def test_an_answer_that_cannot_be_decoded_is_malformed(cloud: Cloud, nebius: Nebius) -> None:
    async def garbage(request: Any, context: Any) -> bytes:
        return b"\xff\xff\xff\xff"

    cloud.behaviours["BucketService/Get"] = garbage
    assert cause((await nebius.look(BUCKET)).presence) is Cause.MALFORMED
    cloud.behaviours["BucketService/List"] = garbage
    listing = await nebius.list("bucket", PROJECT)
    assert cause(listing.gap) is Cause.MALFORMED
    assert not listing.proves_empty


async def test_an_answer_without_an_id_or_with_another_one_is_malformed(cloud: Cloud, nebius: Nebius) -> None:
    async def empty(request: Any, context: Any) -> Any:
        return api("storage.v1").Bucket()

    async def another(request: Any, context: Any) -> Any:
        return bucket("storagebucket-e00other")

    for behave in (empty, another):
        cloud.behaviours["BucketService/Get"] = behave
        seen, found = await nebius.get(BUCKET)
        assert cause(seen.presence) is Cause.MALFORMED
        assert found is None


async def test_another_parent_is_the_wrong_scope(cloud: Cloud, nebius: Nebius) -> None:
    cloud.put(bucket(parent="project-e00other"))
    seen, found = await nebius.get(BUCKET, expected_parent=PROJECT)
    assert cause(seen.presence) is Cause.WRONG_SCOPE
    assert found is None
    assert cause((await nebius.look(BUCKET, PROJECT)).presence) is Cause.WRONG_SCOPE
    assert isinstance((await nebius.look(BUCKET, "project-e00other")).presence, Present)


@pytest.mark.parametrize(
    "ref",
    [Ref("bucket", "my-bucket"), Ref("cluster", "mk8snodegroup-e00n"), Ref("bucket", ""), Ref("planet", "planet-e00x"),
     Ref("access_permit", "group-e00g"), Ref("bucket", "storagebucket-e00\x1b[2J")],
)  # fmt: skip
async def test_what_is_no_id_of_that_kind_is_not_even_asked_for(
    cloud: Cloud, nebius: Nebius, ref: Ref
) -> None:
    seen, _ = await nebius.get(ref)
    assert cause(seen.presence) is Cause.WRONG_SCOPE
    assert not cloud.calls


async def test_a_scheduled_deletion_is_present_leaving_and_due(cloud: Cloud, nebius: Nebius) -> None:
    from datetime import UTC, datetime

    v1 = api("storage.v1")
    due = datetime(2026, 6, 1, tzinfo=UTC)
    cloud.put(bucket(state=v1.BucketStatus.State.SCHEDULED_FOR_DELETION, purge_at=due))
    presence = (await nebius.look(BUCKET)).presence
    assert isinstance(presence, Present)
    assert presence.leaving
    assert presence.due == "2026-06-01T00:00:00.000Z"


async def test_a_state_that_is_newer_than_the_sdk_is_not_leaving(cloud: Cloud, nebius: Nebius) -> None:
    cloud.put(bucket(state=99))
    presence = (await nebius.look(BUCKET)).presence
    assert isinstance(presence, Present)
    assert not presence.leaving
    assert "99" in presence.state


async def test_all_pages_of_a_listing(cloud: Cloud, nebius: Nebius) -> None:
    cloud.page_size = 3
    cloud.put(
        *(bucket(f"storagebucket-e00b{n}") for n in range(10)),
        bucket("storagebucket-e00x", "project-e00other"),
    )
    listing = await nebius.list("bucket", PROJECT)
    assert [item.ref.id for item in listing.items] == [f"storagebucket-e00b{n}" for n in range(10)]
    assert listing.gap is None
    assert [request.page_size for request in cloud.called("BucketService/List")] == [100] * 4
    assert {request.parent_id for request in cloud.called("BucketService/List")} == {PROJECT}


async def test_an_empty_listing_proves_empty(cloud: Cloud, nebius: Nebius) -> None:
    assert (await nebius.list("bucket", PROJECT)).proves_empty


async def test_a_second_page_that_fails_is_a_gap(cloud: Cloud, nebius: Nebius) -> None:
    async def second_fails(request: Any, context: Any) -> Any:
        if request.page_token:
            await refuse(context, "PERMISSION_DENIED", "not this page")
        return api("storage.v1").ListBucketsResponse(items=[bucket()], next_page_token="2")

    cloud.behaviours["BucketService/List"] = second_fails
    listing = await nebius.list("bucket", PROJECT)
    assert [item.ref for item in listing.items] == [BUCKET]
    assert cause(listing.gap) is Cause.DENIED


async def test_a_page_token_that_comes_again_is_a_gap(cloud: Cloud, nebius: Nebius) -> None:
    async def round_and_round(request: Any, context: Any) -> Any:
        following = {"": "a", "a": "b", "b": "a"}[request.page_token]
        return api("storage.v1").ListBucketsResponse(items=[bucket()], next_page_token=following)

    cloud.behaviours["BucketService/List"] = round_and_round
    listing = await nebius.list("bucket", PROJECT)
    assert len(cloud.calls) == 3
    assert [item.ref for item in listing.items] == [BUCKET]
    assert cause(listing.gap) is Cause.MALFORMED


async def test_a_listing_that_holds_something_of_elsewhere_has_a_gap(cloud: Cloud, nebius: Nebius) -> None:
    async def leaky(request: Any, context: Any) -> Any:
        return api("storage.v1").ListBucketsResponse(items=[bucket(parent="project-e00other")])

    cloud.behaviours["BucketService/List"] = leaky
    listing = await nebius.list("bucket", PROJECT)
    assert not listing.items
    assert cause(listing.gap) is Cause.WRONG_SCOPE


async def test_a_parent_that_is_not_found_does_not_prove_its_children_gone(
    cloud: Cloud, nebius: Nebius
) -> None:
    cloud.behaviours["NodeGroupService/List"] = refusing("NOT_FOUND", "no cluster")
    listing = await nebius.list("node_group", "mk8scluster-e00c")
    assert not listing.proves_empty
    assert cause(listing.gap) is Cause.WRONG_SCOPE


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        ("node_group", PROJECT),
        ("bucket", ""),
        ("bucket", "vpcnetwork-e00n"),
        ("planet", PROJECT),
        ("tenant", PROJECT),
    ],
)
async def test_a_list_that_the_provider_does_not_offer(
    cloud: Cloud, nebius: Nebius, kind: str, parent: str
) -> None:
    listing = await nebius.list(kind, parent)
    assert cause(listing.gap) is Cause.WRONG_SCOPE
    assert not cloud.calls


async def test_listing_time_is_when_it_was_asked(cloud: Cloud, nebius: Nebius) -> None:
    answered: list[str] = []

    async def slow(request: Any, context: Any) -> Any:
        await asyncio.sleep(0.05)
        answered.append(Clock().now())
        return api("storage.v1").ListBucketsResponse()

    await nebius.open()
    cloud.behaviours["BucketService/List"] = slow
    listing = await nebius.list("bucket", PROJECT)
    assert listing.at < answered[0]


async def test_lists_below_other_parents(cloud: Cloud, nebius: Nebius) -> None:
    iam1, iam2, vpc = api("iam.v1"), api("iam.v2"), api("vpc.v1")
    account = "serviceaccount-e00s"
    cloud.put(
        iam2.Tenant(metadata=metadata("tenant-e00t")),
        iam1.GroupMembership(
            metadata=metadata("groupmembership-e00m", "group-e00g"),
            spec=iam1.GroupMembershipSpec(member_id=account),
        ),
        vpc.Subnet(
            metadata=metadata("vpcsubnet-e00s", PROJECT), spec=vpc.SubnetSpec(network_id="vpcnetwork-e00n")
        ),
    )
    assert [one.ref.id for one in (await nebius.list("tenant", "")).items] == ["tenant-e00t"]
    (member,) = (await nebius.list("group_membership", "group-e00g")).items
    assert member.attrs["member_id"] == account
    (subnet,) = (await nebius.list("subnet", "vpcnetwork-e00n")).items
    assert subnet.parent == PROJECT
    await nebius.list("access_key", account)
    (asked,) = cloud.called("AccessKeyService/ListByAccount")
    assert asked.account.service_account.id == account
    await nebius.list("group", account)
    (asked,) = cloud.called("GroupMembershipService/ListMemberOf")
    assert asked.subject_id == account


async def test_an_artifact_gets_its_parent_from_the_list(cloud: Cloud, nebius: Nebius) -> None:
    v1 = api("registry.v1")
    artifact = v1.Artifact(
        id="artifact-e00a", name="app", created_at=None, status=v1.Artifact.Status.DELETING
    )

    async def listed(request: Any, context: Any) -> Any:
        return v1.ListArtifactsResponse(items=[artifact])

    cloud.behaviours["ArtifactService/List"] = listed
    (found,) = (await nebius.list("artifact", "registry-e00r")).items
    assert found.parent == "registry-e00r"
    assert found.presence.leaving
    cloud.things["artifact-e00a"] = artifact
    seen, one = await nebius.get(found.ref, expected_parent="registry-e00r")
    assert one is not None
    assert one.parent == "registry-e00r"
    assert seen.presence == found.presence
    assert (await nebius.look(found.ref)).presence == found.presence


async def test_the_secret_of_an_access_key_goes_nowhere(
    cloud: Cloud, nebius: Nebius, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    iam1, iam2 = api("iam.v1"), api("iam.v2")
    owner = iam1.Account(service_account=iam1.Account.ServiceAccount(id="serviceaccount-e00s"))
    key = iam2.AccessKey(
        metadata=metadata("accesskey-e00k", PROJECT),
        spec=iam2.AccessKeySpec(account=owner),
        status=iam2.AccessKeyStatus(
            state=iam2.AccessKeyStatus.State.ACTIVE, aws_access_key_id="NAKIEXAMPLE", secret="topsecretvalue"
        ),
    )
    cloud.put(key)
    listing = await nebius.list("access_key", PROJECT)
    seen, found = await nebius.get(Ref("access_key", "accesskey-e00k"))
    assert found is not None
    assert dict(found.attrs) == {
        "account_id": "serviceaccount-e00s", "state": "ACTIVE", "aws_access_key_id": "NAKIEXAMPLE",
    }  # fmt: skip
    assert "topsecret" not in repr(listing) + repr(seen) + repr(found) + caplog.text


async def test_text_from_outside_cannot_steer_a_terminal_or_leak(cloud: Cloud, nebius: Nebius) -> None:
    named = bucket()
    named.metadata.name = "red\x1b[31m"
    cloud.put(named)
    _, found = await nebius.get(BUCKET)
    assert found is not None
    assert "\x1b" not in found.name
    cloud.behaviours["BucketService/Get"] = refusing(
        "PERMISSION_DENIED", "Bearer abcdefghijk.secret is not enough"
    )
    seen = await nebius.look(BUCKET)
    assert "abcdefghijk" not in repr(seen)


async def test_the_number_of_calls_at_once_has_a_limit(cloud: Cloud, tmp_path: Path) -> None:
    home_with_token_file(tmp_path)
    inside, most = 0, 0

    async def slow(request: Any, context: Any) -> Any:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.03)
        inside -= 1
        return bucket()

    cloud.behaviours["BucketService/Get"] = slow
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01), concurrency=3) as nebius:
        seen = await asyncio.gather(*(nebius.look(BUCKET) for _ in range(12)))
    assert most == 3
    assert all(isinstance(one.presence, Present) for one in seen)
