"""The console's clock, in one place so that pictures and tests can hold it still."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Moments:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()
