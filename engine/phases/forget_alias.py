"""Phase forget_alias: takes the project out of the configuration, when nothing that it would help to find is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.clock import Clock
from engine.home.config import read_config
from engine.home.errors import RecordError
from engine.home.roots import Roots
from engine.home.writers import forget_project
from engine.ledger.events import Intended
from engine.phases.shape import Cleared, Hand
from engine.phases.survey import Provider, Survey, survey
from engine.words.consent import Tier
from engine.words.intents import Intent
from engine.words.plans import Evidence, Ownership, Part, PhasePlan, Target
from engine.words.presence import Absent, Cause, Observation, Presence, Present, Proof, Ref, Sight, Unknown
from engine.words.reasons import Reason, Refusal
from engine.words.redact import redact
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.home.records import Records


@dataclass(frozen=True, slots=True)
class Facts:
    """What would be harder to find once the alias is gone. `marked`: the storage access marker stands."""

    alias: str
    survey: Survey
    workbenches: tuple[str, ...]
    marked: bool


def decide(facts: Facts) -> Cleared[Facts] | Refusal:
    """An alias is forgotten only when nothing that it would help to find is left, and that was seen."""
    if facts.marked:
        return Refusal(
            Reason.EVIDENCE_NEEDED,
            f"storage access of {facts.alias} is not verified gone",
            f"npa storage service-account delete --project {facts.alias} --dry-run",
        )
    if facts.workbenches:
        named = ", ".join(facts.workbenches)
        return Refusal(Reason.LEFTOVERS, f"workbenches are recorded only under {facts.alias}: {named}", "")
    if facts.survey.gaps:
        blind = "; ".join(f"{kind}: {why}" for kind, why in facts.survey.gaps.items())
        return Refusal(Reason.CANNOT_SEE, f"not everything could be listed: {blind}", "")
    if facts.survey.leftovers:
        left = ", ".join(
            f"{r.ref.kind} {r.name or r.ref.id} ({r.ref.id})" for r in facts.survey.leftovers[:10]
        )
        return Refusal(Reason.LEFTOVERS, f"still in the project, in no phase: {left}", "")
    return Cleared(facts, Tier.RECREATABLE, touches=("the receipt keeps every id",))


class ForgetAlias:
    """Built with the roots and the provider. One target per alias that means the project."""

    name = "forget_alias"

    def __init__(self, roots: Roots, provider: Provider, clock: Clock) -> None:
        self._roots = roots
        self._provider = provider
        self._clock = clock

    def plan(self, records: Records) -> PhasePlan:
        targets = tuple(
            Target(
                f"forget_alias/{s.alias}",
                s.alias,
                (Part(Ref("alias", s.alias), s.alias, Ownership(Evidence.PART_OF, "config.yaml", s.field)),),
                {"project_id": records.project_id},
            )
            for s in records.stanzas
            if not s.flat
        )
        return PhasePlan("forget_alias", targets, unread=tuple(str(p) for p in records.problems_of("config")))

    async def look(self, target: Target) -> Sight:
        presence = self._see(target)
        return tuple(Observation(p.ref, presence, self._clock.now(), "config.yaml") for p in target.parts)

    async def guard(self, target: Target, sight: Sight) -> Cleared[Facts] | Refusal:
        try:
            config = read_config(self._roots)
        except RecordError as error:
            return Refusal(Reason.RECORD_UNREADABLE, str(error.problem), "")
        stanza = config.stanza(target.id) if config else None
        seen = await survey(self._provider, target.detail["project_id"])
        return decide(
            Facts(
                target.id,
                seen,
                tuple(w.name for w in stanza.workbenches) if stanza else (),
                bool(stanza and stanza.marker),
            )
        )

    async def act(self, target: Target, cleared: Cleared[Facts], hand: Hand) -> None:
        async def forget(intent: Intent) -> None:
            try:
                forget_project(self._roots, target.id, target.detail["project_id"])
            except (RecordError, OSError) as error:
                raise Trouble(Cause.CONFLICT, redact(str(error))) from error

        for part in target.parts:
            await hand.step("forget", part.ref, forget)

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        return

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError("nothing is taken away for a while here")

    def _see(self, target: Target) -> Presence:
        try:
            config = read_config(self._roots)
        except RecordError as error:
            return Unknown(Cause.MALFORMED, redact(str(error.problem)))
        stanza = config.stanza(target.id) if config else None
        if stanza is None or stanza.project_id != target.detail["project_id"]:
            return Absent()
        return Present(stanza.project_id, "configured")
