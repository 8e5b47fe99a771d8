"""What a look at the world may answer, and what may be concluded from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple


class Ref(NamedTuple):
    """An immutable id of one kind. It has no name: names identify nothing."""

    kind: str
    id: str


class Cause(StrEnum):
    """Why something could not be seen or done. Told apart where the failure arose, by type or status code."""

    DENIED = "denied"
    UNAUTHENTICATED = "unauthenticated"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    THROTTLED = "throttled"
    MALFORMED = "malformed"
    NO_CLIENT = "no_client"
    WRONG_SCOPE = "wrong_scope"
    CONFLICT = "conflict"
    """A change that the provider refuses as the world is now: a child blocks it, another operation runs."""


@dataclass(frozen=True, slots=True)
class Present:
    """It is there. `fingerprint` is what makes it this very thing: id, name, parent, creation time."""

    fingerprint: str
    state: str = ""
    leaving: bool = False
    """Its deletion is accepted (Deleting, Terminating, scheduled): waited for, not asked again."""
    due: str = ""
    """When a scheduled deletion is to happen, RFC 3339, or empty."""
    type: Literal["present"] = "present"


@dataclass(frozen=True, slots=True)
class Absent:
    """A structured NotFound for that exact id, by a client that is installed, logged in, on the right profile."""

    type: Literal["absent"] = "absent"


@dataclass(frozen=True, slots=True)
class Unknown:
    """It could not be seen. Never to be read as absent."""

    cause: Cause
    detail: str = ""
    type: Literal["unknown"] = "unknown"


Presence = Present | Absent | Unknown


@dataclass(frozen=True, slots=True)
class Observation:
    """One answer about one id: when (RFC 3339 UTC) and by whom (source, principal, request id)."""

    ref: Ref
    presence: Presence
    at: str
    by: str


Sight = tuple[Observation, ...]
"""One look at one target: one answer for each part of it."""

Proof = tuple[Observation, ...]
"""Two sights of a target gone, spaced, with nothing else seen between."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A thing that a provider reported. `attrs` holds what its kind's row documents, as plain text."""

    ref: Ref
    name: str
    parent: str
    presence: Present
    created_at: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    attrs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything of one kind below one parent. Empty with a gap is not empty."""

    items: tuple[Resource, ...]
    gap: Unknown | None = None
    at: str = ""
    by: str = ""

    @property
    def proves_empty(self) -> bool:
        return not self.items and self.gap is None


def gone(sight: Iterable[Observation]) -> bool:
    """Every part was answered for, and every answer is `Absent`."""
    seen = tuple(sight)
    return bool(seen) and all(isinstance(o.presence, Absent) for o in seen)


def unknown(sight: Iterable[Observation]) -> Unknown | None:
    """The first part that could not be seen; a lost login before anything else, since it speaks for all."""
    blind = [o.presence for o in sight if isinstance(o.presence, Unknown)]
    return next((u for u in blind if u.cause is Cause.UNAUTHENTICATED), blind[0] if blind else None)


def present(sight: Iterable[Observation]) -> tuple[Observation, ...]:
    """The parts that are there."""
    return tuple(o for o in sight if isinstance(o.presence, Present))


def presence_of(sight: Iterable[Observation], ref: Ref) -> Presence | None:
    return next((o.presence for o in sight if o.ref == ref), None)
