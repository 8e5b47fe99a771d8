"""A thing of the cloud, an operation on it, a refusal: the values that the cloud and its services share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

from engine.simulator.kinds import KINDS, Doc, at


class Refusal(Exception):
    """The cloud says no: a gRPC status name, a message, and the id (or the conflicting operation's) that is meant."""

    def __init__(self, code: str, message: str, id: str = "", operation: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.id, self.operation = code, message, id, operation


@dataclass
class Resource:
    """A thing. `doc`: its message in protobuf JSON; `wire`: the same encoded, until it changes.

    going      its deletion was accepted
    removed    it is gone; one of the next two may stay for a while, as the world says
    readable   Get finds it
    listed     listings show it
    was        its state before it was going
    """

    kind: str
    id: str
    parent: str
    doc: Doc
    going: bool = False
    removed: bool = False
    readable: bool = True
    listed: bool = True
    was: str = ""
    schedule: int = 0
    wire: bytes | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return str(self.doc.get("name") if KINDS[self.kind].flat else at(self.doc, "metadata", "name") or "")


@dataclass
class Operation:
    """An accepted request that takes its time. `over` is set together with `finished_at` and `code`."""

    id: str
    kind: str
    resource_id: str
    description: str
    created_at: datetime
    finished_at: datetime | None = None
    code: str = ""
    message: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)


def merge(into: Doc, patch: Doc) -> None:
    """Merge a JSON patch: null takes a key away, tables merge, all else replaces."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """A moment as protobuf JSON says it."""
    return moment.isoformat().replace("+00:00", "Z")
