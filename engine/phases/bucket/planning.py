"""From records to targets: one for each bucket that the project's records name, by id where one has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.home.storage_keys import bucket_name
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part, PhasePlan, Target
from engine.words.presence import Ref

if TYPE_CHECKING:
    from engine.home.records import Records

BUCKET = "bucket"
NAME = "bucket_name"
"""Kind of a bucket that is known by its name alone: found by listing, and never ours."""

_CREATED = "storage-provider-create-callback"
"""Where an operation says that it noted the provider's answer to its create call. A probe that could write proves no creation."""


@dataclass(frozen=True, slots=True)
class _Named:
    """One record of a bucket. `foreign`: it says that the bucket was there before."""

    name: str
    id: str = ""
    owned: Ownership = NOT_PROVEN
    foreign: bool = False


def plan_bucket(records: Records) -> PhasePlan:
    """Buckets with an id first; a name that none of them has is a target of its own."""
    named = list(_named(records))
    targets = [_by_id(records, id, named) for id in sorted({n.id for n in named if n.id})]
    known = {n.name for n in named if n.id}
    names = sorted({n.name for n in named} - known)
    if not named:
        # Only history names one: an alias that was forgotten, or records that were lost.
        names = sorted({b.name for b in records.buckets})
    for name in names:
        part = Part(Ref(NAME, name), name, NOT_PROVEN)
        targets.append(Target(f"bucket/{name}", name, (part,), _detail(records, name)))
    unread = tuple(str(p) for p in records.problems_of("config", "credentials", "operations"))
    return PhasePlan("bucket", tuple(targets), unread=unread)


def adopted(target: Target, bucket_id: str, where: str) -> Target:
    """A bucket that a person vouches for by name, under its id at the provider; `where` is where that was said."""
    owned = Ownership(Evidence.ATTESTATION, where, target.name)
    part = Part(Ref(BUCKET, bucket_id), target.name, owned)
    return replace(target, key=f"bucket/{bucket_id}", parts=(part,))


def _named(records: Records) -> Iterator[_Named]:
    """What live records say, strongest first. Backends in journals and receipts are history and prove nothing."""
    if setup := records.setup:
        for row in setup.of_kind("bucket"):
            proof = Ownership(Evidence.SETUP_JOURNAL, "credentials.yaml", row.field)
            foreign = row.created_by not in ("", "npa")
            name = bucket_name(row.name or setup.bucket_name)
            yield _Named(name, row.id, proof if row.owned else NOT_PROVEN, foreign)
    for journal in records.journals:
        for made in journal.resources:
            if made.resource_type != "storage_bucket" or made.project_id not in ("", records.project_id):
                continue
            created = made.created and made.ownership_source == _CREATED
            proof = Ownership(Evidence.CREATE_RESPONSE, journal.record, made.field)
            foreign = bool(made.ownership) and not made.created
            name = bucket_name(made.requested_name)
            if name and (made.provider_id or foreign):
                yield _Named(name, made.provider_id, proof if created else NOT_PROVEN, foreign)
    for keys in records.storage:
        if keys.bucket:
            yield _Named(keys.bucket)


def _by_id(records: Records, id: str, named: Iterable[_Named]) -> Target:
    rows = [n for n in named if n.id == id]
    name = next((n.name for n in rows if n.name), id)
    owned = next((n.owned for n in rows if n.owned), NOT_PROVEN)
    if any(n.foreign for n in rows):
        owned = NOT_PROVEN  # one record says that it was there before: no other one can make it ours
    return Target(f"bucket/{id}", name, (Part(Ref(BUCKET, id), name, owned),), _detail(records, name))


def _detail(records: Records, name: str) -> dict[str, str]:
    said = {"alias": records.alias, "project_id": records.project_id, "bucket": name}
    return {k: v for k, v in said.items() if v}
