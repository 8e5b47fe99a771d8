"""From records to targets: one for each storage account that anything names, with what goes with it.

An account is ours when one record of its creation says so; others that are only named are shown and held. A group goes with the account
that uses it now: two accounts of one project may share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.home.iam_records import SetupRecord
from engine.home.marker import is_access_key_id
from engine.home.storage_proofs import Source, StorageCandidate
from engine.phases.accounts import ACCOUNT, KEY
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part, PhasePlan, Target
from engine.words.presence import Ref

if TYPE_CHECKING:
    from engine.home.records import Records

GROUP, PERMIT, MEMBERSHIP = "group", "access_permit", "group_membership"
_CREDENTIALS = "credentials.yaml"
_SETUP_KINDS = {"iam_group": GROUP, "iam_permit": PERMIT, "access_key": KEY}


@dataclass(slots=True)
class _Account:
    """One account while records are put together. `groups`: every recorded group of it, ours or not."""

    id: str
    name: str = ""
    owned: Ownership = NOT_PROVEN
    parts: dict[Ref, Part] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)

    def add(self, ref: Ref, name: str, owned: Ownership) -> None:
        """Keep a part; the first proof of it stands."""
        known = self.parts.get(ref)
        if known is None or (owned and not known.owned):
            self.parts[ref] = Part(ref, name or (known.name if known else ""), owned)


def plan_storage_iam(records: Records) -> PhasePlan:
    """Every account that a record of this project names."""
    accounts: dict[str, _Account] = {}
    for candidate in records.storage_candidates:
        _take(
            accounts.setdefault(candidate.service_account_id, _Account(candidate.service_account_id)),
            candidate,
        )
    orphans = _Account("")
    if records.setup:
        _take_setup(accounts, orphans, records.setup)
    _take_markers(accounts, records)
    _one_holder(accounts.values(), _active(records))
    targets = [_target(records, account) for account in accounts.values()]
    targets += [_target(records, orphans)] if orphans.parts else []
    unread = tuple(str(p) for p in records.problems_of("credentials", "operations"))
    return PhasePlan("storage_iam", tuple(targets), unread=unread)


def _take(account: _Account, candidate: StorageCandidate) -> None:
    account.name = account.name or candidate.service_account_name
    proof = _proof(candidate)
    if proof and not account.owned:
        account.owned, account.name = proof, candidate.service_account_name
    for key in candidate.access_key_ids:
        if is_access_key_id(key):
            account.add(Ref(KEY, key), "", _below(proof, "access_key_ids"))
    binding = candidate.binding
    if binding is None or not candidate.owned:
        return
    if binding.group_id:
        account.groups[binding.group_id] = binding.group_name
        if binding.group_owned:
            account.add(Ref(GROUP, binding.group_id), binding.group_name, _below(proof, "binding.group_id"))
    if binding.access_permit_id and binding.access_permit_owned:
        account.add(Ref(PERMIT, binding.access_permit_id), "", _below(proof, "binding.access_permit_id"))


def _proof(candidate: StorageCandidate) -> Ownership:
    if not candidate.owned:
        return NOT_PROVEN
    evidence = Evidence.CREATE_RESPONSE
    if candidate.attested:
        evidence = Evidence.ATTESTATION
    elif candidate.source is Source.SETUP:
        evidence = Evidence.SETUP_JOURNAL
    return Ownership(evidence, candidate.record, candidate.field)


def _below(proof: Ownership, name: str) -> Ownership:
    return Ownership(proof.evidence, proof.record, f"{proof.field}.{name}") if proof else NOT_PROVEN


def _take_setup(accounts: dict[str, _Account], orphans: _Account, setup: SetupRecord) -> None:
    """What the setup journal says it created. What is left there of an account that is gone is evidence as well."""
    holder = next((accounts[a.id] for a in setup.of_kind("service_account") if a.id in accounts), orphans)
    for row in setup.resources:
        kind = _SETUP_KINDS.get(row.kind)
        if kind is None or not row.owned:
            continue
        proof = Ownership(Evidence.SETUP_JOURNAL, _CREDENTIALS, row.field)
        account = accounts.get(row.service_account_id, orphans) if kind == KEY else holder
        ref = Ref(kind, row.id)
        held = next((a for a in accounts.values() if ref in a.parts), account)
        held.add(ref, row.name, proof)
        if kind == GROUP:
            held.groups.setdefault(row.id, row.name)


def _take_markers(accounts: dict[str, _Account], records: Records) -> None:
    """Accounts and keys that only a marker names: it stands until they, too, are proven absent."""
    for marker in records.markers:
        if marker.project_id not in ("", records.project_id):
            continue
        for id in marker.account_ids:
            account = accounts.setdefault(id, _Account(id, marker.service_account_name))
            if id != marker.service_account_id:
                continue
            known = {ref for a in accounts.values() for ref in a.parts}
            for key in marker.access_key_ids:
                if is_access_key_id(key) and Ref(KEY, key) not in known:
                    account.add(Ref(KEY, key), "", NOT_PROVEN)


def _active(records: Records) -> str:
    credentials = records.credentials
    record = credentials.project(records.project_id) if credentials else None
    return record.active_account_id if record else ""


def _one_holder(accounts: Iterable[_Account], active: str) -> None:
    """A group or permit that several accounts name goes with one of them: the one in use, else the last."""
    rows = list(accounts)
    shared = {ref for account in rows for ref in account.parts if ref.kind in (GROUP, PERMIT)}
    for ref in shared:
        holders = [account for account in rows if ref in account.parts]
        keeps = next((a for a in holders if a.id == active), holders[-1])
        for account in holders:
            if account is not keeps:
                del account.parts[ref]


def _target(records: Records, account: _Account) -> Target:
    parts = tuple(_ordered(account))
    id = account.id or parts[-1].ref.id
    said = {
        "alias": records.alias,
        "project_id": records.project_id,
        "tenant_id": records.tenant_id,
        "account_id": account.id,
        "name": account.name,
        "groups": " ".join(sorted(account.groups)),
    }
    return Target(
        f"storage_iam/{id}", account.name or id, parts, {name: value for name, value in said.items() if value}
    )


def _ordered(account: _Account) -> Iterator[Part]:
    """Keys, permits, groups, the account: the order in which they go.

    A key that is only named goes with an account that is proven: the guard checks that it is this account's.
    """
    with_account = Ownership(Evidence.PART_OF, account.id, "spec.account")
    for kind in (KEY, PERMIT, GROUP):
        for ref in sorted(ref for ref in account.parts if ref.kind == kind):
            part = account.parts[ref]
            if kind == KEY and account.owned and not part.owned:
                part = Part(ref, part.name, with_account)
            yield part
    if account.id:
        yield Part(Ref(ACCOUNT, account.id), account.name, account.owned)
