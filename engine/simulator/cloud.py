"""The living state: resources as documents in the protobuf JSON form, deletions that take time, and how they go wrong."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from engine.simulator.kinds import KINDS, Doc, at, attached, blocks, goes_with
from engine.simulator.world import Stumble, World

BORN = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


class Refusal(Exception):
    """The cloud says no: a gRPC status name, a message, and the id that is meant."""

    def __init__(self, code: str, message: str, id: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.id = code, message, id


@dataclass
class Resource:
    """`doc`: the message in protobuf JSON. `hidden`: gone for Get; a listing may lag behind."""

    kind: str
    id: str
    parent: str
    doc: Doc
    going: bool = False
    hidden_since: float | None = None

    @property
    def name(self) -> str:
        return str(self.doc.get("name") if KINDS[self.kind].flat else at(self.doc, "metadata", "name") or "")


@dataclass
class Operation:
    id: str
    kind: str
    resource_id: str
    description: str
    created_at: datetime
    finished_at: datetime | None = None
    code: str = ""
    message: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Cloud:
    """Everything that the provider knows. `on_gone` is told of each thing that has really gone."""

    world: World
    scale: float = 1.0
    token: str = "example-token-of-the-simulator"
    resources: dict[str, Resource] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    by_key: dict[str, str] = field(default_factory=dict)
    log: list[Doc] = field(default_factory=list)
    on_gone: list[Callable[[Resource], None]] = field(default_factory=list)
    bucket_is_empty: Callable[[str], bool] = lambda name: True
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    faults_over: asyncio.Event = field(default_factory=asyncio.Event)

    def add(
        self,
        kind: str,
        id: str,
        parent: str,
        name: str,
        *,
        labels: dict[str, str] | None = None,
        **blocks: Any,
    ) -> Resource:
        """Put a thing there. `blocks`: `spec`, `status`, or the fields of a flat message."""
        born = BORN.isoformat().replace("+00:00", "Z")
        if KINDS[kind].flat:
            doc: Doc = {"id": id, "name": name, "createdAt": born, "updatedAt": born, **blocks}
        else:
            meta = {
                "id": id,
                "parentId": parent,
                "name": name,
                "labels": labels or {},
                "createdAt": born,
                "updatedAt": born,
            }
            doc = {"metadata": {**meta, "resourceVersion": "1"}, **blocks}
        self.resources[id] = made = Resource(kind, id, parent, doc)
        return made

    # -- reading ------------------------------------------------------------------------------------------------------

    def get(self, kind: str, id: str) -> Resource:
        found = self.resources.get(id)
        if found is None or found.kind != kind or found.hidden_since is not None:
            raise Refusal("NOT_FOUND", f"{kind} {id} not found", id)
        return found

    def listed(self, kind: str, keep: Callable[[Resource], bool]) -> list[Resource]:
        """What a listing shows: also what has just gone, while listings lag."""
        return sorted((r for r in self.resources.values() if r.kind == kind and keep(r)), key=lambda r: r.id)

    # -- deleting -----------------------------------------------------------------------------------------------------

    def delete(self, kind: str, id: str, key: str = "", ttl: timedelta | None = None) -> Operation:
        """Accept a deletion, or refuse it. The same key gives the same operation."""
        if key and key in self.by_key:
            return self.operations[self.by_key[key]]
        target = self.get(kind, id)
        self._check(target, ttl)
        operation = Operation(
            f"operation-{uuid.uuid4().hex[:17]}", kind, id, f"Delete {kind}", datetime.now(UTC)
        )
        self.operations[operation.id] = operation
        if key:
            self.by_key[key] = operation.id
        if not target.going or ttl is not None:
            self._mark(target, ttl)
            self._start(self._finish(target, operation, ttl))
        else:
            self._end(operation)
        return operation

    def _check(self, target: Resource, ttl: timedelta | None) -> None:
        if at(target.doc, "status", "default"):
            raise Refusal(
                "FAILED_PRECONDITION", f"default {target.kind} {target.id} goes with its network", target.id
            )
        if at(target.doc, "spec", "forbidDeletion"):
            raise Refusal("FAILED_PRECONDITION", f"{target.id} is protected from deletion", target.id)
        others = [
            r
            for r in self.resources.values()
            if r.hidden_since is None and blocks(target.kind, target.id, r.kind, r.doc, r.parent)
        ]
        if others:
            named = ", ".join(r.id for r in others[:3])
            raise Refusal("FAILED_PRECONDITION", f"{target.id} is in use by {named}", target.id)
        now = ttl is None or ttl <= timedelta(0)
        if (
            target.kind == "bucket"
            and self.world.bucket_needs_empty
            and not self.bucket_is_empty(target.name)
        ):
            raise Refusal("FAILED_PRECONDITION", "BucketNotEmpty", target.id)
        if target.kind == "bucket" and now and not self.bucket_is_empty(target.name):
            raise Refusal("FAILED_PRECONDITION", "BucketNotEmpty", target.id)

    def _mark(self, target: Resource, ttl: timedelta | None) -> None:
        target.going = True
        kind = KINDS[target.kind]
        if kind.state is None:
            return
        block, name, word = kind.state
        target.doc.setdefault(block, {})[name] = word
        if target.kind == "bucket":
            wait = (ttl or timedelta(days=7)) * self.scale
            now = datetime.now(UTC)
            target.doc["status"]["deletedAt"] = _stamp(now)
            target.doc["status"]["purgeAt"] = _stamp(now + wait)
        for other in self._along(target):
            self._mark(other, None)

    async def _finish(self, target: Resource, operation: Operation, ttl: timedelta | None) -> None:
        seconds = self.world.seconds.get(target.kind, self.world.seconds.get("default", 3.0))
        if target.kind == "bucket":
            self._end(operation)
            seconds = (ttl or timedelta(days=7)).total_seconds()
        await asyncio.sleep(seconds * self.scale)
        if stumble := self._stumble(target.id, "sticks"):
            await self.faults_over.wait()
        if stumble := self._stumble(target.id, "operation_fails"):
            self._end(operation, stumble.code, stumble.message)
            self._unmark(target)
            return
        if target.id in self.resources:
            self._remove(target)
        self._end(operation)
        if stumble := self._stumble(target.id, "comes_back"):
            await asyncio.sleep(stumble.after * self.scale)
            self._unmark(target)
            target.hidden_since = None
            self.resources[target.id] = target
            await asyncio.sleep(stumble.seconds * self.scale)
            self._remove(target)

    def _remove(self, target: Resource) -> None:
        for other in self._along(target):
            self._remove(other)
        loop = asyncio.get_running_loop()
        target.hidden_since = loop.time()
        lag = self.world.list_lag * self.scale
        if lag:
            loop.call_later(lag, self._forget, target)
        else:
            self._forget(target)
        for tell in self.on_gone:
            tell(target)
        if target.kind == "instance":
            for disk in attached(target.doc):
                if found := self.resources.get(disk):
                    found.doc.setdefault("status", {}).pop("readWriteAttachment", None)

    def _forget(self, target: Resource) -> None:
        if target.hidden_since is not None:
            self.resources.pop(target.id, None)

    def _unmark(self, target: Resource) -> None:
        target.going = False
        if kind := KINDS[target.kind].state:
            target.doc.setdefault(kind[0], {})[kind[1]] = {
                "bucket": "ACTIVE",
                "disk": "READY",
                "subnet": "READY",
                "network": "READY",
            }.get(target.kind, "RUNNING")

    def _along(self, target: Resource) -> list[Resource]:
        return [
            r
            for r in list(self.resources.values())
            if r is not target
            and r.hidden_since is None
            and goes_with(target.kind, target.id, r.kind, r.doc, r.parent)
        ]

    def _end(self, operation: Operation, code: str = "OK", message: str = "") -> None:
        if operation.finished_at is None:
            operation.finished_at, operation.code, operation.message = datetime.now(UTC), code, message
            operation.over.set()

    def _stumble(self, id: str, kind: str) -> Stumble | None:
        if self.faults_over.is_set():
            return None
        found = next((s for s in self.world.stumbles if s.id == id and s.kind == kind and s.times > 0), None)
        if found:
            found.times -= 1
        return found

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def purge(self, id: str) -> Operation:
        """End a scheduled deletion now."""
        target = self.get("bucket", id)
        if not target.going:
            raise Refusal("FAILED_PRECONDITION", f"{id} is not scheduled for deletion", id)
        return self.delete("bucket", id, ttl=timedelta(0))

    def describe(self) -> Doc:
        """What there is, by kind: the independent read of tests."""
        out: Doc = {}
        for r in self.resources.values():
            if r.hidden_since is None:
                out.setdefault(r.kind, []).append(
                    {"id": r.id, "name": r.name, "parent": r.parent, "going": r.going, "doc": r.doc}
                )
        return out


def _stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
