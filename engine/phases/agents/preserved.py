"""Ids in the Terraform state that an operation preserved beside its journal: what it says was created by that operation."""

from __future__ import annotations

import json
from collections.abc import Iterator

from engine.home.errors import RecordError
from engine.home.operations import read_journal, read_state_copy
from engine.home.roots import Roots

_PREFIX = "nebius_"


def preserved_ids(roots: Roots, operation: str) -> frozenset[str]:
    """Ids of managed resources in every preserved state whose place, size and hash are as the journal says. Others prove nothing."""
    found: set[str] = set()
    try:
        journal = read_journal(roots, operation) if operation else None
    except RecordError:
        return frozenset()
    for copy in journal.state_copies if journal else ():
        try:
            found.update(_ids(read_state_copy(roots, journal, copy))) if journal else None
        except RecordError:
            continue
    return frozenset(found)


def _ids(state: bytes) -> Iterator[str]:
    try:
        document: object = json.loads(state)
    except ValueError:
        return
    resources = document.get("resources") if isinstance(document, dict) else None
    for resource in resources if isinstance(resources, list) else ():
        if not isinstance(resource, dict) or resource.get("mode") != "managed":
            continue
        if not str(resource.get("type", "")).startswith(_PREFIX):
            continue
        instances = resource.get("instances")
        for instance in instances if isinstance(instances, list) else ():
            attributes = instance.get("attributes") if isinstance(instance, dict) else None
            id = attributes.get("id") if isinstance(attributes, dict) else None
            if isinstance(id, str) and id:
                yield id
