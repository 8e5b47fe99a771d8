"""How an operation is named, and which name comes after a finished one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def _slug(text: str) -> str:
    return _UNSAFE.sub("-", text).strip("-._")[:48].lower()


def operation_id(command: str, project: str, resource_type: str, name: str) -> str:
    """The id of an operation. `project` is the project id, or the alias where no id is known."""
    identity = "\0".join((command, project, resource_type, name))
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return f"{_slug(resource_type)[:8]}-{_slug(name)[:12]}-{digest[:16]}"


def next_operation_id(base: str, terminal: Mapping[str, bool]) -> str:
    """The id to use now: `base`, or its first generation `-r1`, `-r2`… that is new or not ended yet.

    terminal   for each operation that has a journal, whether it has ended
    """
    generation, candidate = 0, base
    while terminal.get(candidate, False):
        generation += 1
        candidate = f"{base}-r{generation}"
    return candidate
