"""Changes to `credentials.yaml`, as pure functions from a document to a document, or to None when nothing is left in it.

The compatibility sections repeat the current project's record of the store, and the CLI makes them anew from it: a secret that stays
in the store comes back. So every change is made in the store first, and the sections follow from it.
They are applied by `engine.home.writers`, under the file's lock. Each may change its argument.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from engine.home.credentials import parse_credentials
from engine.home.documents import Document
from engine.home.errors import Kind
from engine.home.iam_records import PROOF_FIELDS
from engine.home.sections import bucket_of, drop_empty, section, strip_storage
from engine.home.storage_keys import VIEW_NAMES, bucket_name
from engine.home.tokens import GROUPS

_PATH = Path("credentials.yaml")
_STORE = "project_credentials"
_LABELS = frozenset({"project_id", "aliases", "updated_at", "migrated_from"})
"""Fields of a project's record that say nothing once all others are gone."""


def _section(document: Document, *names: str) -> Document | None:
    return section(document, *names, path=_PATH, kind=Kind.CREDENTIALS)


def prune_storage(document: Document, project_id: str, bucket: str) -> Document | None:
    """Remove what opens a bucket that is gone, in every place: store, setup journal, compatibility sections under all names."""
    record = _section(document, _STORE, "projects", project_id)
    if record is not None:
        for name in ("storage", "terraform_state"):
            block = _section(document, _STORE, "projects", project_id, name)
            if block is not None and bucket_of(block) in ("", bucket):
                strip_storage(record, name)
    created = _section(document, "storage_setup", "projects", project_id, "resources")
    noted = _section(document, "storage_setup", "projects", project_id, "resources", "bucket")
    if created is not None and noted is not None and bucket_name(str(noted.get("name") or "")) == bucket:
        del created["bucket"]
        _drop_finished_setup(document, project_id)
    current = _is_current(document, project_id)
    for name in VIEW_NAMES:
        block = _section(document, name)
        if block is not None and (bucket_of(block) == bucket or (current and not bucket_of(block))):
            strip_storage(document, name)
    _drop_hollow_record(document, project_id)
    return document or None


def drop_storage_generation(
    document: Document, project_id: str, account_id: str, gone: Collection[str]
) -> Document | None:
    """Remove a storage account that is gone from every place that names it.

    gone   ids that are proven absent: the account, its keys, and of permit and group those that went
    A generation stays as long as it is the only record of a key, permit or group of it that is not among them.
    """
    absent = {account_id, *gone}
    _drop_from_setup(document, project_id, absent)
    access = _section(document, _STORE, "projects", project_id, "storage_iam")
    if access is not None:
        _drop_generation(document, project_id, access, account_id, absent)
    for name in ("storage_iam", "nebius"):
        top = _section(document, name)
        if (
            top is not None
            and top.get("service_account_id") == account_id
            and top.get("service_account_project_id", project_id) in ("", None, project_id)
        ):
            for field in (*PROOF_FIELDS, "active_service_account_id", "recovery", "access_key_ids"):
                top.pop(field, None)
            drop_empty(document, name)
    if _is_current(document, project_id):
        _renew_access_views(document, project_id)
    _drop_hollow_record(document, project_id)
    return document or None


def drop_agent_iam(document: Document, project_id: str) -> Document | None:
    """Remove the record of the account that a project's agents shared."""
    _drop_entry(document, "agent_iam", project_id)
    return document or None


def forget_credentials(document: Document, project_id: str) -> Document | None:
    """Remove everything of one project: store, setup journal, agents' account, and the sections that were made from its record.

    The next project of the store becomes the current one. Sections of a file without a store go only if they are provably its own.
    """
    legacy = parse_credentials(document, _PATH).legacy_owner == project_id
    current = _is_current(document, project_id)
    _drop_entry(document, "storage_setup", project_id)
    _drop_entry(document, "agent_iam", project_id)
    for name in ("storage_iam", "nebius"):
        top = _section(document, name)
        if top is not None and (current or legacy or top.get("service_account_project_id") == project_id):
            for field in (
                *PROOF_FIELDS,
                "active_service_account_id",
                "recovery",
                "access_key_ids",
                "project_id",
            ):
                top.pop(field, None)
            drop_empty(document, name)
    if current or legacy:
        for name in VIEW_NAMES:
            if _section(document, name) is not None:
                strip_storage(document, name)
    _drop_record(document, project_id)
    return document or None


def drop_known_tokens(document: Document) -> Document | None:
    """Remove the operator's tokens of the known services; other tokens, and other fields beside them, stay."""
    tokens = _section(document, "tokens")
    for _, name, known, names in GROUPS:
        block = _section(document, name)
        if block is not None:
            for field in known:
                block.pop(field, None)
        drop_empty(document, name)
        for token in names:
            document.pop(token, None)
            if tokens is not None:
                tokens.pop(token, None)
    drop_empty(document, "tokens")
    return document or None


def _is_current(document: Document, project_id: str) -> bool:
    store = _section(document, _STORE)
    return store is not None and store.get("current_project_id") == project_id


def _drop_entry(document: Document, journal: str, project_id: str) -> None:
    projects = _section(document, journal, "projects")
    if projects is not None and project_id in projects:
        del projects[project_id]
        if not projects:
            del document[journal]


def _drop_from_setup(document: Document, project_id: str, absent: Collection[str]) -> None:
    created = _section(document, "storage_setup", "projects", project_id, "resources")
    if created is None:
        return
    for kind in ("service_account", "iam_group", "iam_permit"):
        row = created.get(kind)
        if isinstance(row, dict) and row.get("id") in absent:
            del created[kind]
    keys = _section(document, "storage_setup", "projects", project_id, "resources", "access_keys")
    for key in [k for k in keys or {} if k in absent]:
        del (keys or {})[key]
    drop_empty(created, "access_keys")
    _drop_finished_setup(document, project_id)


def _drop_finished_setup(document: Document, project_id: str) -> None:
    """A setup journal that names nothing any more says nothing."""
    if _section(document, "storage_setup", "projects", project_id, "resources") == {}:
        _drop_entry(document, "storage_setup", project_id)


def _drop_generation(
    document: Document, project_id: str, access: Document, account_id: str, absent: Collection[str]
) -> None:
    rows = access.get("generations")
    generations = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    kept = [
        row
        for row in generations
        if row.get("service_account_id") != account_id
        or _only_record_of(document, project_id, row, generations) - set(absent)
    ]
    if "generations" in access:
        access["generations"] = kept
        if not kept:
            del access["generations"]
    if any(row.get("service_account_id") == account_id for row in kept):
        return
    # The last one is the newest: the CLI appends.
    heir = kept[-1] if kept else {}
    heir_id = heir.get("service_account_id")
    if access.get("active_service_account_id") == account_id:
        _put_or_drop(access, "active_service_account_id", heir_id)
    if access.get("service_account_id") == account_id:
        access.pop("recovery", None)
        access.pop("access_key_ids", None)
        for field in PROOF_FIELDS:
            _put_or_drop(access, field, heir.get(field))
    record = _section(document, _STORE, "projects", project_id)
    block = _section(document, _STORE, "projects", project_id, "nebius")
    if record is not None and block is not None and block.get("service_account_id") == account_id:
        for field in PROOF_FIELDS:
            if field in block:
                _put_or_drop(block, field, heir.get(field))
        drop_empty(record, "nebius")
    if record is not None:
        drop_empty(record, "storage_iam")


def _only_record_of(
    document: Document, project_id: str, row: Document, generations: list[Document]
) -> set[str]:
    """Ids that no other record would name if this generation went."""
    keys = row.get("access_key_ids")
    ids = {k for k in keys if isinstance(k, str)} if isinstance(keys, list) else set()
    binding = _binding_ids(row)
    elsewhere = {i for other in generations if other is not row for i in _binding_ids(other)}
    created = _section(document, "storage_setup", "projects", project_id, "resources") or {}
    for kind in ("iam_group", "iam_permit"):
        noted = created.get(kind)
        if isinstance(noted, dict):
            elsewhere.add(str(noted.get("id")))
    return ids | (binding - elsewhere)


def _binding_ids(row: Document) -> set[str]:
    binding = row.get("binding")
    if not isinstance(binding, dict):
        return set()
    found = {
        binding.get(f"{part}_id")
        for part in ("group", "access_permit")
        if binding.get(f"{part}_managed_by") == "npa"
    }
    return {i for i in found if isinstance(i, str) and i}


def _put_or_drop(block: Document, name: str, value: object) -> None:
    if value:
        block[name] = value
    else:
        block.pop(name, None)


def _renew_access_views(document: Document, project_id: str) -> None:
    """Make the two access sections follow the record; one that names an account of its own is evidence and stays."""
    record = _section(document, _STORE, "projects", project_id) or {}
    for name, fields in (("storage_iam", PROOF_FIELDS), ("nebius", None)):
        source = record.get(name)
        wanted = dict(source) if isinstance(source, dict) else {}
        if fields is not None:
            wanted = {f: wanted[f] for f in fields if wanted.get(f)}
        view = _section(document, name) or {}
        shown = view.get("service_account_id")
        if shown and shown != wanted.get("service_account_id"):
            continue
        if wanted:
            document[name] = {**view, **wanted}


def _drop_hollow_record(document: Document, project_id: str) -> None:
    record = _section(document, _STORE, "projects", project_id)
    if record is not None and set(record) <= _LABELS:
        _drop_record(document, project_id)


def _drop_record(document: Document, project_id: str) -> None:
    store = _section(document, _STORE)
    projects = _section(document, _STORE, "projects")
    if store is None or projects is None:
        return
    projects.pop(project_id, None)
    if not projects:
        del document[_STORE]
    elif store.get("current_project_id") == project_id:
        heir = next(iter(projects))
        store["current_project_id"] = heir
        _renew_views(document, heir)


def _renew_views(document: Document, project_id: str) -> None:
    """The compatibility sections of a project that has just become the current one."""
    record = _section(document, _STORE, "projects", project_id) or {}
    storage = record.get("storage")
    if isinstance(storage, dict) and storage:
        document["storage"] = {**(_section(document, "storage") or {}), **storage}
    _renew_access_views(document, project_id)
