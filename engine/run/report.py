"""A plan and a run as documents: what `--json` prints. Pure folds; nothing is looked up here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.clock import parse
from engine.ledger.state import Run, State
from engine.words import commandlines
from engine.words.identity import Identity
from engine.words.outcomes import Outcome, Status
from engine.words.phases import PHASES, after, needs
from engine.words.plans import Part, PhasePlan, Plan, Target
from engine.words.presence import Proof
from engine.words.vocabulary import result_word

SCHEMA = "npa.teardown.document.v1"

Document = dict[str, Any]


def identity_document(identity: Identity) -> Document:
    """The identity fields that every document about a project starts with."""
    return {
        "schema_version": SCHEMA,
        "project": identity.alias,
        "project_id": identity.project_id,
        "tenant_id": identity.tenant_id,
        "region": identity.region,
        "identity_source": identity.source,
        "identity_field_sources": dict(identity.sources),
        "receipt_id": identity.receipt_id,
    }


def plan_document(plan: Plan, *, kept: frozenset[str] = frozenset()) -> Document:
    """What would be done. Nothing has been."""
    return {
        **identity_document(plan.identity),
        "status": "plan_only",
        "result": "plan_only",
        "changed": False,
        "mutated": False,
        "plan_digest": plan.digest,
        "phases": [_planned(plan, p, kept) for p in plan.phases],
        "would_block": [
            {
                "phase": p.phase,
                "target": t.key,
                "reason_code": "not_owned",
                "ids": [q.ref.id for q in t.parts if not q.owned],
            }
            for p, t in plan.targets()
            if not all(q.owned for q in t.parts)
        ],
        "exit_code": 0,
    }


def _planned(plan: Plan, phase: PhasePlan, kept: frozenset[str]) -> Document:
    names = [p.phase for p in plan.phases]
    row = PHASES[phase.phase]
    return {
        "phase": phase.phase,
        "phase_number": plan.number(phase.phase),
        "label": row.label,
        "tier": int(row.tier),
        "requires": list(needs(phase.phase, names)),
        "after": list(after(phase.phase, names)),
        "commands": [c for t in phase.targets if (c := commandlines.for_target(plan.identity, t))],
        "detail": row.label,
        "kept": phase.phase in kept,
        "unread": list(phase.unread),
        "targets": [_target(t) for t in phase.targets],
        "metadata": {
            "project_id": plan.identity.project_id,
            "logical_names": [t.name for t in phase.targets],
            "generation_ids": [t.id for t in phase.targets],
        },
    }


def _target(target: Target) -> Document:
    return {
        "key": target.key,
        "name": target.name,
        "ids": [_part(p) for p in target.parts],
        "detail": dict(target.detail),
    }


def _part(part: Part) -> Document:
    return {
        "kind": part.ref.kind,
        "id": part.ref.id,
        "name": part.name,
        "owned_by": {
            "evidence": str(part.owned.evidence),
            "record": part.owned.record,
            "field": part.owned.field,
        },
    }


def run_document(
    plan: Plan, state: State, run: Run, *, exit_code: int, journal: str = "", receipt: str = ""
) -> Document:
    """What a run came to: per phase status, commands, evidence, errors, what blocks it and what to do."""
    phases = [_ran(plan, p, state, run) for p in plan.phases]
    retained = [d for p in phases for d in p["retained"]]
    reasons = [t["reason_code"] for p in phases for t in p["targets"] if t["reason_code"]]
    return {
        **identity_document(plan.identity),
        "receipt_id": run.receipt_id or plan.identity.receipt_id,
        "status": "success" if exit_code == 0 else "partial",
        "result": "completed" if exit_code == 0 else "partial",
        "reason_code": reasons[0] if reasons else "",
        "changed": run.acted,
        "mutated": run.acted,
        "run_id": run.id,
        "operation_id": run.operation_id,
        "plan_digest": plan.digest,
        "journal_path": journal,
        "receipt_path": receipt,
        "started_at": run.started,
        "ended_at": run.ended,
        "duration_seconds": _seconds(run.started, run.ended),
        "phases": phases,
        "deleted": [
            d for p in phases for t in p["targets"] if t["result"] == "verified_deleted" for d in t["ids"]
        ],
        "retained": retained,
        "exit_code": exit_code,
    }


def _ran(plan: Plan, phase: PhasePlan, state: State, run: Run) -> Document:
    ended = run.phases.get(phase.phase)
    status = ended.status if ended else Status.CANCELLED
    targets = [_outcome(phase, t, state, run.outcomes.get(t.key)) for t in phase.targets]
    commands = [c for t in phase.targets if (c := commandlines.for_target(plan.identity, t))]
    recovery = [] if status is Status.COMPLETED else [commandlines.destroy_argv(plan.identity, run.kept)]
    began, finished = run.began.get(phase.phase, ""), run.finished.get(phase.phase, "")
    return {
        "phase": phase.phase,
        "phase_number": plan.number(phase.phase),
        "label": PHASES[phase.phase].label,
        "status": str(status),
        "requires": list(needs(phase.phase, [p.phase for p in plan.phases])),
        "blocked_by": list(ended.blocked_by) if ended else [],
        "blocked_because": {
            b: PHASES[phase.phase].needs.get(b, "") for b in (ended.blocked_by if ended else ())
        },
        "commands": commands,
        "recovery_commands": recovery,
        "started_at": began,
        "ended_at": finished,
        "duration_seconds": _seconds(began, finished),
        "targets": targets,
        "errors": [
            f"{t['key']}: {t['message']}"
            for t in targets
            if t["verdict"] not in ("done", "ready") and t["message"]
        ],
        "warnings": [f"{t['key']}: {t['residue']}" for t in targets if t["residue"]]
        + [f"could not be read: {u}" for u in phase.unread],
        "unread": list(phase.unread),
        "retained": list(_retained(state, phase, run)),
        "evidence": {"outcome": "verified_nothing_to_do"} if not phase.targets and not phase.unread else {},
    }


def _outcome(phase: PhasePlan, target: Target, state: State, outcome: Outcome | None) -> Document:
    proof = state.proofs.get(target.key, ())
    found = tuple(p for p in state.found.get(target.key, ()) if all(p.ref != q.ref for q in target.parts))
    return {
        "key": target.key,
        "name": target.name,
        "verdict": str(outcome.verdict) if outcome else "",
        "result": result_word(outcome, looks_only=phase.wants == "look") if outcome else "",
        "acted": bool(outcome and outcome.acted),
        "reason_code": str(outcome.reason) if outcome and outcome.reason else "",
        "message": outcome.detail if outcome else "",
        "residue": outcome.residue if outcome else "",
        "next_command": outcome.next_command if outcome else "",
        "ids": [{**_part(p), "absent": _absences(p, proof)} for p in (*target.parts, *found)],
    }


def _absences(part: Part, proof: Proof) -> list[Document]:
    return [{"at": o.at, "source": o.by} for o in proof if o.ref == part.ref]


def _retained(state: State, phase: PhasePlan, run: Run) -> Sequence[Document]:
    return [{"what": line} for t in phase.targets for line in run.retained.get(t.key, ())]


def _seconds(began: str, ended: str) -> float | None:
    a, b = parse(began), parse(ended)
    return round((b - a).total_seconds(), 3) if a and b else None
