"""Pages of S3 listings, as text is faster to take apart than as a tree, and pages that cannot be trusted.

Nothing of a key can look like markup here: in an answer it is percent-encoded (we ask for that) or XML-escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from engine.clouds.object_store.failures import StoreTrouble
from engine.clouds.object_store.wire import PATIENCE, Patience, Wire
from engine.words.presence import Cause

_BLOCKS: Mapping[str, re.Pattern[bytes]] = {
    "ListVersionsResult": re.compile(rb"<(Version|DeleteMarker)>(.*?)</\1>", re.DOTALL),
    "ListBucketResult": re.compile(rb"<(Contents)>(.*?)</\1>", re.DOTALL),
    "ListMultipartUploadsResult": re.compile(rb"<(Upload)>(.*?)</\1>", re.DOTALL),
}
_PREFIX = re.compile(rb"<CommonPrefixes>\s*<Prefix>([^<]*)</Prefix>")
_ENTITY = re.compile(rb"&(?:#x([0-9a-fA-F]+)|#(\d+)|(\w+));")
_NAMED = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}


class Entry(NamedTuple):
    """A version, a delete marker, a current object or an upload. `id` is its version id or upload id."""

    key: bytes
    id: bytes
    marker: bool
    latest: bool
    size: int
    modified: bytes
    """RFC 3339 as the store gives it; of an upload, when it was begun."""


@dataclass(frozen=True, slots=True)
class Page:
    entries: list[Entry]
    prefixes: list[bytes]
    truncated: bool
    next_key: bytes
    next_id: bytes


class Listing:
    """One listing, page by page. It notices when a store does not move on, instead of going round for ever."""

    def __init__(
        self,
        wire: Wire,
        bucket: str,
        kind: str,
        query: Mapping[str, str | bytes],
        marker: tuple[bytes, bytes] = (b"", b""),
        patience: Patience = PATIENCE,
    ) -> None:
        """`kind` is the root element of its answers; `marker` is after which key (and version or upload) it begins."""
        self._wire, self._bucket, self._kind, self._query = wire, bucket, kind, query
        self._marker, self._patience = marker, patience
        self._seen: set[int] = set()
        self._first: tuple[bytes, bytes] | None = None
        self.done = False

    async def next(self) -> Page:
        """The next page; `done` says whether it was the last. Raises `StoreTrouble`."""
        answer = await self._wire.call("GET", self._bucket, query=self._question(), patience=self._patience)
        page = parse_page(answer.body, self._kind)
        self.done = not page.truncated
        first = page.entries[0][:2] if page.entries else None
        if first is not None and first == self._first:
            raise self._stuck("answers the same page for another marker")
        self._first = first
        if page.truncated:
            marker = (page.next_key, page.next_id)
            if not page.next_key and page.entries:
                marker = page.entries[-1][:2]
            if hash(marker) in self._seen or marker == self._marker or not marker[0]:
                raise self._stuck("does not move on")
            self._seen.add(hash(marker))
            self._marker = marker
        return page

    @property
    def marker(self) -> tuple[bytes, bytes]:
        return self._marker

    def _question(self) -> dict[str, str | bytes]:
        key, id = self._marker
        question: dict[str, str | bytes] = {**self._query, "encoding-type": "url"}
        if not key:
            return question
        match self._kind:
            case "ListBucketResult":
                question["continuation-token"] = key
            case "ListVersionsResult":
                question |= {"key-marker": key} | ({"version-id-marker": id} if id else {})
            case _:
                question |= {"key-marker": key} | ({"upload-id-marker": id} if id else {})
        return question

    def _stuck(self, how: str) -> StoreTrouble:
        return StoreTrouble(Cause.MALFORMED, f"the listing of {self._bucket} {how}")


def versions(
    wire: Wire,
    bucket: str,
    marker: tuple[bytes, bytes] = (b"", b""),
    *,
    patience: Patience = PATIENCE,
    **more: str | bytes,
) -> Listing:
    """All versions and delete markers; `more` are further parameters, such as `prefix`."""
    return Listing(wire, bucket, "ListVersionsResult", {"versions": "", **more}, marker, patience)


def uploads(wire: Wire, bucket: str, *, patience: Patience = PATIENCE) -> Listing:
    """All unfinished multipart uploads."""
    return Listing(wire, bucket, "ListMultipartUploadsResult", {"uploads": ""}, patience=patience)


def objects(wire: Wire, bucket: str, prefix: str, delimiter: str = "", most: int = 1000) -> Listing:
    """Current objects below a prefix."""
    query = {"list-type": "2", "prefix": prefix, "max-keys": str(most)} | (
        {"delimiter": delimiter} if delimiter else {}
    )
    return Listing(wire, bucket, "ListBucketResult", query)


def parse_page(body: bytes, kind: str) -> Page:
    """Take a page apart. Raises `StoreTrouble(MALFORMED)` for what is not that kind of page, whole."""
    root = kind.encode()
    if b"<" + root not in body[:1000] or not body.rstrip().endswith(b"</" + root + b">"):
        raise StoreTrouble(Cause.MALFORMED, f"the answer is not a whole {kind}")
    encoded = b"<EncodingType>url</EncodingType>" in body
    entries: list[Entry] = []
    first, last = len(body), len(body)
    for match in _BLOCKS[kind].finditer(body):
        first, last = min(first, match.start()), match.end()
        entries.append(_entry(match[1], match[2], encoded))
    # What is said of the page itself stands before its first entry, or behind its last.
    outside = body[:first] + body[last:]
    return Page(
        entries,
        [_decode(p, encoded) for p in _PREFIX.findall(outside)],
        element(outside, b"IsTruncated").strip().lower() == b"true",
        text(element(outside, b"NextContinuationToken"))
        if kind == "ListBucketResult"
        else _decode(element(outside, b"NextKeyMarker"), encoded),
        text(element(outside, b"NextVersionIdMarker") or element(outside, b"NextUploadIdMarker")),
    )


def _entry(tag: bytes, block: bytes, encoded: bool) -> Entry:
    key = _decode(element(block, b"Key"), encoded)
    if not key:
        raise StoreTrouble(Cause.MALFORMED, "a listed object has no key")
    if tag == b"Upload":
        return Entry(key, text(element(block, b"UploadId")), False, False, 0, element(block, b"Initiated"))
    size = element(block, b"Size")
    return Entry(
        key,
        text(element(block, b"VersionId")) or b"null",
        tag == b"DeleteMarker",
        element(block, b"IsLatest") == b"true",
        int(size) if size.isdigit() else 0,
        element(block, b"LastModified"),
    )


def element(block: bytes, name: bytes) -> bytes:
    begin = block.find(b"<" + name + b">")
    if begin < 0:
        return b""
    begin += len(name) + 2
    return block[begin : block.find(b"</", begin)]


def _decode(raw: bytes, encoded: bool) -> bytes:
    plain = text(raw)
    if encoded and (b"%" in plain or b"+" in plain):
        return unquote_to_bytes(plain.replace(b"+", b" "))
    return plain


def text(raw: bytes) -> bytes:
    """Character data without its entities."""
    return _ENTITY.sub(_entity, raw) if b"&" in raw else raw


def _entity(match: re.Match[bytes]) -> bytes:
    hexadecimal, decimal, name = match.groups()
    if name:
        return _NAMED.get(name, match[0])
    point = int(hexadecimal, 16) if hexadecimal else int(decimal)
    return chr(point).encode() if point < 0x110000 and not 0xD800 <= point < 0xE000 else match[0]
