"""Emptying a bucket, against a store that misbehaves as real ones do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from object_store_server import ACCESS_KEY, NS, SECRET_KEY, Bucket, Server

from engine.clock import Clock
from engine.clouds.object_store import BUCKET, ObjectStore, PurgeProgress, PurgeReport, Secret, StoreAccess
from engine.clouds.object_store.batches import delete_body, fits_xml
from engine.clouds.object_store.keep import keeper
from engine.clouds.object_store.listings import Entry
from engine.words.intents import Intent
from engine.words.presence import Cause, Ref
from engine.words.trouble import Trouble


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        server.buckets["b"] = Bucket()
        yield server


class Run:
    """One purge, with what it told on the way."""

    def __init__(self, server: Server, *, concurrency: int = 16, scale: float = 0.01) -> None:
        access = StoreAccess(server.endpoint, "eu-north1", ACCESS_KEY, Secret(SECRET_KEY))
        self.store = ObjectStore(access, Clock(scale), concurrency=concurrency)
        self.told: list[PurgeProgress] = []
        self.stop = asyncio.Event()

    async def purge(self, *keep: str, bypass: bool = False, expect: str = "") -> PurgeReport:
        intent = Intent("key", Ref(BUCKET, "b"), expect, self.stop)
        async with self.store:
            return await self.store.purge(
                intent, "b", progress=self.told.append, keep=keep, bypass_governance=bypass
            )


def recent(seconds: float = 60) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


async def test_purge_versions_and_markers_in_full_batches_with_version_ids(server: Server) -> None:
    bucket = server.buckets["b"]
    bucket.fill((f"runs/{i % 7}/{i:05d}" for i in range(2500)), versions=2, marker_every=4)
    run = Run(server, concurrency=2)
    report = await run.purge()
    assert report.emptied and not bucket.alive
    assert (report.versions, report.markers, report.bytes) == (5000, 625, 20000)
    assert server.calls["delete_objects"] == 6  # 5,625 entries
    assert server.calls["list_versions"] <= 6 + 2
    assert bucket.markers_made == 0
    assert bucket.status == "Suspended"
    assert all(b"<VersionId>" in body and b"<Quiet>true</Quiet>" in body for body in server.bodies)
    assert run.told[-1].deleted == 5625 and run.told[-1].listed
    assert [p.deleted for p in run.told] == sorted(p.deleted for p in run.told)


async def test_purge_of_many_prefixes_lists_side_by_side_and_deletes_each_once(server: Server) -> None:
    server.faults.latency = 0.01
    bucket = server.buckets["b"]
    bucket.fill(f"data/runs/{i % 50:02d}/{i:05d}" for i in range(9000))
    bucket.put("data/runs/07/")  # an object that is named as the prefix is
    bucket.put("zz-last")
    report = await Run(server).purge()
    assert report.emptied and report.versions == 9002
    assert max(server.attempts.values()) == 1
    assert server.most_active > 4


async def test_purge_of_an_unversioned_bucket_deletes_the_null_versions(server: Server) -> None:
    bucket = server.buckets["b"] = Bucket(versioned=False)
    bucket.fill(f"k{i}" for i in range(1500))
    report = await Run(server).purge()
    assert report.emptied and report.versions == 1500 and bucket.markers_made == 0
    assert server.calls["put_versioning"] == 0


async def test_purge_of_an_empty_bucket_looks_twice(server: Server) -> None:
    report = await Run(server).purge()
    assert report.emptied and report.sweeps == 2
    assert server.calls["delete_objects"] == 0


async def test_pages_of_markers_only_and_of_versions_only(server: Server) -> None:
    bucket = server.buckets["b"]
    for i in range(1000):
        bucket.put(f"a{i:04d}", marker=True)
    bucket.fill(f"b{i:04d}" for i in range(1000))
    bucket.put("c", marker=True)
    report = await Run(server).purge()
    assert report.emptied and (report.versions, report.markers) == (1000, 1001)


async def test_unfinished_uploads_are_aborted_and_looked_for_again(server: Server) -> None:
    bucket = server.buckets["b"]
    for i in range(1200):
        bucket.uploads[f"u{i}"] = (f"up load/{i:04d}", "2026-01-01T00:00:00.000Z")
    server.faults.key_errors["up load/0003"] = ["in flight"]

    def land(server: Server, sweep: int) -> None:
        if sweep == 2:
            server.faults.key_errors.clear()

    server.faults.writer = land
    report = await Run(server).purge()
    assert report.emptied and not bucket.uploads
    assert server.calls["abort_upload"] == 1201
    assert report.uploads == 1201


async def test_the_end_of_a_listing_is_not_the_end_of_the_bucket(server: Server) -> None:
    """As some stores do, the listing ends with success where it would continue from a version that is gone."""
    server.faults.lying_end = True
    bucket = server.buckets["b"]
    bucket.fill(f"k{i:05d}" for i in range(5000))
    report = await Run(server, concurrency=4).purge()
    assert report.emptied and not bucket.alive and report.sweeps > 2


async def test_a_listing_that_ignores_its_marker_is_no_endless_loop(server: Server) -> None:
    server.faults.ignores_marker = True
    server.faults.deny = frozenset({"delete_objects"})
    server.buckets["b"].fill(f"k{i:05d}" for i in range(2500))
    with pytest.raises(Trouble) as caught:
        async with asyncio.timeout(5):
            await Run(server).purge()
    assert caught.value.cause in (Cause.MALFORMED, Cause.DENIED)
    server.faults.deny = frozenset()
    server.faults.key_errors = {f"k{i:05d}": ["AccessDenied!"] for i in range(2500)}
    with pytest.raises(Trouble, match="listing of b"):
        async with asyncio.timeout(5):
            await Run(server).purge()


async def test_partial_errors_inside_a_success(server: Server) -> None:
    bucket = server.buckets["b"]
    bucket.fill(f"k{i:04d}" for i in range(1000))
    server.faults.key_errors = {
        "k0001": ["AccessDenied!"],
        "k0002": ["InternalError", "SlowDown"],
        "k0003": ["SlowDown"],
    }
    report = await Run(server).purge()
    assert not report.emptied and report.held_total == 1 and report.versions == 999
    assert [(h.key, h.code) for h in report.held] == [("k0001", "AccessDenied")]
    assert [r.key for r in bucket.alive] == ["k0001"]
    denied = [n for (key, _), n in server.attempts.items() if key == "k0001"]
    assert denied == [1]


async def test_locked_versions_are_asked_for_once_and_reported_with_their_date(server: Server) -> None:
    bucket = server.buckets["b"]
    bucket.fill(f"k{i:04d}" for i in range(50))
    bucket.lock = True
    for i, row in enumerate(bucket.rows[:11]):
        row.until = f"2027-01-{i + 1:02d}T00:00:00Z"
    report = await Run(server).purge()
    assert not report.emptied and report.held_total == 11 and report.versions == 39
    assert report.retain_until == "2027-01-11T00:00:00Z"
    assert max(server.attempts.values()) == 1
    assert any("suspending versioning" in note for note in report.notes)


@pytest.mark.parametrize("lock", [True, False])
async def test_the_bypass_header_goes_only_to_a_bucket_with_a_lock(server: Server, lock: bool) -> None:
    bucket = server.buckets["b"]
    bucket.lock = lock
    bucket.fill(["a", "b"])
    bucket.rows[0].until = "2027-01-01T00:00:00Z" if lock else ""
    report = await Run(server).purge(bypass=True)
    assert report.emptied and report.versions == 2


async def test_one_who_keeps_writing_is_noticed_and_named(server: Server) -> None:
    server.buckets["b"].put("old")

    def write(server: Server, sweep: int) -> None:
        server.buckets["b"].put(f"runs/live/part-{sweep}", modified=recent())

    server.faults.writer = write
    report = await Run(server).purge()
    assert report.writing and report.still_written == "runs/live/" and not report.emptied
    assert report.sweeps == 4


async def test_one_late_write_is_swept_up(server: Server) -> None:
    server.buckets["b"].put("old")

    def write(server: Server, sweep: int) -> None:
        if sweep == 2:
            server.buckets["b"].put("late", modified=recent())
            server.buckets["b"].uploads["u"] = ("late-upload", recent())

    server.faults.writer = write
    report = await Run(server).purge()
    assert (
        report.emptied
        and not report.writing
        and not server.buckets["b"].alive
        and not server.buckets["b"].uploads
    )


async def test_throttling_slows_down_and_loses_nothing(server: Server) -> None:
    server.faults.slow_share = 0.2
    bucket = server.buckets["b"]
    bucket.fill((f"p{i % 9}/{i:05d}" for i in range(6000)), versions=2)
    server.faults.key_errors = {f"p1/{i:05d}": ["SlowDown"] for i in range(0, 6000, 100)}
    report = await Run(server).purge()
    assert report.emptied and report.versions == 12000 and report.throttled > 0


async def test_retry_after_is_honoured_and_the_same_batch_repeated(server: Server) -> None:
    server.buckets["b"].fill(["a"])
    server.faults.slow_first, server.faults.retry_after = 2, "20"
    began = asyncio.get_running_loop().time()
    report = await Run(server).purge()  # 2 x 20 nominal seconds
    assert report.emptied
    assert asyncio.get_running_loop().time() - began >= 0.4


async def test_answers_that_are_cut_short_are_not_believed(server: Server) -> None:
    server.buckets["b"].fill(f"k{i}" for i in range(10))
    server.faults.cut_body = 1
    with pytest.raises(Trouble) as caught:
        run = Run(server)
        server.faults.codes["get_versioning"] = (501, "NotImplemented")
        await run.purge()
    assert caught.value.cause is Cause.MALFORMED


async def test_a_keep_rule_keeps_its_keys_and_their_history_and_leaves_versioning(server: Server) -> None:
    bucket = server.buckets["b"]
    bucket.fill(["runs/best/a", "runs/best/deep/b", "runs/bestiary/c", "other"], versions=2, marker_every=1)
    bucket.uploads["u"] = ("runs/best/up", "2026-01-01T00:00:00.000Z")
    report = await Run(server).purge("runs/best/**")
    assert {r.key for r in bucket.alive} == {"runs/best/a", "runs/best/deep/b"}
    assert not report.emptied and report.kept == 7
    assert bucket.uploads and bucket.status == "Enabled"


async def test_a_stop_ends_it_at_the_next_page(server: Server) -> None:
    bucket = server.buckets["b"]
    server.faults.latency = 0.02
    bucket.fill(f"k{i:05d}" for i in range(20000))
    run = Run(server, concurrency=2)
    purging = asyncio.create_task(run.purge())
    async with asyncio.timeout(5):
        while not any(p.deleted for p in run.told):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    run.stop.set()
    report = await purging
    assert report.stopped and not report.emptied
    assert 0 < report.versions < 20000
    assert len(bucket.alive) == 20000 - report.versions


async def test_a_stop_ends_the_patience_with_a_store_that_only_throttles(server: Server) -> None:
    server.buckets["b"].fill(["a"])
    run = Run(server)
    server.faults.codes["delete_objects"] = (503, "SlowDown")
    purging = asyncio.create_task(run.purge())
    await asyncio.sleep(0.1)
    run.stop.set()
    async with asyncio.timeout(2):
        report = await purging
    assert report.stopped and not report.emptied and report.throttled > 0


async def test_keys_that_xml_cannot_hold_go_one_by_one(server: Server) -> None:
    bucket = server.buckets["b"]
    for key in ("bell\x07", "<a>&\"']]>", "plus+ and space", "ünï/漢字", "tab\tcr\r", "￾x", "fine"):
        bucket.put(key)
    report = await Run(server).purge()
    assert report.emptied and not bucket.alive and report.versions == 7
    assert server.calls["delete_object"] == 2


async def test_a_store_that_does_not_know_url_encoding(server: Server) -> None:
    server.faults.plain_keys = True
    bucket = server.buckets["b"]
    bucket.fill(f"a+b %20 & <{i:04d}>" for i in range(1500))
    report = await Run(server).purge()
    assert report.emptied and not bucket.alive


async def test_a_bucket_that_is_not_there_has_nothing_to_purge(server: Server) -> None:
    del server.buckets["b"]
    report = await Run(server).purge()
    assert report.absent and report.emptied


async def test_purge_refuses_what_changed_since_it_was_seen(server: Server) -> None:
    server.buckets["b"].put("a")
    with pytest.raises(Trouble) as caught:
        await Run(server).purge(expect="127.0.0.1/another")
    assert caught.value.cause is Cause.CONFLICT
    assert server.calls.total() == 0
    assert (await Run(server).purge(expect="127.0.0.1/b")).emptied


@pytest.mark.parametrize("operation", ["list_versions", "list_uploads", "delete_objects"])
async def test_a_denied_call_is_trouble_and_not_emptiness(server: Server, operation: str) -> None:
    server.buckets["b"].put("a")
    server.faults.deny = frozenset({operation})
    with pytest.raises(Trouble) as caught:
        await Run(server).purge()
    assert caught.value.cause is Cause.DENIED
    assert caught.value.request_id == "REQ1"


async def test_versioning_that_we_may_not_see_does_not_matter(server: Server) -> None:
    server.buckets["b"].put("a")
    server.faults.deny = frozenset({"get_versioning"})
    report = await Run(server).purge()
    assert report.emptied and any("versioning" in note for note in report.notes)


async def test_transient_failures_that_stay_end_in_an_honest_report(server: Server) -> None:
    bucket = server.buckets["b"]
    bucket.fill(["a", "b", "c"])
    server.faults.key_errors = {"b": ["InternalError!"]}
    report = await Run(server, scale=0.001).purge()
    assert not report.emptied and report.unremoved == 1 and report.held_total == 0
    assert [r.key for r in bucket.alive] == ["b"]


# -- laws --

keys = st.binary(min_size=1, max_size=40).map(lambda b: b.decode("utf-8", "ignore").encode()).filter(bool)


@given(st.lists(keys.filter(fits_xml), max_size=20))
def test_every_deletion_document_parses_and_names_exactly_its_keys(keys: list[bytes]) -> None:
    body = delete_body([Entry(key, b"v<&>", False, True, 0, b"") for key in keys])
    root = ElementTree.fromstring(body)
    objects = root.findall(f"{{{NS}}}Object")
    assert [(o.findtext(f"{{{NS}}}Key") or "").encode() for o in objects] == keys
    assert {o.findtext(f"{{{NS}}}VersionId") for o in objects} <= {"v<&>"}


@pytest.mark.parametrize(
    ("pattern", "key", "kept"),
    [
        ("runs/best/**", "runs/best/a/b", True),
        ("runs/best/**", "runs/best", False),
        ("runs/*/x", "runs/a/x", True),
        ("runs/*/x", "runs/a/b/x", False),
        ("**/keep.txt", "keep.txt", True),
        ("**/keep.txt", "a/b/keep.txt", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("v[12]", "v2", True),
        ("v[!12]", "v2", False),
        ("a.b", "axb", False),
        ("a\nb", "a\nb", True),
        ("ü*", "ünï", True),
    ],
)
def test_keep_patterns(pattern: str, key: str, kept: bool) -> None:
    assert keeper([pattern, "never-matched"])(key.encode()) is kept


@given(st.text(max_size=20))
def test_a_pattern_without_wildcards_keeps_exactly_itself(text: str) -> None:
    literal = "".join(c for c in text if c not in "*?[")
    assert keeper([literal])(literal.encode())
    assert not keeper([literal])(literal.encode() + b"x")
