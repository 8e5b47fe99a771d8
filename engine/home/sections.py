"""Reaching into a document that is being edited: a part that is not what it must be stops the edit."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from engine.home.documents import Document
from engine.home.errors import Fault, Kind, RecordError, RecordProblem, repair_remedy
from engine.home.storage_keys import BUCKET, bucket_name, is_storage_field


def section(document: Document, *names: str, path: Path, kind: Kind) -> Document | None:
    """A nested mapping, the very one in the document; None when it is missing or null. Raises `RecordError` for anything else."""
    here: object = document
    for depth, name in enumerate(names):
        here = cast(Document, here).get(name)
        if here is None:
            return None
        if not isinstance(here, dict):
            raise conflict(path, kind, ".".join(names[: depth + 1]), "must be a mapping", Fault.MALFORMED)
    return cast(Document, here)


def conflict(path: Path, kind: Kind, field: str, problem: str, fault: Fault = Fault.CONFLICT) -> RecordError:
    return RecordError(RecordProblem(path, field, problem, repair_remedy(path), kind, fault))


def drop_empty(parent: Document, name: str) -> None:
    """Remove a section that holds nothing any more."""
    if parent.get(name) in ({}, None):
        parent.pop(name, None)


def bucket_of(block: Document) -> str:
    """The bucket that a storage block names, or an empty string."""
    for name in BUCKET:
        value = block.get(name)
        if isinstance(value, str) and value:
            return bucket_name(value)
    return ""


def strip_storage(parent: Document, name: str) -> None:
    """Remove credentials and place of a bucket from a storage block; unknown fields stay, an empty block goes."""
    block = parent.get(name)
    if isinstance(block, dict):
        for field in [f for f in block if is_storage_field(str(f))]:
            del block[field]
        drop_empty(parent, name)
