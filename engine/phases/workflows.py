"""Phase workflows: cancels the project's runs, and what else of it is in the shared job queue. Nobody else's job is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from engine.clock import Clock
from engine.ledger.events import Intended
from engine.phases.controller_place import Place, PlaceReader, Seen, place_of, recorded_place
from engine.phases.jobs import Attributed, Claim, Claims, Job, JobQueue, attribute, claims_of, shortened
from engine.phases.shape import Cleared, Hand
from engine.phases.sharing import SharedRead
from engine.words.intents import Intent
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part, PhasePlan, Target
from engine.words.presence import Absent, Cause, Observation, Presence, Present, Proof, Ref, Sight, Unknown
from engine.words.reasons import Reason, Refusal

if TYPE_CHECKING:
    from engine.home.records import Records

RUN, QUEUE = "run", "job_queue"
MOST_IN_A_STATE = 3


class Jobs(Protocol):
    """What is asked of SkyPilot."""

    async def queue(self) -> JobQueue: ...

    async def cancel(self, intent: Intent, job_ids: Sequence[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """The queue as it was read, with whose jobs are in it.

    gap      why jobs may be missing, unless something else showed that none can be running
    nothing  nothing can be running: no controller, no cluster that it was on, or no pod of SkyPilot there
    """

    jobs: Attributed = field(default_factory=Attributed)
    gap: Unknown | None = None
    nothing: bool = False
    at: str = ""
    by: str = ""


def reading(queue: JobQueue, seen: Seen | None, claims: Claims) -> Reading:
    """What a queue says; where it could not be read, what was seen where its controller lives (None: nobody knows where)."""
    if queue.gap is None:
        return Reading(
            attribute(queue.jobs, claims), nothing=queue.controller_absent, at=queue.at, by=queue.by
        )
    if seen is not None and seen.empty:
        why = seen.by if seen.cluster_gone else f"no pod of SkyPilot: {seen.by}"
        return Reading(nothing=True, at=seen.at, by=why)
    return Reading(gap=queue.gap, at=queue.at, by=queue.by)


def presence_of_run(run_id: str, read: Reading) -> Presence:
    """A run is there while one of its jobs is not over; gone when a complete queue has none."""
    if read.gap is not None:
        return read.gap
    if why := read.jobs.unclear.get(run_id):
        return Unknown(Cause.WRONG_SCOPE, why)
    return _presence(run_id, read.jobs.own.get(run_id, ()))


def presence_of_queue(project_id: str, planned: frozenset[str], read: Reading) -> Presence:
    """The queue holds something of this project while a job of it is live that no planned run covers."""
    if read.gap is not None:
        return read.gap
    if why := next((w for run, w in read.jobs.unclear.items() if run not in planned), ""):
        return Unknown(Cause.WRONG_SCOPE, why)
    return _presence(project_id, unplanned(read.jobs, planned))


def unplanned(jobs: Attributed, planned: frozenset[str]) -> tuple[Job, ...]:
    """This project's live jobs of runs that are not in the plan."""
    found = {job.id: job for run, some in jobs.own.items() if run not in planned for job in some}
    covered = {job.id for run, some in jobs.own.items() if run in planned for job in some}
    return tuple(job for id, job in found.items() if id not in covered)


def _presence(fingerprint: str, live: Sequence[Job]) -> Presence:
    if not live:
        return Absent()
    jobs = sorted(live, key=lambda job: job.id)
    named = ", ".join(f"job {job.id} {job.status}" for job in jobs[:MOST_IN_A_STATE])
    more = len(jobs) - MOST_IN_A_STATE
    state = f"{named} and {more} more" if more > 0 else named
    return Present(fingerprint, state, leaving=all(job.leaving for job in live))


@dataclass(frozen=True, slots=True)
class Facts:
    """What a guard knows of one target. `live`: its jobs that are not over; `next_command`: what to do when it is refused."""

    part: Part
    live: tuple[Job, ...]
    gap: Unknown | None
    unclear: str
    others: tuple[str, ...]
    next_command: str


@dataclass(frozen=True, slots=True)
class Work:
    """What `act` needs: the jobs to cancel, by id; those that are on their way out already are not among them."""

    job_ids: tuple[int, ...]


def decide(facts: Facts) -> Cleared[Work] | Refusal:
    """Only jobs that a ledger of this project names are cancelled, and only when the queue was seen whole."""
    if not facts.part.owned:
        return Refusal(
            Reason.NOT_OWNED,
            f"no ledger of this project names {facts.part.ref.id}: it may be somebody else's",
            facts.next_command,
        )
    if facts.gap is not None:
        return Refusal(
            Reason.CANNOT_SEE,
            f"the job queue cannot be read: {facts.gap.cause}: {facts.gap.detail}",
            facts.next_command,
        )
    if facts.unclear:
        return Refusal(Reason.UNVERIFIED, facts.unclear, facts.next_command)
    ids = tuple(sorted(job.id for job in facts.live if not job.leaving))
    spared = tuple(f"! {line}: not touched" for line in shortened(facts.others))
    return Cleared(Work(ids), touches=spared)


class Workflows:
    """Built with SkyPilot, with who can see where its controller lives, and with the ledgers as they are now."""

    name = "workflows"

    def __init__(
        self, sky: Callable[[], Jobs], places: PlaceReader, clock: Clock, claims: Callable[[], Claims]
    ) -> None:
        self._sky = sky
        self._places = places
        self._clock = clock
        self._ledgers = SharedRead(self._read_ledgers)
        self._claims = claims
        self._readings: dict[Place | None, SharedRead[Reading]] = {}

    def plan(self, records: Records) -> PhasePlan:
        place = recorded_place(records, records.controller_owner) if records.controller_owner else None
        project = records.alias or records.project_id
        claims = claims_of(records.submissions, records.runs, project)
        common = {"project": project, **(place.detail if place else {})}
        targets = [_run_target(claim, common) for claim in claims]
        if records.controller or any(not claim.never_launched for claim in claims):
            targets.append(_queue_target(records.project_id, claims, common))
        problems = records.problems_of("submissions", "runs")
        return PhasePlan("workflows", tuple(targets), unread=tuple(str(p) for p in problems))

    async def look(self, target: Target) -> Sight:
        observed = await self._observe(target)
        return tuple(observed if p.ref == observed.ref else self._stranger(p.ref) for p in target.parts)

    async def guard(self, target: Target, sight: Sight) -> Cleared[Work] | Refusal:
        read = await self._read(target)
        part = target.parts[0]
        planned = _planned(target)
        if part.ref.kind == QUEUE:
            live = unplanned(read.jobs, planned)
            unclear = next((why for run, why in read.jobs.unclear.items() if run not in planned), "")
        else:
            live = tuple(read.jobs.own.get(part.ref.id, ()))
            unclear = read.jobs.unclear.get(part.ref.id, "")
        return decide(Facts(part, live, read.gap, unclear, read.jobs.of_others, _command(target)))

    async def act(self, target: Target, cleared: Cleared[Work], hand: Hand) -> None:
        ref, ids = target.parts[0].ref, cleared.facts.job_ids

        async def cancel(intent: Intent) -> None:
            await self._sky().cancel(intent, ids)

        if ids and not hand.asked(ref):
            await hand.step("cancel", ref, cancel)

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        return

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError("nothing is taken away for a while here")

    async def _observe(self, target: Target) -> Observation:
        ref = target.parts[0].ref
        if ref.kind == RUN and (said := await self._never_launched(target)):
            return Observation(ref, Absent(), self._clock.now(), f"submission ledger {said}")
        read = await self._read(target)
        if ref.kind == QUEUE:
            presence = presence_of_queue(ref.id, _planned(target), read)
        else:
            presence = presence_of_run(ref.id, read)
        return Observation(ref, presence, read.at or self._clock.now(), read.by)

    async def _never_launched(self, target: Target) -> str:
        """The ledger which proves that this run was never launched, as it is now; empty when there is no such proof."""
        if target.detail.get("launched") != "never":
            return ""
        claims = await self._ledgers()
        now = claims.get(target.detail["run_id"])
        if now is None:
            # The plan recorded the proof; a ledger that has gone since was tidied away, one that cannot be read may say otherwise.
            return "" if claims.problems else target.parts[0].owned.record
        return now.record if now.never_launched else ""

    async def _read(self, target: Target) -> Reading:
        place = place_of(target.detail)
        if place not in self._readings:
            self._readings[place] = SharedRead(lambda: self._read_queue(place))
        return await self._readings[place]()

    async def _read_queue(self, place: Place | None) -> Reading:
        queue = await self._sky().queue()
        seen = await self._places.see(place) if queue.gap is not None and place is not None else None
        return reading(queue, seen, await self._read_ledgers())

    async def _read_ledgers(self) -> Claims:
        return await asyncio.to_thread(self._claims)

    def _stranger(self, ref: Ref) -> Observation:
        gap = Unknown(Cause.WRONG_SCOPE, f"{ref.kind} {ref.id} is no part of a run")
        return Observation(ref, gap, self._clock.now(), "")


def _run_target(claim: Claim, common: Mapping[str, str]) -> Target:
    evidence = Evidence.CREATE_RESPONSE if claim.job_ids else Evidence.PART_OF
    owned = Ownership(evidence, claim.record, claim.field) if claim.record else NOT_PROVEN
    detail = {
        **common,
        "run_id": claim.run_id,
        "launched": "never" if claim.never_launched else "yes",
        "sky_job_id": " ".join(map(str, claim.job_ids)),
    }
    kept = {name: value for name, value in detail.items() if value}
    key = "workflows/run-queue" if claim.run_id == "queue" else f"workflows/{claim.run_id}"
    return Target(key, claim.run_id, (Part(Ref(RUN, claim.run_id), claim.run_id, owned),), kept)


def _queue_target(project_id: str, claims: Sequence[Claim], common: Mapping[str, str]) -> Target:
    owned = Ownership(Evidence.PART_OF, "workflow-submissions", "the runs of this project")
    detail = {**common, "runs": " ".join(sorted(c.run_id for c in claims))}
    return Target("workflows/queue", "job queue", (Part(Ref(QUEUE, project_id), "job queue", owned),), detail)


def _planned(target: Target) -> frozenset[str]:
    return frozenset(target.detail.get("runs", "").split())


def _command(target: Target) -> str:
    project = target.detail.get("project", "")
    run = target.detail.get("run_id", "")
    return f"npa workflow cancel {run} --project {project} --json" if run else "sky jobs queue --all"
