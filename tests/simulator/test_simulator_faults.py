"""The timetable of faults: its laws, and how each server renders what it says."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.simulator.faults import Fault, Timetable
from engine.simulator.kubernetes import KubernetesCluster, KubernetesSpec
from engine.simulator.object_store import ObjectStore
from engine.simulator.skypilot import SkyServer, SkySpec

MANY = settings(max_examples=150, deadline=None)
CALLS = ("GET /api/v1/pods", "GET /api/v1/nodes", "DELETE /api/v1/pods/a")
GLOBS = ("*", "GET *", "GET /api/v1/pods*", "DELETE *", "PUT *")


class Moment:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    kind = draw(st.sampled_from(("latency", "status", "drop", "hang")))
    after = draw(st.integers(0, 8))
    return Fault(
        service=draw(st.sampled_from(("kubernetes", "s3"))),
        match=draw(st.sampled_from(GLOBS)),
        kind=kind,
        status=503 if kind == "status" else None,
        seconds=1 if kind == "latency" else 0,
        times=draw(st.one_of(st.none(), st.integers(1, 3))),
        after=after,
        until=draw(st.one_of(st.none(), st.integers(after + 1, after + 6))),
    )


steps = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(CALLS)), min_size=1, max_size=12)
SCALE = 1e-4


async def history(
    given: list[Fault], requests: list[tuple[int, str]]
) -> list[tuple[float, str, Fault | None]]:
    """What each request met, and at which nominal second it came."""
    clock, met = Moment(), []
    timetable = Timetable(given, SCALE, clock)
    for wait, call in requests:
        clock.now += wait * SCALE
        met.append(((clock.now - 1000.0) / SCALE, call, await timetable.meet("kubernetes", call, "")))
    return met


def run(given: list[Fault], requests: list[tuple[int, str]]) -> list[tuple[float, str, Fault | None]]:
    return asyncio.run(history(given, requests))


@MANY
@given(st.lists(faults(), max_size=5), steps)
def test_what_is_met_is_of_the_service_matches_and_is_in_time(
    given: list[Fault], requests: list[tuple[int, str]]
) -> None:
    for at, call, fault in run(given, requests):
        if fault is not None:
            assert fault.service == "kubernetes"
            assert fault.kind != "latency"
            assert call.startswith(fault.match.removesuffix("*"))
            assert fault.after <= at + 1e-6
            assert fault.until is None or at - 1e-6 < fault.until


@MANY
@given(st.lists(faults(), max_size=5, unique_by=id), steps)
def test_nothing_is_met_more_often_than_it_may_and_what_is_unlimited_is_never_missed(
    given: list[Fault], requests: list[tuple[int, str]]
) -> None:
    met = run(given, requests)
    for fault in given:
        if fault.times is not None:
            assert sum(f is fault for _, _, f in met) <= fault.times
    for at, call, found in met:
        due = [
            f
            for f in given
            if f.service == "kubernetes"
            and f.kind != "latency"
            and f.times is None
            and call.startswith(f.match.removesuffix("*"))
            and f.after + 1e-6 < at
            and (f.until is None or at < f.until - 1e-6)
        ]
        assert found is not None or not due


@MANY
@given(st.integers(1, 5), st.integers(1, 10))
def test_a_limited_fault_is_met_by_exactly_so_many(times: int, requests: int) -> None:
    fault = Fault(service="kubernetes", kind="drop", times=times)
    met = run([fault], [(0, CALLS[0])] * requests)
    assert [f is fault for _, _, f in met] == [n < times for n in range(requests)]


@MANY
@given(st.lists(faults(), min_size=1, max_size=5), steps)
def test_after_the_end_nothing_is_met(given: list[Fault], requests: list[tuple[int, str]]) -> None:
    async def check() -> None:
        clock = Moment()
        timetable = Timetable(given, SCALE, clock)
        timetable.end()
        for wait, call in requests:
            clock.now += wait * SCALE
            assert await timetable.meet("kubernetes", call, "") is None
            assert timetable.meet_item("kubernetes", call, "") is None
        assert timetable.over

    asyncio.run(check())


async def test_latencies_add_up_until_the_first_fault_that_ends_a_request() -> None:
    slow = Fault(service="s3", kind="latency", seconds=2, times=2)
    more = Fault(service="s3", kind="latency", seconds=3, times=2)
    late = Fault(service="s3", kind="latency", seconds=50, times=1)
    end = Fault(service="s3", kind="status", status=503, times=1)
    timetable = Timetable([slow, more, end, late], 0.01)
    began = time.monotonic()
    assert await timetable.meet("s3", "PutObject", "b/k") == end
    assert 0.045 <= time.monotonic() - began < 0.4
    began = time.monotonic()
    assert await timetable.meet("s3", "PutObject", "b/k") is None, "what did not end it was not used up"
    assert time.monotonic() - began >= 0.5
    began = time.monotonic()
    assert await timetable.meet("s3", "PutObject", "b/k") is None
    assert time.monotonic() - began < 0.04


async def test_the_end_lets_go_what_waits_and_what_hangs_and_new_faults_apply_again() -> None:
    slow = Fault(service="s3", kind="latency", seconds=3600)
    stuck = Fault(service="s3", kind="hang")
    timetable = Timetable([slow])
    tasks = [
        asyncio.create_task(timetable.meet("s3", "GetObject", "b/k")),
        asyncio.create_task(timetable.hang(stuck)),
    ]
    await asyncio.sleep(0.01)
    timetable.add([stuck])
    tasks.append(asyncio.create_task(timetable.hang(stuck)))
    await asyncio.sleep(0.01)
    assert not any(t.done() for t in tasks)
    timetable.end()
    async with asyncio.timeout(1):
        await asyncio.gather(*tasks)
    assert tasks[0].result() is None
    timetable.add([stuck])
    assert not timetable.over
    assert await timetable.meet("s3", "GetObject", "b/k") == stuck


async def test_times_of_added_faults_count_from_when_they_came() -> None:
    clock = Moment()
    timetable = Timetable([], 1.0, clock)
    clock.now += 100
    timetable.add([Fault(service="s3", kind="drop", after=5, until=10)])
    seen = []
    for _ in range(12):
        seen.append(await timetable.meet("s3", "GetObject", "b/k") is not None)
        clock.now += 1
    assert seen == [5 <= n < 10 for n in range(12)]


def test_items_of_a_batch_are_met_only_by_faults_that_speak_of_items() -> None:
    every = Fault(service="s3", kind="status", status=503)
    one = Fault(service="s3", match="DeleteObjects/Item b/k*", kind="status", status="AccessDenied", times=1)
    timetable = Timetable([every, one])
    assert timetable.meet_item("s3", "DeleteObjects/Item", "b/other") is None
    assert timetable.meet_item("s3", "DeleteObjects/Item", "b/key") == one
    assert timetable.meet_item("s3", "DeleteObjects/Item", "b/key") is None


@pytest.mark.parametrize(
    "given",
    [
        {"service": "s3", "kind": "status"},
        {"service": "s3", "kind": "latency"},
        {"service": "s3", "kind": "drop", "after": 5, "until": 5},
        {"service": "s3", "kind": "drop", "times": 0},
        {"service": "ftp", "kind": "drop"},
        {"service": "s3", "kind": "drop", "how": "hard"},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Fault.model_validate(given)


# -- as the servers render them ---------------------------------------------------------------------------------------


def s3(timetable: Timetable) -> Any:
    return ObjectStore([], {}, timetable)


def kubernetes(timetable: Timetable) -> Any:
    return KubernetesCluster(KubernetesSpec(), {"t"}, timetable, 1.0)


def skypilot(timetable: Timetable) -> Any:
    return SkyServer(SkySpec(), {}, timetable, 1.0)


SERVERS: dict[str, Callable[[Timetable], Any]] = {"s3": s3, "kubernetes": kubernetes, "skypilot": skypilot}


@dataclass
class Served:
    """A server that can be asked something, which means nothing to it."""

    service: str
    timetable: Timetable
    log: list[Any]
    client: aiohttp.ClientSession
    url: str


@pytest.fixture(params=list(SERVERS))
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    timetable = Timetable([])
    server = SERVERS[request.param](timetable)
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession() as client:
        yield Served(
            request.param, timetable, server.log, client, f"http://127.0.0.1:{runner.addresses[0][1]}/nothing"
        )
    await runner.cleanup()


def fault(service: str, kind: str, **more: Any) -> Fault:
    return Fault.model_validate({"service": service, "kind": kind, **more})


async def test_a_status_comes_in_the_services_own_format(served: Served) -> None:
    served.timetable.add(
        [fault(served.service, "status", status=503, message="over <there>", retry_after=2, times=1)]
    )
    answer = await served.client.get(served.url)
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "2"
    text = await answer.text()
    match served.service:
        case "s3":
            root = ElementTree.fromstring(text)
            assert [root.findtext("Code"), root.findtext("Message")] == ["SlowDown", "over <there>"]
        case "kubernetes":
            document = json.loads(text)
            assert (document["kind"], document["reason"], document["code"]) == (
                "Status",
                "ServiceUnavailable",
                503,
            )
            assert document["message"] == "over <there>"
        case "skypilot":
            assert json.loads(text) == {"detail": "over <there>"}
    assert served.log[-1]["code"] == "fault:status"
    await served.client.get(served.url)
    assert served.log[-1]["code"].isdecimal()


async def test_a_drop_and_a_hang_give_no_answer(served: Served) -> None:
    served.timetable.add(
        [fault(served.service, "drop", times=1), fault(served.service, "hang", seconds=0.05, times=1)]
    )
    for kind in ("drop", "hang"):
        with pytest.raises(aiohttp.ClientConnectionError):
            # Some method that a client does not try again by itself.
            await served.client.post(served.url)
        assert served.log[-1]["code"] == f"fault:{kind}"


async def test_a_hanging_request_ends_when_its_client_goes(served: Served) -> None:
    served.timetable.add([fault(served.service, "hang")])
    with pytest.raises(TimeoutError):
        await served.client.get(served.url, timeout=aiohttp.ClientTimeout(total=0.05))
    async with asyncio.timeout(2):
        while not served.log[-1]["code"]:  # noqa: ASYNC110 - the server's log is looked at
            await asyncio.sleep(0.01)


async def test_a_latency_only_delays(served: Served) -> None:
    plain = await served.client.get(served.url)
    served.timetable.add([fault(served.service, "latency", seconds=0.1)])
    began = time.monotonic()
    slow = await served.client.get(served.url)
    assert time.monotonic() - began >= 0.1
    assert slow.status == plain.status
    assert [row["code"] for row in served.log] == [str(plain.status)] * 2
