"""The shortest time that a teardown can take: the world's declared durations along the plan's edges, and two spaced looks a phase."""

from __future__ import annotations

from collections.abc import Mapping

from engine.words.phases import PHASES


def critical_path(phases: Mapping[str, float]) -> float:
    """Nominal seconds from start to end, given each phase's own."""
    ends: dict[str, float] = {}

    def end(name: str) -> float:
        if name not in ends:
            row = PHASES[name]
            before = [end(n) for n in (*row.needs, *row.after) if n in phases]
            ends[name] = max(before, default=0.0) + phases[name]
        return ends[name]

    return max(end(name) for name in phases)
