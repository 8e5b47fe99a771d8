"""Follows one project's journal, and asks its runner for things through request files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.ledger.journal import Altered, Tail
from engine.run.requests import Request, ask
from engine.words.consent import Consent
from npa_tui.trail import Trail

PATIENCE = 600.0
"""Seconds for which an answer is good: a consent that nobody has read by then is taken back."""

ORPHANED = 10.0
"""Seconds after which a request is taken back when there is no runner to read it."""


class Following:
    """The journal of one project, polled. `trail` is what it told; `trouble` why it cannot be followed any further."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self.trail = Trail(self._tail.state)
        self.trouble = ""
        self.version = 0

    def poll(self) -> bool:
        """Whether anything was added. An altered journal is said once and never read past."""
        if self.trouble:
            return False
        try:
            entries = self._tail.poll()
        except Altered as altered:
            self.trouble = f"The journal was altered: {altered}."
        except OSError as error:
            self.trouble = f"The journal cannot be read: {error.strerror}: {error.filename}."
        else:
            for entry in entries:
                self.trail.apply(entry)
            if not entries:
                return False
        self.version += 1
        return True


@dataclass(slots=True)
class _Waiting:
    phase: str
    path: Path
    since: float


class Asking:
    """Requests that this console has put in the inbox and nobody has read yet."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    @property
    def phases(self) -> frozenset[str]:
        return frozenset(w.phase for w in self._waiting if w.phase)

    def consent(self, inbox: Path, run: str, consent: Consent, now: float) -> None:
        path = ask(inbox, Request("consent", run, consent.by, consent=consent))
        self._waiting.append(_Waiting(consent.phases[-1], path, now))

    def other(
        self,
        inbox: Path,
        run: str,
        what: Literal["keep", "pause", "resume", "stop"],
        by: str,
        phase: str,
        now: float,
    ) -> None:
        self._waiting.append(_Waiting("", ask(inbox, Request(what, run, by, phase)), now))

    def settle(self, alive: bool, now: float) -> tuple[str, ...]:
        """Forget what was read, take back what nobody will read; the phases whose consent was taken back.

        The runner removes a request only after its answer is in the journal.
        """
        back: list[str] = []
        kept: list[_Waiting] = []
        for waiting in self._waiting:
            if not waiting.path.exists():
                continue
            if now - waiting.since > (PATIENCE if alive else ORPHANED):
                waiting.path.unlink(missing_ok=True)
                back.append(waiting.phase)
            else:
                kept.append(waiting)
        self._waiting = kept
        return tuple(p for p in back if p)
