"""What belongs to a cluster and is in no record: its node groups, VMs and disks, and what comes and goes with its network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from engine.phases.controller_place import NODE_LABEL
from engine.words.plans import Evidence, Ownership, Part, Target
from engine.words.presence import Absent, Listing, Present, Ref, Resource, Sight, Unknown, presence_of

BELOW_NETWORK = ("security_group", "route_table")


class Lister(Protocol):
    """What is asked of the provider."""

    async def list(self, kind: str, parent: str) -> Listing: ...


@dataclass(frozen=True, slots=True)
class Found:
    """What was seen live.

    groups, nodes, disks   of the cluster, with proven origin
    defaults               the default security group and route table of its network
    attached               disks at its nodes that nothing proves to be the cluster's: they stay
    strangers              VMs in its subnet that are no nodes of it
    gap                    why something of this may be missing, or None
    """

    groups: tuple[Resource, ...] = ()
    nodes: tuple[Resource, ...] = ()
    disks: tuple[Resource, ...] = ()
    defaults: tuple[Resource, ...] = ()
    attached: tuple[Resource, ...] = ()
    strangers: tuple[Resource, ...] = ()
    gap: Unknown | None = None
    owned: Mapping[Ref, Ownership] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All that goes with the target, each with its proof."""
        every = (*self.groups, *self.nodes, *self.disks, *self.defaults)
        return tuple(Part(r.ref, r.name, self.owned[r.ref]) for r in every)

    @property
    def protected(self) -> tuple[Resource, ...]:
        """What the provider is told never to delete."""
        return tuple(d for d in self.disks if d.attrs.get("forbid_deletion"))

    @property
    def orphans(self) -> frozenset[Ref]:
        """Disks that go with no VM that is there: they have to be deleted by their own id."""
        live = {n.ref.id for n in self.nodes}
        return frozenset(d.ref for d in self.disks if not _users(d) & live)


def _users(disk: Resource) -> set[str]:
    return set(" ".join((disk.attrs.get("managed_by", ""), disk.attrs.get("attached_to", ""))).split())


async def find(provider: Lister, target: Target, sight: Sight) -> Found:
    """List it. A cluster that is gone, or going, is not asked for its node groups; its VMs and disks are still looked for."""
    project, cluster = target.detail["project_id"], next(iter(_ids(target, "cluster")), "")
    now = presence_of(sight, Ref("cluster", cluster))
    there = isinstance(now, Present) and not now.leaving
    networks = [
        id for id in _ids(target, "network") if not isinstance(presence_of(sight, Ref("network", id)), Absent)
    ]
    wanted = [("instance", project), ("disk", project)]
    wanted += [("node_group", cluster)] if there else []
    below = [(kind, id) for id in networks for kind in BELOW_NETWORK]
    listings = await asyncio.gather(*(provider.list(kind, parent) for kind, parent in (*wanted, *below)))
    by_question = dict(zip((*wanted, *below), listings, strict=True))
    gap = next((by_question[q].gap for q in wanted if by_question[q].gap is not None), None)
    return sort_out(
        target,
        cluster,
        by_question[wanted[0]].items,
        by_question[wanted[1]].items,
        by_question["node_group", cluster].items if there else (),
        [item for q in below for item in by_question[q].items],
        gap,
    )


def sort_out(
    target: Target,
    cluster: str,
    instances: Iterable[Resource],
    disks: Iterable[Resource],
    groups: Iterable[Resource],
    below: Iterable[Resource],
    gap: Unknown | None,
) -> Found:
    """Which of what was listed is the cluster's. Pure.

    A node carries the cluster's label; a disk carries it too, goes with such a node, or was found with one before. Being attached
    to a node proves nothing: volumes of workloads are, and they hold what people wrote.
    """
    owned: dict[Ref, Ownership] = {}
    before = {p.ref for p in target.parts}
    subnets = set(_ids(target, "subnet"))
    nodes: list[Resource] = []
    strangers: list[Resource] = []
    for instance in instances:
        if cluster and instance.labels.get(NODE_LABEL) == cluster:
            owned[instance.ref] = Ownership(Evidence.PART_OF, cluster, f"label {NODE_LABEL}")
            nodes.append(instance)
        elif subnets & set(instance.attrs.get("subnets", "").split()):
            strangers.append(instance)
    node_ids = {n.ref.id for n in nodes}
    mine: list[Resource] = []
    attached: list[Resource] = []
    for disk in disks:
        manager = disk.attrs.get("managed_by", "")
        if cluster and disk.labels.get(NODE_LABEL) == cluster:
            owned[disk.ref] = Ownership(Evidence.PART_OF, cluster, f"label {NODE_LABEL}")
        elif manager in node_ids:
            owned[disk.ref] = Ownership(Evidence.PART_OF, manager, "status.managed_by")
        elif disk.ref in before:
            owned[disk.ref] = next(p.owned for p in target.parts if p.ref == disk.ref)
        elif _users(disk) & node_ids:
            attached.append(disk)
            continue
        else:
            continue
        mine.append(disk)
    listed_groups = tuple(groups)
    for group in listed_groups:
        owned[group.ref] = Ownership(Evidence.PART_OF, cluster, "metadata.parent_id")
    defaults = tuple(r for r in below if r.attrs.get("default"))
    for default in defaults:
        owned[default.ref] = Ownership(
            Evidence.PART_OF, default.attrs.get("network_id", ""), "status.default"
        )
    return Found(
        listed_groups, tuple(nodes), tuple(mine), defaults, tuple(attached), tuple(strangers), gap, owned
    )


def _ids(target: Target, kind: str) -> list[str]:
    return [p.ref.id for p in target.parts if p.ref.kind == kind]
