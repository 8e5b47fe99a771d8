"""From a provider's message to a `Resource`, or the finding that it is none."""

from __future__ import annotations

import hashlib

from engine.clouds.nebius.attributes import extract, extract_all, text
from engine.clouds.nebius.kinds import KindRow, is_id
from engine.words.presence import Present, Ref, Resource
from engine.words.redact import redact


class Malformed(Exception):
    """An answer that is not what its type says."""


def fingerprint(id: str, name: str, parent: str, created_at: str) -> str:
    """What makes a thing this very thing: the first 16 hex digits of SHA-256 over the four, `created_at` as RFC 3339."""
    return hashlib.sha256("\0".join((id, name, parent, created_at)).encode()).hexdigest()[:16]


def resource(row: KindRow, message: object, asked_below: str = "") -> Resource:
    """The message as a `Resource`; `asked_below` stands in for a parent that the message does not name.

    Raises `Malformed` for a message without an id that can be one.
    """
    head = "" if row.flat else "metadata."
    id = text(message, f"{head}id")
    if not is_id(id):
        raise Malformed(
            f"a {row.kind} without an id" if not id else f"a {row.kind} with the id {redact(id, 80)!r}"
        )
    name = text(message, f"{head}name")
    # Only what the thing itself says makes its fingerprint: it must be the same however it was read.
    own_parent = "" if row.flat else text(message, "metadata.parent_id")
    created_at = text(message, f"{head}created_at")
    state = extract(message, row.state)
    attrs = extract_all(message, row.attrs)
    return Resource(
        ref=Ref(row.kind, id),
        name=redact(name),
        parent=redact(own_parent or asked_below),
        presence=Present(
            fingerprint=fingerprint(id, name, own_parent, created_at),
            state=redact(state),
            leaving=state in row.leaving,
            due=redact(extract(message, row.due)) if row.due else "",
        ),
        created_at=created_at,
        labels={redact(key): redact(value) for key, value in _labels(message).items()},
        attrs={key: redact(value, limit=4000) for key, value in attrs.items()},
    )


def _labels(message: object) -> dict[str, str]:
    labels = getattr(getattr(message, "metadata", None), "labels", None)
    return {str(key): str(labels[key]) for key in labels} if labels else {}
