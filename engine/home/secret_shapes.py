"""What the CLI takes for a secret in its receipts and journals: by the name of a key, and by the shape of a value.

An event body is redacted; identity, journals and leases are refused instead, because what stands there must stay exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

EVENT_KEYS = (
    "access_key",
    "api_key",
    "credential",
    "endpoint",
    "environment",
    "password",
    "private_key",
    "secret",
    "token",
)
IDENTITY_KEYS = (
    "access_key",
    "api_key",
    "credential",
    "iam_token",
    "password",
    "presigned",
    "private_key",
    "secret",
    "token",
)
JOURNAL_KEYS = tuple(k for k in IDENTITY_KEYS if k != "credential")

REDACTED = "<redacted>"

# Bounded, so that a long line without a secret costs no more than its length.
_PAIR_NAMES = r"[A-Za-z0-9_.-]{0,40}(?:access_?key|api_?key|bearer|credential|password|private_?key|secret|token)[A-Za-z0-9_.-]{0,40}"
_TOKENS = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bhf_[A-Za-z0-9]{6,}|\bnvapi-[A-Za-z0-9_-]{6,}|\bgh[pousr]_[A-Za-z0-9]{6,}"
)
_PAIR = re.compile(
    rf"(?i)([\"']?\b{_PAIR_NAMES}[\"']?\s*[:=]\s*)(?!<redacted>)(\"[^\"]*\"|'[^']*'|(?:bearer\s+)?[^\s,;}}\]]+)"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)(?!<redacted>)[A-Za-z0-9._~+/=-]{6,}")
_URL = re.compile(r"(?i)\bhttps?://[^\s\"'<>]+")
_STEERED_URL = re.compile(r"(?i)\bhttps?://(?:[^\s/?#]*@[^\s]*|[^\s?#]*[?#][^\s]*)")


def redacted_text(text: str) -> str:
    """Event text without token shapes, `name: value` pairs of secrets, and web addresses."""
    text = _URL.sub(REDACTED, text)
    text = _TOKENS.sub(REDACTED, text)
    text = _PAIR.sub(rf"\1{REDACTED}", text)
    return _BEARER.sub(rf"\1{REDACTED}", text)


def redacted(value: object) -> object:
    """A value of an event body, redacted throughout."""
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, Mapping):
        return {
            str(key): REDACTED if _named(str(key), EVENT_KEYS) else redacted(below)
            for key, below in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted(below) for below in value]
    return value


def secrets_in(
    value: object, keys: tuple[str, ...], *, urls: bool = False, allow: tuple[str, ...] = ()
) -> Iterator[str]:
    """Dotted places in a document that look like a secret: by key among `keys`, or by token shape.

    urls    also web addresses with user info, a query or a fragment
    allow   keys that name secrets without holding any
    """
    yield from _secrets(value, keys, urls, allow, "")


def _secrets(
    value: object, keys: tuple[str, ...], urls: bool, allow: tuple[str, ...], where: str
) -> Iterator[str]:
    if isinstance(value, str):
        if _TOKENS.search(value) or (urls and _STEERED_URL.search(value)):
            yield where
    elif isinstance(value, Mapping):
        for key, below in value.items():
            place = f"{where}.{key}" if where else str(key)
            if str(key) not in allow and _named(str(key), keys):
                yield place
            else:
                yield from _secrets(below, keys, urls, allow, place)
    elif isinstance(value, list | tuple):
        for number, below in enumerate(value):
            yield from _secrets(below, keys, urls, allow, f"{where}[{number}]")


def _named(key: str, names: tuple[str, ...]) -> bool:
    lowered = key.lower()
    return any(name in lowered for name in names)
