"""Phase agent_iam: the account that a project's agents share, with its keys; only if it is ours and nobody uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.home.credentials import read_credentials
from engine.home.roots import Roots
from engine.home.writers import drop_agent_iam
from engine.ledger.events import Intended
from engine.phases.accounts import (
    ACCOUNT,
    KEY,
    AccountFacts,
    Provider,
    account_refusal,
    found_keys,
    read_account,
    unrecorded,
)
from engine.phases.parts import (
    Order,
    ask,
    blind,
    cannot_see,
    command,
    free,
    going_on,
    look_all,
    no_proof,
    selector,
    standing,
    still_there,
    unproven,
    without_phase,
)
from engine.phases.shape import Cleared, Hand
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part, PhasePlan, Target
from engine.words.presence import Present, Proof, Ref, Resource, Sight
from engine.words.reasons import Reason, Refusal

if TYPE_CHECKING:
    from engine.home.records import Records

ORDER: Order = {KEY: frozenset(), ACCOUNT: frozenset({KEY})}
_RECORD = "credentials.yaml"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the guard read.

    there  the target's parts and the account's keys, as they are now
    users  instances of the project that run as this account, whoever made them
    gap    why the instances could not all be seen, or empty
    """

    target: Target
    there: Mapping[Ref, Present]
    account: AccountFacts = field(default_factory=AccountFacts)
    users: tuple[Resource, ...] = ()
    gap: str = ""


def decide(facts: Facts) -> Cleared[Facts] | Refusal:
    """The account goes when it is proven ours, is the one that was recorded, and neither a VM nor this program uses it."""
    target = facts.target
    if missing := unproven(target, facts.there):
        return no_proof(missing, without_phase(target))
    if gaps := [*facts.account.gaps, *([facts.gap] if facts.gap else ())]:
        return cannot_see("; ".join(gaps), going_on(target))
    if wrong := account_refusal(target, facts.account, without_phase(target)):
        return wrong
    if facts.users:
        named = ", ".join(f"{user.name or 'a VM'} ({user.ref.id})" for user in facts.users)
        return Refusal(
            Reason.IN_USE,
            f"{target.id} is used by {named}",
            command("npa", "destroy", *selector(target), "--all"),
        )
    found = found_keys(target, facts.account)
    return Cleared(facts, touches=unrecorded(found), found=found)


class AgentIam:
    """Built with the roots and the provider. One target is the recorded account; one that only a configuration names is held."""

    name = "agent_iam"

    def __init__(self, roots: Roots, provider: Provider) -> None:
        self._roots = roots
        self._provider = provider

    def plan(self, records: Records) -> PhasePlan:
        recorded = records.agent_account
        targets = [_recorded(records)] if recorded is not None else []
        named = {a.service_account_id: a.field for a in records.agents if a.service_account_id}
        for id in sorted(named.keys() - {recorded.service_account_id if recorded else ""}):
            part = Part(Ref(ACCOUNT, id), "", NOT_PROVEN)
            targets.append(Target(f"agent_iam/{id}", id, (part,), _detail(records, id, "")))
        unread = tuple(str(p) for p in records.problems_of("credentials", "config"))
        return PhasePlan("agent_iam", tuple(targets), unread=unread)

    async def look(self, target: Target) -> Sight:
        return await look_all(self._provider, (part.ref for part in target.parts))

    async def guard(self, target: Target, sight: Sight) -> Cleared[Facts] | Refusal:
        there = standing(sight)
        if unproven(target, there):
            return decide(Facts(target, there))
        account = await read_account(self._provider, target, there)
        users, gap = await self._users(target)
        keys = {key.ref: key.presence for key in account.keys}
        return decide(Facts(target, there | keys, account, users, gap))

    async def act(self, target: Target, cleared: Cleared[Facts], hand: Hand) -> None:
        there = cleared.facts.there
        await ask(hand, self._provider, free(there, ORDER), there)

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        project, gone = target.detail["project_id"], {o.ref.id for o in proof}
        credentials = read_credentials(self._roots)
        recorded = credentials.agent_account(project) if credentials else None
        if recorded is None:
            return
        names = {recorded.service_account_id} - {""} or {*recorded.access_key_ids, *recorded.foreign_key_ids}
        if names <= gone:
            drop_agent_iam(self._roots, project)

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError("nothing is taken away for a while here")

    async def _users(self, target: Target) -> tuple[tuple[Resource, ...], str]:
        id = target.detail.get("account_id", "")
        if not id:
            return (), ""
        listing = await self._provider.list("instance", target.detail["project_id"])
        using = (vm for vm in listing.items if vm.attrs.get("service_account_id") == id)
        gap = blind("instances", listing.gap) if listing.gap else ""
        return await still_there(self._provider, using), gap


def _recorded(records: Records) -> Target:
    """The account of the agents' own journal, or its keys where it names no account."""
    recorded = records.agent_account
    assert recorded is not None
    id = recorded.service_account_id
    keys = f"agent_iam.projects.{records.project_id}.resources.access_keys"
    parts = [
        Part(Ref(KEY, key), "", Ownership(Evidence.SETUP_JOURNAL, _RECORD, f"{keys}.{key}"))
        for key in recorded.access_key_ids
    ]
    if id:
        proof = Ownership(Evidence.SETUP_JOURNAL, _RECORD, recorded.field)
        parts.append(Part(Ref(ACCOUNT, id), recorded.name, proof if recorded.owned else NOT_PROVEN))
    else:
        parts += [Part(Ref(KEY, key), "", NOT_PROVEN) for key in recorded.foreign_key_ids]
    key = id or parts[0].ref.id
    return Target(f"agent_iam/{key}", recorded.name or key, tuple(parts), _detail(records, id, recorded.name))


def _detail(records: Records, account: str, name: str) -> dict[str, str]:
    said = {
        "alias": records.alias,
        "project_id": records.project_id,
        "tenant_id": records.tenant_id,
        "account_id": account,
        "name": name,
        "agent_name": next((a.name for a in records.agents if a.service_account_id == account), ""),
    }
    return {k: v for k, v in said.items() if v}
