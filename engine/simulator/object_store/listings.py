"""Listings as documents: pages of objects, versions, uploads and buckets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from urllib.parse import quote

from engine.simulator.object_store.bucket import Bucket, Version
from engine.simulator.object_store.errors import S3Error, element, escape

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
MOST = 1000
"""Rows on a page at most."""
Query = dict[str, str]


@lru_cache(maxsize=64)
def iso(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def http_date(moment: float) -> str:
    return format_datetime(datetime.fromtimestamp(int(moment), UTC), usegmt=True)


def buckets(all: Iterable[Bucket]) -> str:
    rows = "".join(
        f"<Bucket>{element('Name', b.name)}<CreationDate>{iso(int(b.born))}</CreationDate></Bucket>"
        for b in all
    )
    owner = "<Owner><ID>operator</ID></Owner>"
    return f"<ListAllMyBucketsResult {NAMESPACE}>{owner}<Buckets>{rows}</Buckets></ListAllMyBucketsResult>"


def objects(bucket: Bucket, query: Query) -> str:
    """ListObjects, the first and the second one: they differ in how they tell where the next page begins."""
    name, second = _namer(query), query.get("list-type") == "2"
    most, delimiter = _most(query, "max-keys"), query.get("delimiter", "")
    token, after = query.get("continuation-token"), query.get("marker", "")
    if second:
        after = query.get("start-after", "") if token is None else _from_token(token)
    page = bucket.objects(query.get("prefix", ""), delimiter, after, most)
    out = [_head(bucket, query, name, page.more, tag="Name", limit="MaxKeys", most=most)]
    if second:
        out.append(f"<KeyCount>{len(page.rows)}</KeyCount>")
        out.append(element("ContinuationToken", token) if token is not None else "")
        out.append(f"<StartAfter>{name(query['start-after'])}</StartAfter>" if "start-after" in query else "")
    else:
        out.append(f"<Marker>{name(after)}</Marker>")
    if page.more:
        last = page.rows[-1]
        key = last if isinstance(last, str) else last.key
        if second:
            out.append(f"<NextContinuationToken>{_token(key)}</NextContinuationToken>")
        elif delimiter:
            out.append(f"<NextMarker>{name(key)}</NextMarker>")
    out += [_prefix(row, name) if isinstance(row, str) else _object(row, name) for row in page.rows]
    return f"<ListBucketResult {NAMESPACE}>{''.join(out)}</ListBucketResult>"


def versions(bucket: Bucket, query: Query) -> str:
    name, most = _namer(query), _most(query, "max-keys")
    after = query.get("key-marker", ""), query.get("version-id-marker", "")
    if after[1] and not after[0]:
        raise S3Error("InvalidArgument", "A version-id marker cannot be specified without a key marker.")
    try:
        page = bucket.versions(query.get("prefix", ""), query.get("delimiter", ""), after, most)
    except ValueError:
        raise S3Error("InvalidArgument", "Invalid version id specified") from None
    out = [_head(bucket, query, name, page.more, tag="Name", limit="MaxKeys", most=most)]
    out.append(f"<KeyMarker>{name(after[0])}</KeyMarker>{element('VersionIdMarker', after[1])}")
    if page.more:
        last = page.rows[-1]
        key, id = (last, "") if isinstance(last, str) else (last[0].key, last[0].id)
        out.append(f"<NextKeyMarker>{name(key)}</NextKeyMarker>")
        out.append(f"<NextVersionIdMarker>{id}</NextVersionIdMarker>" if id else "")
    out += [_prefix(row, name) if isinstance(row, str) else _version(*row, name) for row in page.rows]
    return f"<ListVersionsResult {NAMESPACE}>{''.join(out)}</ListVersionsResult>"


def uploads(bucket: Bucket, query: Query) -> str:
    name, most = _namer(query), _most(query, "max-uploads")
    after = query.get("key-marker", ""), query.get("upload-id-marker", "")
    page = bucket.pending(query.get("prefix", ""), after, most)
    rows = [row for row in page.rows if not isinstance(row, str)]
    out = [_head(bucket, query, name, page.more, tag="Bucket", limit="MaxUploads", most=most)]
    out.append(f"<KeyMarker>{name(after[0])}</KeyMarker>{element('UploadIdMarker', after[1])}")
    if page.more:
        key, id = rows[-1]
        out.append(f"<NextKeyMarker>{name(key)}</NextKeyMarker><NextUploadIdMarker>{id}</NextUploadIdMarker>")
    out += [
        f"<Upload><Key>{name(key)}</Key><UploadId>{id}</UploadId><Initiated>{iso(int(bucket.uploads[id].born))}</Initiated></Upload>"
        for key, id in rows
    ]
    return f"<ListMultipartUploadsResult {NAMESPACE}>{''.join(out)}</ListMultipartUploadsResult>"


def _object(v: Version, name: Callable[[str], str]) -> str:
    return (
        f'<Contents><Key>{name(v.key)}</Key><LastModified>{iso(int(v.born))}</LastModified><ETag>"{v.etag}"</ETag>'
        f"<Size>{v.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def _version(v: Version, latest: bool, name: Callable[[str], str]) -> str:
    what = (
        f"<Key>{name(v.key)}</Key><VersionId>{v.id}</VersionId><IsLatest>{'true' if latest else 'false'}</IsLatest>"
        f"<LastModified>{iso(int(v.born))}</LastModified>"
    )
    if v.marker:
        return f"<DeleteMarker>{what}</DeleteMarker>"
    return f'<Version>{what}<ETag>"{v.etag}"</ETag><Size>{v.size}</Size><StorageClass>STANDARD</StorageClass></Version>'


def _prefix(text: str, name: Callable[[str], str]) -> str:
    return f"<CommonPrefixes><Prefix>{name(text)}</Prefix></CommonPrefixes>"


def _head(
    bucket: Bucket, query: Query, name: Callable[[str], str], more: bool, *, tag: str, limit: str, most: int
) -> str:
    delimiter = f"<Delimiter>{name(query['delimiter'])}</Delimiter>" if query.get("delimiter") else ""
    encoding = "<EncodingType>url</EncodingType>" if query.get("encoding-type") else ""
    return (
        f"{element(tag, bucket.name)}<Prefix>{name(query.get('prefix', ''))}</Prefix>{delimiter}{encoding}"
        f"<{limit}>{most}</{limit}><IsTruncated>{'true' if more else 'false'}</IsTruncated>"
    )


def _namer(query: Query) -> Callable[[str], str]:
    """How keys are written: escaped, or URL-encoded when the client asks for it."""
    match query.get("encoding-type"):
        case None:
            return escape
        case "url":
            return _url
    raise S3Error("InvalidArgument", "Invalid Encoding Method specified in Request")


def _url(key: str) -> str:
    return quote(key, safe="/-_.~*")


def _most(query: Query, name: str) -> int:
    text = query.get(name, str(MOST))
    if not text.isdecimal():
        raise S3Error("InvalidArgument", f"Argument {name} must be an integer between 0 and 2147483647")
    return min(int(text), MOST)


def _token(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def _from_token(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, UnicodeError):
        raise S3Error("InvalidArgument", "The continuation token provided is incorrect") from None
