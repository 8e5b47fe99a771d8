"""How others call what we know: the existing CLI's receipt words and JSON words, as tables over ours. Tested total."""

from __future__ import annotations

from engine.words.outcomes import Outcome, Status, Verdict
from engine.words.phases import PHASES

RECEIPT_PHASE: dict[str, str] = {
    "workflows": "workflow",
    "agents": "agent",
    "agent_iam": "agent_iam",
    "controller": "controller",
    "clusters": "cluster",
    "registries": "registry",
    "bucket": "bucket",
    "storage_iam": "storage_iam",
    "network": "network",
    "delete_project": "project",
    "local_cleanup": "local_cleanup",
    "forget_alias": "project_config",
    "final_audit": "final_audit",
}
"""Our phase -> the phase of a v2 receipt event about one of its resources."""

DESTROY_PHASE: dict[str, str] = {name: f"project_destroy_{name}" for name in PHASES}
"""Our phase -> the phase of a v2 receipt event about the phase as a whole."""

DESTROY_STATE: dict[Status, str] = {
    Status.COMPLETED: "completed",
    Status.DEGRADED: "degraded_local_metadata",
    Status.PARTIAL: "partial",
    Status.REFUSED: "operator_action_remains",
    Status.BLOCKED: "partial",
    Status.CANCELLED: "in_progress",
    Status.PLANNED: "in_progress",
    Status.KEPT: "skipped_by_operator",
}

TERMINAL_STATES = frozenset({
    "already_absent", "cancelled", "completed", "deleted", "not_submitted", "terminal", "verified_absent", "verified_deleted",
})  # fmt: skip
"""The states of a v2 event that the existing CLI takes for an end."""


def terminal_state(phase: str, outcome: Outcome) -> str:
    """The state of a v2 event about one target."""
    match outcome.verdict:
        case Verdict.DONE if outcome.residue:
            return "degraded_local_metadata"
        case Verdict.DONE if phase == "workflows":
            return "cancelled" if outcome.acted else "terminal"
        case Verdict.DONE if phase in ("local_cleanup", "forget_alias", "final_audit"):
            return "completed"
        case Verdict.DONE:
            return "verified_deleted" if outcome.acted else "verified_absent"
        case Verdict.LEFT:
            return "failed"
        case Verdict.UNKNOWN:
            return "verification_failed"
        case Verdict.HELD:
            return "operator_action_remains"
        case Verdict.STOPPED | Verdict.READY:
            return "in_progress"


def result_word(outcome: Outcome, *, looks_only: bool = False) -> str:
    """The `result` of one target in JSON. `looks_only`: its phase removes nothing, so that its end says nothing of absence."""
    match outcome.verdict:
        case Verdict.DONE if looks_only:
            return "verified"
        case Verdict.DONE:
            return "verified_deleted" if outcome.acted else "already_absent"
        case Verdict.LEFT | Verdict.STOPPED:
            return "partial"
        case Verdict.UNKNOWN:
            return "verification_failed"
        case Verdict.HELD:
            return "refused"
        case Verdict.READY:
            return "planned"
