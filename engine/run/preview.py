"""What a phase would do now: the facts of a confirmation dialog and of a dry run. Looks and guards, never acts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.phases.shape import Phase
from engine.words.consent import Tier
from engine.words.phases import PHASES
from engine.words.plans import Part, Plan, Target
from engine.words.presence import Absent, Present, Sight, Unknown, gone, unknown
from engine.words.reasons import Reason, Refusal


@dataclass(frozen=True, slots=True)
class TargetPreview:
    """One target as it is now. `refusal`: why it would be held. Gone targets have neither refusal nor anything to delete."""

    target: Target
    sight: Sight
    refusal: Refusal | None = None
    tier: Tier = Tier.READS
    touches: tuple[str, ...] = ()
    found: tuple[Part, ...] = ()

    @property
    def gone(self) -> bool:
        return gone(self.sight)

    @property
    def live(self) -> tuple[Part, ...]:
        """The parts that are there and would go."""
        absent = {o.ref for o in self.sight if isinstance(o.presence, Absent)}
        return tuple(p for p in (*self.target.parts, *self.found) if p.ref not in absent)


@dataclass(frozen=True, slots=True)
class PhasePreview:
    """One phase as it is now. `at`: when it was looked at, RFC 3339."""

    plan: Plan
    phase: str
    targets: tuple[TargetPreview, ...]
    at: str

    @property
    def tier(self) -> Tier:
        """What consent this needs now: the phase's own tier, or more where a guard says so."""
        return max((t.tier for t in self.targets if not t.gone), default=PHASES[self.phase].tier)

    @property
    def live(self) -> tuple[Part, ...]:
        return tuple(p for t in self.targets if t.refusal is None for p in t.live)

    @property
    def touches(self) -> tuple[str, ...]:
        """What else this affects; warnings first, each once."""
        lines = dict.fromkeys(line for t in self.targets for line in t.touches)
        return tuple(sorted(lines, key=lambda line: not line.startswith("!")))

    @property
    def seen(self) -> Mapping[str, str]:
        """Each id that was shown, with the fingerprint it had: what consent is bound to."""
        shown = {p.ref.id: "" for t in self.targets for p in (*t.target.parts, *t.found)}
        for t in self.targets:
            for o in t.sight:
                if isinstance(o.presence, Present):
                    shown[o.ref.id] = o.presence.fingerprint
        return shown


async def preview(plan: Plan, phase: str, phases: Mapping[str, Phase[Any]], at: str) -> PhasePreview:
    """Look at every target of a phase, and ask its guard."""
    here = plan.phase(phase)
    if here is None:
        return PhasePreview(plan, phase, (), at)
    targets = await asyncio.gather(*(_target(phases[phase], t) for t in here.targets))
    return PhasePreview(plan, phase, tuple(targets), at)


async def _target(phase: Phase[Any], target: Target) -> TargetPreview:
    own = PHASES[target.phase].tier
    sight = await phase.look(target)
    if gone(sight):
        return TargetPreview(target, sight, tier=own)
    if isinstance(blind := unknown(sight), Unknown):
        why = Refusal(Reason.CANNOT_SEE, f"{blind.cause}: {blind.detail}", "")
        return TargetPreview(target, sight, why, own)
    cleared = await phase.guard(target, sight)
    if isinstance(cleared, Refusal):
        return TargetPreview(target, sight, cleared, own)
    tier = own if cleared.tier is None else max(own, cleared.tier)
    if cleared.found:  # shown with the fingerprints that they have, or consent would not cover them
        sight = await phase.look(replace(target, parts=(*target.parts, *cleared.found)))
    return TargetPreview(target, sight, None, tier, cleared.touches, cleared.found)
