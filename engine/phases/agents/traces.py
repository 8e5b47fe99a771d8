"""What carries an operation's label in a project, and what only has a name that the operation recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from engine.phases.agents.planning import LABEL
from engine.phases.parts import Reads, still_there
from engine.phases.sharing import SharedRead
from engine.words.plans import Target
from engine.words.presence import Absent, Listing, Observation, Present, Ref, Resource, Unknown

TRACED = ("instance", "disk", "allocation", "subnet", "security_group", "network")


class Lists(Reads, Protocol):
    async def list(self, kind: str, parent: str) -> Listing: ...


@dataclass(frozen=True, slots=True)
class Traces:
    """`labelled` is the operation's; `namesakes` have a recorded name without its label. `gap`: a listing was not complete."""

    labelled: tuple[Resource, ...]
    namesakes: tuple[Resource, ...]
    gap: Unknown | None
    at: str
    by: str

    def observation(self, ref: Ref) -> Observation:
        """As one part: there while anything is there, gone only by complete listings."""
        there = (*self.labelled, *self.namesakes)
        if there:
            leaving = all(r.presence.leaving for r in there)
            return Observation(ref, Present(ref.id, f"{len(there)} left", leaving), self.at, self.by)
        return Observation(ref, self.gap or Absent(), self.at, self.by)


class TraceReader:
    """Finds traces. All targets of a project share its listings."""

    def __init__(self, provider: Lists) -> None:
        self._provider = provider
        self._reads: dict[tuple[str, str], SharedRead[Listing]] = {}

    async def read(self, target: Target, operation: str) -> Traces:
        """What is left of an operation: by label, or by the names in `target.detail["nameless"]`."""
        project = target.detail["project_id"]
        listings = await asyncio.gather(*(self._listing(kind, project) for kind in TRACED))
        names = set(target.detail.get("nameless", "").split())
        elsewhere = set(target.detail.get("elsewhere", "").split())
        rows = [r for listing in listings for r in listing.items if r.ref.id not in elsewhere]
        labelled = [r for r in rows if r.labels.get(LABEL) == operation]
        namesakes = [
            r
            for r in rows
            if f"{r.ref.kind}/{r.name}" in names and r.labels.get(LABEL) not in (operation, *elsewhere)
        ]
        return Traces(
            await still_there(self._provider, labelled),
            await still_there(self._provider, namesakes),
            next((listing.gap for listing in listings if listing.gap), None),
            min((listing.at for listing in listings), default=""),
            next((listing.by for listing in listings if listing.by), ""),
        )

    def _listing(self, kind: str, project: str) -> Awaitable[Listing]:
        key = (kind, project)
        if key not in self._reads:
            self._reads[key] = SharedRead(partial(self._provider.list, kind, project))
        return self._reads[key]()
