"""The one redactor: text from outside enters a word only through here."""

from __future__ import annotations

import re

_SECRET_NAMES = (
    r"access_?key|api_?key|bearer|credential|password|private_?key|secret|token|authorization|session_?token"
)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        "<redacted>",
    ),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), "<redacted>"),
    (re.compile(r"\bhf_[A-Za-z0-9_]{6,}"), "<redacted>"),
    (re.compile(r"\bnvapi-[A-Za-z0-9_-]{6,}"), "<redacted>"),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{10,}"), "<redacted>"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"), "<redacted>"),
    (re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{6,}"), r"\1<redacted>"),
    (
        re.compile(
            rf"(?i)([\"']?(?<![A-Za-z_-])[A-Za-z_-]{{0,40}}?(?:{_SECRET_NAMES})[A-Za-z_]{{0,40}}[\"']?\s*[:=]\s*)([\"']?)[^\s\"',;&}}]{{3,}}\2"
        ),
        r"\1<redacted>",
    ),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s:@]+(?::[^/\s@]*)?@"), r"\1<redacted>@"),
    (re.compile(r"(?i)(\bhttps?://[^\s?#\"']+)[?#][^\s\"']+"), r"\1?<redacted>"),
)
# Everything that could steer a terminal: C0 and C1 controls, bidirectional overrides, line and paragraph separators.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")
LIMIT = 500


def redact(text: str, limit: int = LIMIT) -> str:
    """Text without secret-shaped parts and without control characters, at most `limit` characters long.

    Only as much is read as may matter: what a child wrote before it died can be megabytes.
    """
    most = 8 * limit + 2000
    if len(text) > most:
        text = text[: most - 200]  # and nothing near the cut: half a secret would not look like one
    for pattern, put in _PATTERNS:
        text = pattern.sub(put, text)
    text = visible(" ".join(text.split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def visible(text: str) -> str:
    """Control characters shown as escapes, so that a name cannot steer the terminal that shows it."""
    return _CONTROL.sub(lambda m: f"\\x{ord(m.group()):02x}", text)
