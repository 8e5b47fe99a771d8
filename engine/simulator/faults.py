"""What goes wrong, and when: the timetable of a world's faults. Every server asks it before it answers."""

from __future__ import annotations

import asyncio
import fnmatch
import time
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Fault(BaseModel):
    """One fault. `match` is a glob on `CALL SUBJECT`, such as `ClusterService/Get mk8scluster-*` or `GET /api/v1/pods*`."""

    model_config = ConfigDict(extra="forbid")

    service: Literal["nebius", "kubernetes", "skypilot", "s3"]
    match: str = "*"
    kind: Literal["latency", "status", "drop", "hang"]
    status: str | int | None = Field(default=None, description="gRPC name or HTTP number, for kind status")
    message: str = ""
    seconds: float = Field(
        default=0.0, description="nominal seconds of a latency; of a hang, 0 means until the faults end"
    )
    times: int | None = Field(default=None, description="how often; None: until the faults end")
    after: float = Field(default=0.0, description="nominal seconds from the start until it applies")
    until: float | None = Field(
        default=None, description="nominal seconds from the start after which it no longer does"
    )
    retry_after: float | None = Field(
        default=None, description="seconds told to the client with a 429 or 503"
    )


class Timetable:
    """All faults of a world. They end together, by a control call."""

    def __init__(self, faults: Sequence[Fault], time_scale: float = 1.0) -> None:
        self._faults = [f.model_copy() for f in faults]
        self._scale = time_scale
        self._start = time.monotonic()
        self._over = asyncio.Event()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def add(self, faults: Sequence[Fault]) -> None:
        """More of them; they begin to count now."""
        now = (time.monotonic() - self._start) / self._scale
        self._faults += [f.model_copy(update={"after": f.after + now}) for f in faults]
        self._over.clear()

    def end(self) -> None:
        """No fault applies any more; what hangs is let go."""
        self._faults.clear()
        self._over.set()

    async def meet(self, service: str, call: str, subject: str) -> Fault | None:
        """The fault that this request meets, after the latencies that it meets before it."""
        for fault in list(self._faults):
            if fault.service != service or not self._applies(fault, f"{call} {subject}"):
                continue
            if fault.times is not None:
                fault.times -= 1
            if fault.kind != "latency":
                return fault
            await asyncio.sleep(fault.seconds * self._scale)
        return None

    async def hang(self, fault: Fault) -> None:
        """Answer nothing for as long as the fault says."""
        seconds = fault.seconds * self._scale if fault.seconds else None
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            return

    def _applies(self, fault: Fault, what: str) -> bool:
        now = (time.monotonic() - self._start) / self._scale
        if fault.times is not None and fault.times <= 0:
            return False
        in_time = now >= fault.after and (fault.until is None or now < fault.until)
        return in_time and fnmatch.fnmatchcase(what.strip(), fault.match)
