"""The contents of one bucket: keys in order, each with its versions, the newest first; and pages of them."""

from __future__ import annotations

import hashlib
import random
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from engine.simulator.object_store.spec import BucketSpec, Usage

Row = TypeVar("Row")
DAY = 86400.0
FILLER_ETAG = hashlib.md5(b"", usedforsecurity=False).hexdigest()
"""ETag of all seeded objects, whose bytes nobody keeps."""
_COMPACT = 1000
"""Dead keys at least before the list of keys is made anew."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Until when a version cannot be deleted: seconds since the epoch."""

    mode: Literal["GOVERNANCE", "COMPLIANCE"]
    until: float


@dataclass(slots=True)
class Version:
    """One version of a key, or a delete marker. `order` grows with every write to the bucket; `body` None: `size` filler bytes."""

    key: str
    id: str
    order: int
    born: float
    size: int = 0
    etag: str = FILLER_ETAG
    body: bytes | None = None
    marker: bool = False
    retention: Retention | None = None

    def content(self) -> bytes:
        return b"x" * self.size if self.body is None else self.body


@dataclass(slots=True)
class Upload:
    """An unfinished multipart upload; its parts by number."""

    key: str
    born: float
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Rows of a listing in order; a string is a common prefix. `more`: the listing goes on behind the last row."""

    rows: list[Row | str]
    more: bool


class Bucket:
    """`versioning` is "" (never), "Enabled" or "Suspended", as the protocol has it; `locking`: object lock is enabled."""

    def __init__(self, name: str, versioning: str = "") -> None:
        self.name = name
        self.versioning = versioning
        self.locking = False
        self.born = time.time()
        self.uploads: dict[str, Upload] = {}
        self._keys: list[str] = []
        self._dead = 0
        self._stacks: dict[str, list[Version]] = {}
        self._null_orders: dict[str, int] = {}
        self._order = 0

    @classmethod
    def filled(cls, spec: BucketSpec) -> Bucket:
        """A bucket as the world file says."""
        bucket = cls(spec.name, "Enabled" if spec.versioning or spec.locks else "")
        bucket.locking = bool(spec.locks)
        now = time.time()
        held = [Retention(s.mode, now + s.days * DAY) for s in spec.locks for _ in range(s.objects)]
        for n in range(spec.objects):
            for _ in range(spec.versions_each):
                made = bucket.put(f"{spec.prefix}{n:07}", None, size=spec.bytes_each)
                made.retention = held[n] if n < len(held) else None
        for n in range(spec.markers):
            bucket.mark(f"{spec.prefix}{n:07}")
        for n in range(spec.uploads):
            bucket.begin_upload(f"{spec.prefix}upload-{n:05}")
        for key, text in spec.files.items():
            bucket.put(key, text.encode())
        return bucket

    # -- writing --------------------------------------------------------------------------------------------------------

    def put(self, key: str, body: bytes | None, *, size: int = 0) -> Version:
        """A new current version. Where versions are not kept it takes the place of the one without an id."""
        made = self._new(key)
        if body is None:
            made.size = size
        else:
            made.body, made.size = body, len(body)
            made.etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        return made

    def mark(self, key: str) -> Version:
        """A delete marker on top: the key has no current object any more."""
        made = self._new(key)
        made.marker, made.etag = True, ""
        return made

    def remove(self, key: str, id: str) -> None:
        """Delete a version or marker for good; what is not there is fine."""
        stack = self._stacks.get(key)
        if stack is None:
            return
        stack[:] = [v for v in stack if v.id != id]
        if not stack:
            del self._stacks[key]
            self._dead += 1
            if self._dead > _COMPACT and self._dead * 2 > len(self._keys):
                self._keys = [k for k in self._keys if k in self._stacks]
                self._dead = 0

    def begin_upload(self, key: str) -> str:
        """A new multipart upload; its id."""
        id = f"{random.getrandbits(128):032x}"
        self.uploads[id] = Upload(key, time.time())
        return id

    def _new(self, key: str) -> Version:
        self._order += 1
        if self.versioning == "Enabled":
            # The order is part of the id, so that a marker in a listing keeps its place when its version has gone.
            id = f"{random.getrandbits(96):024x}{self._order:08x}"
        else:
            id = "null"
            self.remove(key, id)
            self._null_orders[key] = self._order
        made = Version(key, id, self._order, time.time())
        if key in self._stacks:
            self._stacks[key].insert(0, made)
            return made
        self._stacks[key] = [made]
        at = bisect_left(self._keys, key)
        if at < len(self._keys) and self._keys[at] == key:
            self._dead -= 1
        else:
            self._keys.insert(at, key)
        return made

    # -- reading --------------------------------------------------------------------------------------------------------

    def newest(self, key: str) -> Version | None:
        stack = self._stacks.get(key)
        return stack[0] if stack else None

    def version(self, key: str, id: str) -> Version | None:
        return next((v for v in self._stacks.get(key, ()) if v.id == id), None)

    def usage(self) -> Usage:
        rows = [v for stack in self._stacks.values() for v in stack]
        markers = sum(v.marker for v in rows)
        current = sum(not stack[0].marker for stack in self._stacks.values())
        return Usage(current, len(rows) - markers, markers, len(self.uploads), sum(v.size for v in rows))

    def objects(self, prefix: str, delimiter: str, after: str, most: int) -> Page[Version]:
        """Current objects and common prefixes behind `after`."""

        def current(key: str) -> bool:
            return not self._stacks[key][0].marker

        rows: list[Version | str] = []
        for name, folder in self._groups(prefix, delimiter, after, current):
            if len(rows) == most:
                return Page(rows, more=most > 0)
            rows.append(name if folder else self._stacks[name][0])
        return Page(rows, more=False)

    def versions(
        self, prefix: str, delimiter: str, after: tuple[str, str], most: int
    ) -> Page[tuple[Version, bool]]:
        """Versions and markers behind a key, or behind one version of it, whether that is still there or not.

        With each, whether it is its key's latest. Raises `ValueError` for a version id that is none.
        """
        key, id = after
        place = self._place(key, id) if id else 0
        rows: list[tuple[Version, bool] | str] = []
        if id and key.startswith(prefix) and not (delimiter and delimiter in key[len(prefix) :]):
            rows += [(v, n == 0) for n, v in enumerate(self._stacks.get(key, ())) if v.order < place]
        for name, folder in self._groups(prefix, delimiter, key, lambda _: True):
            if len(rows) > most:
                break
            rows += [name] if folder else [(v, n == 0) for n, v in enumerate(self._stacks[name])]
        return Page(rows[:most], more=0 < most < len(rows))

    def pending(self, prefix: str, after: tuple[str, str], most: int) -> Page[tuple[str, str]]:
        """Uploads as (key, id), behind a key, or behind one upload of it."""
        key, id = after
        rows: list[tuple[str, str] | str] = [
            (k, i)
            for k, i in sorted((u.key, i) for i, u in self.uploads.items())
            if k.startswith(prefix) and (k > key or (k == key and id and i > id))
        ]
        return Page(rows[:most], more=0 < most < len(rows))

    def _place(self, key: str, id: str) -> int:
        return self._null_orders.get(key, 0) if id == "null" else int(id[-8:], 16)

    def _groups(
        self, prefix: str, delimiter: str, after: str, shown: Callable[[str], bool]
    ) -> Iterator[tuple[str, bool]]:
        """Keys in order, behind `after`; those with the delimiter behind the prefix once, as (common prefix, True)."""
        keys, at = self._keys, bisect_left(self._keys, prefix)
        if after:
            whole = delimiter and after.endswith(delimiter) and after.startswith(prefix)
            at = max(at, self._behind(after) if whole else bisect_right(keys, after))
        while at < len(keys) and keys[at].startswith(prefix):
            key = keys[at]
            at += 1
            if key not in self._stacks or not shown(key):
                continue
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut < 0:
                yield key, False
                continue
            folder = key[: cut + len(delimiter)]
            yield folder, True
            at = self._behind(folder)

    def _behind(self, folder: str) -> int:
        """Index of the first key behind all that begin with `folder`."""
        return bisect_left(self._keys, folder[:-1] + chr(ord(folder[-1]) + 1))
