"""What is in a project now, asked of the provider kind by kind: for the phases that may only go on when nothing unexplained is left."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from engine.clouds.nebius.kinds import KINDS
from engine.words.presence import Absent, Listing, Observation, Ref, Resource


class Provider(Protocol):
    """What a survey asks."""

    async def list(self, kind: str, parent: str) -> Listing: ...

    async def look(self, ref: Ref, parent: str = "") -> Observation: ...


def surveyed_kinds(project_id: str) -> tuple[str, ...]:
    """Every kind that the provider lists below a project."""
    return tuple(kind for kind, row in KINDS.items() if row.way(project_id) is not None and kind != "project")


DEFAULT_NETWORK = "default-network"
"""What the provider calls the network that it makes with a project. A name that only begins so is somebody else's."""


@dataclass(frozen=True, slots=True)
class Survey:
    """`items`: what is there; listings that lag were checked by id. `gaps`: kinds that could not be listed, and why."""

    items: tuple[Resource, ...]
    gaps: Mapping[str, str]

    @property
    def retained(self) -> tuple[Resource, ...]:
        """What a teardown without `--delete-project` leaves by design: registries, and the default network with all of it."""
        return tuple(r for r in self.items if r in self._kept())

    @property
    def leftovers(self) -> tuple[Resource, ...]:
        kept = self._kept()
        return tuple(r for r in self.items if r not in kept)

    def _kept(self) -> list[Resource]:
        networks = {r.ref.id for r in self.items if r.ref.kind == "network" and r.name == DEFAULT_NETWORK}
        return [r for r in self.items if r.ref.kind in ("registry", "artifact") or _of_default(r, networks)]


def _of_default(resource: Resource, networks: set[str]) -> bool:
    """Part of the trio that the provider makes with a project, told by its network's id and its provider-given mark."""
    kind, network = resource.ref.kind, resource.attrs.get("network_id", "")
    if kind == "network":
        return resource.ref.id in networks
    if network not in networks:
        return False
    if kind == "subnet":
        return resource.name.startswith("default-subnet")
    return kind in ("security_group", "route_table") and resource.attrs.get("default") == "1"


async def survey(provider: Provider, project_id: str) -> Survey:
    """List every kind at once; what a listing shows is looked at by id, since listings lag behind."""
    kinds = surveyed_kinds(project_id)
    listings = await asyncio.gather(*(provider.list(kind, project_id) for kind in kinds))
    gaps = {
        kind: f"{listing.gap.cause}: {listing.gap.detail}"
        for kind, listing in zip(kinds, listings, strict=True)
        if listing.gap
    }
    listed = [item for listing in listings for item in listing.items]
    seen = await asyncio.gather(*(provider.look(item.ref) for item in listed))
    there = tuple(i for i, o in zip(listed, seen, strict=True) if not isinstance(o.presence, Absent))
    return Survey(there, gaps)
