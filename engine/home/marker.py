"""The storage access marker of a project's stanza: the CLI's note that cloud access may be left behind.

Any non-empty marker blocks forgetting the project. Its `status` has a rank that is never lowered, and it goes only when everything
that it or another record names is verified absent: clearing it for one of two accounts would hide the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.home.documents import Document
from engine.home.fields import Fields

KEY = "storage_iam_verification_required"
SCHEMA = "npa.storage-iam-residue.v2"
SCHEMA_V1 = "npa.storage-iam-residue.v1"

RANK = {
    "verification_failed": 0,
    "present_unverified_ownership": 1,
    "present_owned": 2,
    "reconciled_pending_delete": 3,
}
_ENDED = {
    "verified_absent": "verified-deleted",
    "verified_deleted": "verified-deleted",
    "pre_existing": "pre-existing",
}
_OWNERSHIP_RANK = {"": 0, "unverified": 0, "npa-recovery-attested": 1, "npa": 2}
_LISTS = ("candidate_service_account_ids", "access_key_ids")


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker as read, a version 1 or unversioned one brought to version 2. `field` is where it stands in the configuration."""

    field: str
    status: str
    ownership: str
    ownership_state: str
    project_id: str = ""
    tenant_id: str = ""
    profile: str = ""
    service_account_id: str = ""
    service_account_name: str = ""
    candidate_service_account_ids: tuple[str, ...] = ()
    access_key_ids: tuple[str, ...] = ()
    bucket_name: str = ""
    bucket_cleanup_state: str = ""
    creation_outcome: str = ""
    creation_phase: str = ""
    creation_attempt_id: str = ""
    receipt_id: str = ""
    detail: str = ""
    updated_at: str = ""

    @property
    def account_ids(self) -> tuple[str, ...]:
        """Every service account that the marker names."""
        return tuple(sorted({i for i in (self.service_account_id, *self.candidate_service_account_ids) if i}))

    @property
    def named(self) -> frozenset[str]:
        """Every id whose absence must be proven before the marker may go. Public parts of storage keys are no ids of things."""
        return frozenset(self.account_ids) | {k for k in self.access_key_ids if is_access_key_id(k)}


def is_access_key_id(text: str) -> bool:
    """Whether this names an access key of the provider; the list also holds the public part of the bucket's own credentials."""
    return text.startswith("accesskey-")


def read_marker(stanza: Fields) -> Marker | None:
    """The marker of a project's stanza; None when there is none or it is empty. Raises `RecordError`."""
    found = stanza.child(KEY)
    if not found:
        return None
    found.schema("schema_version", SCHEMA, SCHEMA_V1, None, "")
    status = found.text("status")
    ownership = found.text("ownership")
    return Marker(
        field=found.where,
        status=status,
        ownership=ownership,
        ownership_state=found.text("ownership_state") or _state_of(status, ownership),
        project_id=found.text("project_id"),
        tenant_id=found.text("tenant_id"),
        profile=found.text("profile"),
        service_account_id=found.text("service_account_id"),
        service_account_name=found.text("service_account_name"),
        candidate_service_account_ids=tuple(sorted(set(found.texts("candidate_service_account_ids")))),
        access_key_ids=tuple(sorted(set(found.texts("access_key_ids")))),
        bucket_name=found.text("bucket_name"),
        bucket_cleanup_state=found.text("bucket_cleanup_state"),
        creation_outcome=found.text("creation_outcome"),
        creation_phase=found.text("creation_phase"),
        creation_attempt_id=found.text("creation_attempt_id"),
        receipt_id=found.text("receipt_id"),
        detail=found.text("detail"),
        updated_at=found.text("updated_at"),
    )


def _state_of(status: str, ownership: str) -> str:
    if status in _ENDED:
        return _ENDED[status]
    if ownership in ("npa", "npa-recovery-attested") or RANK.get(status, 0) >= RANK["present_owned"]:
        return "owned"
    return "pending-verification" if status == "present_unverified_ownership" else "unknown"


def merged_marker(old: Mapping[str, object], new: Mapping[str, object]) -> Document:
    """An observation merged into a marker, in version 2.

    Only non-empty values overwrite, lists are joined, nothing is deleted; neither the rank of `status` nor that of `ownership` falls,
    and with a higher ownership kept, the state derived from it is kept as well.
    """
    into: Document = {**old}
    into["schema_version"] = SCHEMA
    for name, value in new.items():
        if name == "schema_version" or value in (None, "", [], (), {}):
            continue
        if name in _LISTS:
            into[name] = sorted({*_texts(old.get(name)), *_texts(value)})
        elif name == "status":
            if RANK.get(str(value), -1) >= RANK.get(str(old.get(name, "")), -1):
                into[name] = value
        elif name == "ownership":
            if _ownership_rank(value) >= _ownership_rank(old.get(name)):
                into[name] = value
        elif name != "ownership_state":
            into[name] = value
    given = _text(new.get("ownership_state"))
    if _ownership_rank(into.get("ownership")) > 0:
        into["ownership_state"] = given if given == "verified-deleted" else "owned"
    else:
        had = _text(old.get("ownership_state"))
        into["ownership_state"] = given or had or _state_of(_text(into.get("status")), "")
    return into


def reduced_marker(
    old: Mapping[str, object], gone: Collection[str], still_owned: Collection[str]
) -> Document:
    """What is left of a marker when `gone` is proven absent; empty when nothing is.

    still_owned   ids that other records still claim: as long as one is not gone, the marker stays
    """
    accounts = [
        i for i in dict.fromkeys((_text(old.get("service_account_id")), *_texts(old.get(_LISTS[0])))) if i
    ]
    keys = [k for k in _texts(old.get("access_key_ids")) if is_access_key_id(k)]
    left = [i for i in (*accounts, *keys, *still_owned) if i not in gone]
    # A marker that names nothing cannot be settled by proofs about ids that it does not name.
    if not left and (accounts or keys or still_owned):
        return {}
    into: Document = {**old}
    remaining = [i for i in accounts if i not in gone]
    if remaining and _text(old.get("service_account_id")) in gone:
        into["service_account_id"] = remaining[0]
    for name in _LISTS:
        if name in old:
            into[name] = [i for i in _texts(old.get(name)) if i not in gone]
    return into


def _ownership_rank(value: object) -> int:
    return _OWNERSHIP_RANK.get(_text(value), 0)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list | tuple) else []
