"""The licence for one call that changes something outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.words.presence import Ref


class Stop(Protocol):
    """Set when the run is to wind down; a long call looks here (an `asyncio.Event` fits)."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Intent:
    """Already on disk when a client sees it. Only the runner's hand makes one; every client method that changes
    something takes one, so that nothing can be changed without a journal line.

    key     idempotency key: the same after a lost answer, new after an answer
    expect  fingerprint that the thing must still have right before the call; empty when none was seen
    stop    set when the run is to stop: a call that takes minutes winds itself down
    """

    key: str
    ref: Ref
    expect: str
    stop: Stop
