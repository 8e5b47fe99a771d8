"""Nominal seconds: the only sleep, jitter and time scale of the program."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta


def timestamp(at: datetime) -> str:
    """RFC 3339 in UTC with milliseconds and a `Z`."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse(text: str) -> datetime | None:
    """A moment in UTC, or None for anything that is not one. A time without a zone counts as UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


class Clock:
    """Every wait, spacing, poll interval and deadline is given in nominal seconds; `scale` turns them into real ones.

    A scale other than 1 is for rehearsals and tests; `engine.settings` refuses it unless every endpoint is loopback.
    """

    def __init__(self, scale: float = 1.0, rng: random.Random | None = None) -> None:
        if not scale > 0:
            raise ValueError("the time scale must be positive")
        self.scale = scale
        self._rng = rng or random.Random()

    def real(self, seconds: float) -> float:
        """Real seconds for nominal ones."""
        return seconds * self.scale

    async def sleep(self, seconds: float) -> None:
        """Wait nominal seconds."""
        await asyncio.sleep(self.real(seconds))

    def jittered(self, seconds: float) -> float:
        """Between half of it and all of it, in nominal seconds: spreads retries that would otherwise come together."""
        return seconds * self._rng.uniform(0.5, 1.0)

    def backoff(self, attempt: int, *, first: float = 0.5, most: float = 20.0) -> float:
        """Nominal seconds to wait before attempt `attempt` + 1 (0-based), doubling, jittered."""
        return self.jittered(min(most, first * 2.0**attempt))

    def utc(self) -> datetime:
        return datetime.now(UTC)

    def now(self) -> str:
        """The present moment as a timestamp."""
        return timestamp(self.utc())

    def since(self, at: str) -> timedelta | None:
        """How long ago a timestamp was, or None when it is not one."""
        then = parse(at)
        return None if then is None else self.utc() - then
