"""The phase: looks by exact id, guards, destroys by Terraform and then by recorded ids, and tidies the saved record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine.clock import Clock
from engine.home.clusters import read_clusters
from engine.home.controller_owner import ControllerOwner
from engine.home.errors import Kind
from engine.home.removal import remove_tree
from engine.home.roots import Roots
from engine.home.writers import clear_controller_owner
from engine.ledger.events import Intended
from engine.phases.clusters.closing import close_operation
from engine.phases.clusters.decision import Facts, Going, Way, decide, due
from engine.phases.clusters.destroying import Progress, Terraform, destroy
from engine.phases.clusters.finding import find
from engine.phases.clusters.modules import read_module
from engine.phases.clusters.planning import CLUSTER, KIND_OF_ROW, plan_clusters
from engine.phases.controller_place import NODE_LABEL, Place, PlaceReader, endpoint_problem
from engine.phases.jobs import Claims, JobQueue, attribute
from engine.phases.shape import Cleared, Hand, Step
from engine.phases.sharing import SharedRead
from engine.words.intents import Intent
from engine.words.plans import PhasePlan, Target
from engine.words.presence import (
    Absent,
    Listing,
    Observation,
    Present,
    Proof,
    Ref,
    Resource,
    Sight,
    Unknown,
)
from engine.words.reasons import Refusal
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.home.records import Records

BELOW_PROJECT = frozenset(KIND_OF_ROW.values())


class Provider(Protocol):
    """What is asked of the provider."""

    async def get(self, ref: Ref, *, expected_parent: str = "") -> tuple[Observation, Resource | None]: ...

    async def look(self, ref: Ref, parent: str = "") -> Observation: ...

    async def list(self, kind: str, parent: str) -> Listing: ...

    async def delete(self, intent: Intent) -> None: ...

    async def operation_error(self, ref: Ref) -> Trouble | None: ...


class ClusterApi(Protocol):
    """What is asked of the cluster's API server."""

    async def services(self) -> Listing: ...

    async def volumes(self) -> Listing: ...


class Queue(Protocol):
    """What is asked of SkyPilot."""

    async def queue(self) -> JobQueue: ...


class Clusters:
    """Built with the provider, with Terraform, and with who can see what lives on a cluster."""

    name = "clusters"

    def __init__(
        self,
        roots: Roots,
        provider: Provider,
        terraform: Terraform,
        kubernetes: Callable[[Path, str], ClusterApi],
        sky: Callable[[], Queue],
        places: PlaceReader,
        clock: Clock,
        claims: Callable[[], Claims],
        owner: Callable[[], ControllerOwner | Unknown | None],
    ) -> None:
        self._roots = roots
        self._provider = provider
        self._terraform = terraform
        self._kubernetes = kubernetes
        self._sky = sky
        self._places = places
        self._clock = clock
        self._claims = claims
        self._owner = owner
        self._instances: dict[str, SharedRead[Listing]] = {}

    def plan(self, records: Records) -> PhasePlan:
        return plan_clusters(records)

    # -- looking ----------------------------------------------------------------------------------------------------------

    async def look(self, target: Target) -> Sight:
        return tuple(await asyncio.gather(*(self._look(target, part.ref) for part in target.parts)))

    async def _look(self, target: Target, ref: Ref) -> Observation:
        project = target.detail["project_id"]
        seen = await self._provider.look(ref, parent=project if ref.kind in BELOW_PROJECT else "")
        if ref.kind != CLUSTER or not isinstance(seen.presence, Absent):
            return seen
        # The control plane can go before its VMs do: they are what costs.
        listing = await self._vms(project)
        if listing.gap is not None:
            return replace(seen, presence=listing.gap, by=listing.by)
        left = [i for i in listing.items if i.labels.get(NODE_LABEL) == ref.id]
        if not left:
            return seen
        return replace(
            seen, presence=Present(ref.id, f"gone, but {len(left)} of its VMs are not", leaving=True)
        )

    async def _vms(self, project: str) -> Listing:
        if project not in self._instances:
            self._instances[project] = SharedRead(lambda: self._provider.list("instance", project))
        return await self._instances[project]()

    # -- guarding ---------------------------------------------------------------------------------------------------------

    async def guard(self, target: Target, sight: Sight) -> Cleared[Going] | Refusal:
        facts = Facts(
            target,
            sight,
            resource=None,
            module=await asyncio.to_thread(read_module, target.detail.get("terraform_dir", "")),
            found=await find(self._provider, target, sight),
            owner=self._owner(),
        )
        if facts.cluster_there:
            _, resource = await self._provider.get(Ref(CLUSTER, facts.cluster_id))
            facts = replace(facts, resource=resource)
            facts = await self._with_context(facts)
            facts = await self._with_controller(facts)
        return decide(facts)

    async def _with_context(self, facts: Facts) -> Facts:
        """Whether the saved context is this cluster's own; and only then, what lives there that may outlive it."""
        from engine.clouds.kubernetes import read_kubeconfig

        detail, resource = facts.target.detail, facts.resource
        path, context = detail.get("kubeconfig", ""), detail.get("context", "")
        if not path or resource is None:
            return facts
        try:
            saved = await asyncio.to_thread(read_kubeconfig, Path(path), context)
        except Trouble as trouble:
            return replace(facts, outside_gap=trouble.unknown)
        if wrong := endpoint_problem(resource, saved.server, saved.ca_fingerprint, context):
            return replace(facts, wrong_context=wrong, outside_gap=wrong)
        api = self._kubernetes(Path(path), context)
        services, volumes = await asyncio.gather(api.services(), api.volumes())
        lines = [
            f"service {s.name} has a load balancer ({s.attrs.get('addresses', '')}) that may outlive the cluster"
            for s in services.items
        ]
        lines += [
            f"volume {v.name} ({v.attrs.get('capacity', '')}, {v.attrs.get('claim', '') or 'unclaimed'}, disk"
            f" {v.attrs.get('handle', '') or 'unknown'}) may outlive the cluster, or its data dies with it"
            for v in volumes.items
        ]
        return replace(facts, outside=tuple(lines), outside_gap=services.gap or volumes.gap)

    async def _with_controller(self, facts: Facts) -> Facts:
        """What runs under the jobs controller, when it is bound to this cluster by this project."""
        owner, detail = facts.owner, facts.target.detail
        if not isinstance(owner, ControllerOwner) or owner.cluster_id != facts.cluster_id:
            return facts
        if owner.project_id != detail["project_id"]:
            return facts
        place = Place(owner.project_id, owner.cluster_id, owner.context, detail.get("kubeconfig", ""))
        seen = await self._places.see(place)
        if seen.empty:
            return replace(facts, seen=seen)
        queue = await self._sky().queue()
        jobs = attribute(queue.jobs, await asyncio.to_thread(self._claims))
        return replace(facts, seen=seen, queue=queue, mine=jobs.of_us, others=jobs.of_others)

    # -- acting -----------------------------------------------------------------------------------------------------------

    async def act(self, target: Target, cleared: Cleared[Going], hand: Hand) -> None:
        going = cleared.facts
        if going.way is Way.TERRAFORM:
            await self._destroy(target, going, hand)
            return
        refs = [ref for ref in due(target, going) if not hand.asked(ref)]
        for ref in refs:
            if before := await self._provider.operation_error(ref):
                await hand.note("failed_before", f"{ref.id}: {before.detail}")
        await hand.steps([Step("delete", ref, self._provider.delete) for ref in refs])

    async def _destroy(self, target: Target, going: Going, hand: Hand) -> None:
        """One destroy for all that the state holds, under the id of the cluster or of what is left of it.

        While the cluster is on its way out it is only waited for.
        """
        mine = {p.ref for p in target.parts}
        there = [
            (o.ref, o.presence) for o in going.sight if isinstance(o.presence, Present) and o.ref in mine
        ]
        if any(ref.kind == CLUSTER and now.leaving for ref, now in there):
            return
        standing = [ref for ref, now in there if not now.leaving and ref.kind in BELOW_PROJECT]
        subject = next((ref for ref in standing if ref.kind == CLUSTER), next(iter(standing), None))
        if subject is None or hand.asked(subject):
            return
        cluster_id = next((p.ref.id for p in target.parts if p.ref.kind == CLUSTER), "")
        recovery = self._roots.ours / "recovery" / target.id

        async def call(intent: Intent) -> None:
            await destroy(
                self._terraform,
                intent,
                target,
                going.module,
                cluster_id,
                recovery,
                Progress(hand, self._clock),
            )

        await hand.step("terraform destroy", subject, call)

    # -- tidying ----------------------------------------------------------------------------------------------------------

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        """The saved record and its kubeconfig, the owner of a controller that lived there, and its operation, which is over."""
        cluster_id = next((p.ref.id for p in target.parts if p.ref.kind == CLUSTER), "")
        project = target.detail["project_id"]
        if cluster_id:
            for folder in read_clusters(self._roots).folders:
                if folder.cluster is not None and folder.cluster.cluster_id == cluster_id:
                    remove_tree(folder.path, root=self._roots.config, kind=Kind.CLUSTERS)
            owner = self._owner()
            if isinstance(owner, ControllerOwner) and (owner.project_id, owner.cluster_id) == (
                project,
                cluster_id,
            ):
                clear_controller_owner(self._roots, project, cluster_id, owner.context)
        if operation := target.detail.get("operation_id"):
            gone = {o.ref.id for o in proof}
            close_operation(self._roots, operation, gone, self._clock.now())

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError("nothing is taken away for a while here")
