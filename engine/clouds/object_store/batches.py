"""Documents that delete versions in batches, and what a store answers to them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.clouds.object_store.failures import StoreTrouble
from engine.clouds.object_store.listings import Entry, element, text
from engine.clouds.object_store.wire import Answer
from engine.words.presence import Cause

BATCH = 1000
_ESCAPES = {b"&": b"&amp;", b"<": b"&lt;", b">": b"&gt;", b"\t": b"&#9;", b"\n": b"&#10;", b"\r": b"&#13;"}
_SPECIAL = re.compile(rb"[&<>\t\n\r]")
_NOT_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")
_ERROR = re.compile(rb"<Error>(.*?)</Error>", re.DOTALL)


def fits_xml(key: bytes) -> bool:
    """Whether a key can stand in an XML document at all; one that cannot is deleted by a call of its own."""
    if key.isascii():
        return _NOT_XML.search(key) is None
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return _NOT_XML.search(key) is None


def delete_body(entries: Iterable[Entry]) -> bytes:
    """The document that deletes exactly these versions, and asks to hear of failures only."""
    return (
        b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>'
        + b"".join(
            b"<Object><Key>%b</Key><VersionId>%b</VersionId></Object>" % (_escape(e.key), _escape(e.id))
            for e in entries
        )
        + b"</Delete>"
    )


def _escape(text: bytes) -> bytes:
    return _SPECIAL.sub(lambda m: _ESCAPES[m[0]], text) if _SPECIAL.search(text) else text


def delete_errors(answer: Answer) -> list[tuple[bytes, bytes, str]]:
    """(key, version id, code) of what was not deleted although the answer is 200. Raises for an answer that is not one."""
    body = answer.body
    if b"<DeleteResult" not in body[:1000] or not (body.rstrip().endswith((b"</DeleteResult>", b"/>"))):
        raise StoreTrouble(Cause.MALFORMED, "the answer to a deletion is not a whole DeleteResult")
    return [
        (
            text(element(block, b"Key")),
            text(element(block, b"VersionId")) or b"null",
            element(block, b"Code").decode(errors="replace") or "Unknown",
        )
        for block in _ERROR.findall(body)
    ]
