"""What the client does to change something: once, the right thing, and saying what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nebius_server import Cloud, api, home_with_token_file, metadata, refuse, serving, settings

from engine.clock import Clock
from engine.clouds.nebius.client import Nebius
from engine.words.intents import Intent
from engine.words.presence import Absent, Cause, Present, Ref
from engine.words.trouble import Trouble

PROJECT = "project-e00p"
BUCKET = Ref("bucket", "storagebucket-e00b1")
DISK = Ref("disk", "computedisk-e00d1")


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with serving(Cloud()) as running:
        yield running


@pytest.fixture
async def nebius(cloud: Cloud, tmp_path: Path) -> AsyncIterator[Nebius]:
    home_with_token_file(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as client:
        yield client


def intent(ref: Ref, key: str = "key-1", expect: str = "") -> Intent:
    return Intent(key, ref, expect, asyncio.Event())


def bucket(**status: Any) -> Any:
    v1 = api("storage.v1")
    return v1.Bucket(metadata=metadata(BUCKET.id, PROJECT), status=v1.BucketStatus(**status))


def disk(name: str = "boot") -> Any:
    v1 = api("compute.v1")
    return v1.Disk(
        metadata=metadata(DISK.id, PROJECT, name),
        spec=v1.DiskSpec(),
        status=v1.DiskStatus(state=v1.DiskStatus.State.READY),
    )


async def fingerprint(nebius: Nebius, ref: Ref) -> str:
    presence = (await nebius.look(ref)).presence
    assert isinstance(presence, Present)
    return presence.fingerprint


async def test_a_deletion_is_asked_for_with_its_key_and_then_looked_for(cloud: Cloud, nebius: Nebius) -> None:
    cloud.put(disk())
    await nebius.delete(intent(DISK, expect=await fingerprint(nebius, DISK)))
    ((_, request, headers),) = [call for call in cloud.calls if call[0] == "DiskService/Delete"]
    assert request.id == DISK.id
    assert headers["x-idempotency-key"] == "key-1"
    assert (await nebius.look(DISK)).presence == Absent()


async def test_a_lost_answer_is_asked_for_again_with_the_same_key(cloud: Cloud, nebius: Nebius) -> None:
    cloud.put(disk())
    done: dict[str, Any] = {}
    keys: list[str] = []

    async def lose_the_first_answer(request: Any, context: Any) -> Any:
        key = dict(context.invocation_metadata())["x-idempotency-key"]
        keys.append(key)
        if key in done:
            return done[key]
        del cloud.things[request.id]
        done[key] = cloud.operation(request.id)
        await refuse(context, "UNAVAILABLE", "connection reset")
        return None

    cloud.behaviours["DiskService/Delete"] = lose_the_first_answer
    await nebius.delete(intent(DISK))
    assert keys == ["key-1", "key-1"]
    assert len(done) == 1


async def test_without_a_key_a_lost_answer_stays_lost(cloud: Cloud, nebius: Nebius) -> None:
    async def reset(request: Any, context: Any) -> Any:
        await refuse(context, "UNAVAILABLE", "connection reset")

    cloud.behaviours["DiskService/Delete"] = reset
    with pytest.raises(Trouble) as caught:
        await nebius.delete(intent(DISK, key=""))
    assert caught.value.cause is Cause.UNREACHABLE
    assert len(cloud.called("DiskService/Delete")) == 1


async def test_what_is_not_there_needs_no_deletion(cloud: Cloud, nebius: Nebius) -> None:
    await nebius.delete(intent(DISK))
    await nebius.delete(intent(DISK, expect="0" * 16))
    assert len(cloud.called("DiskService/Delete")) == 1


async def test_another_thing_under_that_id_is_not_deleted(cloud: Cloud, nebius: Nebius) -> None:
    cloud.put(disk())
    seen = await fingerprint(nebius, DISK)
    cloud.put(disk(name="someone-elses"))
    with pytest.raises(Trouble, match="changed since it was looked at") as caught:
        await nebius.delete(intent(DISK, expect=seen))
    assert caught.value.cause is Cause.CONFLICT
    assert not cloud.called("DiskService/Delete")
    assert DISK.id in cloud.things


async def test_what_cannot_be_read_again_is_not_deleted(cloud: Cloud, nebius: Nebius) -> None:
    cloud.put(disk())
    seen = await fingerprint(nebius, DISK)

    async def deny(request: Any, context: Any) -> Any:
        await refuse(context, "PERMISSION_DENIED", "no")

    cloud.behaviours["DiskService/Get"] = deny
    with pytest.raises(Trouble) as caught:
        await nebius.delete(intent(DISK, expect=seen))
    assert caught.value.cause is Cause.DENIED
    assert not cloud.called("DiskService/Delete")


async def test_a_refusal_says_what_is_in_the_way_and_the_request(cloud: Cloud, nebius: Nebius) -> None:
    state = api("common.v1").BadResourceState(resource_id=DISK.id, message="attached to computeinstance-e00i")

    async def attached(request: Any, context: Any) -> Any:
        await refuse(context, "FAILED_PRECONDITION", "in use", bad_resource_state=state)

    cloud.behaviours["DiskService/Delete"] = attached
    with pytest.raises(Trouble) as caught:
        await nebius.delete(intent(DISK))
    assert caught.value.cause is Cause.CONFLICT
    assert "attached to computeinstance-e00i" in caught.value.detail
    assert caught.value.request_id == "req-1"
    assert len(cloud.called("DiskService/Delete")) == 1


async def test_an_operation_that_came_back_failed_is_a_failure(cloud: Cloud, nebius: Nebius) -> None:
    async def fail(request: Any, context: Any) -> Any:
        return cloud.operation(request.id, code=9, message="BucketNotEmpty")

    cloud.behaviours["BucketService/Delete"] = fail
    with pytest.raises(Trouble, match="BucketNotEmpty") as caught:
        await nebius.delete(intent(BUCKET))
    assert caught.value.cause is Cause.CONFLICT


async def test_an_answer_that_is_no_operation_is_malformed(cloud: Cloud, nebius: Nebius) -> None:
    async def garbage(request: Any, context: Any) -> bytes:
        return b"\xff\xff\xff\xff"

    cloud.behaviours["BucketService/Delete"] = garbage
    with pytest.raises(Trouble) as caught:
        await nebius.delete(intent(BUCKET))
    assert caught.value.cause is Cause.MALFORMED


@pytest.mark.parametrize("code", [None, 0])
async def test_an_operation_under_way_or_done_is_accepted(
    cloud: Cloud, nebius: Nebius, code: int | None
) -> None:
    async def accept(request: Any, context: Any) -> Any:
        return cloud.operation(request.id, code=code)

    cloud.behaviours["BucketService/Delete"] = accept
    await nebius.delete(intent(BUCKET))
    assert len(cloud.called("BucketService/Delete")) == 1


@pytest.mark.parametrize(("after", "seconds"), [(0.0, 0.0), (3600.0, 3600.0), (None, None)])
async def test_a_bucket_goes_after_the_time_that_was_asked_for(
    cloud: Cloud, nebius: Nebius, after: float | None, seconds: float | None
) -> None:
    cloud.put(bucket())
    await nebius.delete(intent(BUCKET), purge_after=after)
    (request,) = cloud.called("BucketService/Delete")
    assert request.check_presence("ttl") is (seconds is not None)
    if seconds is not None:
        assert request.ttl.total_seconds() == seconds


async def test_a_scheduled_bucket_is_left_to_its_schedule_unless_it_is_to_go_now(
    cloud: Cloud, nebius: Nebius
) -> None:
    cloud.put(bucket(state=api("storage.v1").BucketStatus.State.SCHEDULED_FOR_DELETION))
    seen = await fingerprint(nebius, BUCKET)
    await nebius.delete(intent(BUCKET, expect=seen), purge_after=3600)
    await nebius.delete(intent(BUCKET, expect=seen))
    assert {name for name, _, _ in cloud.calls} == {"BucketService/Get"}

    async def accept(request: Any, context: Any) -> Any:
        return cloud.operation(request.id)

    cloud.behaviours["BucketService/Purge"] = accept
    await nebius.delete(intent(BUCKET, expect=seen), purge_after=0)
    (request,) = cloud.called("BucketService/Purge")
    assert request.id == BUCKET.id


@pytest.mark.parametrize(
    ("ref", "after"),
    [
        (Ref("tenant", "tenant-e00t"), None),
        (Ref("planet", "planet-e00x"), None),
        (Ref("disk", "boot"), None),
        (Ref("disk", BUCKET.id), None),
        (DISK, 0.0),
    ],
)
async def test_what_this_program_does_not_delete(
    cloud: Cloud, nebius: Nebius, ref: Ref, after: float | None
) -> None:
    with pytest.raises(Trouble) as caught:
        await nebius.delete(intent(ref), purge_after=after)
    assert caught.value.cause is Cause.WRONG_SCOPE
    assert not cloud.calls


async def test_why_something_is_still_there(cloud: Cloud, nebius: Nebius) -> None:
    assert await nebius.operation_error(DISK) is None
    cloud.operation(DISK.id, code=0, age=30)
    cloud.operation(DISK.id, code=9, message="attached", age=20)
    cloud.operation(DISK.id)  # under way: says nothing yet
    cloud.operation("computedisk-e00other", code=7, message="another", age=1)
    trouble = await nebius.operation_error(DISK)
    assert trouble is not None
    assert trouble.cause is Cause.CONFLICT
    assert "attached" in trouble.detail
    cloud.operation(DISK.id, code=0, age=1)
    assert await nebius.operation_error(DISK) is None


async def test_no_explanation_when_operations_cannot_be_read(cloud: Cloud, nebius: Nebius) -> None:
    async def deny(request: Any, context: Any) -> Any:
        await refuse(context, "PERMISSION_DENIED", "no")

    cloud.behaviours["OperationService/List"] = deny
    assert await nebius.operation_error(DISK) is None
