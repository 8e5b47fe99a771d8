"""Phase final_audit: looks only. What is left, what is kept by design, and why; nothing unexplained may be called clean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.ledger.events import Intended
from engine.phases.shape import Cleared, Hand
from engine.phases.survey import Provider, Survey, survey
from engine.words.plans import Evidence, Ownership, Part, PhasePlan, Target
from engine.words.presence import Proof, Ref, Resource, Sight
from engine.words.reasons import Reason, Refusal

if TYPE_CHECKING:
    from engine.home.records import Records

MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Facts:
    """What the audit saw. `workbenches`: recorded ones, which no phase removes; `unread`: records that could not be read."""

    survey: Survey
    workbenches: tuple[str, ...]
    unread: tuple[str, ...]
    command: str
    kept: frozenset[str] = frozenset()
    """Ids of what the operator chose to keep."""


def decide(facts: Facts) -> Cleared[Facts] | Refusal:
    """Clean only when every kind could be listed and nothing but what is kept by design is there."""
    if facts.survey.gaps:
        blind = "; ".join(f"{kind}: {why}" for kind, why in facts.survey.gaps.items())
        return Refusal(Reason.CANNOT_SEE, f"not everything could be listed: {blind}", facts.command)
    chosen = [r for r in facts.survey.leftovers if _belongs(r, facts.kept)]
    left = [
        f"{r.ref.kind} {r.name or r.ref.id} ({r.ref.id})" for r in facts.survey.leftovers if r not in chosen
    ]
    left += [f"workbench {name}" for name in facts.workbenches]
    if left:
        more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
        return Refusal(Reason.LEFTOVERS, f"still there: {', '.join(left[:MOST_NAMED])}{more}", facts.command)
    if facts.unread:
        return Refusal(
            Reason.RECORD_UNREADABLE, f"could not be read: {'; '.join(facts.unread)}", facts.command
        )
    kept = [
        f"{r.ref.kind} {r.name or r.ref.id} ({r.ref.id}): removed only with --delete-project"
        for r in facts.survey.retained
    ]
    kept += [f"{r.ref.kind} {r.name or r.ref.id} ({r.ref.id}): kept by you" for r in chosen]
    return Cleared(facts, touches=("the project itself: removed only with --delete-project", *kept))


def _belongs(resource: Resource, kept: frozenset[str]) -> bool:
    """Whether it was kept, or is part of something that was."""
    holders = (resource.ref.id, resource.parent, resource.labels.get("mk8s-cluster-id", ""))
    return any(id in kept for id in holders if id)


class FinalAudit:
    """Built with the provider, and with what tells the ids that the operator keeps. Its one target is the project."""

    name = "final_audit"

    def __init__(self, provider: Provider, kept: Callable[[], frozenset[str]] = frozenset) -> None:
        self._provider, self._kept = provider, kept

    def plan(self, records: Records) -> PhasePlan:
        id = records.project_id
        owned = Ownership(Evidence.PART_OF, "the plan", "identity.project_id")
        detail = {
            "workbenches": " ".join(sorted(w.name for w in records.workbenches)),
            "alias": records.alias,
        }
        target = Target(
            f"final_audit/{id}",
            records.alias or id,
            (Part(Ref("project", id), records.alias, owned),),
            detail,
        )
        return PhasePlan("final_audit", (target,), wants="look")

    async def look(self, target: Target) -> Sight:
        return tuple([await self._provider.look(part.ref) for part in target.parts])

    async def guard(self, target: Target, sight: Sight) -> Cleared[Facts] | Refusal:
        seen = await survey(self._provider, target.id)
        command = f"npa destroy --project {target.detail.get('alias') or target.id} --all --yes"
        workbenches = tuple(target.detail.get("workbenches", "").split())
        return decide(Facts(seen, workbenches, (), command, self._kept()))

    async def act(self, target: Target, cleared: Cleared[Facts], hand: Hand) -> None:
        raise NotImplementedError("an audit changes nothing")

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        raise NotImplementedError("an audit changes nothing")

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError("an audit takes nothing away")
