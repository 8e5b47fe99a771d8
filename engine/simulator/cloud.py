"""The living state: resources as documents in the protobuf JSON form, deletions that take time, and how they go wrong."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from engine.simulator.kinds import KINDS, Doc, allocations, at, attached, blocks, filesystems, goes_with
from engine.simulator.resources import Operation, Refusal, Resource, merge, now, stamp
from engine.simulator.world import Stumble, World

BORN = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
SOFT = timedelta(days=7)
"""How long a bucket that is deleted without a time to live can be had back."""


@dataclass
class Cloud:
    """Everything that the provider knows. `on_gone` is told of each thing that has really gone.

    scale   nominal seconds times this are real ones
    seed    of the ids that are made up on the way
    """

    world: World
    scale: float = 1.0
    seed: int = 0
    token: str = "example-token-of-the-simulator"
    resources: dict[str, Resource] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    log: list[Doc] = field(default_factory=list)
    on_gone: list[Callable[[Resource], None]] = field(default_factory=list)
    bucket_is_empty: Callable[[str], bool] = lambda name: True
    faults_over: asyncio.Event = field(default_factory=asyncio.Event)
    _names: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _by_key: dict[str, Operation] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._stumbles = [s.model_copy() for s in self.world.stumbles]

    def add(
        self,
        kind: str,
        id: str,
        parent: str,
        name: str,
        *,
        labels: dict[str, str] | None = None,
        born: datetime = BORN,
        **blocks: Any,
    ) -> Resource:
        """Put a thing there. `blocks`: `spec`, `status`, or the fields of a flat message.

        Raises `Refusal` when the id or the name is taken: a name stays taken while its thing is going.
        """
        if kind not in KINDS:
            raise Refusal("INVALID_ARGUMENT", f"there is no kind {kind!r}", id)
        if id in self.resources and not self.resources[id].removed:
            raise Refusal("ALREADY_EXISTS", f"{id} exists", id)
        holder = self.resources.get(self._names.get((kind, parent, name), ""))
        if name and holder and not holder.removed and holder.name == name:
            raise Refusal("ALREADY_EXISTS", f"{kind} {name!r} exists: {holder.id}", holder.id)
        moment = stamp(born)
        if KINDS[kind].flat:
            doc: Doc = {"id": id, "name": name, "createdAt": moment, "updatedAt": moment, **blocks}
        else:
            meta = {"id": id, "parentId": parent, "name": name, "labels": labels or {}}
            meta |= {"createdAt": moment, "updatedAt": moment, "resourceVersion": "1"}
            doc = {"metadata": meta, **blocks}
        self._put(made := Resource(kind, id, parent, doc))
        return made

    def _put(self, r: Resource) -> None:
        self.resources[r.id] = r
        self._names[r.kind, r.parent, r.name] = r.id

    def change(self, id: str, patch: Doc) -> Resource:
        """Merge a patch into a thing's message. Raises `Refusal` when it is not there."""
        found = self.resources.get(id)
        if found is None or found.removed:
            raise Refusal("NOT_FOUND", f"{id} not found", id)
        merge(found.doc, patch)
        if meta := found.doc.get("metadata"):
            meta |= {"updatedAt": stamp(now()), "resourceVersion": str(int(meta["resourceVersion"]) + 1)}
        found.wire = None
        self._put(found)
        return found

    # -- reading ------------------------------------------------------------------------------------------------------

    def get(self, kind: str, id: str) -> Resource:
        """A thing as Get finds it. Raises `Refusal`."""
        found = self.resources.get(id)
        if found is None or found.kind != kind or not found.readable:
            raise Refusal("NOT_FOUND", f"{kind} {id} not found", id)
        return found

    def by_name(self, kind: str, parent: str, name: str) -> Resource:
        """A thing by its name below a parent. Raises `Refusal`."""
        for r in self.resources.values():
            if r.readable and (r.kind, r.parent, r.name) == (kind, parent, name):
                return r
        raise Refusal("NOT_FOUND", f"{kind} {name!r} not found", name)

    def listing(self, kind: str, keep: Callable[[Resource], bool]) -> list[Resource]:
        """What a listing shows, in the order of ids."""
        found = (r for r in self.resources.values() if r.kind == kind and r.listed and keep(r))
        return sorted(found, key=lambda r: r.id)

    def describe(self) -> Doc:
        """What there is, by kind: the independent read of tests."""
        out: Doc = {}
        for r in self.resources.values():
            if r.removed:
                continue
            born = r.doc.get("createdAt") or at(r.doc, "metadata", "createdAt")
            row = {"id": r.id, "name": r.name, "parent": r.parent, "going": r.going}
            out.setdefault(r.kind, []).append(
                {**row, "state": self._state(r), "created_at": born, "doc": r.doc}
            )
        return out

    def running(self) -> list[Operation]:
        return [o for o in self.operations.values() if o.finished_at is None]

    # -- deleting -----------------------------------------------------------------------------------------------------

    def delete(self, kind: str, id: str, key: str = "", ttl: timedelta | None = None) -> Operation:
        """Accept a deletion, or refuse it. The same key gives the same operation.

        `ttl`, for buckets: nominal time until it is purged, zero for now; None is the provider's week.
        """
        if key and (known := self._by_key.get(key)):
            if (known.kind, known.resource_id) != (kind, id):
                raise Refusal("INVALID_ARGUMENT", "this idempotency key was used for another request", id)
            return known
        target = self.get(kind, id)
        if target.removed:
            raise Refusal("NOT_FOUND", f"{kind} {id} not found", id)
        if target.going and kind != "bucket":
            other = next((o for o in self.running() if o.resource_id == id), None)
            raise Refusal("ABORTED", f"{id} is being deleted", id, other.id if other else "")
        self._check(target, ttl)
        operation = self._begin(target, f"Delete {kind}")
        if key:
            self._by_key[key] = operation
        if kind == "bucket":
            self._schedule(target, operation, ttl)
        else:
            self._mark(target)
            self._start(self._carry_out(target, operation))
        return operation

    def purge(self, id: str, key: str = "") -> Operation:
        """End a bucket's scheduled deletion now."""
        if not self.get("bucket", id).going:
            raise Refusal("FAILED_PRECONDITION", f"{id} is not scheduled for deletion", id)
        return self.delete("bucket", id, key, timedelta(0))

    def undelete(self, id: str) -> Operation:
        """Call a bucket's scheduled deletion off."""
        target = self.get("bucket", id)
        if not target.going:
            raise Refusal("FAILED_PRECONDITION", f"{id} is not scheduled for deletion", id)
        operation = self._begin(target, "Undelete bucket")
        self._restore(target)
        self._end(operation)
        return operation

    def dry_run(self, kind: str, id: str) -> Operation:
        """Whether a deletion would be accepted. Raises `Refusal` like the deletion itself."""
        target = self.get(kind, id)
        self._check(target, None)
        operation = self._begin(target, f"Dry run: delete {kind}")
        self._end(operation)
        return operation

    def vanish(self, id: str) -> None:
        """Remove a thing from outside, at once and whatever stands in the way. Raises `Refusal` when it is not there."""
        found = self.resources.get(id)
        if found is None or found.removed:
            raise Refusal("NOT_FOUND", f"{id} not found", id)
        self._remove(found)

    def _check(self, target: Resource, ttl: timedelta | None) -> None:
        def no(why: str) -> Refusal:
            return Refusal("FAILED_PRECONDITION", why, target.id)

        if at(target.doc, "status", "default"):
            raise no(f"default {target.kind} {target.id} goes with its network")
        if at(target.doc, "spec", "forbidDeletion"):
            raise no(f"{target.id} is protected from deletion")
        if others := [
            r.id for r in self._others(target) if blocks(target.kind, target.id, r.kind, r.doc, r.parent)
        ]:
            raise no(f"{target.id} is in use by {', '.join(sorted(others)[:3])}")
        scheduled = ttl is not None and ttl > timedelta(0)
        needs_empty = self.world.bucket_delete_needs_empty and not scheduled
        if target.kind == "bucket" and needs_empty and not self.bucket_is_empty(target.name):
            raise no("BucketNotEmpty")

    def _others(self, target: Resource) -> list[Resource]:
        return [r for r in self.resources.values() if r is not target and not r.removed]

    def _along(self, target: Resource) -> list[Resource]:
        """What a deletion takes with it."""
        found = [
            r for r in self._others(target) if goes_with(target.kind, target.id, r.kind, r.doc, r.parent)
        ]
        if target.kind == "instance" and not self.world.disks_stay_behind:
            disks = set(attached(target.doc)) - {r.id for r in found}
            found += [r for r in self._others(target) if r.id in disks]
        return found

    @staticmethod
    def _state(r: Resource) -> str:
        found = at(r.doc, *KINDS[r.kind].state)
        return found if isinstance(found, str) else ""

    @staticmethod
    def _say(r: Resource, state: str) -> None:
        """Put a state into a thing's message."""
        *blocks, last = KINDS[r.kind].state
        here = r.doc
        for name in blocks:
            here = here.setdefault(name, {})
        here[last] = state

    def _mark(self, target: Resource) -> None:
        """Show a thing, and what it takes along, as going."""
        if target.going:
            return
        target.going, target.was, target.wire = True, self._state(target), None
        if word := KINDS[target.kind].going:
            self._say(target, word)
        for other in self._along(target):
            self._mark(other)

    def _restore(self, target: Resource) -> None:
        """Show a thing, and what it would have taken along, as before."""
        if not target.going:
            return
        target.going, target.wire = False, None
        target.schedule += 1
        if target.was:
            self._say(target, target.was)
        if target.kind == "bucket":
            for name in ("deletedAt", "purgeAt"):
                target.doc["status"].pop(name, None)
        for other in self._along(target):
            self._restore(other)

    def _schedule(self, target: Resource, operation: Operation, ttl: timedelta | None) -> None:
        """A bucket's deletion is over as soon as it is scheduled; the bucket goes later, with what is in it then."""
        if failing := self._stumble(target.id, "operation_fails"):
            self._end(operation, failing.code, failing.message)
            return
        self._mark(target)
        moment, wait = now(), SOFT if ttl is None else max(ttl, timedelta(0))
        target.doc["status"] |= {"deletedAt": stamp(moment), "purgeAt": stamp(moment + wait * self.scale)}
        target.wire = None
        target.schedule += 1
        self._end(operation)
        seconds = wait.total_seconds() or self._seconds("bucket")
        self._start(self._purge_later(target, target.schedule, seconds))

    async def _purge_later(self, target: Resource, schedule: int, seconds: float) -> None:
        await asyncio.sleep(seconds * self.scale)
        if self._stumble(target.id, "sticks"):
            await self.faults_over.wait()
        if target.schedule == schedule and not target.removed:
            await self._leave(target)

    async def _carry_out(self, target: Resource, operation: Operation) -> None:
        await asyncio.sleep(self._seconds(target.kind) * self.scale)
        if self._stumble(target.id, "sticks"):
            await self.faults_over.wait()
        if failing := self._stumble(target.id, "operation_fails"):
            self._restore(target)
            self._end(operation, failing.code, failing.message)
            return
        await self._leave(target, operation)

    async def _leave(self, target: Resource, operation: Operation | None = None) -> None:
        """A thing goes, and comes back if the world says so."""
        if not target.removed:
            self._remove(target)
        if operation:
            self._end(operation)
        back = self._stumble(target.id, "comes_back")
        if back is None:
            return
        await asyncio.sleep(back.after * self.scale)
        if back.new_id:
            # The name can have been taken meanwhile, like any name.
            twins = ((r.kind, r.parent, r.name) for r in self._others(target))
            if (target.kind, target.parent, target.name) not in twins:
                self._return(target, back.new_id)
            return
        self._return(target, target.id)
        await asyncio.sleep(back.seconds * self.scale)
        if not self.resources[target.id].going:
            self._remove(self.resources[target.id])

    def _return(self, target: Resource, id: str) -> None:
        """A thing is there again as it was before its deletion, with the same id or another."""
        self._restore(target)
        if id == target.id:
            target.removed, target.readable, target.listed = False, True, True
            self._put(target)
            return
        doc = copy.deepcopy(target.doc)
        doc["metadata"] |= {"id": id, "createdAt": stamp(now())}
        self._put(Resource(target.kind, id, target.parent, doc))

    def _remove(self, target: Resource) -> None:
        for other in self._along(target):
            self._remove(other)
        target.removed = True
        lags = {"readable": self.world.get_lag, "listed": self.world.list_lag}
        loop = asyncio.get_running_loop()
        for view, lag in lags.items():
            if lag:
                loop.call_later(lag * self.scale, self._forget, target, view)
            else:
                self._forget(target, view)
        if target.kind == "instance":
            self._detach(target)
        for tell in self.on_gone:
            tell(target)

    def _forget(self, target: Resource, view: str) -> None:
        """Get, or listings, no longer know a thing."""
        if not target.removed:  # it came back meanwhile
            return
        setattr(target, view, False)
        if not target.readable and not target.listed and self.resources.get(target.id) is target:
            del self.resources[target.id]

    def _detach(self, instance: Resource) -> None:
        """What an instance used is free."""
        for id in attached(instance.doc):
            if found := self.resources.get(id):
                found.doc.setdefault("status", {}).pop("readWriteAttachment", None)
                found.wire = None
        for id in filesystems(instance.doc):
            if found := self.resources.get(id):
                rows = found.doc.setdefault("status", {}).get("readWriteAttachments", [])
                found.doc["status"]["readWriteAttachments"] = [r for r in rows if r != instance.id]
                found.wire = None
        for id in allocations(instance.doc):
            if (found := self.resources.get(id)) and not found.going:
                found.doc["status"].pop("assignment", None)
                found.doc["status"]["state"] = "ALLOCATED"
                found.wire = None

    # -- operations ---------------------------------------------------------------------------------------------------

    def _begin(self, target: Resource, description: str) -> Operation:
        body = f"{self._dice.getrandbits(60):015x}"
        id = f"{KINDS[target.kind].operation}-e00{body}"
        self.operations[id] = made = Operation(id, target.kind, target.id, description, now())
        return made

    def _end(self, operation: Operation, code: str = "OK", message: str = "") -> None:
        if operation.finished_at is None:
            operation.finished_at, operation.code, operation.message = now(), code, message
            operation.over.set()

    def _stumble(self, id: str, kind: str) -> Stumble | None:
        """What the world has in store for a thing; none once the faults are over."""
        if self.faults_over.is_set():
            return None
        found = next((s for s in self._stumbles if s.id == id and s.kind == kind and s.times > 0), None)
        if found:
            found.times -= 1
        return found

    def _seconds(self, kind: str) -> float:
        return self.world.seconds.get(kind, self.world.seconds.get("default", 3.0))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Drop what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
