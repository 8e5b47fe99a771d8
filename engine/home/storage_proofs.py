"""Who says that a storage account is the CLI's: every candidate, with the record and the field that it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from engine.home.credentials import Credentials
from engine.home.iam_records import ATTESTED, NPA, Account, Binding, SetupRecord
from engine.home.operations import Journal
from engine.home.receipts import Receipt


class Source(StrEnum):
    """Where a candidate stands, strongest first."""

    STORE = "project_credentials"
    TOP_LEVEL = "storage_iam"
    LEGACY = "nebius"
    SETUP = "storage_setup"
    OPERATION = "operation"
    RECEIPT = "receipt"


@dataclass(frozen=True, slots=True)
class StorageCandidate:
    """One record that names a storage account. `owned`: it proves that the account is the CLI's; else it is evidence only.

    record, field   where it stands: a file name and the dotted name in it
    """

    source: Source
    record: str
    field: str
    service_account_id: str
    service_account_name: str
    project_id: str
    owned: bool
    attested: bool = False
    access_key_ids: tuple[str, ...] = ()
    binding: Binding | None = None


def storage_candidates(
    credentials: Credentials | None,
    journals: Iterable[Journal],
    receipts: Iterable[Receipt],
    project_id: str,
) -> tuple[StorageCandidate, ...]:
    """Every candidate of one project, strongest source first. The same account may be named by several."""
    found: list[StorageCandidate] = []
    if credentials is not None:
        found += _from_credentials(credentials, project_id)
    for journal in journals:
        found += _from_journal(journal, project_id)
    for receipt in receipts:
        if receipt.project_id == project_id:
            found += _from_receipt(receipt)
    return tuple(found)


def _from_credentials(credentials: Credentials, project_id: str) -> Iterator[StorageCandidate]:
    name = credentials.path.name
    if record := credentials.project(project_id):
        for account in record.generations:
            if account.project_id in ("", project_id):
                yield _of_account(Source.STORE, name, account, project_id)
    for source, top in (
        (Source.TOP_LEVEL, credentials.top_account),
        (Source.LEGACY, credentials.nebius_account),
    ):
        if top and top.project_id == project_id:
            yield _of_account(source, name, top, project_id)
    if setup := credentials.setup(project_id):
        yield from _from_setup(setup, name)


def _of_account(source: Source, record: str, account: Account, project_id: str) -> StorageCandidate:
    return StorageCandidate(
        source,
        record,
        account.field,
        account.service_account_id,
        account.service_account_name,
        project_id,
        account.owned,
        account.managed_by == ATTESTED,
        account.access_key_ids,
        account.binding,
    )


def _from_setup(setup: SetupRecord, record: str) -> Iterator[StorageCandidate]:
    groups, permits = setup.of_kind("iam_group"), setup.of_kind("iam_permit")
    for account in setup.of_kind("service_account"):
        binding = Binding(
            group_id=groups[0].id if groups else "",
            group_name=groups[0].name if groups else "",
            access_permit_id=permits[0].id if permits else "",
            group_owned=bool(groups) and groups[0].owned,
            access_permit_owned=bool(permits) and permits[0].owned,
        )
        yield StorageCandidate(
            Source.SETUP,
            record,
            account.field,
            account.id,
            account.name,
            setup.project_id,
            account.owned and bool(account.name),
            access_key_ids=tuple(
                key.id for key in setup.of_kind("access_key") if key.service_account_id == account.id
            ),
            binding=binding if groups or permits else None,
        )


def _from_journal(journal: Journal, project_id: str) -> Iterator[StorageCandidate]:
    """The create responses that the storage setup's operation noted."""
    for row in journal.resources:
        if (
            row.resource_type == "storage_service_account"
            and row.provider_id
            and row.project_id == project_id
        ):
            yield StorageCandidate(
                Source.OPERATION,
                journal.record,
                row.field,
                row.provider_id,
                row.requested_name,
                project_id,
                row.created and row.ownership_source == "storage-provider-create-callback",
            )


def _from_receipt(receipt: Receipt) -> Iterator[StorageCandidate]:
    access = receipt.identity.get("storage_iam")
    if not isinstance(access, Mapping):
        return
    generations = access.get("generations")
    rows = [("identity.storage_iam", access)]
    if isinstance(generations, list):
        rows += [
            (f"identity.storage_iam.generations[{n}]", row)
            for n, row in enumerate(generations)
            if isinstance(row, Mapping)
        ]
    seen: set[str] = set()
    # The generations say more than the flat part, which repeats one of them.
    for field, row in reversed(rows):
        account_id, name, keys = (
            row.get("service_account_id"),
            row.get("service_account_name"),
            row.get("iam_key_ids"),
        )
        if not isinstance(account_id, str) or not account_id or account_id in seen:
            continue
        seen.add(account_id)
        name = name if isinstance(name, str) else ""
        yield StorageCandidate(
            Source.RECEIPT,
            f"teardown-receipts/{receipt.path.name}",
            field,
            account_id,
            name,
            receipt.project_id,
            row.get("ownership") == NPA and bool(name),
            access_key_ids=tuple(k for k in keys if isinstance(k, str)) if isinstance(keys, list) else (),
        )


def owned_ids(candidates: Iterable[StorageCandidate], setup: SetupRecord | None) -> frozenset[str]:
    """Every id that proven records say is the CLI's: accounts, their keys, their permits and groups.

    The setup journal names each of them by itself: a group stays there after its account is gone.
    """
    found: set[str] = set()
    for candidate in candidates:
        if candidate.owned:
            found |= {candidate.service_account_id, *candidate.access_key_ids}
        if candidate.binding:
            found |= set(candidate.binding.owned_ids)
    if setup:
        found |= {row.id for row in setup.resources if row.owned and row.kind != "bucket"}
    return frozenset(found)
