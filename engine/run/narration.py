"""A journal entry as one line for a person: level, subject, message. The console's log and the text output say the same."""

from __future__ import annotations

from dataclasses import dataclass

from engine.ledger.events import (
    Asked,
    Closed,
    Consented,
    Entry,
    Intended,
    Noted,
    Opened,
    PhaseEnded,
    Proven,
    Resulted,
    Settled,
    Undone,
)
from engine.ledger.state import State
from engine.words.outcomes import Status, Verdict
from engine.words.phases import PHASES
from engine.words.redact import visible


@dataclass(frozen=True, slots=True)
class Line:
    """`level` is one of `info call wait done warn fail`; `at` is the entry's time, RFC 3339."""

    at: str
    level: str
    subject: str
    message: str


_PHASE_WORDS = {
    Status.COMPLETED: ("done", "done"),
    Status.DEGRADED: ("warn", "done, with leftovers on this machine"),
    Status.PARTIAL: ("fail", "not finished"),
    Status.REFUSED: ("warn", "held"),
    Status.BLOCKED: ("warn", "not started"),
    Status.CANCELLED: ("warn", "stopped"),
    Status.PLANNED: ("info", "ready"),
    Status.KEPT: ("info", "kept by you"),
}

_VERDICT_WORDS = {
    Verdict.DONE: ("done", "gone and checked"),
    Verdict.LEFT: ("fail", "still there"),
    Verdict.UNKNOWN: ("fail", "outcome not known"),
    Verdict.HELD: ("warn", "held"),
    Verdict.STOPPED: ("warn", "stopped"),
    Verdict.READY: ("info", "ready"),
}


def narrate(entry: Entry, state: State) -> Line | None:
    """The line for an entry, given the state after it; None for what is only bookkeeping."""
    made = _say(entry, state)
    if made is None:
        return None
    level, subject, message = made
    return Line(entry.at, level, visible(subject), visible(message))


def _say(entry: Entry, state: State) -> tuple[str, str, str] | None:
    run = state.runs.get(entry.run)
    plan = run.plan if run else None

    def name(key: str) -> str:
        target = plan.target(key) if plan else None
        phase = key.partition("/")[0]
        number = f"{plan.number(phase):02} " if plan and plan.number(phase) else ""
        return number + (target.name if target else PHASES[phase].label if phase in PHASES else key)

    match entry.event:
        case Opened(plan=p, command=command):
            return "info", p.identity.alias or p.identity.project_id, f"{command} opened, plan {p.digest}"
        case Consented(consent=c):
            labels = ", ".join(PHASES[p].label for p in c.phases if p in PHASES)
            return "info", c.by, f"agreed to: {labels}"
        case Asked(what=what, by=by, accepted=ok, detail=detail):
            return (
                ("info" if ok else "warn"),
                by,
                f"asked to {what}{'' if ok else ', refused'}{': ' + detail if detail else ''}",
            )
        case Noted(subject=s, what="phase_began"):
            return "info", name(s), "started"
        case Noted(subject=s, what="resumed"):
            return "info", s, "resumed"
        case Noted(subject=s, what=what, detail=detail):
            level = {"paused": "warn", "debt_unpaid": "warn", "retained": "info"}.get(what, "wait")
            return (
                level,
                name(s),
                detail if what == "progress" else f"{what.replace('_', ' ')}: {detail}" if detail else what,
            )
        case Intended(target=t, verb=verb, ref=ref, attempt=attempt):
            again = f", attempt {attempt + 1}" if attempt else ""
            return "call", name(t), f"{verb.replace('_', ' ')} {ref.kind.replace('_', ' ')} {ref.id}{again}"
        case Resulted(intent=n, ok=ok, cause=cause, detail=detail, request_id=rid):
            intent = state.intents.get(n)
            subject = name(intent.target) if intent else f"call {n}"
            if ok:
                return "info", subject, f"{intent.verb.replace('_', ' ') if intent else 'call'} accepted"
            return "warn", subject, f"{cause}: {detail}" + (f" (request {rid})" if rid else "")
        case Undone(intent=n):
            intent = state.intents.get(n)
            return "info", name(intent.target) if intent else f"call {n}", "given back"
        case Proven(target=t, proof=proof):
            return "done", name(t), f"seen gone twice, {len(proof) // 2} of {len(proof) // 2} parts"
        case Settled(outcome=o):
            level, words = _VERDICT_WORDS[o.verdict]
            looks = plan.phase(o.target.partition("/")[0]) if plan else None
            if looks and looks.wants == "look":
                words = {Verdict.DONE: "looked at, nothing unexplained", Verdict.LEFT: "not clean"}.get(
                    o.verdict, words
                )
            if o.verdict is Verdict.DONE and o.residue:
                level, words = "warn", f"{words}; left on this machine: {o.residue}"
            return level, name(o.target), f"{words}: {o.detail}" if o.detail else words
        case PhaseEnded(phase=p, status=status, blocked_by=blocked):
            level, words = _PHASE_WORDS[status]
            by = f", blocked by {', '.join(name(b) for b in blocked)}" if blocked else ""
            return level, name(p), words + by
        case Closed(exit=code, detail=detail):
            return (
                ("done" if code == 0 else "warn"),
                "run",
                f"ended, exit {code}" + (f": {detail}" if detail else ""),
            )
