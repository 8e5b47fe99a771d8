"""Progress of one long call: told now and then, and never twice the same."""

from __future__ import annotations

import asyncio

from engine.clock import Clock
from engine.phases.shape import Hand

EVERY = 10.0
"""Nominal seconds between two notes."""


class Progress:
    """An async context around the call. `tell` may be called from a callback, as often as one likes; the last word is always said."""

    def __init__(self, hand: Hand, clock: Clock, what: str) -> None:
        self._hand = hand
        self._clock = clock
        self._what = what
        self._newest: tuple[str, dict[str, str]] | None = None
        self._teller: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Progress:
        self._teller = asyncio.ensure_future(self._now_and_then())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._teller is not None
        self._teller.cancel()
        await asyncio.wait({self._teller})
        await self._say()

    def tell(self, detail: str, data: dict[str, str]) -> None:
        self._newest = (detail, data)

    async def _now_and_then(self) -> None:
        while True:
            await self._clock.sleep(EVERY)
            await self._say()

    async def _say(self) -> None:
        newest, self._newest = self._newest, None
        if newest is not None:
            await self._hand.note(self._what, *newest)
