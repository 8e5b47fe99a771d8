"""Everything that may be said about a project's teardown: a fold over its journal, per target and not per run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from engine.ledger.events import (
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
from engine.words.consent import Consent
from engine.words.outcomes import Outcome, Status, Verdict
from engine.words.plans import Part, Plan
from engine.words.presence import Proof


@dataclass(slots=True)
class Run:
    """One run: a plan, and how far it came. `open` until it converged or was superseded."""

    id: str
    command: str
    plan: Plan
    operation_id: str
    receipt_id: str
    started: str
    open: bool = True
    running: bool = True
    """Its runner has not said goodbye. Whether it still lives is for the lease to say."""
    exit: int | None = None
    ended: str = ""
    consents: list[Consent] = field(default_factory=list)
    phases: dict[str, PhaseEnded] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    began: dict[str, str] = field(default_factory=dict)
    finished: dict[str, str] = field(default_factory=dict)
    retained: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What a look-only target found that stays by design, a line each."""
    acted: bool = False

    @property
    def kept(self) -> tuple[str, ...]:
        """The phases that were left because somebody said so; what only needs one of them is not among these."""
        return tuple(p.phase for p in self.phases.values() if p.status is Status.KEPT and not p.blocked_by)


@dataclass(slots=True)
class State:
    """The fold. `apply` takes entries in order; nothing else changes it."""

    runs: dict[str, Run] = field(default_factory=dict)
    proofs: dict[str, Proof] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    found: dict[str, tuple[Part, ...]] = field(default_factory=dict)
    """Parts seen live that the plan did not name, by target: they go, and are proven gone, with it."""
    unanswered: dict[int, Intended] = field(default_factory=dict)
    """Calls that may or may not have happened: their answer was lost."""
    debts: dict[int, Intended] = field(default_factory=dict)
    """What was taken away for a while and is to be given back if the target stays."""
    answered: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    accepted: set[str] = field(default_factory=set)
    """Targets whose deletion the provider has agreed to and that are not settled since."""
    intents: dict[int, Intended] = field(default_factory=dict)
    last: Entry | None = None

    @property
    def newest(self) -> Run | None:
        return next(reversed(self.runs.values()), None)

    def resumable(self, command: str) -> Run | None:
        """The newest open run of this command: its recorded plan is what a retry replays."""
        return next((r for r in reversed(self.runs.values()) if r.open and r.command == command), None)

    def apply(self, entry: Entry) -> None:
        self.last = entry
        run = self.runs.get(entry.run)
        match entry.event:
            case Opened() as o:
                self.runs[entry.run] = Run(
                    entry.run, o.command, o.plan, o.operation_id, o.receipt_id, entry.at
                )
            case Consented(consent=consent) if run:
                run.consents.append(consent)
            case Intended() as i:
                self.unanswered[entry.seq] = self.intents[entry.seq] = i
                if i.undo:
                    self.debts[entry.seq] = i
                if run:
                    run.acted = True
            case Resulted() as r:
                self._resulted(r)
            case Undone(intent=n):
                self.debts.pop(n, None)
            case Noted(subject=s, what="phase_began") if run:
                run.began[s] = entry.at
                run.finished.pop(s, None)
                run.retained = {k: v for k, v in run.retained.items() if not k.startswith(f"{s}/")}
            case Noted(subject=s, what="retained", detail=line) if run:
                run.retained[s] = (*run.retained.get(s, ()), line)
            case Noted(subject=s, what="found", parts=parts):
                known = self.found.get(s, ())
                self.found[s] = known + tuple(p for p in parts if all(p.ref != k.ref for k in known))
            case Noted(subject=s, what="resumed") if run:
                run.running, run.open, run.exit = True, True, None
            case Proven(target=t, proof=proof):
                self.proofs[t] = proof
                self.debts = {n: d for n, d in self.debts.items() if d.target != t}
                self.unanswered = {n: i for n, i in self.unanswered.items() if i.target != t}
            case Settled(outcome=o):
                self.outcomes[o.target] = o
                if o.verdict is Verdict.DONE:
                    self.accepted.discard(o.target)
                if run:
                    run.outcomes[o.target] = o
            case PhaseEnded() as p if run:
                run.phases[p.phase] = p
                run.finished[p.phase] = entry.at
            case Closed() as c if run:
                run.running, run.open, run.exit, run.ended = False, not c.final, c.exit, entry.at
            case _:
                pass

    def _resulted(self, r: Resulted) -> None:
        if r.lost or (i := self.unanswered.pop(r.intent, None)) is None:
            return
        self.answered[i.target, i.verb, i.ref.id] += 1
        if not r.ok:
            self.debts.pop(r.intent, None)
        elif not i.undo:
            self.accepted.add(i.target)
