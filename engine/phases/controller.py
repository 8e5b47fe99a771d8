"""Phase controller: removes the shared SkyPilot jobs controller when this project owns it and its queue is drained."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine.clock import Clock
from engine.home.controller_owner import ControllerOwner
from engine.home.roots import Roots
from engine.home.writers import clear_controller_owner
from engine.ledger.events import Intended
from engine.phases.controller_place import (
    CONTROLLER_PREFIX,
    Place,
    PlaceReader,
    Pods,
    Seen,
    controller_of,
    owner_problem,
    place_of,
    recorded_place,
)
from engine.phases.jobs import Claims, JobQueue, attribute, shortened
from engine.phases.shape import Cleared, Hand, Step
from engine.words.intents import Intent
from engine.words.plans import Evidence, Ownership, Part, PhasePlan, Target
from engine.words.presence import Absent, Cause, Observation, Presence, Present, Proof, Ref, Sight, Unknown
from engine.words.reasons import Reason, Refusal
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.home.records import Records

CONTROLLER = "controller"


class Row(Protocol):
    """A cluster in SkyPilot's records."""

    @property
    def name(self) -> str: ...

    @property
    def context(self) -> str: ...


class SkyPilot(Protocol):
    """What is asked of SkyPilot."""

    async def queue(self) -> JobQueue: ...

    async def clusters(self) -> tuple[Sequence[Row], Unknown | None]: ...

    async def down(self, intent: Intent, cluster_name: str) -> None: ...

    async def forget(self, intent: Intent, cluster_name: str) -> None: ...


class ClusterApi(Pods, Protocol):
    """What is asked of the cluster's API server."""

    async def delete_pod(self, intent: Intent) -> None: ...


def rows_at(rows: Sequence[Row], context: str) -> tuple[str, ...]:
    """Names of the controllers that SkyPilot has in exactly this context."""
    names = {context, f"k8s/{context}", f"kubernetes/{context}"}
    return tuple(r.name for r in rows if r.name.startswith(CONTROLLER_PREFIX) and r.context in names)


def presence_of_controller(cluster_id: str, seen: Seen) -> Presence:
    """There while a pod of it is; a Terminating one is still there."""
    if seen.gap is not None:
        return seen.gap
    if seen.cluster_gone:
        return Absent()
    if seen.nodes:
        return Present(cluster_id, f"its cluster is gone, {len(seen.nodes)} of its VMs are not", leaving=True)
    pods = seen.controllers
    if not pods:
        return Absent()
    state = ", ".join(sorted({p.presence.state for p in pods}))
    names = ",".join(sorted({controller_of(p) for p in pods}))
    return Present(f"{cluster_id}:{names}", state, leaving=all(p.presence.leaving for p in pods))


def presence_of_pod(ref: Ref, seen: Seen) -> Presence:
    """One pod, by its uid."""
    if seen.gap is not None:
        return seen.gap
    return next((p.presence for p in seen.pods if p.ref == ref), Absent())


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read before a removal.

    owner      who owns the controller by now, or why that cannot be read
    seen       the cluster, and SkyPilot's pods in it
    queue      the whole job queue; `mine` and `others`: its live jobs, a line each
    rows       names of the controllers that SkyPilot has in this context; `rows_gap`: why some may be missing
    """

    part: Part
    project_id: str
    place: Place
    owner: ControllerOwner | Unknown | None
    seen: Seen
    queue: JobQueue
    mine: tuple[str, ...]
    others: tuple[str, ...]
    rows: tuple[str, ...]
    rows_gap: Unknown | None
    command: str


@dataclass(frozen=True, slots=True)
class Removal:
    """How it goes: through SkyPilot by these names, or, when SkyPilot knows no controller, pod by pod. `asked`: it is leaving."""

    rows: tuple[str, ...] = ()
    pods: tuple[Ref, ...] = ()
    leaving: bool = False


def decide(facts: Facts) -> Cleared[Removal] | Refusal:
    """Removed only by its owner, on the exact cluster, with its queue seen whole and drained."""
    no = _identity(facts) or _queue(facts)
    if no is not None:
        return no
    pods = facts.seen.controllers
    found = tuple(
        Part(p.ref, p.name, Ownership(Evidence.PART_OF, f"controller/{facts.place.cluster_id}", "pod label"))
        for p in pods
    )
    leaving = all(p.presence.leaving for p in pods)
    lines = (f"removes {', '.join(p.name for p in pods)} in context {facts.place.context}",) if pods else ()
    if facts.rows:
        return Cleared(Removal(facts.rows, leaving=leaving), touches=lines, found=found)
    if not facts.queue.controller_absent:
        return Refusal(
            Reason.SHARED,
            f"SkyPilot has no controller in context {facts.place.context}, but one somewhere else: the pods there may be"
            " another server's",
            "sky status --refresh",
        )
    if facts.seen.workers:
        names = ", ".join(shortened(p.name for p in facts.seen.workers))
        return Refusal(
            Reason.NOT_DRAINED,
            f"SkyPilot knows no controller any more, but its jobs still run in context {facts.place.context}: {names}",
            facts.command,
        )
    left = tuple(p.ref for p in pods if not p.presence.leaving)
    warned = ("! SkyPilot knows this controller no more: its pods are deleted one by one", *lines)
    return Cleared(Removal(pods=left, leaving=leaving), touches=warned, found=found)


def _identity(facts: Facts) -> Refusal | None:
    place, seen, owner = facts.place, facts.seen, facts.owner
    if not facts.part.owned:
        return Refusal(Reason.NOT_OWNED, f"no owner record names {place.cluster_id}", facts.command)
    if isinstance(owner, Unknown):
        return Refusal(Reason.RECORD_UNREADABLE, f"the owner cannot be read: {owner.detail}", facts.command)
    if owner is None:
        bind = f"npa skypilot bind-controller --project {facts.project_id} --context {place.context}"
        return Refusal(
            Reason.NOT_OWNED, f"nobody owns the controller on {place.cluster_id} any more, but it runs", bind
        )
    if (owner.project_id, owner.cluster_id, owner.context) != (
        facts.project_id,
        place.cluster_id,
        place.context,
    ):
        return Refusal(
            Reason.SHARED,
            f"the controller belongs to project {owner.project_alias} ({owner.project_id}) on {owner.cluster_id} now",
            f"npa skypilot cleanup-controller --project {owner.project_alias} --yes",
        )
    if seen.gap is not None:
        return Refusal(Reason.CANNOT_SEE, f"{seen.gap.cause}: {seen.gap.detail}", facts.command)
    if seen.resource is not None and place.name and seen.resource.name != place.name:
        return Refusal(
            Reason.WRONG_IDENTITY,
            f"{place.cluster_id} is called {seen.resource.name} at the provider, not {place.name}",
            facts.command,
        )
    return None


def _queue(facts: Facts) -> Refusal | None:
    queue = facts.queue
    if queue.gap is not None:
        return Refusal(
            Reason.CANNOT_SEE,
            f"whether its queue is drained cannot be seen: {queue.gap.cause}: {queue.gap.detail}",
            facts.command,
        )
    if facts.others:
        return Refusal(
            Reason.FOREIGN_JOBS,
            f"others use this controller: {'; '.join(shortened(facts.others))}",
            "sky jobs queue --all",
        )
    if facts.mine:
        return Refusal(
            Reason.NOT_DRAINED, f"jobs are not over: {'; '.join(shortened(facts.mine))}", facts.command
        )
    if facts.rows_gap is not None:
        return Refusal(
            Reason.CANNOT_SEE,
            f"SkyPilot's clusters cannot be read: {facts.rows_gap.cause}: {facts.rows_gap.detail}",
            facts.command,
        )
    return None


class Controller:
    """Built with SkyPilot, with who can see where the controller lives, and with who owns it and whose jobs are whose by now."""

    name = "controller"

    def __init__(
        self,
        roots: Roots,
        sky: Callable[[], SkyPilot],
        places: PlaceReader,
        kubernetes: Callable[[Path, str], ClusterApi],
        clock: Clock,
        claims: Callable[[], Claims],
        owner: Callable[[], ControllerOwner | Unknown | None],
    ) -> None:
        self._roots = roots
        self._sky = sky
        self._places = places
        self._kubernetes = kubernetes
        self._clock = clock
        self._claims = claims
        self._owner = owner

    def plan(self, records: Records) -> PhasePlan:
        unread = tuple(str(p) for p in records.problems_of("config") if owner_problem(p))
        owner = records.controller
        if owner is None:
            return PhasePlan("controller", unread=unread)
        place = recorded_place(records, owner)
        owned = Ownership(Evidence.ATTESTATION, "config.yaml", owner.field)
        part = Part(Ref(CONTROLLER, owner.cluster_id), owner.name, owned)
        target = Target(
            f"controller/{owner.cluster_id}",
            f"{owner.name} on {owner.cluster_name or owner.context}",
            (part,),
            {"project": records.alias or records.project_id, **place.detail},
        )
        return PhasePlan("controller", (target,), unread=unread)

    async def look(self, target: Target) -> Sight:
        place = place_of(target.detail)
        if place is None:
            gap = Unknown(Cause.WRONG_SCOPE, "the plan does not say where the controller lives")
            return tuple(Observation(p.ref, gap, self._clock.now(), "") for p in target.parts)
        seen = await self._places.see(place)
        at = seen.at or self._clock.now()

        def one(ref: Ref) -> Presence:
            if ref.kind == CONTROLLER:
                return presence_of_controller(place.cluster_id, seen)
            return presence_of_pod(ref, seen)

        return tuple(Observation(p.ref, one(p.ref), at, seen.by) for p in target.parts)

    async def guard(self, target: Target, sight: Sight) -> Cleared[Removal] | Refusal:
        place = place_of(target.detail)
        command = f"npa skypilot cleanup-controller --project {target.detail.get('project', '')} --yes"
        if place is None:
            return Refusal(Reason.NOT_OWNED, "the plan does not say where the controller lives", command)
        sky = self._sky()
        seen, queue, (rows, gap), claims = await asyncio.gather(
            self._places.see(place), sky.queue(), sky.clusters(), asyncio.to_thread(self._claims)
        )
        jobs = attribute(queue.jobs, claims)
        return decide(
            Facts(
                part=target.parts[0],
                project_id=place.project_id,
                place=place,
                owner=self._owner(),
                seen=seen,
                queue=queue,
                mine=jobs.of_us,
                others=jobs.of_others,
                rows=rows_at(rows, place.context),
                rows_gap=gap,
                command=command,
            )
        )

    async def act(self, target: Target, cleared: Cleared[Removal], hand: Hand) -> None:
        ref, removal = target.parts[0].ref, cleared.facts
        if removal.leaving:
            return

        async def down(intent: Intent) -> None:
            for name in removal.rows:
                await self._sky().down(intent, name)

        if removal.rows:
            if not hand.asked(ref):
                await hand.step("down", ref, down)
            return
        place = place_of(target.detail)
        assert place is not None  # the guard refused otherwise
        api = self._kubernetes(Path(place.kubeconfig), place.context)
        await hand.steps([Step("delete", pod, api.delete_pod) for pod in removal.pods if not hand.asked(pod)])

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        """SkyPilot forgets what is proven gone; then nobody owns it any more."""
        place = place_of(target.detail)
        if place is None:
            return
        rows, gap = await self._sky().clusters()
        if gap is not None and gap.cause is not Cause.NO_CLIENT:
            raise Trouble(gap.cause, f"SkyPilot's own record could not be read: {gap.detail}")
        names = rows_at(rows, place.context)

        async def forget(intent: Intent) -> None:
            for name in names:
                await self._sky().forget(intent, name)

        if names:
            await hand.step("forget", target.parts[0].ref, forget)
        clear_controller_owner(self._roots, place.project_id, place.cluster_id, place.context)

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError("nothing is taken away for a while here")
