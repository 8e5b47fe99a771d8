"""Emptying a bucket: every version, every delete marker, every unfinished upload, until nothing is listed any more.

Several listers walk disjoint ranges of keys while deleters follow them. The end of a listing is not emptiness: some stores end one
early when what it stood on is deleted, and somebody may still write. So the bucket is swept again from its start, until two
sweeps in a row find nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from engine.clock import Clock
from engine.clouds.object_store import batches, listings
from engine.clouds.object_store.batches import BATCH
from engine.clouds.object_store.failures import TRANSIENT, StoreTrouble, cause_of_key
from engine.clouds.object_store.keep import keeper
from engine.clouds.object_store.listings import Entry, Listing
from engine.clouds.object_store.report import Held, PurgeProgress, PurgeReport
from engine.clouds.object_store.wire import Patience, Wire
from engine.words.intents import Stop
from engine.words.presence import Cause
from engine.words.redact import redact

MOST_LISTERS = 8
BARREN_SWEEPS = 3
"""Sweeps in a row that find something and remove nothing, until we give up."""
WRITTEN_SWEEPS = 3
"""Sweeps that find something newer than our start, until we say that somebody is writing."""
BETWEEN_SWEEPS = 1.0
_KEY_ATTEMPTS = 8
_EXAMPLES = 20
_DEPTH = 6
_PATIENCE_SECONDS = 600.0
"""Nominal seconds that one call is repeated while the store asks for less: a purge is long, and worth waiting for."""
_VERSIONING = {"versioning": ""}
_SUSPEND = (
    b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Status>Suspended</Status></VersioningConfiguration>"
)
T = TypeVar("T")


@dataclass(slots=True)
class _Sweep:
    """Counts of one walk through the bucket. Held and kept entries are not `found`."""

    found: int = 0
    removed: int = 0
    kept: int = 0
    new: list[bytes] = field(default_factory=list)


class Purge:
    """One purge of one bucket."""

    def __init__(
        self,
        wire: Wire,
        bucket: str,
        clock: Clock,
        stop: Stop,
        progress: Callable[[PurgeProgress], None],
        keep: Sequence[str],
        bypass_governance: bool,
        concurrency: int,
    ) -> None:
        self._wire, self._bucket, self._clock, self._stop, self._progress = (
            wire,
            bucket,
            clock,
            stop,
            progress,
        )
        self._patience = Patience(_PATIENCE_SECONDS, stop)
        self._keeping, self._keep = bool(keep), keeper(keep)
        self._bypass = bypass_governance
        self._listers = max(1, min(MOST_LISTERS, concurrency // 2))
        self._deleters = max(1, concurrency - self._listers)
        self._extra: dict[str, str] = {}
        self._began = b""
        self._notes: list[str] = []
        self._held: set[int] = set()
        self._examples: list[Entry] = []
        self._codes: list[str] = []
        self._versions = self._markers = self._uploads = self._bytes = self._found = 0
        self._sweeps = 0
        self._sweep = _Sweep()

    async def run(self) -> PurgeReport:
        """Sweep until two sweeps find nothing, or until going on makes no sense. Raises `StoreTrouble`."""
        try:
            await self._prepare()
            return await self._all()
        except StoreTrouble as trouble:
            if trouble.code == "NoSuchBucket":
                return self._report(absent=True, emptied=True)
            if self._stop.is_set() and trouble.cause in TRANSIENT:
                return self._report(stopped=True)
            raise

    async def _all(self) -> PurgeReport:
        quiet = barren = written = 0
        while True:
            await self._walk()
            sweep = self._sweep
            if self._stop.is_set():
                return self._report(stopped=True)
            if not sweep.found:
                quiet += 1
                if quiet == 2:
                    emptied = not self._held and not sweep.kept
                    return self._report(emptied=emptied, retain_until=await self._retention())
            else:
                quiet = 0
                written += bool(sweep.new and self._sweeps > 1)
                barren = 0 if sweep.removed else barren + 1
                if written == WRITTEN_SWEEPS:
                    return self._report(
                        writing=True, still_written=_common(sweep.new), retain_until=await self._retention()
                    )
                if barren == BARREN_SWEEPS:
                    return self._report(unremoved=sweep.found, retain_until=await self._retention())
            if quiet or barren or sweep.new:
                await self._clock.sleep(BETWEEN_SWEEPS)

    def _report(self, **outcome: object) -> PurgeReport:
        held = tuple(
            Held(
                redact(e.key.decode(errors="replace"), 200), redact(e.id.decode(errors="replace"), 100), code
            )
            for e, code in zip(self._examples, self._codes, strict=True)
        )
        return PurgeReport(
            versions=self._versions,
            markers=self._markers,
            uploads=self._uploads,
            bytes=self._bytes,
            held=held,
            held_total=len(self._held),
            kept=self._sweep.kept,
            sweeps=self._sweeps,
            calls=self._wire.calls,
            throttled=self._wire.throttled,
            notes=tuple(self._notes),
            **outcome,  # type: ignore[arg-type]
        )

    # -- before the first deletion --

    async def _prepare(self) -> None:
        """Suspend versioning, so that late deletions of others make no more markers, and see whether a lock is in force."""
        self._began = self._to_the_second(self._clock.utc())
        versioning = await self._may_fail(
            "reading versioning", self._wire.call("GET", self._bucket, query=_VERSIONING)
        )
        if versioning is not None:
            self._began = self._to_the_second(versioning.at or self._clock.utc())
            if b"<Status>Enabled</Status>" in versioning.body and not self._keeping:
                suspend = self._wire.call(
                    "PUT", self._bucket, query=_VERSIONING, body=_SUSPEND, headers=_checksum(_SUSPEND)
                )
                await self._may_fail("suspending versioning", suspend)
        # The header is an error where there is no lock, so we ask first.
        if self._bypass and await self._may_fail("reading the object lock", locked(self._wire, self._bucket)):
            self._extra = {"x-amz-bypass-governance-retention": "true"}

    async def _may_fail(self, what: str, call: Awaitable[T]) -> T | None:
        """The answer, or None and a note when we are not allowed to, or the store does not know how."""
        try:
            return await call
        except StoreTrouble as trouble:
            if trouble.code == "NoSuchBucket" or trouble.cause in (
                *TRANSIENT,
                Cause.UNAUTHENTICATED,
                Cause.WRONG_SCOPE,
            ):
                raise
            self._notes.append(f"{what}: {trouble.detail}")
            return None

    @staticmethod
    def _to_the_second(at: datetime) -> bytes:
        """As stores give times. What is written within this very second does not count as new."""
        return at.strftime("%Y-%m-%dT%H:%M:%S").encode()

    # -- one sweep --

    async def _walk(self) -> None:
        self._sweep = _Sweep()
        self._sweeps += 1
        queue: asyncio.Queue[list[Entry] | None] = asyncio.Queue(self._deleters + 2)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._deleters):
                    group.create_task(self._follow(queue))
                async with asyncio.TaskGroup() as finders:
                    finders.create_task(self._list_all(queue))
                    finders.create_task(self._abort_all())
                for _ in range(self._deleters):
                    await queue.put(None)
        except BaseExceptionGroup as group:
            # One call that failed for good ended the others; what else failed with it is the same trouble again.
            troubles, others = group.split(StoreTrouble)
            if troubles is None or others is not None:
                raise
            raise _first(troubles) from None
        self._tell(listed=True)

    async def _list_all(self, queue: asyncio.Queue[list[Entry] | None]) -> None:
        """List everything: the first page shows whether it is worth splitting."""
        start = listings.versions(self._wire, self._bucket, patience=self._patience)
        await self._one_page(start, queue, b"")
        if start.done or self._stop.is_set():
            return
        edges = await self._edges(start.marker[0]) if self._sweeps == 1 and self._listers > 1 else []
        ranges = [(start, edges[0] if edges else b"")]
        for i, edge in enumerate(edges):
            after = listings.versions(self._wire, self._bucket, (edge, b""), patience=self._patience)
            ranges.append((after, edges[i + 1] if i + 1 < len(edges) else b""))
        ranges.reverse()

        async def lister() -> None:
            while ranges:
                listing, upto = ranges.pop()
                while not listing.done and not self._stop.is_set():
                    if await self._one_page(listing, queue, upto):
                        break

        async with asyncio.TaskGroup() as group:
            for _ in range(self._listers):
                group.create_task(lister())

    async def _one_page(
        self, listing: Listing, queue: asyncio.Queue[list[Entry] | None], upto: bytes
    ) -> bool:
        """Hand a page's entries to the deleters; whether it reached beyond `upto`, where another range begins."""
        page = await listing.next()
        entries = page.entries
        beyond = bool(upto and entries and entries[-1].key > upto)
        if beyond:
            entries = [e for e in entries if e.key <= upto]
        wanted = [e for e in entries if self._wanted(e)]
        if wanted:
            await queue.put(wanted)
        self._tell()
        return beyond

    def _wanted(self, entry: Entry) -> bool:
        """Whether an entry is to go; counts it."""
        if self._keeping and self._keep(entry.key):
            self._sweep.kept += 1
            return False
        if self._held and hash(entry[:2]) in self._held:
            return False
        self._sweep.found += 1
        self._found += 1
        if self._began and entry.modified[:19] > self._began and len(self._sweep.new) < BATCH:
            self._sweep.new.append(entry.key)
        return True

    async def _edges(self, after: bytes) -> list[bytes]:
        """Where to split the keys beyond `after`: at common prefixes, as evenly as their number allows; often none.

        Only a hint for speed. What a split would miss, the next sweep finds, which never splits.
        """
        prefix = b""
        for _ in range(_DEPTH):
            page = await listings.versions(self._wire, self._bucket, delimiter="/", prefix=prefix).next()
            if len(page.prefixes) != 1:
                break
            prefix = page.prefixes[0]
        edges = sorted(p for p in page.prefixes if p > after)
        wanted = 2 * self._listers - 1
        step = max(1, -(-len(edges) // (wanted + 1)))
        return edges[step - 1 :: step][:wanted]

    async def _follow(self, queue: asyncio.Queue[list[Entry] | None]) -> None:
        while (batch := await queue.get()) is not None:
            if self._stop.is_set():
                continue  # drained, so that listers do not wait for room
            for start in range(0, len(batch), BATCH):
                await self._delete(batch[start : start + BATCH])
            self._tell()

    async def _delete(self, batch: list[Entry]) -> None:
        """Delete versions; what fails in passing is tried again, what fails for good is held."""
        alone = [e for e in batch if not batches.fits_xml(e.key)]
        pending = [e for e in batch if batches.fits_xml(e.key)] if alone else batch
        for attempt in range(_KEY_ATTEMPTS):
            if not pending:
                break
            if attempt:
                await self._clock.sleep(self._clock.backoff(attempt - 1))
            body = batches.delete_body(pending)
            answer = await self._wire.call(
                "POST",
                self._bucket,
                query={"delete": ""},
                body=body,
                headers=self._extra | _checksum(body),
                patience=self._patience,
            )
            errors = {(key, id): code for key, id, code in batches.delete_errors(answer)}
            if not errors:
                self._gone(pending)
                break
            self._gone([e for e in pending if e[:2] not in errors])
            failed = [e for e in pending if e[:2] in errors]
            pending = [e for e in failed if cause_of_key(errors[e[:2]]) in TRANSIENT]
            if pending:
                self._wire.pace.slow()
            for e in failed:
                code = errors[e[:2]]
                if code in ("NoSuchVersion", "NoSuchKey"):
                    self._sweep.removed += 1  # somebody else was first
                elif cause_of_key(code) not in TRANSIENT:
                    self._hold(e, code)
        for e in alone:
            await self._delete_alone(e)

    async def _delete_alone(self, entry: Entry) -> None:
        try:
            await self._wire.call(
                "DELETE", self._bucket, entry.key, {"versionId": entry.id}, headers=self._extra
            )
        except StoreTrouble as trouble:
            if trouble.code == "NoSuchBucket" or trouble.cause in TRANSIENT:
                raise
            if trouble.code not in ("NoSuchVersion", "NoSuchKey"):
                self._hold(entry, trouble.code or str(trouble.status))
                return
        self._gone([entry])

    def _gone(self, entries: list[Entry]) -> None:
        markers = sum(e.marker for e in entries)
        self._markers += markers
        self._versions += len(entries) - markers
        self._bytes += sum(e.size for e in entries)
        self._sweep.removed += len(entries)

    def _hold(self, entry: Entry, code: str) -> None:
        self._held.add(hash(entry[:2]))
        if len(self._examples) < _EXAMPLES:
            self._examples.append(entry)
            self._codes.append(redact(code, 60))

    async def _abort_all(self) -> None:
        """Abort every unfinished upload, a page side by side. One whose parts are still arriving is found again by the next sweep."""
        listing = listings.uploads(self._wire, self._bucket, patience=self._patience)
        while not listing.done and not self._stop.is_set():
            page = await listing.next()
            wanted = [e for e in page.entries if self._wanted(e)]
            async with asyncio.TaskGroup() as group:
                for chunk in range(self._deleters):
                    group.create_task(self._abort(wanted[chunk :: self._deleters]))
            self._tell()

    async def _abort(self, uploads: list[Entry]) -> None:
        for upload in uploads:
            if self._stop.is_set():
                return
            try:
                await self._wire.call(
                    "DELETE", self._bucket, upload.key, {"uploadId": upload.id}, patience=self._patience
                )
            except StoreTrouble as trouble:
                if trouble.code == "NoSuchBucket" or trouble.cause in TRANSIENT:
                    raise
                if trouble.code != "NoSuchUpload":
                    self._hold(upload, trouble.code or str(trouble.status))
                    continue
            self._uploads += 1
            self._sweep.removed += 1

    # -- telling --

    def _tell(self, *, listed: bool = False) -> None:
        self._progress(
            PurgeProgress(
                found=self._found,
                deleted=self._versions + self._markers,
                aborted=self._uploads,
                bytes=self._bytes,
                held=len(self._held),
                kept=self._sweep.kept,
                sweep=self._sweeps,
                listed=listed,
            )
        )

    async def _retention(self) -> str:
        """The latest date until which a lock keeps one of the examples. A store that will not say gives none."""
        latest = ""
        for e in self._examples:
            try:
                answer = await self._wire.call(
                    "GET", self._bucket, e.key, {"retention": "", "versionId": e.id}
                )
            except StoreTrouble:
                continue
            date = listings.element(answer.body, b"RetainUntilDate")
            latest = max(latest, redact(date.decode(errors="replace"), 40))
        return latest


async def locked(wire: Wire, bucket: str) -> bool:
    """Whether the bucket has object lock. Raises `StoreTrouble` when that cannot be told."""
    try:
        answer = await wire.call("GET", bucket, query={"object-lock": ""})
    except StoreTrouble as trouble:
        if trouble.code in (
            "ObjectLockConfigurationNotFoundError",
            "NoSuchObjectLockConfiguration",
            "NotImplemented",
        ):
            return False
        raise
    return b"<ObjectLockEnabled>Enabled</ObjectLockEnabled>" in answer.body


def _checksum(body: bytes) -> dict[str, str]:
    """The older of the two checksums that S3 wants for such calls: every store knows it."""
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    return {"content-md5": base64.b64encode(digest).decode(), "content-type": "application/xml"}


def _common(keys: list[bytes]) -> str:
    """The folder that all these keys share, or the one of the first of them."""
    low, high = min(keys), max(keys)
    length = next(
        (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high))
    )
    shared = low[:length] if len(keys) > 1 else low
    return redact(shared[: shared.rfind(b"/") + 1].decode(errors="replace"), 200)


def _first(group: BaseExceptionGroup[StoreTrouble]) -> StoreTrouble:
    for error in group.exceptions:
        return _first(error) if isinstance(error, BaseExceptionGroup) else error
    raise AssertionError("an empty group")
