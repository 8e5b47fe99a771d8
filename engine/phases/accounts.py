"""A service account with its access keys: what both phases that remove one must have seen before they do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from engine.phases.parts import Deletes, Looks, Reads, blind, read_all, still_there
from engine.words.plans import Evidence, Ownership, Part, Target
from engine.words.presence import Absent, Listing, Observation, Present, Ref, Resource, Unknown
from engine.words.reasons import Reason, Refusal
from engine.words.trouble import Trouble

ACCOUNT, KEY = "service_account", "access_key"


class Identified(Protocol):
    """Who the provider takes us for."""

    @property
    def id(self) -> str: ...


class Provider(Looks, Reads, Deletes, Protocol):
    """What these phases ask of the provider."""

    async def whoami(self) -> Identified: ...

    async def list(self, kind: str, parent: str) -> Listing: ...


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """What was read of a target's account.

    account  None when it is gone, or when no record names one
    keys     every key of the account, and the recorded keys that are there
    caller   the id that this program runs as
    tenant   the tenant in which the provider sees the project; empty while the account is gone
    gaps     what could not be seen, in words
    """

    account: Resource | None = None
    keys: tuple[Resource, ...] = ()
    caller: str = ""
    tenant: str = ""
    gaps: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    """Reads that go side by side, and what they could not see."""

    gaps: list[str] = field(default_factory=list)

    def seen(self, observation: Observation, resource: Resource | None) -> Resource | None:
        if isinstance(observation.presence, Unknown):
            self.gaps.append(blind(observation.ref.id, observation.presence))
        return resource


async def read_account(provider: Provider, target: Target, there: Mapping[Ref, Present]) -> AccountFacts:
    """Read the account that `target.detail["account_id"]` names, its keys by account, and who we are."""
    id, project = target.detail.get("account_id", ""), target.detail["project_id"]
    reading = _Reading()
    caller, account, recorded = await asyncio.gather(
        _caller(provider, reading),
        _account(provider, id, reading),
        read_all(provider, (ref for ref in there if ref.kind == KEY)),
    )
    known, unseen = recorded
    for observation in unseen:
        reading.seen(observation, None)
    keys, tenant = dict(known), ""
    if account is not None:
        listing = await provider.list(KEY, id)
        if listing.gap:
            reading.gaps.append(blind(f"keys of {id}", listing.gap))
        # A key that was never recorded is told from one that is just gone by its own id.
        for key in await still_there(provider, (k for k in listing.items if k.ref not in known)):
            keys[key.ref] = key
        where = Ref("project", project)
        observation, found = await provider.get(where)
        reading.seen(observation, found)
        if isinstance(observation.presence, Absent):
            reading.gaps.append(f"{project}: not found, although {id} is there")
        tenant = found.parent if found else ""
    return AccountFacts(account, tuple(keys.values()), caller, tenant, tuple(reading.gaps))


async def _caller(provider: Provider, reading: _Reading) -> str:
    try:
        return (await provider.whoami()).id
    except Trouble as trouble:
        reading.gaps.append(blind("who this program runs as", trouble.unknown))
        return ""


async def _account(provider: Provider, id: str, reading: _Reading) -> Resource | None:
    return reading.seen(*await provider.get(Ref(ACCOUNT, id))) if id else None


def account_refusal(target: Target, facts: AccountFacts, next_command: str) -> Refusal | None:
    """Why the account or one of its keys is not what the records say, or None."""
    detail = target.detail
    owner = detail.get("account_id", "")
    wrong = ""
    if facts.caller and facts.caller == owner:
        wrong = f"this program runs as {owner}: it would take its own access away"
    elif facts.account is not None:
        wrong = _differs(facts.account, detail, facts.tenant)
    if not wrong:
        strangers = (k for k in facts.keys if owner and k.attrs.get("account_id") != owner)
        if stranger := next(strangers, None):
            whose = stranger.attrs.get("account_id") or "nobody that the provider names"
            wrong = f"key {stranger.ref.id} belongs to {whose}, not to {owner}"
    if not wrong:
        project = detail["project_id"]
        if elsewhere := next((k for k in facts.keys if k.parent != project), None):
            wrong = f"key {elsewhere.ref.id} lies in {elsewhere.parent}, not in {project}"
    return Refusal(Reason.WRONG_IDENTITY, wrong, next_command) if wrong else None


def _differs(account: Resource, detail: Mapping[str, str], tenant: str) -> str:
    project = detail["project_id"]
    if detail.get("name") and account.name != detail["name"]:
        return f"{account.ref.id} is called {account.name!r}, and was recorded as {detail['name']!r}"
    if account.parent != project:
        return f"{account.ref.id} lies in {account.parent}, not in {project}"
    if detail.get("tenant_id") and tenant and tenant != detail["tenant_id"]:
        return f"{project} lies in {tenant}, not in {detail['tenant_id']}"
    return ""


def found_keys(target: Target, facts: AccountFacts) -> tuple[Part, ...]:
    """Keys of the account that no record names: they go with it."""
    known = {part.ref for part in target.parts}
    part_of = Ownership(Evidence.PART_OF, target.detail.get("account_id", ""), "spec.account")
    return tuple(Part(key.ref, key.name, part_of) for key in facts.keys if key.ref not in known)


def unrecorded(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """How a dialog tells of keys that no record names."""
    return tuple(
        f"! key {p.name or p.ref.id} ({p.ref.id}) is in no record and goes with its account" for p in parts
    )
