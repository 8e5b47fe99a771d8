"""One signed S3 call: a deadline, retries of what passes by itself, the right region, the right time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from engine.clock import Clock, parse
from engine.clouds.object_store.access import StoreAccess
from engine.clouds.object_store.failures import TRANSIENT, StoreTrouble, failure
from engine.clouds.object_store.pace import Pace
from engine.clouds.object_store.signing import Signer, encode_path, encode_query
from engine.settings import is_loopback
from engine.words.intents import Stop
from engine.words.presence import Cause

if TYPE_CHECKING:
    import aiohttp

CALL_SECONDS = 30.0
_LEAST_REAL = 1.0
"""Real seconds that an attempt gets even when time is scaled down: a store on this machine takes real time, too."""
_BODY_LIMIT = 64 * 1024 * 1024


class Patience(NamedTuple):
    """How long a call that fails in passing is repeated: nominal seconds, and not once `stop` is set."""

    seconds: float
    stop: Stop | None = None


PATIENCE = Patience(90.0)
"""For a read."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx answer, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def at(self) -> datetime | None:
        """The store's own time, from its `Date`."""
        return _date(self.headers.get("Date", ""))

    @property
    def request_id(self) -> str:
        return self.headers.get("x-amz-request-id", "")


class Wire:
    """The connection pool to one endpoint. Every call made here is idempotent, so all may be repeated."""

    def __init__(self, access: StoreAccess, clock: Clock, concurrency: int) -> None:
        self._access, self._clock = access, clock
        self._signer = Signer(access)
        self._session: aiohttp.ClientSession | None = None
        self._skew = timedelta()
        self._regions: dict[str, str] = {}
        self._bases: dict[str, str] = {}
        self.pace = Pace(concurrency)
        self.calls = 0
        self.throttled = 0

    @property
    def host(self) -> str:
        return urlsplit(self._access.endpoint).hostname or ""

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(
        self,
        method: str,
        bucket: str,
        key: bytes = b"",
        query: Mapping[str, str | bytes] | None = None,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        limit: int = _BODY_LIMIT,
        patience: Patience = PATIENCE,
    ) -> Answer:
        """The answer to a call. Raises `StoreTrouble` for anything but 2xx, once patience is over."""
        attempt = 0
        until = time.monotonic() + self._clock.real(patience.seconds)
        corrected: set[str] = set()
        while True:
            try:
                async with self.pace:
                    answer = await self._once(method, bucket, key, query or {}, body, headers or {}, limit)
                self.pace.ease()
                return answer
            except StoreTrouble as trouble:
                if self._correct(trouble, bucket, corrected):
                    continue
                if trouble.cause not in TRANSIENT or (patience.stop is not None and patience.stop.is_set()):
                    raise
                if trouble.cause is Cause.THROTTLED:
                    self.throttled += 1
                    self.pace.slow()
                wait = self._clock.backoff(attempt)
                if trouble.retry_after is not None:
                    wait = max(wait, trouble.retry_after)
                if time.monotonic() + self._clock.real(wait) > until:
                    raise
                attempt += 1
            await self._clock.sleep(wait)

    async def _once(
        self,
        method: str,
        bucket: str,
        key: bytes,
        query: Mapping[str, str | bytes],
        body: bytes,
        extra: Mapping[str, str],
        limit: int,
    ) -> Answer:
        import aiohttp
        from yarl import URL

        base = self._bases.get(bucket, self._access.endpoint).rstrip("/")
        path, line = encode_path(bucket, key), encode_query(query)
        headers = self._signer.headers(
            method,
            _authority(base),
            path,
            line,
            extra,
            body,
            self._region(bucket),
            datetime.now(UTC) + self._skew,
        )
        what = f"{method} {bucket}{' ' + ' '.join(sorted(query)) if query else ''}"
        self.calls += 1
        try:
            async with self._open().request(
                method,
                URL(f"{base}{path}{'?' + line if line else ''}", encoded=True),
                data=body or None,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=max(self._clock.real(CALL_SECONDS), _LEAST_REAL)),
            ) as response:
                received = await _receive(response, limit)
                if 200 <= response.status < 300:
                    return Answer(response.status, response.headers, received)
                raise failure(response.status, response.headers, received, what)
        except TimeoutError:
            raise StoreTrouble(Cause.TIMED_OUT, f"{what}: no answer in {CALL_SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise StoreTrouble(
                Cause.UNREACHABLE, f"{what}: {base}: {error or type(error).__name__}"
            ) from error

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
                # A proxy is for the world outside; nothing on this machine is reached through one.
                trust_env=not is_loopback(self._access.endpoint),
                headers={"Accept-Encoding": "identity", "User-Agent": "npa-tui"},
                skip_auto_headers=("Accept", "Content-Type"),
                read_bufsize=1 << 20,
            )
        return self._session

    def _region(self, bucket: str) -> str:
        return self._regions.get(bucket, self._access.region)

    def _correct(self, trouble: StoreTrouble, bucket: str, corrected: set[str]) -> bool:
        """Whether the same call, signed for another region or time, is worth one more attempt. Each is corrected once.

        Raises `StoreTrouble` when the store points elsewhere than its own domain: our signature is not sent there.
        """
        if trouble.code == "RequestTimeTooSkewed":
            local = datetime.now(UTC)
            theirs = parse(trouble.fields.get("ServerTime", ""))
            if theirs is None or "time" in corrected:
                raise StoreTrouble(
                    Cause.UNAUTHENTICATED,
                    f"clock skew: this machine says {local:%Y-%m-%dT%H:%M:%SZ}, the store"
                    f" {trouble.fields.get('ServerTime', 'does not say')}; set the clock",
                    status=trouble.status,
                    code="RequestTimeTooSkewed",
                    request_id=trouble.request_id,
                )
            corrected.add("time")
            self._skew = theirs - local
            return True
        if trouble.status not in (301, 307) and trouble.code != "AuthorizationHeaderMalformed":
            return False
        region = trouble.fields.get("Region", "")
        endpoint = trouble.fields.get("Endpoint", "")
        if endpoint:
            self._rebase(trouble, bucket, endpoint, region)
        if (
            "region" in corrected
            or (not region and not endpoint)
            or (not endpoint and region == self._region(bucket))
        ):
            return False
        corrected.add("region")
        if region:
            self._regions[bucket] = region
        return True

    def _rebase(self, trouble: StoreTrouble, bucket: str, endpoint: str, region: str) -> None:
        base = urlsplit(self._access.endpoint)
        host = endpoint.removeprefix(f"{bucket}.").partition(":")[0].lower()
        ours = (base.hostname or "").lower()
        allowed = {ours}
        if region and f".{self._access.region}." in f".{ours}.":
            allowed.add(f".{ours}.".replace(f".{self._access.region}.", f".{region}.").strip("."))
        if host not in allowed and not host.endswith(f".{ours}"):
            raise StoreTrouble(
                Cause.WRONG_SCOPE,
                f"{bucket} is said to be at {host}, outside {ours}: the request, with its signature, was not sent there",
                status=trouble.status,
                code=trouble.code,
                request_id=trouble.request_id,
            )
        port = f":{base.port}" if base.port else ""
        self._bases[bucket] = f"{base.scheme}://{host}{port}"


async def _receive(response: aiohttp.ClientResponse, limit: int) -> bytes:
    size = response.content_length
    if size is None or size > limit:
        parts: list[bytes] = []
        got = 0
        async for part in response.content.iter_any():
            parts.append(part)
            got += len(part)
            if got > limit:
                raise StoreTrouble(
                    Cause.MALFORMED, f"an answer of more than {limit} bytes", status=response.status
                )
        return b"".join(parts)
    return await response.read()


def _authority(base: str) -> str:
    url = urlsplit(base)
    default = {"http": 80, "https": 443}.get(url.scheme)
    return url.netloc if url.port != default else url.hostname or ""


def _date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except ValueError:
        return None
