"""Looking at buckets and reading from them: absence is only what the store says in so many words."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from object_store_server import ACCESS_KEY, SECRET_KEY, Bucket, Server

from engine.clock import Clock, parse
from engine.clouds.object_store import BUCKET, Contents, ObjectStore, Secret, StoreAccess
from engine.clouds.object_store.pace import Pace
from engine.clouds.object_store.signing import Signer, encode_path, encode_query
from engine.words.presence import Absent, Cause, Present, Ref, Unknown


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        server.buckets["b"] = Bucket()
        yield server


def access(endpoint: str, *, region: str = "eu-north1", secret: str = SECRET_KEY) -> StoreAccess:
    return StoreAccess(endpoint, region, ACCESS_KEY, Secret(secret))


@pytest.fixture
async def store(server: Server) -> AsyncIterator[ObjectStore]:
    async with ObjectStore(access(server.endpoint), Clock(0.002)) as store:
        yield store


async def cause(store: ObjectStore, bucket: str = "b") -> Cause:
    presence = (await store.look(bucket)).presence
    assert isinstance(presence, Unknown), presence
    return presence.cause


async def test_look(store: ObjectStore) -> None:
    seen = await store.look("b")
    assert seen.ref == Ref(BUCKET, "b") and isinstance(seen.presence, Present)
    assert seen.presence.fingerprint == store.fingerprint("b")
    assert "127.0.0.1" in seen.by and "REQ1" in seen.by and ACCESS_KEY not in seen.by
    at = parse(seen.at)
    assert at is not None and abs(at - datetime.now(UTC)) < timedelta(seconds=5)
    assert isinstance((await store.look("nothing")).presence, Absent)


async def test_a_404_that_is_not_of_s3_is_not_absence(server: Server, store: ObjectStore) -> None:
    server.faults.not_s3 = 2
    assert await cause(store, "nothing") is Cause.MALFORMED


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "AccessDenied", Cause.DENIED),
        (403, "InvalidAccessKeyId", Cause.UNAUTHENTICATED),
        (400, "ExpiredToken", Cause.UNAUTHENTICATED),
        (401, "Whatever", Cause.UNAUTHENTICATED),
        (429, "TooManyRequests", Cause.THROTTLED),
        (500, "InternalError", Cause.UNREACHABLE),
        (404, "NoSuchKey", Cause.MALFORMED),
        (418, "Teapot", Cause.MALFORMED),
    ],
)
async def test_failures_of_a_look_are_told_apart(
    server: Server, store: ObjectStore, status: int, code: str, expected: Cause
) -> None:
    server.faults.codes = {"head_bucket": (status, code), "list_objects": (status, code)}
    assert await cause(store) is expected


async def test_a_head_that_is_denied_while_the_listing_works_is_present(
    server: Server, store: ObjectStore
) -> None:
    server.faults.deny = frozenset({"head_bucket"})
    assert isinstance((await store.look("b")).presence, Present)


async def test_wrong_secret_is_a_login_problem(server: Server) -> None:
    async with ObjectStore(access(server.endpoint, secret="wrong"), Clock(0.002)) as store:
        assert await cause(store) is Cause.UNAUTHENTICATED


async def test_nobody_listens_and_nobody_answers(server: Server, store: ObjectStore) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with ObjectStore(access(closed), Clock(0.001)) as nobody:
        assert await cause(nobody) is Cause.UNREACHABLE
    server.faults.hang = frozenset({"head_bucket"})
    async with ObjectStore(access(server.endpoint), Clock(0.001)) as waiting:
        assert await cause(waiting) is Cause.TIMED_OUT


async def test_a_cancelled_look_returns_at_once(server: Server) -> None:
    server.faults.hang = frozenset({"head_bucket"})
    async with ObjectStore(access(server.endpoint), Clock()) as store:
        looking = asyncio.create_task(store.look("b"))
        await asyncio.sleep(0.05)
        looking.cancel()
        began = asyncio.get_running_loop().time()
        with pytest.raises(asyncio.CancelledError):
            await looking
        assert asyncio.get_running_loop().time() - began < 0.2


async def test_the_right_region_is_learnt_once(server: Server, store: ObjectStore) -> None:
    server.faults.region = "eu-west1"
    assert isinstance((await store.look("b")).presence, Present)
    calls = server.calls.total()
    assert isinstance((await store.look("b")).presence, Present)
    assert server.calls.total() == calls + 1


async def test_a_signature_is_not_sent_to_another_domain(server: Server, store: ObjectStore) -> None:
    async with Server() as stranger:
        server.faults.endpoint = f"evil.example:{stranger.port}"
        presence = (await store.look("b")).presence
        assert isinstance(presence, Unknown) and presence.cause is Cause.WRONG_SCOPE
        assert "evil.example" in presence.detail
        assert stranger.calls.total() == 0


async def test_a_clock_that_is_off_is_corrected_once_or_named(server: Server, store: ObjectStore) -> None:
    server.faults.skew = timedelta(minutes=20)
    assert isinstance((await store.look("b")).presence, Present)
    server.faults.codes["list_objects"] = (403, "RequestTimeTooSkewed")
    listed, gap = await store.list_keys("b", "")
    assert listed == () and gap is not None
    assert gap.cause is not Cause.DENIED and "clock skew" in gap.detail


async def test_count(server: Server, store: ObjectStore) -> None:
    bucket = server.buckets["b"]
    bucket.fill((f"k{i:04d}" for i in range(1500)), versions=2, marker_every=3)
    bucket.uploads["u"] = ("k", "2026-01-01T00:00:00.000Z")
    contents = await store.count("b")
    assert contents == Contents(1000, 3000, 500, 1, 12000, True, "2026-01-01T00:00:00.000Z")
    part = await store.count("b", limit=1000)
    assert isinstance(part, Contents) and not part.complete and part.versions + part.markers == 1000
    server.faults.deny = frozenset({"list_uploads"})
    denied = await store.count("b")
    assert isinstance(denied, Unknown) and denied.cause is Cause.DENIED


async def test_read(server: Server, store: ObjectStore) -> None:
    server.buckets["b"].content = {
        "runs/a b+c/ü.json": b'{"state": "done"}',
        "list": b"[1]",
        "torn": b'{"state": ',
        "binary": b"\xff\xfe",
        "deep": b"[" * 100_000,
    }
    assert await store.read_text("b", "runs/a b+c/ü.json") == '{"state": "done"}'
    assert await store.read_json("b", "runs/a b+c/ü.json") == {"state": "done"}
    assert await store.read_text("b", "none") == Absent()
    assert await store.read_json("b", "none") == Absent()
    for key in ("list", "torn", "deep", "binary"):
        answer = await store.read_json("b", key)
        assert isinstance(answer, Unknown) and answer.cause is Cause.MALFORMED
    missing = await store.read_text("no-bucket", "none")
    assert isinstance(missing, Unknown) and missing.cause is Cause.WRONG_SCOPE
    server.faults.not_s3 = 1
    page = await store.read_text("b", "none")
    assert isinstance(page, Unknown)


async def test_list_to_the_end_and_with_gaps(server: Server, store: ObjectStore) -> None:
    server.buckets["b"].fill(f"runs/{i:04d}/manifest.json" for i in range(2300))
    server.buckets["b"].fill(["other", "runs/top"])
    found, gap = await store.list_keys("b", "runs/")
    assert gap is None and len(found) == 2301 and found[0] == "runs/0000/manifest.json"
    prefixes, gap = await store.list_prefixes("b", "runs/")
    assert gap is None and len(prefixes) == 2300 and prefixes[-1] == "runs/2299/"
    assert (await store.list_keys("b", "runs/", delimiter="/"))[0] == ("runs/top",)
    server.faults.cut_body = 1
    found, gap = await store.list_keys("b", "runs/")
    assert gap is not None and gap.cause is Cause.MALFORMED
    found, gap = await store.list_keys("no-bucket", "")
    assert found == () and gap is not None and gap.cause is Cause.WRONG_SCOPE


async def test_object_lock(server: Server, store: ObjectStore) -> None:
    assert await store.locked("b") is False
    server.buckets["b"].lock = True
    assert await store.locked("b") is True
    server.faults.deny = frozenset({"get_lock"})
    assert isinstance(await store.locked("b"), Unknown)


def test_no_secret_in_any_text() -> None:
    text = repr(access("https://storage.example")) + str(Secret("hunter2")) + f"{Secret('hunter2')!r}"
    assert SECRET_KEY not in text and "hunter2" not in text


async def test_pace_halves_and_recovers() -> None:
    pace = Pace(8)
    active = most = 0

    async def call() -> None:
        nonlocal active, most
        async with pace:
            active += 1
            most = max(most, active)
            await asyncio.sleep(0)
            active -= 1

    await asyncio.gather(*(call() for _ in range(40)))
    assert most == 8
    for _ in range(5):
        pace.slow()
    assert pace.limit == 1
    most = 0
    await asyncio.gather(*(call() for _ in range(10)))
    assert most == 1
    for _ in range(60):
        pace.ease()
    assert pace.limit == 8


async def test_pace_survives_cancelled_waiters() -> None:
    pace = Pace(1)
    async with pace:
        waiting = [asyncio.create_task(pace.__aenter__()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
    async with asyncio.timeout(1):
        await waiting[1]
        await pace.__aexit__(None, None, None)
        await waiting[2]


# -- signatures, judged by botocore --

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=20)


@given(
    key=names.filter(lambda k: k not in (".", "..")),
    query=st.dictionaries(names, names, max_size=4),
    body=st.binary(max_size=50),
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]),
    token=st.booleans(),
)
def test_signatures_equal_those_of_botocore(
    key: str, query: dict[str, str], body: bytes, method: str, token: bool
) -> None:
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    at = datetime(2026, 12, 1, 3, 4, 5, tzinfo=UTC)
    who = StoreAccess(
        "https://s.example:8443",
        "eu-north1",
        ACCESS_KEY,
        Secret(SECRET_KEY),
        session_token=Secret("tok") if token else None,
    )
    path, line = encode_path("bucket", key.encode()), encode_query(query)
    ours = Signer(who).headers(
        method, "s.example:8443", path, line, {"content-md5": "x"}, body, "eu-north1", at
    )
    twin = AWSRequest(method, f"https://s.example:8443{path}{'?' + line if line else ''}", data=body)
    for name, value in ours.items():
        if name != "authorization":
            twin.headers[name] = value
    signer = S3SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", "eu-north1")
    twin.context["timestamp"] = "20261201T030405Z"
    signature = signer.signature(signer.string_to_sign(twin, signer.canonical_request(twin)), twin)
    assert ours["authorization"].endswith(f"Signature={signature}")
    assert signer.signed_headers(signer.headers_to_sign(twin)) in ours["authorization"]
