"""The shape that all phases have, and what the runner lends them.

A phase holds no concurrency, no journal and no waiting: it plans from records, looks, decides, acts through the hand that it is
given, and tidies local records behind a proof. Everything else is the runner's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from engine.ledger.events import Intended
from engine.words.consent import Tier
from engine.words.intents import Intent
from engine.words.plans import Part, PhasePlan, Target
from engine.words.presence import Proof, Ref, Sight
from engine.words.reasons import Refusal

if TYPE_CHECKING:
    from engine.home.records import Records

F = TypeVar("F")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cleared(Generic[F]):
    """A guard's yes.

    facts    what the guard read and `act` needs; typed by each phase
    tier     consent needed as the world is now; None: the phase's own
    touches  what else this affects, for the dialog; a line that starts with `!` is a warning
    found    parts seen live that the plan did not name, each with its proof: they go with the target
    """

    facts: F
    tier: Tier | None = None
    touches: tuple[str, ...] = ()
    found: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One change among several that may go side by side."""

    verb: str
    ref: Ref
    call: Callable[[Intent], Awaitable[object]]
    undo: Mapping[str, str] = field(default_factory=dict)


class Hand(Protocol):
    """The one way to change anything outside: gate, consent, intent on disk, receipt on disk, call, result on disk."""

    async def step(
        self,
        verb: str,
        ref: Ref,
        call: Callable[[Intent], Awaitable[T]],
        *,
        undo: Mapping[str, str] | None = None,
    ) -> T:
        """Make one change. Raises what `call` raises (`Trouble`), `Refused` when consent does not cover it."""
        ...

    async def steps(self, steps: Sequence[Step]) -> None:
        """Make several changes side by side; all are awaited, then the first failure is raised."""
        ...

    def asked(self, ref: Ref, verb: str = "delete") -> bool:
        """Whether that change to `ref` was agreed to a moment ago: not to be asked for again yet."""
        ...

    async def note(self, what: str, detail: str = "", data: Mapping[str, str] | None = None) -> None:
        """Tell what goes on: progress, a wait, a thing that appeared. Not durable proof of anything."""
        ...


class Phase(Protocol[F]):
    """One phase, built with the clients it needs."""

    @property
    def name(self) -> str: ...

    def plan(self, records: Records) -> PhasePlan:
        """Targets, from records alone: pure, no look at the world, nothing written."""
        ...

    async def look(self, target: Target) -> Sight:
        """One honest read: one answer for each part of the target."""
        ...

    async def guard(self, target: Target, sight: Sight) -> Cleared[F] | Refusal:
        """Every check that must hold before a change. Reads only."""
        ...

    async def act(self, target: Target, cleared: Cleared[F], hand: Hand) -> None:
        """Ask for the changes, in their order, each by `hand.step`. Returns when they are asked for, not when they are over."""
        ...

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        """Remove the local records and secrets that the target leaves behind; what another program keeps (SkyPilot's own record)
        by `hand.step`. Whatever it raises of `OSError`, `Trouble` and `Refused` is residue, named in the outcome."""
        ...

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        """Give back what a step took away for a while."""
        ...
