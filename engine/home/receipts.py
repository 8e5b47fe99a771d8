"""Teardown receipts: what was done to which id, by any program that writes them.

Whose an event is, follows from the ids in it and never from the file's name: one project may own several files.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.home.atomic import write_private
from engine.home.documents import Document, malformed, parse_json, read_json, write_json
from engine.home.errors import Fault, Kind, RecordError, RecordProblem
from engine.home.fields import Fields, Problems
from engine.home.folders import names_in, read_file
from engine.home.locks import flocked
from engine.home.receipt_rules import (
    SCHEMA,
    SCHEMA_V1,
    TERMINAL,
    check_identity,
    is_receipt_id,
    sanitize_event,
)
from engine.home.roots import Roots


@dataclass(frozen=True, slots=True)
class ReceiptEvent:
    """One event. `project_id` is its own, or its identity's; empty when the event itself names no project."""

    receipt_id: str
    index: int
    phase: str
    resource: str
    state: str
    project_id: str
    project_alias: str
    context: str
    recorded_at: str
    identity: Mapping[str, object]

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class Receipt:
    """One file. `project_id` and `project_alias` are its root's; a version 1 file has an empty identity."""

    path: Path
    receipt_id: str
    schema_version: str
    project_id: str
    project_alias: str
    created_at: str
    updated_at: str
    identity: Mapping[str, object]
    events: tuple[ReceiptEvent, ...]

    @property
    def project_ids(self) -> frozenset[str]:
        """Every project id in its content."""
        own = {self.project_id, *(event.project_id for event in self.events)}
        return frozenset(own | set(_values(self.identity, "project_id"))) - {""}

    @property
    def aliases(self) -> frozenset[str]:
        """Every alias in its content."""
        own = {self.project_alias, *(event.project_alias for event in self.events)}
        return frozenset(own | set(_values(self.identity, "project_alias"))) - {""}

    def events_of(self, project_id: str) -> tuple[ReceiptEvent, ...]:
        """Events about this project: they name it, or name none in a file whose root does. Never an unscoped one."""
        return tuple(e for e in self.events if (e.project_id or self.project_id) == project_id)

    def identities(self, collection: str) -> Iterator[Mapping[str, object]]:
        """Entries of a collection of its identity: agents, clusters, operations, workflows, terraform_backends."""
        found = self.identity.get(collection)
        yield from (row for row in found if isinstance(row, Mapping)) if isinstance(found, list) else ()


@dataclass(frozen=True, slots=True)
class Receipts:
    """All files; one that could not be read is a problem and hides no other."""

    receipts: tuple[Receipt, ...] = ()
    problems: tuple[RecordProblem, ...] = ()

    def of(self, project_id: str) -> tuple[Receipt, ...]:
        """Every receipt whose content names this project."""
        return tuple(r for r in self.receipts if project_id in r.project_ids)

    def events_of(self, project_id: str) -> tuple[ReceiptEvent, ...]:
        return tuple(event for receipt in self.receipts for event in receipt.events_of(project_id))


def read_receipts(roots: Roots) -> Receipts:
    """Every receipt. Raises `RecordError` when they cannot be listed: a linked or foreign folder."""
    problems = Problems()
    found: list[Receipt] = []
    for name in names_in(roots.receipts, roots.receipts, Kind.RECEIPTS):
        if name.endswith(".json") and not name.startswith("."):
            with problems.kept():
                receipt = read_receipt(roots, name.removesuffix(".json"))
                if receipt:
                    found.append(receipt)
    return Receipts(tuple(found), problems())


def read_receipt(roots: Roots, receipt_id: str) -> Receipt | None:
    """One receipt by its id; None when there is none. Raises `RecordError`, for an id that is a path as well."""
    path = receipt_path(roots, receipt_id)
    document = read_json(path, roots.receipts, Kind.RECEIPTS)
    return None if document is None else parse_receipt(document, path)


def receipt_path(roots: Roots, receipt_id: str) -> Path:
    """Where a receipt is. Raises `RecordError` for what cannot be the id of one."""
    if not is_receipt_id(receipt_id):
        raise RecordError(
            RecordProblem(
                roots.receipts,
                "",
                "is not to be read under a name that is no receipt id",
                "give the id as `npa cleanup --list-receipts` prints it",
                Kind.RECEIPTS,
                Fault.REFUSED,
            )
        )
    return roots.receipts / f"{receipt_id}.json"


def parse_receipt(document: Mapping[str, object], path: Path) -> Receipt:
    """A receipt of version 2 or 1. Raises `RecordError`."""
    root = Fields(document, kind=Kind.RECEIPTS, path=path)
    root.schema("schema_version", SCHEMA, SCHEMA_V1)
    root = root.scoped(root.text("project_id"))
    receipt_id = root.text("receipt_id", path.stem)
    if receipt_id != path.stem:
        raise root.error("receipt_id", "differs from the file's name", fault=Fault.CONFLICT)
    if "events" not in root:
        raise root.error("events", "is missing")
    return Receipt(
        path=path,
        receipt_id=receipt_id,
        schema_version=root.text("schema_version"),
        project_id=root.text("project_id"),
        project_alias=root.text("project_alias"),
        created_at=root.text("created_at"),
        updated_at=root.text("updated_at"),
        identity=_mapping(root, "identity"),
        events=tuple(_event(row, receipt_id, index) for index, row in enumerate(root.items("events"))),
    )


def _event(found: Fields, receipt_id: str, index: int) -> ReceiptEvent:
    identity = _mapping(found, "identity")
    own, named = found.text("project_id"), identity.get("project_id")
    if own and isinstance(named, str) and named and named != own:
        raise found.error("identity.project_id", "differs from the event's project_id", fault=Fault.CONFLICT)
    return ReceiptEvent(
        receipt_id=receipt_id,
        index=index,
        phase=found.needed("phase"),
        resource=found.needed("resource"),
        state=(found.text("terminal_state") or "unknown").lower(),
        project_id=own or (named if isinstance(named, str) else ""),
        project_alias=found.text("project_alias"),
        context=found.text("context"),
        recorded_at=found.text("recorded_at"),
        identity=identity,
    )


def _mapping(found: Fields, name: str) -> Mapping[str, object]:
    below = found.block(name)
    return {key: below.raw(key) for key in below}


def _values(node: object, name: str) -> Iterator[str]:
    """Every non-empty text under this key, anywhere in an identity."""
    pending: list[object] = [node]
    while pending:
        here = pending.pop()
        if isinstance(here, Mapping):
            value = here.get(name)
            if isinstance(value, str) and value:
                yield value
            pending.extend(here.values())
        elif isinstance(here, list):
            pending.extend(here)


EditReceipt = Callable[[Document | None], Document | None]
"""From a receipt as it is on disk (None: there is none; version 1 as version 2) to what it is to be; None: leave it alone."""


def edit_receipt(roots: Roots, receipt_id: str, change: EditReceipt) -> bool:
    """Change one receipt under the lock that all its writers take. True when something was written.

    What other writers put there is passed through as it is. What is new must be of version 2, with phase and resource in each event,
    sanitized and without a secret in its identity; else, and for a receipt that cannot be read, raises `RecordError`.
    Raises `OSError` when it cannot be written.
    """
    path = receipt_path(roots, receipt_id)
    with flocked(roots.receipts_lock, root=roots.receipts, kind=Kind.RECEIPTS):
        data = read_file(path, roots.receipts, Kind.RECEIPTS)
        before = None if data is None else _raised(parse_json(data, path, Kind.RECEIPTS), path)
        # `change` gets its own copy, so that what was there can still be told from what is new.
        after = change(copy.deepcopy(before))
        if after is None:
            return False
        _check_writable(after, before or {}, path)
        written = write_json(after)
        if written == data:
            return False
        write_private(path, written, kind=Kind.RECEIPTS, root=roots.receipts)
        return True


def write_receipt(roots: Roots, receipt_id: str, document: Document) -> bool:
    """Replace one receipt by a whole document. True when the bytes changed. Raises as `edit_receipt` does.

    A writer that builds on what is there uses `edit_receipt`, so that an event appended meanwhile is not lost.
    """
    return edit_receipt(roots, receipt_id, lambda _: document)


def _raised(document: Document, path: Path) -> Document:
    """A valid document in version 2."""
    parse_receipt(document, path)
    return {**document, "schema_version": SCHEMA, "identity": document.get("identity") or {}}


def _check_writable(document: Document, before: Document, path: Path) -> None:
    receipt = parse_receipt(document, path)
    if receipt.schema_version != SCHEMA or not document.get("receipt_id"):
        raise malformed(path, Kind.RECEIPTS, "would not be a version 2 receipt with its own id")
    had = before.get("identity")
    known = had if isinstance(had, Mapping) else {}
    check_identity({k: v for k, v in receipt.identity.items() if k not in known or known[k] != v}, path)
    old = _rows(before)
    for index, event in enumerate(_rows(document)):
        if event in old:
            continue
        clean = sanitize_event(event)
        if any(clean[name] != value for name, value in event.items()):
            raise malformed(
                path, Kind.RECEIPTS, f"would hold an event that is not sanitized: events[{index}]"
            )


def _rows(document: Document) -> list[Mapping[str, object]]:
    rows = document.get("events")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
