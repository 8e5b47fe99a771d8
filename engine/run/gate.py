"""The safe point that every step passes: open, paused, or stopped."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


class Gate:
    """Open until somebody pauses or stops it. A stop is final for this process; steps in flight are not its business."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()
        self.why = ""

    @property
    def paused(self) -> bool:
        return not self._open.is_set()

    def pause(self, why: str) -> None:
        self.why = why
        self._open.clear()

    def resume(self) -> None:
        self.why = ""
        self._open.set()

    def close(self, why: str) -> None:
        self.why = why
        self.stop.set()
        self._open.set()

    async def passes(self) -> None:
        """Return when a step may begin. Raises `CancelledError` once the gate is closed."""
        await self._open.wait()
        if self.stop.is_set():
            raise asyncio.CancelledError


async def finish(task: asyncio.Future[T]) -> bool:
    """Wait until a task is over, however often we are cancelled meanwhile; say whether we were. Its error is for others."""
    cancelled = False
    task.add_done_callback(lambda t: t.cancelled() or t.exception())
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
