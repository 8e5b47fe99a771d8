"""Where a phase or one of its targets stands: the ten words that tree, receipt, inventory and help share."""

from __future__ import annotations

from enum import StrEnum


class Stand(StrEnum):
    DONE = "done"
    RUNNING = "running"
    CONFIRM = "confirm"
    READY = "ready"
    WAITS = "waits"
    HELD = "held"
    FAILED = "failed"
    UNKNOWN = "unknown"
    LEFTOVERS = "leftovers"
    NOTHING = "nothing"


FINISHED = frozenset({Stand.DONE, Stand.NOTHING})
"""Counted as done, and folded away."""

SETTLED = frozenset({*FINISHED, Stand.LEFTOVERS})
"""What another phase needs of this one is there."""

BROKEN = frozenset({Stand.FAILED, Stand.UNKNOWN, Stand.HELD})
"""What needs this one cannot go on."""
