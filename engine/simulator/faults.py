"""What goes wrong, and when: the timetable of a world's faults. Every server asks it before it answers."""

from __future__ import annotations

import asyncio
import fnmatch
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Fault(BaseModel):
    """One fault, of the requests to one service that its `match` names."""

    model_config = ConfigDict(extra="forbid")

    service: Literal["nebius", "kubernetes", "skypilot", "s3"] = Field(description="whose requests meet it")
    match: str = Field(
        default="*",
        description="case-sensitive glob on `CALL SUBJECT`, such as `ClusterService/Get mk8scluster-*`,"
        " `GET /api/v1/pods*`, `POST /jobs/queue/v2`, `DeleteObjects BUCKET`, `PutObject BUCKET/state/*`;"
        " `DeleteObjects/Item BUCKET/KEY` is one object of a batch, and `*` does not reach into batches",
    )
    kind: Literal["latency", "status", "drop", "hang"] = Field(
        description="latency: answered later; status: answered with an error; drop: the connection is closed"
        " without an answer; hang: no answer for `seconds`, then as drop"
    )
    status: str | int | None = Field(
        default=None, description="of kind status: a gRPC code's name, an HTTP status, or an S3 error code"
    )
    message: str = Field(default="", description="text of the error, for kind status")
    seconds: float = Field(
        default=0.0, ge=0, description="nominal seconds of a latency; of a hang, 0 is until the faults end"
    )
    times: int | None = Field(default=None, ge=1, description="how often; unset: until the faults end")
    after: float = Field(default=0.0, ge=0, description="nominal seconds from the start until it applies")
    until: float | None = Field(
        default=None, ge=0, description="nominal seconds from the start from which it no longer applies"
    )
    retry_after: float | None = Field(default=None, ge=0, description="seconds that the error asks to wait")

    @model_validator(mode="after")
    def _complete(self) -> Fault:
        if self.kind == "status" and self.status is None:
            raise ValueError("a fault of kind status needs a status")
        if self.kind == "latency" and not self.seconds:
            raise ValueError("a fault of kind latency needs seconds")
        if self.until is not None and self.until <= self.after:
            raise ValueError("a fault that ends before it begins never applies")
        return self


@dataclass
class _Entry:
    """A fault in the timetable. `start`: the moment that its times count from; `left`: how often it still applies."""

    fault: Fault
    start: float
    left: int | None


class Timetable:
    """All faults of a world, in the order in which a request meets them. They end together.

    A request meets every latency that applies, one after the other, until the first fault of another kind, which ends it. A
    fault is used up only by the requests that met it.
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        time_scale: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scale = time_scale
        self._clock = clock
        self._over = asyncio.Event()
        self._entries: list[_Entry] = []
        self.add(faults)

    @property
    def over(self) -> bool:
        """The faults have ended, and none came after that."""
        return self._over.is_set()

    def add(self, faults: Sequence[Fault]) -> None:
        """More of them; their times count from now."""
        now = self._clock()
        self._entries += [_Entry(f, now, f.times) for f in faults]
        if faults and self._over.is_set():
            self._over = asyncio.Event()

    def end(self) -> None:
        """No fault applies any more; requests that wait or hang are let go."""
        self._entries.clear()
        self._over.set()

    async def meet(self, service: str, call: str, subject: str) -> Fault | None:
        """The fault that ends this request; None after the latencies alone."""
        what, over = f"{call} {subject}".strip(), self._over
        for entry in list(self._entries):
            if over.is_set():
                return None
            if not self._applies(entry, service, what):
                continue
            self._use(entry)
            if entry.fault.kind != "latency":
                return entry.fault
            await _wait(over, entry.fault.seconds * self._scale)
        return None

    def meet_item(self, service: str, call: str, subject: str) -> Fault | None:
        """The status fault of one item inside a batch. Only a `match` that begins with `call` itself speaks of items."""
        what = f"{call} {subject}".strip()
        for entry in self._entries:
            speaks = entry.fault.kind == "status" and entry.fault.match.startswith(call)
            if speaks and self._applies(entry, service, what):
                self._use(entry)
                return entry.fault
        return None

    async def hang(self, fault: Fault) -> None:
        """Answer nothing for as long as the fault says, or until the faults end."""
        await _wait(self._over, fault.seconds * self._scale if fault.seconds else None)

    def _applies(self, entry: _Entry, service: str, what: str) -> bool:
        fault, gone_by = entry.fault, self._clock() - entry.start
        in_time = gone_by >= fault.after * self._scale and (
            fault.until is None or gone_by < fault.until * self._scale
        )
        return (
            in_time
            and fault.service == service
            and entry.left != 0
            and fnmatch.fnmatchcase(what, fault.match)
        )

    def _use(self, entry: _Entry) -> None:
        if entry.left is not None:
            entry.left -= 1


async def _wait(over: asyncio.Event, seconds: float | None) -> None:
    """For so many real seconds (None: for ever), but not longer than the faults last."""
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        return
