"""Why something was refused or left: one word, one exit code each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """A machine word. `EXIT` gives each its exit code; a test holds that the table is total."""

    # It did not begin.
    CONFIRMATION_REQUIRED = "confirmation_required"
    DECLINED = "declined"
    PLAN_CHANGED = "plan_changed"
    IDENTITY_CONFLICT = "identity_conflict"
    IDENTITY_INSUFFICIENT = "identity_insufficient"
    IDENTITY_AMBIGUOUS = "identity_ambiguous"
    UNKNOWN_ALIAS = "unknown_alias"
    UNKNOWN_ID = "unknown_id"
    UNKNOWN_RECEIPT = "unknown_receipt"
    LEASE_HELD = "lease_held"
    PROTECTED = "protected"
    RECORD_UNREADABLE = "record_unreadable"
    JOURNAL_ALTERED = "journal_altered"
    NOT_WRITABLE = "not_writable"
    ENDPOINT_REFUSED = "endpoint_refused"
    PREFLIGHT_FAILED = "preflight_failed"
    OTHER_PROGRAM = "other_program"
    # It looked, and something is present, unproven or cannot be verified.
    CANNOT_SEE = "cannot_see"
    NEEDS_LOGIN = "needs_login"
    STILL_PRESENT = "still_present"
    TIMED_OUT = "timed_out"
    UNVERIFIED = "unverified"
    OUTCOME_UNKNOWN = "outcome_unknown"
    NOT_OWNED = "not_owned"
    NOT_SHOWN = "not_shown"
    CHANGED_SINCE_SHOWN = "changed_since_shown"
    RISK_ROSE = "risk_rose"
    NO_CONSENT = "no_consent"
    NO_RECEIPT = "no_receipt"
    NO_CLIENT = "no_client"
    WRONG_IDENTITY = "wrong_identity"
    IN_USE = "in_use"
    FOREIGN_JOBS = "foreign_jobs"
    NOT_DRAINED = "not_drained"
    CONTENT_HELD = "content_held"
    SHARED = "shared"
    BLOCKED = "blocked"
    KEPT = "kept_by_operator"
    REFUSED_BY_PROVIDER = "refused_by_provider"
    LEFTOVERS = "leftovers"
    EVIDENCE_NEEDED = "evidence_needed"
    SUPERSEDED = "superseded"
    # The program itself.
    USAGE = "usage"
    INTERNAL = "internal"
    INTERRUPTED = "interrupted"


_DID_NOT_BEGIN = frozenset({
    Reason.CONFIRMATION_REQUIRED, Reason.DECLINED, Reason.PLAN_CHANGED, Reason.IDENTITY_CONFLICT, Reason.IDENTITY_INSUFFICIENT,
    Reason.IDENTITY_AMBIGUOUS, Reason.UNKNOWN_ALIAS, Reason.UNKNOWN_ID, Reason.UNKNOWN_RECEIPT, Reason.LEASE_HELD,
    Reason.PROTECTED, Reason.RECORD_UNREADABLE, Reason.JOURNAL_ALTERED, Reason.NOT_WRITABLE, Reason.ENDPOINT_REFUSED,
    Reason.PREFLIGHT_FAILED, Reason.OTHER_PROGRAM,
})  # fmt: skip
_OWN = {Reason.USAGE: 64, Reason.INTERNAL: 70, Reason.INTERRUPTED: 130}

EXIT: dict[Reason, int] = {r: _OWN.get(r, 1 if r in _DID_NOT_BEGIN else 2) for r in Reason}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, in a sentence, and the command that helps. All three, or no refusal at all."""

    reason: Reason
    sentence: str
    next_command: str

    @property
    def exit_code(self) -> int:
        return EXIT[self.reason]


class Refused(Exception):
    """A refusal on its way up."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.sentence)
        self.refusal = refusal
