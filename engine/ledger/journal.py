"""The journal on disk: append-only, hash-chained, one file per project id. A torn tail is dropped, an altered middle refused."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from engine.ledger.events import VERSION, Entry, Event, decode, encode
from engine.ledger.state import State


class Altered(Exception):
    """A line in the middle of a journal does not chain: refused and named, never started afresh."""

    def __init__(self, path: Path, line: int) -> None:
        super().__init__(f"{path} line {line} does not follow from the line before it")
        self.path = path
        self.line = line


class Unwritable(OSError):
    """The journal could not be made durable: memory is ahead of the disk, nothing further may begin."""

    def __init__(self, path: Path | None, error: OSError) -> None:
        super().__init__(error.errno, error.strerror, str(path))


class Clock(Protocol):
    def now(self) -> str: ...


def link(line: bytes) -> str:
    """What the next line's `prev` must be."""
    return hashlib.sha256(line).hexdigest()[:32]


def file_name(project_id: str) -> str:
    """A journal's file name. Project ids are plain, but the file system gets no say in what they may hold."""
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in project_id)[:80]
    return f"{safe}-{hashlib.sha256(project_id.encode()).hexdigest()[:8]}.jsonl"


def chained(lines: Iterable[bytes], path: Path) -> Iterator[tuple[Entry, bytes]]:
    """Entries while they chain. The last line may be torn; a bad one before it raises `Altered`.

    `lines` are complete lines without newlines; what stood after the last newline is not among them.
    """
    prev, held = "", list(lines)
    for number, line in enumerate(held, 1):
        try:
            entry = decode(line)
            good = entry.prev == prev and entry.seq == number and entry.v == VERSION
        except ValueError:
            good = False
        if not good:
            if number < len(held):
                raise Altered(path, number)
            return
        yield entry, line
        prev = link(line)


def read(path: Path) -> Iterator[tuple[Entry, bytes]]:
    """The entries of a journal; none when there is no file. Raises `Altered`, `OSError`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    yield from chained(data.split(b"\n")[:-1], path)


def load(path: Path) -> State:
    """The fold of a whole journal."""
    state = State()
    for entry, _ in read(path):
        state.apply(entry)
    return state


class Tail:
    """Follows a journal that another process appends to. Each `poll` gives what was added since the last one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = State()
        self._offset = 0
        self._seq = 0
        self._prev = ""

    def poll(self) -> list[Entry]:
        """New entries in order. Raises `Altered` when the file does not continue what was read.

        An unfinished last line is read again next time: its writer may have died, and the next one cuts it off.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        new: list[Entry] = []
        for number, line in enumerate(lines, 1):
            try:
                entry = decode(line)
                follows = entry.prev == self._prev and entry.seq == self._seq + 1
            except ValueError:
                follows = False
            if not follows:
                if number < len(lines):
                    raise Altered(self.path, self._seq + 1)
                break
            self._offset += len(line) + 1
            self._seq, self._prev = entry.seq, link(line)
            self.state.apply(entry)
            new.append(entry)
        return new


class Journal:
    """The pen. Whoever holds the project's lease may append; `append` returns when the line is on disk.

    Appends of one tick of the loop share one write and one sync. Without a path nothing is written: a dry run.
    `probe` is called with each line's number after it is on disk; drills use it.
    """

    def __init__(
        self, path: Path | None, run: str, clock: Clock, probe: Callable[[int], None] | None = None
    ) -> None:
        self.path = path
        self.run = run
        self.state = State()
        self.entries: list[Entry] = []
        self.listeners: list[Callable[[Entry], None]] = []
        """Called with each entry once it is on disk."""
        self._clock = clock
        self._probe = probe
        self._seq, self._prev = 0, ""
        self._fd = -1
        self._buffer: list[bytes] = []
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._broken: Unwritable | None = None
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        size = 0
        for entry, line in read(path):
            self.state.apply(entry)
            self.entries.append(entry)
            self._seq, self._prev, size = entry.seq, link(line), size + len(line) + 1
        fresh = not path.exists()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if os.fstat(self._fd).st_size != size:
            os.ftruncate(self._fd, size)
            os.fsync(self._fd)
        if fresh:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self._size = size

    async def append(self, event: Event) -> int:
        """Write one event; its number. Raises `Unwritable`, now and from then on, when it could not be made durable."""
        if self._broken:
            raise self._broken
        self._seq += 1
        entry = Entry(VERSION, self._seq, self._clock.now(), self.run, self._prev, event)
        line = encode(entry)
        self._prev = link(line)
        self._buffer.append(line + b"\n")
        self.state.apply(entry)
        self.entries.append(entry)
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush)
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((entry, done))
        await asyncio.shield(done)
        return entry.seq

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        data, self._buffer = b"".join(self._buffer), []
        try:
            if self._fd >= 0:
                self._write(data)
        except OSError as error:
            self._broken = Unwritable(self.path, error)  # everyone who waits, and who comes later, is told
        for entry, done in waiting:
            if self._broken is None:
                if self._probe:
                    self._probe(entry.seq)
                for listener in self.listeners:
                    listener(entry)
            if not done.done():
                if self._broken:
                    done.set_exception(self._broken)
                else:
                    done.set_result(None)

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._fd, data) :]
            os.fdatasync(self._fd)
        except OSError:
            # Half a line must not stand before the next writer's: cut it off while we still hold the lease.
            os.ftruncate(self._fd, self._size)
            raise
        self._size = os.fstat(self._fd).st_size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
