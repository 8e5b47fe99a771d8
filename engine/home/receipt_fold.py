"""What all receipts together say about each resource of a project, as a fold that does not run backwards.

A resource that was once reported gone stays so until somebody says that it was seen: a check that failed or an attempt that was begun
is no sighting. It is still another program's claim; the runner looks for itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.clock import parse
from engine.home.receipt_rules import TERMINAL
from engine.home.receipts import ReceiptEvent

SIGHTINGS = frozenset({"verified_present", "active", "deletion_approved"})
"""States that are written only after the provider showed the thing."""


@dataclass(frozen=True, slots=True)
class ResourceState:
    """The state of one resource in one phase, and the event that it comes from."""

    phase: str
    resource: str
    state: str
    recorded_at: str
    receipt_id: str

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL


def fold(events: Iterable[ReceiptEvent]) -> dict[tuple[str, str], ResourceState]:
    """The state per (phase, resource). The order in which files are given does not matter: events count in time order."""
    states: dict[tuple[str, str], ResourceState] = {}
    for event in sorted(events, key=_when):
        key = (event.phase, event.resource)
        before = states.get(key)
        if before and before.terminal and not event.terminal and event.state not in SIGHTINGS:
            continue
        states[key] = ResourceState(
            event.phase, event.resource, event.state, event.recorded_at, event.receipt_id
        )
    return states


def _when(event: ReceiptEvent) -> tuple[float, str, int]:
    # An event without a readable time counts as the oldest: it can report an end, but not undo a later sighting.
    at = parse(event.recorded_at)
    return (at.timestamp() if at else 0.0, event.receipt_id, event.index)


def unresolved(states: Iterable[ResourceState]) -> tuple[ResourceState, ...]:
    """Resources that are not reported gone, oldest first."""
    return tuple(
        sorted((s for s in states if not s.terminal), key=lambda s: (s.recorded_at, s.phase, s.resource))
    )


def phase_done(states: Iterable[ResourceState], phase: str) -> bool | None:
    """Whether every resource of a phase is reported gone; None when no event speaks of the phase."""
    mine = [s for s in states if s.phase == phase]
    return all(s.terminal for s in mine) if mine else None
