"""What a journal told so far, beyond the engine's fold: the newest words about each target, calls in flight, log lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.ledger.events import (
    Asked,
    Consented,
    Entry,
    Intended,
    Noted,
    Opened,
    PhaseEnded,
    Resulted,
    Settled,
)
from engine.ledger.state import State
from engine.run.narration import Line, narrate

RING = 5000
"""Log lines kept on screen; the journal has all of them."""

_DOING = {"delete": "deleting", "cancel": "cancelling", "purge": "emptying", "detach": "detaching"}


@dataclass(slots=True)
class Trail:
    """`apply` takes each entry after `state` has taken it. Times are RFC 3339, as the journal has them."""

    state: State = field(default_factory=State)
    lines: deque[Line] = field(default_factory=lambda: deque(maxlen=RING))
    count: int = 0
    """Lines told in all, also those that the ring has dropped."""
    warnings: int = 0
    notes: dict[str, str] = field(default_factory=dict)
    began: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    flying: dict[int, Intended] = field(default_factory=dict)
    """Calls whose answer has not come back, by the number of their entry."""
    retries: int = 0
    paused: str = ""
    settled_at: str = ""
    processes: int = 0
    """How many runners have begun or resumed a run."""
    ended_now: set[str] = field(default_factory=set)
    """Phases that ended in the newest process of the newest run: a resumed run goes over all of them again."""
    consented_now: set[str] = field(default_factory=set)
    refusals: list[Asked] = field(default_factory=list)
    """Requests that a runner refused."""

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Trail:
        """The trail of a journal that is at hand as entries."""
        trail = cls()
        for entry in entries:
            trail.state.apply(entry)
            trail.apply(entry)
        return trail

    def apply(self, entry: Entry) -> None:
        if line := narrate(entry, self.state):
            self.lines.append(line)
            self.count += 1
            self.warnings += line.level in ("warn", "fail")
        match entry.event:
            case Opened():
                self._new_process()
                self.retries = 0
            case Noted(what="resumed"):
                self._new_process()
            case Consented(consent=consent):
                self.consented_now |= set(consent.phases)
            case PhaseEnded(phase=phase):
                self.ended_now.add(phase)
            case Noted(subject=phase, what="phase_began"):
                self.ended_now.discard(phase)
            case Asked(accepted=False) as asked:
                self.refusals.append(asked)
            case Asked(what="pause", by=by):
                self.paused = f"paused by {by}"
            case Asked(what="resume"):
                self.paused = ""
            case Noted(what="paused", detail=detail):
                self.paused = detail or "paused"
            case Noted(what="unpaused"):
                self.paused = ""
            case Noted(subject=s, what=what, detail=detail) if "/" in s:
                self.notes[s] = detail if what == "progress" else f"{what.replace('_', ' ')} {detail}".strip()
            case Intended(target=t, verb=verb, ref=ref) as intended:
                self.flying[entry.seq] = intended
                self.retries += intended.attempt > 0
                self.began.setdefault(t, entry.at)
                self.ended.pop(t, None)
                self.notes[t] = f"{_DOING.get(verb, verb.replace('_', ' '))} {ref.kind.replace('_', ' ')}"
            case Resulted() as resulted:
                self._resulted(resulted)
            case Settled(outcome=outcome):
                self.ended[outcome.target] = self.settled_at = entry.at
                self.notes.pop(outcome.target, None)
            case _:
                pass

    def _resulted(self, resulted: Resulted) -> None:
        call = self.flying.pop(resulted.intent, None)
        if call is not None and not resulted.ok:
            self.notes[call.target] = f"{call.verb.replace('_', ' ')}: {resulted.cause or 'no answer'}"

    def _new_process(self) -> None:
        """Calls of a process that is gone are nobody's calls in flight any more."""
        self.processes += 1
        self.flying.clear()
        self.paused = ""
        self.ended_now.clear()
        self.consented_now.clear()
