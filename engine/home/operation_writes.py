"""Writing the CLI's operation journals and leases, so that it finds them terminal, or knows how to go on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.home.atomic import write_private
from engine.home.documents import Document, read_json, write_json
from engine.home.errors import Fault, Kind, RecordError, RecordProblem
from engine.home.leases import SCHEMA as LEASE_SCHEMA
from engine.home.leases import parse_lease
from engine.home.locks import flocked
from engine.home.operations import PHASES, SCHEMA, TERMINAL, parse_journal
from engine.home.receipt_rules import SELECTOR
from engine.home.roots import Roots
from engine.home.secret_shapes import JOURNAL_KEYS, secrets_in

IDENTITY = (
    "operation_id",
    "command",
    "project_alias",
    "project_id",
    "tenant_id",
    "region",
    "resource_type",
    "requested_name",
    "ownership_source",
)
"""Fields that, once set, never become another value."""

_ORDER = PHASES[:5]


def write_journal(roots: Roots, document: Document) -> bool:
    """Write one journal whole, under its lock. True when the bytes changed. Raises as `edit_journal` does."""
    name = document.get("operation_id")
    return edit_journal(roots, name if isinstance(name, str) else "", lambda _: document)


def edit_journal(
    roots: Roots, operation_id: str, change: Callable[[Document | None], Document | None]
) -> bool:
    """Change one journal under its lock; `change` gets what is there (None: nothing) and gives what is to be (None: leave it).

    Raises `RecordError` for a journal that could not be read, for one that is no valid version 2 journal afterwards, that changes an
    identity, leaves a terminal phase, goes back in the order of phases, or holds a secret; `OSError` when it cannot be written.
    """
    path = roots.operation(operation_id) / "journal.json"
    if not SELECTOR.fullmatch(operation_id):
        raise _refused(path, "operation_id", "cannot name a folder")
    with flocked(roots.operation_lock(operation_id), root=roots.operations, kind=Kind.OPERATIONS):
        before = read_json(path, roots.operations, Kind.OPERATIONS)
        if before is not None:
            parse_journal(before, path, operation_id)
        after = change(copy.deepcopy(before))
        if after is None:
            return False
        _check(before or {}, after, path, operation_id)
        if after == before:
            return False
        write_private(path, write_json(after), kind=Kind.OPERATIONS, root=roots.operations)
        return True


def _check(before: Mapping[str, object], after: Mapping[str, object], path: Path, operation_id: str) -> None:
    journal = parse_journal(after, path, operation_id)
    if after.get("schema_version") != SCHEMA or not after.get("operation_id"):
        raise _refused(path, "schema_version", "would not be a version 2 journal")
    for name in IDENTITY:
        if before.get(name) and after.get(name) != before[name]:
            raise _refused(path, name, "is set already and would become another value", Fault.CONFLICT)
    phase = str(before.get("phase") or "")
    if phase in TERMINAL and journal.phase != phase:
        raise _refused(path, "phase", "is terminal and would be left", Fault.CONFLICT)
    if phase in _ORDER and journal.phase in _ORDER and _ORDER.index(journal.phase) < _ORDER.index(phase):
        raise _refused(path, "phase", "would go back", Fault.CONFLICT)
    _refuse_secrets(after, path, Kind.OPERATIONS)


def write_lease(roots: Roots, document: Document) -> None:
    """Write a project's lease file. The caller holds the project's lease lock, which is the right to.

    Raises `RecordError` for one that is not valid or holds a secret, `OSError` when it cannot be written.
    """
    identity = document.get("project_identity")
    folder = roots.lease_folder(identity if isinstance(identity, str) else "")
    path = folder / "lease.json"
    parse_lease(document, path, identity if isinstance(identity, str) else "")
    if document.get("schema_version") != LEASE_SCHEMA:
        raise _refused(path, "schema_version", "would not be a version 1 lease", kind=Kind.LEASES)
    _refuse_secrets(document, path, Kind.LEASES)
    write_private(path, write_json(document), kind=Kind.LEASES, root=roots.operations)


def _refuse_secrets(document: Mapping[str, object], path: Path, kind: Kind) -> None:
    place = next(secrets_in(document, JOURNAL_KEYS, allow=("secret_fields",)), "")
    if place:
        raise _refused(path, place, "looks like a secret", kind=kind)


def _refused(
    path: Path, field: str, problem: str, fault: Fault = Fault.REFUSED, kind: Kind = Kind.OPERATIONS
) -> RecordError:
    return RecordError(
        RecordProblem(path, field, problem, "nothing was written; the file is as it was", kind, fault)
    )
