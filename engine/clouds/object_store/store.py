"""The object store as the phases see it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from engine.clock import Clock
from engine.clouds.object_store import listings
from engine.clouds.object_store.access import StoreAccess
from engine.clouds.object_store.failures import StoreTrouble
from engine.clouds.object_store.purge import Purge, locked
from engine.clouds.object_store.report import PurgeProgress, PurgeReport
from engine.clouds.object_store.wire import Wire
from engine.words.intents import Intent
from engine.words.presence import Absent, Cause, Observation, Presence, Present, Ref, Unknown
from engine.words.redact import redact
from engine.words.trouble import Trouble

BUCKET = "s3_bucket"
"""The kind of a `Ref` to a bucket by name, as S3 knows it. The provider's own bucket has another kind, and an id."""
_TEXT_LIMIT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Contents:
    """What a bucket holds. Without `complete` these are lower bounds.

    objects   current objects      versions  all versions, current ones included, without delete markers
    markers   delete markers       uploads   unfinished multipart uploads       bytes  of all versions
    newest    when the newest version was written, RFC 3339, or empty
    """

    objects: int = 0
    versions: int = 0
    markers: int = 0
    uploads: int = 0
    bytes: int = 0
    complete: bool = True
    newest: str = ""


class ObjectStore:
    """One endpoint, with one key pair. An async context, or `close` it. Reads answer, they do not raise."""

    def __init__(self, access: StoreAccess, clock: Clock, *, concurrency: int = 16) -> None:
        self._access, self._clock, self._concurrency = access, clock, concurrency
        self._wire = Wire(access, clock, concurrency)

    async def __aenter__(self) -> ObjectStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._wire.close()

    async def look(self, bucket: str) -> Observation:
        """Whether the bucket is there for us. Absent only when the store says NoSuchBucket in so many words."""
        presence, request = await self._look(bucket)
        by = " ".join(filter(None, (f"s3 {self._wire.host}", self._access.access_key_id[:4] + "…", request)))
        return Observation(Ref(BUCKET, bucket), presence, self._clock.now(), by)

    async def _look(self, bucket: str) -> tuple[Presence, str]:
        present = Present(self.fingerprint(bucket))
        try:
            return present, (await self._wire.call("HEAD", bucket)).request_id
        except StoreTrouble as trouble:
            if trouble.cause in (Cause.UNREACHABLE, Cause.TIMED_OUT, Cause.THROTTLED):
                return trouble.unknown, trouble.request_id
        # An answer to HEAD has no body, so a 404 could be anybody's, and a 403 any of several: ask again in a way that has one.
        query = {"list-type": "2", "max-keys": "1"}
        try:
            return present, (await self._wire.call("GET", bucket, query=query)).request_id
        except StoreTrouble as trouble:
            if trouble.status == 404 and trouble.code == "NoSuchBucket":
                return Absent(), trouble.request_id
            return trouble.unknown, trouble.request_id

    def fingerprint(self, bucket: str) -> str:
        """What S3 lets us tell a bucket by: its name, and where. Only the provider can tell a new one of the same name."""
        return f"{self._wire.host}/{bucket}"

    async def count(self, bucket: str, *, limit: int = 100_000) -> Contents | Unknown:
        """What is in it; at most about `limit` entries are looked at."""
        objects = versions = markers = uploads = size = seen = 0
        newest = b""
        listing = listings.versions(self._wire, bucket)
        pending = listings.uploads(self._wire, bucket)
        try:
            while not listing.done and seen < limit:
                for entry in (await listing.next()).entries:
                    seen += 1
                    newest = max(newest, entry.modified)
                    if entry.marker:
                        markers += 1
                        continue
                    versions += 1
                    objects += entry.latest
                    size += entry.size
            while not pending.done and seen < limit:
                page = await pending.next()
                uploads += len(page.entries)
                seen += len(page.entries)
        except StoreTrouble as trouble:
            return trouble.unknown
        complete = listing.done and pending.done
        return Contents(
            objects, versions, markers, uploads, size, complete, redact(newest.decode(errors="replace"), 40)
        )

    async def locked(self, bucket: str) -> bool | Unknown:
        """Whether the bucket has object lock, so that some of it may not be deletable yet."""
        try:
            return await locked(self._wire, bucket)
        except StoreTrouble as trouble:
            return trouble.unknown

    async def read_text(self, bucket: str, key: str) -> str | Absent | Unknown:
        """An object as UTF-8. Absent is NoSuchKey; a missing bucket is Unknown, because it says nothing about the right one."""
        try:
            answer = await self._wire.call("GET", bucket, key.encode(), limit=_TEXT_LIMIT)
            return answer.body.decode()
        except UnicodeDecodeError:
            return Unknown(Cause.MALFORMED, redact(f"{bucket}/{key} is not text"))
        except StoreTrouble as trouble:
            if trouble.status == 404 and trouble.code == "NoSuchKey":
                return Absent()
            return trouble.unknown

    async def read_json(self, bucket: str, key: str) -> dict[str, object] | Absent | Unknown:
        """An object that holds one JSON object. Anything else in it is Unknown(MALFORMED)."""
        text = await self.read_text(bucket, key)
        if not isinstance(text, str):
            return text
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        return (
            value
            if isinstance(value, dict)
            else Unknown(Cause.MALFORMED, redact(f"{bucket}/{key} is not a JSON object"))
        )

    async def list_keys(
        self, bucket: str, prefix: str, *, delimiter: str = ""
    ) -> tuple[tuple[str, ...], Unknown | None]:
        """The keys below a prefix, to the end; with a gap, those that were seen before it."""
        keys, _, gap = await self._list(bucket, prefix, delimiter)
        return keys, gap

    async def list_prefixes(
        self, bucket: str, prefix: str, *, delimiter: str = "/"
    ) -> tuple[tuple[str, ...], Unknown | None]:
        """The common prefixes one level below a prefix, each with its delimiter."""
        _, prefixes, gap = await self._list(bucket, prefix, delimiter)
        return prefixes, gap

    async def _list(
        self, bucket: str, prefix: str, delimiter: str
    ) -> tuple[tuple[str, ...], tuple[str, ...], Unknown | None]:
        keys: list[str] = []
        prefixes: list[str] = []
        listing = listings.objects(self._wire, bucket, prefix, delimiter)
        gap: Unknown | None = None
        try:
            while not listing.done:
                page = await listing.next()
                keys += (e.key.decode(errors="surrogateescape") for e in page.entries)
                prefixes += (p.decode(errors="surrogateescape") for p in page.prefixes)
        except StoreTrouble as trouble:
            gap = trouble.unknown
        return tuple(keys), tuple(dict.fromkeys(prefixes)), gap

    async def purge(
        self,
        intent: Intent,
        bucket: str,
        *,
        progress: Callable[[PurgeProgress], None],
        keep: Sequence[str] = (),
        bypass_governance: bool = False,
    ) -> PurgeReport:
        """Empty the bucket of everything but what `keep` (globs over keys) names.

        It winds down when `intent.stop` is set. `bypass_governance` asks a lock in governance mode to let go, where there is one.
        Raises `Trouble` when it cannot go on; what was deleted by then stays deleted.
        """
        if intent.ref.kind == BUCKET and intent.expect and intent.expect != self.fingerprint(bucket):
            raise Trouble(Cause.CONFLICT, f"{bucket} changed since it was looked at")
        purge = Purge(
            self._wire, bucket, self._clock, intent.stop, progress, keep, bypass_governance, self._concurrency
        )
        return await purge.run()
