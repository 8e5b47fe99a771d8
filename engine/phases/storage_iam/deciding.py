"""Whether a storage account may go: pure, from what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.phases.accounts import AccountFacts, account_refusal, found_keys, unrecorded
from engine.phases.parts import cannot_see, command, going_on, no_proof, selector, unproven
from engine.phases.shape import Cleared
from engine.phases.storage_iam.planning import GROUP
from engine.words.plans import Evidence, Ownership, Part, Target
from engine.words.presence import Present, Ref, Resource
from engine.words.reasons import Reason, Refusal


@dataclass(frozen=True, slots=True)
class SavedBucket:
    """A bucket whose keys are still saved, and why it does not count as gone."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What the guard read.

    there        the planned parts, as they are now
    groups       the recorded groups that are there, ours or not
    permits      every permit of our groups
    memberships  every membership of the recorded groups
    siblings     other storage accounts that are proven ours: their memberships go with their own targets
    departed     members of our groups that do not exist any more
    buckets      buckets that the saved keys may still be needed for
    gaps         what could not be seen, in words
    """

    target: Target
    there: Mapping[Ref, Present]
    account: AccountFacts = field(default_factory=AccountFacts)
    groups: tuple[Resource, ...] = ()
    permits: tuple[Resource, ...] = ()
    memberships: tuple[Resource, ...] = ()
    siblings: frozenset[str] = frozenset()
    departed: frozenset[str] = frozenset()
    buckets: tuple[SavedBucket, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def own_groups(self) -> frozenset[str]:
        """Groups that go with this target."""
        return frozenset(part.ref.id for part in self.target.parts if part.ref.kind == GROUP)

    @property
    def bound(self) -> tuple[Resource, ...]:
        """Permits of our groups, and the memberships that go: the account's own everywhere, departed ones in our groups."""
        account, own = self.target.detail.get("account_id", ""), self.own_groups
        permits = (p for p in self.permits if p.parent in own)
        members = (
            m
            for m in self.memberships
            if (account and m.attrs.get("member_id") == account)
            or (m.parent in own and m.attrs.get("member_id") in self.departed)
        )
        return (*permits, *members)

    @property
    def live(self) -> Mapping[Ref, Present]:
        """Everything that goes, as it is now: planned or found."""
        return {**self.there, **{r.ref: r.presence for r in (*self.account.keys, *self.bound)}}

    @property
    def waits_for_siblings(self) -> bool:
        """Whether another account of ours is still a member: the group goes when that one left."""
        return any(
            m.parent in self.own_groups and m.attrs.get("member_id") in self.siblings
            for m in self.memberships
        )


def decide(facts: Facts) -> Cleared[Facts] | Refusal:
    """The account goes, with what was made for it, when every id of it is proven, is what was recorded, and serves nobody else."""
    target = facts.target
    if missing := unproven(target, facts.there):
        return no_proof(missing, _reconcile(target))
    if gaps := (*facts.account.gaps, *facts.gaps):
        return cannot_see("; ".join(gaps), going_on(target))
    if wrong := account_refusal(target, facts.account, going_on(target)) or _wrong_group(facts):
        return wrong
    if facts.buckets:
        named = ", ".join(f"{b.name} {b.why}" for b in facts.buckets)
        return Refusal(
            Reason.EVIDENCE_NEEDED,
            f"the bucket goes first, the saved keys of this account may be needed for it: {named}",
            command("npa", "storage", "bucket", "delete", *selector(target), "--yes", "--wait"),
        )
    if others := _others(facts):
        return Refusal(
            Reason.IN_USE,
            f"still used by others: {', '.join(others)}",
            going_on(target),
        )
    keys, bound = found_keys(target, facts.account), _found(facts)
    touches = (*unrecorded(keys), *(f"{p.ref.kind.replace('_', ' ')} {p.ref.id} goes with it" for p in bound))
    return Cleared(facts, touches=touches, found=(*keys, *bound))


def _reconcile(target: Target) -> str:
    return command(
        "npa", "storage", "service-account", "reconcile", *selector(target), "--id", target.id, "--dry-run"
    )


def _wrong_group(facts: Facts) -> Refusal | None:
    """A group or permit that is not what the records say."""
    target, detail, wrong = facts.target, facts.target.detail, ""
    homes = {detail["project_id"], detail.get("tenant_id", ""), facts.account.tenant} - {""}
    for group in facts.groups:
        recorded = next((p.name for p in target.parts if p.ref == group.ref), "")
        if recorded and group.name != recorded:
            wrong = wrong or f"{group.ref.id} is called {group.name!r}, and was recorded as {recorded!r}"
        if group.ref.id in facts.own_groups and group.parent not in homes:
            wrong = wrong or f"{group.ref.id} lies in {group.parent}, in neither project nor tenant"
    recorded_groups = {*detail.get("groups", "").split(), *facts.own_groups}
    for permit in facts.permits:
        if permit.parent not in recorded_groups:
            wrong = (
                wrong
                or f"permit {permit.ref.id} is of {permit.parent or 'an unnamed group'}, which no record names"
            )
    return Refusal(Reason.WRONG_IDENTITY, wrong, going_on(target)) if wrong else None


def _others(facts: Facts) -> tuple[str, ...]:
    """Members of our own groups that are neither this account, nor another one of ours, nor gone."""
    ours = {facts.target.detail.get("account_id", ""), *facts.siblings, *facts.departed}
    return tuple(
        f"{m.attrs.get('member_id') or 'an unnamed member'} in {m.parent}"
        for m in facts.memberships
        if m.parent in facts.own_groups and m.attrs.get("member_id", "") not in ours
    )


def _found(facts: Facts) -> tuple[Part, ...]:
    """What goes and no record names, with what it belongs to."""
    known = {part.ref for part in facts.target.parts}
    return tuple(
        Part(r.ref, r.name, Ownership(Evidence.PART_OF, r.attrs.get("member_id") or r.parent, r.ref.kind))
        for r in facts.bound
        if r.ref not in known
    )
