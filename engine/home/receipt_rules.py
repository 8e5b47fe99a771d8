"""The rules that every teardown receipt keeps, whoever writes it: its name, and what may stand in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from engine.home.documents import Document
from engine.home.errors import Fault, Kind, RecordError, RecordProblem
from engine.home.secret_shapes import IDENTITY_KEYS, redacted, redacted_text, secrets_in

SCHEMA = "npa.teardown.receipt.v2"
SCHEMA_V1 = "npa.teardown.receipt.v1"
TERMINAL = frozenset(
    {
        "already_absent",
        "cancelled",
        "completed",
        "deleted",
        "not_submitted",
        "terminal",
        "verified_absent",
        "verified_deleted",
    }
)
SELECTOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def receipt_id_for(alias: str, project_id: str) -> str:
    """The id, and file stem, of the receipt of an alias and a project id; either may be empty."""
    label = _UNSAFE.sub("-", alias).strip("-._")[:48] or "global"
    digest = hashlib.sha256((project_id or alias or "global").encode()).hexdigest()
    return f"{label}-{digest[:12]}"


def is_receipt_id(text: str) -> bool:
    """Whether this can name a receipt. A path never can."""
    return SELECTOR.fullmatch(text) is not None


def sanitize_event(event: Mapping[str, object]) -> Document:
    """An event in the form that is stored: every field present, state in lower case, body redacted, unknown fields kept.

    Its `identity` is left as it is and must satisfy `check_identity`.
    Raises `ValueError` for an empty phase or resource, `RecordError` for an identity that holds a secret.
    """
    phase, resource = _text(event, "phase"), _text(event, "resource")
    if not phase or not resource:
        raise ValueError("an event needs a phase and a resource")
    identity = event.get("identity") or {}
    check_identity(identity)
    action = event.get("action")
    errors = event.get("errors")
    known: Document = {
        "phase": redacted_text(phase),
        "resource": redacted_text(resource),
        "project_alias": _text(event, "project_alias"),
        "project_id": _text(event, "project_id"),
        "context": redacted_text(_text(event, "context")),
        "precheck": redacted(event.get("precheck") or {}),
        "action": redacted(action if isinstance(action, str | Mapping) else {}),
        "verification": redacted(event.get("verification") or {}),
        "terminal_state": (_text(event, "terminal_state") or "unknown").lower(),
        "errors": redacted(list(errors) if isinstance(errors, list | tuple) else []),
        "recorded_at": _text(event, "recorded_at"),
        "identity": identity,
    }
    return known | {name: redacted(value) for name, value in event.items() if name not in known}


def check_identity(identity: object, path: Path = Path("identity")) -> None:
    """Refuse an identity with a secret in it: what identifies must stay exact, so nothing there is redacted.

    Raises `RecordError` that names the place, never the value.
    """
    if not isinstance(identity, Mapping):
        raise _refused(path, "identity", "must be a mapping")
    place = next(secrets_in(identity, IDENTITY_KEYS, urls=True), "")
    if place:
        raise _refused(path, f"identity.{place}", "looks like a secret, or like an address that carries one")


def _refused(path: Path, field: str, problem: str) -> RecordError:
    return RecordError(
        RecordProblem(
            path, field, problem, "leave it out: a receipt holds ids only", Kind.RECEIPTS, Fault.REFUSED
        )
    )


def _text(event: Mapping[str, object], name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""
