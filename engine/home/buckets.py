"""Which buckets a project's records name, and which other projects' records name the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.home.config import Config
from engine.home.credentials import Credentials
from engine.home.operations import Journal
from engine.home.receipts import Receipt
from engine.home.storage_keys import StorageKeys, bucket_name


@dataclass(frozen=True, slots=True)
class BucketRecord:
    """One record that names a bucket of a project.

    bucket_id   the provider's id, where the record has it
    owned       the record says that the CLI created it
    keys        what opens it, where the record has it
    """

    name: str
    record: str
    field: str
    project_id: str
    bucket_id: str = ""
    owned: bool = False
    endpoint: str = ""
    region: str = ""
    keys: StorageKeys | None = None


def buckets_named(
    config: Config | None,
    credentials: Credentials | None,
    journals: Iterable[Journal],
    receipts: Iterable[Receipt],
) -> tuple[BucketRecord, ...]:
    """Every record of every project that names a bucket, strongest first: configuration, store, setup, operations, receipts."""
    found: list[BucketRecord] = []
    if config is not None:
        found += _from_config(config)
    if credentials is not None:
        found += _from_credentials(credentials)
    for journal in journals:
        found += _from_journal(journal)
    for receipt in receipts:
        found += _from_receipt(receipt)
    return tuple(found)


def claimed_by_others(
    records: Iterable[BucketRecord], project_id: str
) -> dict[str, tuple[BucketRecord, ...]]:
    """For each bucket of this project that a record of another project names as well: those records."""
    rows = tuple(records)
    mine = {row.name for row in rows if row.project_id == project_id}
    found = {
        name: tuple(r for r in rows if r.name == name and r.project_id not in ("", project_id))
        for name in sorted(mine)
    }
    return {name: others for name, others in found.items() if others}


def _from_config(config: Config) -> Iterator[BucketRecord]:
    for stanza in config.projects:
        for keys in stanza.buckets:
            # A stanza without an id may be any project: it counts as another one, so that its bucket is not taken for ours.
            yield _of_keys(keys, config.path.name, stanza.project_id or f"alias:{stanza.alias}")


def _from_credentials(credentials: Credentials) -> Iterator[BucketRecord]:
    name = credentials.path.name
    for record in credentials.projects:
        for keys in (record.storage, record.terraform_state):
            if keys and keys.bucket:
                yield _of_keys(keys, name, record.project_id)
    if credentials.legacy_owner:
        for keys in credentials.views:
            if keys.bucket:
                yield _of_keys(keys, name, credentials.legacy_owner)
    for setup in credentials.setups:
        for row in setup.of_kind("bucket"):
            bucket = bucket_name(row.name or setup.bucket_name)
            if bucket:
                yield BucketRecord(bucket, name, row.field, setup.project_id, row.id, row.owned)


def _of_keys(keys: StorageKeys, record: str, project_id: str) -> BucketRecord:
    return BucketRecord(
        keys.bucket, record, keys.field, project_id, endpoint=keys.endpoint, region=keys.region, keys=keys
    )


def _from_journal(journal: Journal) -> Iterator[BucketRecord]:
    for row in journal.resources:
        if row.resource_type == "storage_bucket" and row.requested_name:
            yield BucketRecord(
                bucket_name(row.requested_name),
                journal.record,
                row.field,
                row.project_id or journal.project_id,
                row.provider_id,
                row.created,
                journal.backend.get("endpoint", ""),
                journal.backend.get("region", ""),
            )
    if bucket := bucket_name(journal.backend.get("bucket", "")):
        yield BucketRecord(
            bucket,
            journal.record,
            "backend.bucket",
            journal.project_id,
            endpoint=journal.backend.get("endpoint", ""),
            region=journal.backend.get("region", ""),
        )


def _from_receipt(receipt: Receipt) -> Iterator[BucketRecord]:
    for number, row in enumerate(receipt.identities("terraform_backends")):
        name, endpoint = row.get("bucket"), row.get("endpoint")
        if isinstance(name, str) and name and receipt.project_id:
            yield BucketRecord(
                bucket_name(name),
                f"teardown-receipts/{receipt.path.name}",
                f"identity.terraform_backends[{number}]",
                receipt.project_id,
                endpoint=endpoint if isinstance(endpoint, str) else "",
            )
