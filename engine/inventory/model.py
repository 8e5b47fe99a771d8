"""The live inventory as a value: rows, what each source answered, and sums over both."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.words.plans import NOT_PROVEN, Ownership
from engine.words.presence import Ref

HOURS_A_DAY = 24.0


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that is there.

    phase     the phase of the plan that removes it; empty when none does
    owned     why it is ours; falsy when no record explains it
    per_hour  estimated USD an hour, 0.0 for what is known to be free, None when no price is known
    note      a fact worth a few words: attached to what, purged when, in use by whom
    """

    ref: Ref
    name: str
    state: str
    leaving: bool = False
    created_at: str = ""
    phase: str = ""
    owned: Ownership = NOT_PROVEN
    per_hour: float | None = None
    note: str = ""
    parent: str = ""
    source: str = ""
    recorded: bool = True
    """Some record of this machine names it, or a thing that a record names holds it."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """One source's answer: how much it listed, or why it could not. A failed source makes the inventory incomplete."""

    name: str
    count: int
    at: str
    cause: str = ""
    detail: str = ""

    @property
    def ok(self) -> bool:
        return not self.cause


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything of one project that any source showed."""

    project_id: str
    rows: tuple[Row, ...]
    sources: tuple[SourceReport, ...]
    at: str
    prices_gap: str = ""
    hazards: tuple[str, ...] = field(default=())

    @property
    def complete(self) -> bool:
        return bool(self.sources) and all(s.ok for s in self.sources)

    @property
    def per_hour(self) -> float:
        """The sum of all known prices: a lower bound while `unpriced` is not zero."""
        return sum(r.per_hour for r in self.rows if r.per_hour)

    @property
    def per_day(self) -> float:
        return self.per_hour * HOURS_A_DAY

    @property
    def unpriced(self) -> int:
        return sum(1 for r in self.rows if r.per_hour is None)

    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.ref.kind for r in self.rows))
