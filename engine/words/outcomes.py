"""How each target ended, and what that makes of its phase and of the run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from engine.words.reasons import EXIT, Reason


class Verdict(StrEnum):
    """The end of one target."""

    DONE = "done"
    LEFT = "left"
    UNKNOWN = "unknown"
    HELD = "held"
    STOPPED = "stopped"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`acted`: a change was asked for, in this run or an earlier one. `residue`: gone, but something local stayed."""

    target: str
    verdict: Verdict
    acted: bool = False
    reason: Reason | None = None
    detail: str = ""
    residue: str = ""
    next_command: str = ""


class Status(StrEnum):
    """The state of a phase: a fold over its targets' outcomes."""

    COMPLETED = "completed"
    DEGRADED = "degraded"
    PARTIAL = "partial"
    REFUSED = "refused"
    BLOCKED = "skipped_dependency"
    CANCELLED = "cancelled"
    PLANNED = "planned"
    KEPT = "kept"


CONVERGED = frozenset({Status.COMPLETED, Status.DEGRADED, Status.PLANNED})
"""Statuses on which a phase that needs this one may go on."""


def fold_phase(outcomes: Iterable[Outcome], unread: Iterable[str] = ()) -> Status:
    """All done: completed, or degraded with residue. A record that could not be read rules out completed."""
    got = list(outcomes)
    verdicts = {o.verdict for o in got}
    if Verdict.STOPPED in verdicts:
        return Status.CANCELLED
    if verdicts <= {Verdict.DONE}:
        if any(True for _ in unread):
            return Status.PARTIAL
        return Status.DEGRADED if any(o.residue for o in got) else Status.COMPLETED
    if verdicts <= {Verdict.DONE, Verdict.READY}:
        return Status.PLANNED
    if verdicts == {Verdict.HELD} and not any(o.acted for o in got):
        return Status.REFUSED
    return Status.PARTIAL


def exit_code(
    statuses: Iterable[Status], reasons: Iterable[Reason] = (), *, kept_is_fine: bool = False
) -> int:
    """The exit code of a run that began: 0 all converged, 130 interrupted, 70 a bug of ours, else 2."""
    got = set(statuses)
    if Status.CANCELLED in got:
        return EXIT[Reason.INTERRUPTED]
    if Reason.INTERNAL in set(reasons):
        return EXIT[Reason.INTERNAL]
    fine = {Status.COMPLETED, Status.PLANNED} | ({Status.KEPT} if kept_is_fine else set())
    return 0 if got <= fine else 2
