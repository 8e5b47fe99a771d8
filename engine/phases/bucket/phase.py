"""The phase itself: look, read for the guard, leave a tombstone, delete, empty where the provider wants that, tidy behind the proof."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from engine.clock import Clock, parse
from engine.home.config import read_config
from engine.home.errors import RecordError
from engine.home.records import gather
from engine.home.roots import Roots
from engine.home.storage_keys import StorageKeys
from engine.home.writers import prune_storage_secrets, put_marker, storage_secrets_left
from engine.ledger.events import Intended
from engine.ledger.state import State
from engine.phases.bucket.amounts import count, size
from engine.phases.bucket.deciding import Dependent, Facts, decide
from engine.phases.bucket.dependents import claimants
from engine.phases.bucket.planning import BUCKET, NAME, plan_bucket
from engine.phases.bucket.tombstone import completed, tombstone
from engine.phases.parts import (
    Looks,
    Reads,
    blind,
    going_on,
    look_all,
    read_all,
    standing,
    still_there,
    unproven,
)
from engine.phases.progress import Progress
from engine.phases.shape import Cleared, Hand
from engine.words.intents import Intent
from engine.words.phases import PHASES
from engine.words.plans import PhasePlan, Target
from engine.words.presence import (
    Absent,
    Cause,
    Listing,
    Observation,
    Present,
    Proof,
    Ref,
    Sight,
    Unknown,
)
from engine.words.reasons import Reason, Refusal, Refused
from engine.words.redact import redact
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.clouds.object_store import PurgeProgress, PurgeReport
    from engine.home.records import Records

PURGE_AFTER = 60.0
"""Nominal seconds that a deleted bucket is kept, with its contents: the existing CLI's default."""


class Provider(Looks, Reads, Protocol):
    """What this phase asks of the provider."""

    async def list(self, kind: str, parent: str) -> Listing: ...

    async def delete(self, intent: Intent, *, purge_after: float | None = None) -> None: ...


class Store(Protocol):
    """What this phase asks of an object store."""

    async def look(self, bucket: str) -> Observation: ...

    async def purge(
        self, intent: Intent, bucket: str, *, progress: Callable[[PurgeProgress], None]
    ) -> PurgeReport: ...


class Bucket:
    """Built with the roots, the provider, what opens a store with saved keys, and how far the teardown is."""

    name = "bucket"

    def __init__(
        self,
        roots: Roots,
        provider: Provider,
        store: Callable[[StorageKeys], Store],
        clock: Clock,
        state: Callable[[], State],
    ) -> None:
        self._roots = roots
        self._provider = provider
        self._store = store
        self._clock = clock
        self._state = state
        self._refused: set[Ref] = set()
        """Buckets whose deletion the provider refused as they were: they are emptied before they are asked for again."""

    def plan(self, records: Records) -> PhasePlan:
        return plan_bucket(records)

    async def look(self, target: Target) -> Sight:
        return tuple([await self._see(target, part.ref) for part in target.parts])

    async def guard(self, target: Target, sight: Sight) -> Cleared[Facts] | Refusal:
        there = standing(sight)
        if unproven(target, there):
            return decide(Facts(target, there))
        records = self._records(target)
        name = target.detail["bucket"]
        found, unseen = await read_all(self._provider, there)
        gaps = [blind(o.ref.id, o.presence) for o in unseen if isinstance(o.presence, Unknown)]
        gaps += [str(p) for p in records.problems_of("config", "credentials", "operations")]
        note = tombstone(records, name, self._clock.now())
        return decide(
            Facts(
                target,
                there,
                next(iter(found.values()), None),
                tuple(f"{c.project_id} ({c.record}: {c.field})" for c in records.claims.get(name, ())),
                await self._dependents(records, target),
                tuple(keys for keys in records.storage if keys.bucket == name and keys.opens),
                note,
                tuple(s.alias for s in records.stanzas if not s.flat),
                tuple(gaps),
            )
        )

    async def act(self, target: Target, cleared: Cleared[Facts], hand: Hand) -> None:
        facts = cleared.facts
        for ref, seen in facts.there.items():
            if hand.asked(ref):
                continue
            if not seen.leaving:
                self._leave_tombstone(facts)
                if ref in self._refused and facts.keys:
                    await self._empty(target, facts, ref, hand)
                await self._delete(ref, hand)
            elif self._too_late(seen):
                await hand.step("purge_now", ref, lambda i: self._provider.delete(i, purge_after=0.0))

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        project, name = target.detail["project_id"], target.detail["bucket"]
        prune_storage_secrets(self._roots, project, name)
        if left := storage_secrets_left(self._roots, project, name):
            raise Refused(
                Refusal(
                    Reason.NOT_WRITABLE,
                    f"keys of {name} are saved again by another program: {', '.join(left)}",
                    going_on(target),
                )
            )
        config = read_config(self._roots)
        for stanza in config.of(project) if config else ():
            if stanza.marker and stanza.marker.bucket_name == name:
                put_marker(self._roots, stanza.alias, completed(self._clock.now()))

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError("nothing is taken away for a while here")

    # -- reading --

    def _records(self, target: Target) -> Records:
        return gather(self._roots, target.detail["project_id"], target.detail.get("alias", ""))

    async def _see(self, target: Target, ref: Ref) -> Observation:
        if ref.kind != NAME:
            return await self._provider.look(ref)
        listing = await self._provider.list(BUCKET, target.detail["project_id"])
        named = await still_there(self._provider, (b for b in listing.items if b.name == ref.id))
        if named:
            return Observation(ref, named[0].presence, listing.at, listing.by)
        if listing.gap:
            return Observation(ref, listing.gap, listing.at, listing.by)
        return await self._elsewhere(target, ref) or Observation(ref, Absent(), listing.at, listing.by)

    async def _elsewhere(self, target: Target, ref: Ref) -> Observation | None:
        """A bucket of that name which is not in this project, and which saved keys open: it is there, and not ours."""
        opening = (k for k in self._records(target).storage if k.bucket == ref.id and k.opens)
        keys = next(opening, None)
        if keys is None:
            return None
        seen = await self._store(keys).look(ref.id)
        return (
            Observation(ref, seen.presence, seen.at, seen.by) if isinstance(seen.presence, Present) else None
        )

    async def _dependents(self, records: Records, target: Target) -> tuple[Dependent, ...]:
        waiting = list(claimants(records, target, self._state()))
        sights = await asyncio.gather(*(look_all(self._provider, c.refs) for c in waiting))
        return tuple(
            claimant.dependent
            for claimant, sight in zip(waiting, sights, strict=True)
            if not sight or not all(isinstance(o.presence, Absent) for o in sight)
        )

    # -- changing --

    def _leave_tombstone(self, facts: Facts) -> None:
        """On disk before the deletion: with the keys, the ids of the account behind them would be lost."""
        if facts.tombstone is None:
            return
        try:
            for alias in facts.aliases:
                put_marker(self._roots, alias, facts.tombstone)
        except (OSError, RecordError) as error:
            raise Refused(
                Refusal(
                    Reason.NOT_WRITABLE,
                    redact(f"the bucket was not touched, its tombstone cannot be written: {error}"),
                    going_on(facts.target),
                )
            ) from error

    async def _delete(self, ref: Ref, hand: Hand) -> None:
        try:
            await hand.step("delete", ref, lambda i: self._provider.delete(i, purge_after=PURGE_AFTER))
        except Trouble as trouble:
            if trouble.cause is Cause.CONFLICT:
                self._refused.add(ref)
            raise

    def _too_late(self, seen: Present) -> bool:
        """Whether a deletion that somebody scheduled would come after this phase's deadline."""
        due = parse(seen.due) if seen.due else None
        patience = timedelta(seconds=self._clock.real(PHASES[self.name].deadline))
        return due is not None and due - self._clock.utc() > patience

    async def _empty(self, target: Target, facts: Facts, ref: Ref, hand: Hand) -> None:
        """Empty the bucket with the saved keys. Raises `Refused` for what cannot be removed."""
        name, store = target.detail["bucket"], self._store(facts.keys[0])
        async with Progress(hand, self._clock, "purge") as progress:

            def tell(now: PurgeProgress) -> None:
                done = now.deleted + now.aborted
                said = f"{count(done, 'entry', 'entries')} gone, {size(now.bytes)}"
                progress.tell(said, {"done": str(done), "found": str(now.found), "bytes": str(now.bytes)})

            async def purge(intent: Intent) -> PurgeReport:
                await self._same(intent)
                return await store.purge(intent, name, progress=tell)

            report = await hand.step("purge", ref, purge)
        if left := _left_in(report):
            raise Refused(Refusal(Reason.CONTENT_HELD, f"{name} cannot be emptied: {left}", going_on(target)))

    async def _same(self, intent: Intent) -> None:
        """S3 knows buckets by name alone: that it is still this very bucket, only the provider can say."""
        seen = await self._provider.look(intent.ref)
        match seen.presence:
            case Present(fingerprint=now) if not intent.expect or now == intent.expect:
                return
            case Unknown() as unknown:
                raise Trouble(unknown.cause, unknown.detail)
            case _:
                raise Trouble(Cause.CONFLICT, f"{intent.ref.id} changed since it was looked at")


def _left_in(report: PurgeReport) -> str:
    """Why a bucket is not empty after it was emptied, or nothing."""
    if report.stopped or report.absent or report.emptied:
        return ""
    if report.held_total:
        until = f" until {report.retain_until}" if report.retain_until else ""
        return f"{count(report.held_total, 'version')} held by the store{until} ({report.held[0].code})"
    if report.writing:
        where = f" below {report.still_written}" if report.still_written else ""
        return f"somebody keeps writing to it{where}"
    return f"{count(report.unremoved, 'entry', 'entries')} stayed"
