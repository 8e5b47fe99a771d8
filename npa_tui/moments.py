"""Moments: those that timestamps name, and the console's clock, which pictures and tests can hold still."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Moments:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def moment(text: str) -> datetime | None:
    """The moment that an RFC 3339 text names, in UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
