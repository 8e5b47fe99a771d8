"""How many calls may be under way: halved when the store asks for less, raised again while it is content."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class Pace:
    """A limit on concurrency that adapts: additive increase, multiplicative decrease. An async context per call."""

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._limit = float(most)
        self._active = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        return int(self._limit)

    async def __aenter__(self) -> None:
        while self._active >= int(self._limit):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._wake()  # the turn may have been ours already
                raise
        self._active += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._active -= 1
        self._wake()

    def slow(self) -> None:
        self._limit = max(1.0, self._limit / 2)

    def ease(self) -> None:
        self._limit = min(self._most, self._limit + 1 / self._limit)

    def _wake(self) -> None:
        free = int(self._limit) - self._active
        while free > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1
