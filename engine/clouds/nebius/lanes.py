"""How many calls are under way at once: a limit that gives way when the provider says it is too much."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class Lanes:
    """A limit that halves when the provider throttles and grows back by one with each round of calls that it lets pass.

    First come, first served. Belongs to one event loop.
    """

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError("at least one call at a time")
        self.most = most
        self.limit = most
        self._used = 0
        self._calm = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def throttled(self) -> None:
        self.limit = max(1, self.limit // 2)
        self._calm = 0

    def passed(self) -> None:
        """A call came through."""
        if self.limit < self.most:
            self._calm += 1
            if self._calm >= self.limit:
                self._calm = 0
                self.limit += 1
                self._wake()

    async def __aenter__(self) -> None:
        if self._used < self.limit and not self._waiting:
            self._used += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()  # the turn came at the very moment of giving up: hand it on
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self._used -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._used < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._used += 1
                turn.set_result(None)
