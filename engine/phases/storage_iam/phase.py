"""The phase itself: look, read for the guard, ask in order, tidy behind the proof."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.home.config import read_config
from engine.home.records import gather
from engine.home.roots import Roots
from engine.home.writers import clear_marker, drop_storage_generation
from engine.ledger.events import Intended
from engine.phases.accounts import ACCOUNT, KEY, Provider, read_account
from engine.phases.parts import Order, ask, blind, free, look_all, read_all, standing, still_there, unproven
from engine.phases.shape import Cleared, Hand
from engine.phases.storage_iam.deciding import Facts, SavedBucket, decide
from engine.phases.storage_iam.planning import GROUP, MEMBERSHIP, PERMIT, plan_storage_iam
from engine.words.plans import PhasePlan, Target
from engine.words.presence import Absent, Present, Proof, Ref, Resource, Sight, Unknown
from engine.words.reasons import Refusal

if TYPE_CHECKING:
    from engine.home.records import Records

_LOOSE = frozenset({KEY, PERMIT, MEMBERSHIP})
ORDER: Order = {
    **dict.fromkeys(_LOOSE, frozenset[str]()),
    GROUP: _LOOSE - {KEY},
    ACCOUNT: _LOOSE | {GROUP},
}


class StorageIam:
    """Built with the roots and the provider. One target per account; what is left of one that is gone is a target too."""

    name = "storage_iam"

    def __init__(self, roots: Roots, provider: Provider) -> None:
        self._roots = roots
        self._provider = provider

    def plan(self, records: Records) -> PhasePlan:
        return plan_storage_iam(records)

    async def look(self, target: Target) -> Sight:
        return await look_all(self._provider, (part.ref for part in target.parts))

    async def guard(self, target: Target, sight: Sight) -> Cleared[Facts] | Refusal:
        there = standing(sight)
        if unproven(target, there):
            return decide(Facts(target, there))
        fresh = gather(self._roots, target.detail["project_id"], target.detail.get("alias", ""))
        account, bound, (buckets, unseen) = await asyncio.gather(
            read_account(self._provider, target, there),
            self._bound(target, there, fresh),
            self._saved_buckets(fresh),
        )
        return decide(replace(bound, account=account, buckets=buckets, gaps=(*bound.gaps, *unseen)))

    async def act(self, target: Target, cleared: Cleared[Facts], hand: Hand) -> None:
        facts = cleared.facts
        refs = free(facts.live, ORDER)
        if facts.waits_for_siblings:
            refs = tuple(ref for ref in refs if ref.kind != GROUP)
        await ask(hand, self._provider, refs, facts.live)

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        project, gone = target.detail["project_id"], frozenset(o.ref.id for o in proof)
        drop_storage_generation(self._roots, project, target.detail.get("account_id", ""), gone)
        config = read_config(self._roots)
        for stanza in config.of(project) if config else ():
            if stanza.marker:
                clear_marker(self._roots, stanza.alias, project, gone)

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError("nothing is taken away for a while here")

    async def _bound(self, target: Target, there: Mapping[Ref, Present], fresh: Records) -> Facts:
        """Groups, permits and memberships, with what could not be seen."""
        account, gaps = target.detail.get("account_id", ""), list[str]()
        own = {part.ref.id for part in target.parts if part.ref.kind == GROUP}
        recorded = [Ref(GROUP, id) for id in sorted({*own, *target.detail.get("groups", "").split()})]
        permits, unseen = await read_all(self._provider, (r for r in there if r.kind == PERMIT))
        groups, blind_groups = await read_all(self._provider, recorded)
        for o in (*unseen, *blind_groups):
            if isinstance(o.presence, Unknown):
                gaps.append(blind(o.ref.id, o.presence))
        members = await self._listed(MEMBERSHIP, (ref.id for ref in groups), gaps)
        listed = await self._listed(PERMIT, (ref.id for ref in groups if ref.id in own), gaps)
        permits |= {permit.ref: permit for permit in listed}
        siblings = frozenset(c.service_account_id for c in fresh.storage_proofs) - {account}
        strangers = {m.attrs.get("member_id", "") for m in members if m.parent in own} - {
            account,
            "",
            *siblings,
        }
        return Facts(
            target,
            there,
            groups=tuple(groups.values()),
            permits=tuple(permits.values()),
            memberships=members,
            siblings=siblings,
            departed=await self._departed(strangers),
            gaps=tuple(gaps),
        )

    async def _listed(self, kind: str, groups: Iterable[str], gaps: list[str]) -> tuple[Resource, ...]:
        """Everything of a kind below these groups that is still there."""
        found: list[Resource] = []
        for group in groups:
            listing = await self._provider.list(kind, group)
            if listing.gap:
                gaps.append(blind(f"{kind} of {group}", listing.gap))
            found += listing.items
        return await still_there(self._provider, found)

    async def _departed(self, members: Iterable[str]) -> frozenset[str]:
        """Those of these members that are accounts which do not exist any more."""
        accounts = [Ref(ACCOUNT, m) for m in members if m.startswith("serviceaccount-")]
        seen = await look_all(self._provider, accounts)
        return frozenset(o.ref.id for o in seen if isinstance(o.presence, Absent))

    async def _saved_buckets(self, fresh: Records) -> tuple[tuple[SavedBucket, ...], tuple[str, ...]]:
        """Buckets whose keys are saved and that are not proven gone; and what could not be read."""
        if problems := fresh.problems_of("credentials", "config"):
            return (), (f"whether bucket keys are still saved: {problems[0]}",)
        left: list[SavedBucket] = []
        for name in sorted({keys.bucket for keys in fresh.storage if keys.bucket and keys.opens}):
            ids = sorted({b.bucket_id for b in fresh.buckets if b.name == name and b.bucket_id})
            why = await self._why_not_gone(name, ids, fresh.project_id)
            left += [SavedBucket(name, why)] if why else []
        return tuple(left), ()

    async def _why_not_gone(self, name: str, ids: list[str], project: str) -> str:
        for o in await look_all(self._provider, (Ref("bucket", id) for id in ids)):
            match o.presence:
                case Present(state=state):
                    return f"is {state.lower().replace('_', ' ') or 'there'}"
                case Unknown(cause=cause):
                    return f"could not be seen ({cause})"
                case _:
                    pass
        if ids:
            return ""
        listing = await self._provider.list("bucket", project)
        named = await still_there(self._provider, (b for b in listing.items if b.name == name))
        if named:
            return "is there"
        return f"could not be seen ({listing.gap.cause})" if listing.gap else ""
