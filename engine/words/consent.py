"""What a person agreed to: a digest, phases, a tier, and what was on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from engine.words.presence import Present, Ref
from engine.words.reasons import Reason


class Tier(IntEnum):
    """How much is lost. A guard may raise a tier, never lower it."""

    READS = 0
    RECREATABLE = 1
    NOT_UNDOABLE = 2
    DATA_DIES = 3


@dataclass(frozen=True, slots=True)
class Consent:
    """`seen` maps each id shown to its fingerprint; without it, the plan's ids and their contents are meant."""

    digest: str
    phases: tuple[str, ...]
    tier: int
    by: str
    seen: Mapping[str, str] | None = None

    def objection(self, phase: str, ref: Ref, now: Present | None) -> Reason | None:
        """Why this consent does not cover a change to `ref` as it is now, or None when it does."""
        if phase not in self.phases:
            return Reason.NO_CONSENT
        if self.seen is None:
            return None
        if ref.id not in self.seen:
            return Reason.NOT_SHOWN
        if now is not None and self.seen[ref.id] != now.fingerprint:
            return Reason.CHANGED_SINCE_SHOWN
        return None
