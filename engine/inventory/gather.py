"""Reads every source at once and joins what they show with a plan. A source that fails is said so; nothing is called empty for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from engine.clock import Clock
from engine.clouds.nebius.kinds import KINDS
from engine.inventory.model import Inventory, Row, SourceReport
from engine.inventory.workloads import WORKLOADS
from engine.phases.survey import surveyed_kinds
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Plan
from engine.words.presence import Listing, Ref, Resource, Unknown

OnSource = Callable[[SourceReport], None]

FREE = frozenset({
    "access_key", "access_permit", "group", "group_membership", "service_account", "network", "subnet", "security_group",
    "security_rule", "route_table", "route", "artifact",
})  # fmt: skip
"""Kinds that the provider does not bill by themselves; an artifact's bytes are billed with its registry."""


class Provider(Protocol):
    """What the inventory asks of the cloud."""

    prices_gap: Unknown | None

    async def list(self, kind: str, parent: str) -> Listing: ...

    async def prices(self, resources: Sequence[Resource]) -> Mapping[Ref, float | None]: ...


Reader = Callable[[], Awaitable[Listing]]
"""One more source: the pods of a cluster, the jobs of the queue, what is in a bucket."""


async def gather(
    provider: Provider,
    project_id: str,
    plan: Plan | None,
    clock: Clock,
    *,
    others: Mapping[str, Reader] | None = None,
    on_source: OnSource | None = None,
) -> Inventory:
    """The live inventory. `others` are read beside the provider's kinds, each under its own name."""

    async def read(name: str, ask: Awaitable[Listing]) -> tuple[Listing, SourceReport]:
        listing = await ask
        gap = listing.gap
        report = SourceReport(
            name,
            len(listing.items),
            listing.at or clock.now(),
            str(gap.cause) if gap else "",
            gap.detail if gap else "",
        )
        if on_source:
            on_source(report)
        return listing, report

    kinds = surveyed_kinds(project_id)
    asks = [read(KINDS[k].label, provider.list(k, project_id)) for k in kinds]
    asks += [read(name, reader()) for name, reader in (others or {}).items()]
    answers = await asyncio.gather(*asks)
    clusters = [r for listing, _ in answers for r in listing.items if r.ref.kind == "cluster"]
    registries = [r for listing, _ in answers for r in listing.items if r.ref.kind == "registry"]
    below = [
        read(f"Node groups of {c.name or c.ref.id}", provider.list("node_group", c.ref.id)) for c in clusters
    ]
    below += [
        read(f"Artifacts of {r.name or r.ref.id}", provider.list("artifact", r.ref.id)) for r in registries
    ]
    answers = [*answers, *await asyncio.gather(*below)]
    resources = [r for listing, _ in answers for r in listing.items]
    prices = await provider.prices([r for r in resources if r.ref.kind in KINDS and KINDS[r.ref.kind].quote])
    explained = _explained(plan, resources)
    rows = tuple(
        sorted(
            (_row(r, prices, explained) for r in resources),
            key=lambda row: (_order(row.ref.kind), row.name, row.ref.id),
        )
    )
    gap = provider.prices_gap
    return Inventory(
        project_id,
        rows,
        tuple(report for _, report in answers),
        clock.now(),
        prices_gap=f"{gap.cause}: {gap.detail}" if gap else "",
        hazards=hazards(rows),
    )


def hazards(rows: Sequence[Row]) -> tuple[str, ...]:
    """What somebody should look at before anything else, a line each."""
    lines = [
        f"{row.ref.kind} {row.name or row.ref.id} is in no record of this machine"
        for row in rows
        if not row.recorded and row.per_hour
    ]
    return tuple(lines)


def _explained(plan: Plan | None, resources: Sequence[Resource]) -> dict[Ref, tuple[str, Ownership]]:
    """For each thing that the plan removes, directly or with something it removes: the phase and why it is ours."""
    found: dict[Ref, tuple[str, Ownership]] = {}
    for phase, target in plan.targets() if plan else ():
        if phase.wants != "absent":
            continue  # a phase that only looks removes nothing
        for part in target.parts:
            found[part.ref] = (phase.phase, part.owned)
    # The project holds everything, and local records bear its id: neither says what goes with what.
    owners = {
        ref.id: value
        for ref, value in found.items()
        if ref.kind == "run" or (ref.kind in KINDS and ref.kind != "project")
    }
    for r in resources:
        if r.ref in found:
            continue
        for holder in _holders(r):
            if holder in owners:
                found[r.ref] = (owners[holder][0], Ownership(Evidence.PART_OF, holder, "goes with it"))
                owners[r.ref.id] = found[r.ref]
                break
    return found


def _holders(r: Resource) -> tuple[str, ...]:
    """Ids of what a thing goes with: its cluster, its instance, its account, its network, its bucket."""
    named = (
        r.labels.get("mk8s-cluster-id", ""),
        r.attrs.get("cluster", ""),
        *r.attrs.get("attached_to", "").split(),
        r.attrs.get("managed_by", ""),
        r.attrs.get("account_id", ""),
        *r.attrs.get("used_by", "").split(),
        r.attrs.get("network_id", "") if r.ref.kind in ("security_group", "route_table") else "",
        r.parent,
    )
    return tuple(id for id in named if id)


def _row(
    r: Resource, prices: Mapping[Ref, float | None], explained: Mapping[Ref, tuple[str, Ownership]]
) -> Row:
    phase, owned = explained.get(r.ref, ("", NOT_PROVEN))
    return Row(
        ref=r.ref,
        name=r.name,
        state=r.presence.state.lower(),
        leaving=r.presence.leaving,
        created_at=r.created_at,
        phase=phase,
        owned=owned,
        per_hour=0.0 if r.ref.kind in FREE or r.ref.kind in WORKLOADS else prices.get(r.ref),
        note=_note(r),
        parent=r.parent,
        recorded=bool(phase),
    )


def _note(r: Resource) -> str:
    a = r.attrs
    if r.presence.due:
        return f"goes at {r.presence.due}"
    if a.get("attached_to"):
        return f"attached to {a['attached_to']}"
    if r.ref.kind == "bucket" and a.get("objects"):
        return f"{int(a['objects']):,} objects"
    if a.get("platform"):
        return " ".join(x for x in (a["platform"], a.get("preset", "")) if x)
    return a.get("size_gib", "") and f"{a['size_gib']} GiB"


def _order(kind: str) -> int:
    order = list(KINDS)
    return order.index(kind) if kind in KINDS else len(order)
