"""Prices, and how many calls go out at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nebius_server import Cloud, api, home_with_token_file, refuse, serving, settings

from engine.clock import Clock
from engine.clouds.nebius.client import Nebius
from engine.clouds.nebius.lanes import Lanes
from engine.words.presence import Cause, Present, Ref, Resource

PROJECT = "project-e00p"


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with serving(Cloud()) as running:
        running.behaviours["CalculatorService/Estimate"] = estimate
        yield running


@pytest.fixture
async def nebius(cloud: Cloud, tmp_path: Path) -> AsyncIterator[Nebius]:
    home_with_token_file(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as client:
        yield client


async def estimate(request: Any, context: Any) -> Any:
    """One dollar an hour for an instance, a cent for each GiB; no price for the platform `cpu-unpriced`."""
    asked = request.resource_spec.resource_spec
    spec = asked.value.spec
    if asked.field == "compute_instance_spec":
        if spec.resources.platform == "cpu-unpriced":
            await refuse(context, "INVALID_ARGUMENT", "unknown platform")
        return costs("1.0")
    return costs(f"{(spec.size_gibibytes or spec.size_bytes / (1 << 30)) / 100:.4f}")


def costs(cost: str) -> Any:
    v1 = api("billing.v1alpha1")
    total = v1.GeneralTotalCost(total=v1.CostBreakdown(cost=cost))
    return v1.EstimateResponse(hourly_cost=v1.ResourceGroupCost(general=total))


def thing(kind: str, id: str, **attrs: str) -> Resource:
    return Resource(Ref(kind, id), id, PROJECT, Present("f"), attrs=attrs)


async def test_what_things_cost_per_hour(cloud: Cloud, nebius: Nebius) -> None:
    instance = thing("instance", "computeinstance-e00i", platform="gpu-h100-sxm", preset="1gpu")
    disk = thing("disk", "computedisk-e00d", size_gib="64", type="NETWORK_SSD")
    filesystem = thing("filesystem", "computefilesystem-e00f", size_gib="1.500")
    assert await nebius.prices([instance, disk, filesystem]) == {
        instance.ref: 1.0, disk.ref: 0.64, filesystem.ref: 0.015,
    }  # fmt: skip
    assert nebius.prices_gap is None
    for request in cloud.called("CalculatorService/Estimate"):
        assert request.resource_spec.resource_spec.value.metadata.parent_id == PROJECT


async def test_what_has_no_known_price_has_none(cloud: Cloud, nebius: Nebius) -> None:
    unpriced = [
        thing("instance", "computeinstance-e00i", platform="cpu-unpriced", preset="x"),
        thing("instance", "computeinstance-e00j", platform="cpu-e2", preset="x", spot="1"),
        thing("instance", "computeinstance-e00k"),
        thing("disk", "computedisk-e00d", size_gib="64", type="UNRECOGNIZED_99"),
        thing("bucket", "storagebucket-e00b"),
    ]
    assert await nebius.prices(unpriced) == {one.ref: None for one in unpriced}
    assert nebius.prices_gap is None


async def test_things_of_one_shape_are_asked_for_once(cloud: Cloud, nebius: Nebius) -> None:
    disks = [thing("disk", f"computedisk-e00d{n}", size_gib="64", type="NETWORK_SSD") for n in range(20)]
    assert set((await nebius.prices(disks)).values()) == {0.64}
    assert len(cloud.called("CalculatorService/Estimate")) == 1


async def test_a_calculator_that_cannot_be_asked_leaves_no_prices_and_a_reason(
    cloud: Cloud, nebius: Nebius
) -> None:
    async def deny(request: Any, context: Any) -> Any:
        await refuse(context, "PERMISSION_DENIED", "no billing for you")

    disk = thing("disk", "computedisk-e00d", size_gib="64")
    cloud.behaviours["CalculatorService/Estimate"] = deny
    assert await nebius.prices([disk]) == {}
    assert nebius.prices_gap is not None
    assert nebius.prices_gap.cause is Cause.DENIED
    cloud.behaviours["CalculatorService/Estimate"] = estimate
    assert await nebius.prices([disk]) == {disk.ref: 0.64}
    assert nebius.prices_gap is None


async def test_nothing_to_price_asks_nothing(cloud: Cloud, nebius: Nebius) -> None:
    assert await nebius.prices([]) == {}
    assert not cloud.calls


async def test_throttling_narrows_the_lanes_and_success_widens_them() -> None:
    lanes = Lanes(16)
    lanes.throttled()
    assert lanes.limit == 8
    for _ in range(10):
        lanes.throttled()
    assert lanes.limit == 1
    for _ in range(200):
        lanes.passed()
    assert lanes.limit == 16


async def test_a_turn_that_comes_in_the_moment_of_giving_up_goes_to_the_next() -> None:
    lanes = Lanes(1)

    async def wait() -> None:
        async with lanes:
            pass

    async with lanes:
        giving_up, following = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
    giving_up.cancel()  # its turn has come with the end of the block, but it has not run since
    async with asyncio.timeout(1):
        await following
    assert giving_up.cancelled() or giving_up.cancelling()


@given(st.integers(1, 4), st.lists(st.sampled_from(["run", "cancel", "throttle"]), min_size=1, max_size=25))
def test_lanes_never_hold_more_than_the_limit_and_lose_no_place(most: int, deeds: list[str]) -> None:
    async def play() -> None:
        lanes = Lanes(most)
        inside = 0

        async def drive() -> None:
            nonlocal inside
            async with lanes:
                inside += 1
                try:
                    assert inside <= most
                    await asyncio.sleep(0)
                    lanes.passed()
                finally:
                    inside -= 1

        tasks = []
        for deed in deeds:
            if deed == "throttle":
                lanes.throttled()
            tasks.append(asyncio.create_task(drive()))
            await asyncio.sleep(0)
            if deed == "cancel":
                tasks[-1].cancel()
        async with asyncio.timeout(5):
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends)
        assert inside == 0
        await asyncio.wait_for(_all_at_once(lanes, lanes.limit), 1)

    asyncio.run(play())


async def _all_at_once(lanes: Lanes, count: int) -> None:
    """As many as the limit says can be inside together: no place was lost."""
    met = asyncio.Barrier(count)

    async def meet() -> None:
        async with lanes:
            await met.wait()

    await asyncio.gather(*(meet() for _ in range(count)))
