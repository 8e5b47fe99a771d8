"""One read for many askers: looks that share a listing get the first one that began after they asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Wraps one expensive read. Nobody is given an answer that was under way before they asked: it could be too old to prove
    anything. At most one read is under way and one is queued, however many ask."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        if self._next is None:
            self._next = asyncio.ensure_future(self._turn(self._running))
        return await asyncio.shield(self._next)

    async def _turn(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait({before})
        else:
            await asyncio.sleep(0)  # those who ask in this same tick share
        self._running, self._next = self._next, None
        return await self._read()
