"""What a purge says: while it runs, and at its end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """A version that the store will not let go of, and its code (AccessDenied for a lock or a missing permission)."""

    key: str
    version: str
    code: str


@dataclass(frozen=True, slots=True)
class PurgeProgress:
    """Counts so far. `found` grows while listers are under way, so that it is no total until `listed` is true."""

    found: int
    deleted: int
    aborted: int
    bytes: int
    held: int
    kept: int
    sweep: int
    listed: bool


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What a purge did, and how it left the bucket.

    emptied        two sweeps in a row found nothing at all
    held           the first of `held_total` versions that the store keeps; each was asked for once
    retain_until   the latest date, RFC 3339, that a lock among `held` names, or empty
    kept           versions and uploads that the operator's patterns keep
    still_written  a common prefix of keys that somebody keeps writing, or empty; `writing` says whether that is so
    unremoved      found by the last sweep, and still there although the store gave no final refusal
    absent         the bucket is not there (any more)
    stopped        the run was asked to stop
    notes          what was not possible but did not matter, such as suspending versioning
    """

    versions: int = 0
    markers: int = 0
    uploads: int = 0
    bytes: int = 0
    emptied: bool = False
    held: tuple[Held, ...] = ()
    held_total: int = 0
    retain_until: str = ""
    kept: int = 0
    writing: bool = False
    still_written: str = ""
    unremoved: int = 0
    absent: bool = False
    stopped: bool = False
    sweeps: int = 0
    calls: int = 0
    throttled: int = 0
    notes: tuple[str, ...] = ()
