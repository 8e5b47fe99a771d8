"""An S3 endpoint: versions, markers, uploads, batch deletion, conditional writes, and signatures that are really checked."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from engine.simulator.faults import Fault, Timetable
from engine.simulator.web import guarded


class BucketSpec(BaseModel):
    """What is in a bucket at first."""

    model_config = ConfigDict(extra="forbid")

    name: str
    versioning: bool = False
    prefix: str = "data/"
    objects: int = 0
    bytes_each: int = 1024
    versions_each: int = 1
    markers: int = 0
    uploads: int = 0
    files: dict[str, str] = Field(default={}, description="key -> text")
    locked: int = Field(default=0, description="so many versions are under retention and cannot be deleted")


@dataclass
class Version:
    key: str
    id: str
    size: int
    body: bytes = b""
    marker: bool = False
    locked: bool = False


@dataclass
class Bucket:
    name: str
    versioning: str = ""
    versions: dict[tuple[str, str], Version] = field(default_factory=dict)
    uploads: dict[str, str] = field(default_factory=dict)

    def put(
        self, key: str, body: bytes, *, size: int = 0, marker: bool = False, locked: bool = False
    ) -> Version:
        id = uuid.uuid4().hex if self.versioning == "Enabled" else "null"
        made = Version(key, id, size or len(body), body, marker, locked)
        self.versions.pop((key, id), None)
        self.versions[key, id] = made
        return made

    def newest(self, key: str) -> Version | None:
        return next((v for v in reversed(self.versions.values()) if v.key == key), None)

    def rows(self) -> list[Version]:
        """In listing order: by key, newest version first."""
        order = {v: n for n, v in enumerate(self.versions)}
        return sorted(self.versions.values(), key=lambda v: (v.key, -order[v.key, v.id]))


@dataclass(frozen=True)
class Usage:
    objects: int
    versions: int
    markers: int
    uploads: int
    bytes: int

    @property
    def empty(self) -> bool:
        return not (self.versions or self.markers or self.uploads)


class ObjectStore:
    """All buckets. `keys`: access key id -> secret; a revoked one is refused."""

    def __init__(self, buckets: Sequence[BucketSpec], keys: dict[str, str], timetable: Timetable) -> None:
        self.buckets = {spec.name: _filled(spec) for spec in buckets}
        self.keys = dict(keys)
        self.log: list[dict[str, Any]] = []
        self._timetable = timetable

    def has(self, name: str) -> bool:
        return name in self.buckets

    def drop_bucket(self, name: str) -> None:
        """The provider's own purge: bucket and contents go at once."""
        self.buckets.pop(name, None)

    def revoke(self, access_key_id: str) -> None:
        self.keys.pop(access_key_id, None)

    def usage(self, name: str) -> Usage:
        bucket = self.buckets.get(name)
        if bucket is None:
            return Usage(0, 0, 0, 0, 0)
        real = [v for v in bucket.versions.values() if not v.marker]
        current = sum(1 for k in {v.key for v in real} if (n := bucket.newest(k)) and not n.marker)
        return Usage(
            current,
            len(real),
            len(bucket.versions) - len(real),
            len(bucket.uploads),
            sum(v.size for v in real),
        )

    def describe(self) -> dict[str, Any]:
        return {
            name: vars(self.usage(name)) | {"versioning": b.versioning} for name, b in self.buckets.items()
        }

    def app(self) -> web.Application:
        app = web.Application(
            client_max_size=64 << 20,
            middlewares=[guarded("s3", self._timetable, self.log, _render, _call_of)],
        )
        app.router.add_route("*", "/{tail:.*}", self._serve)
        return app

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if refused := self._unsigned(request, body):
            return refused
        name, _, key = unquote(request.rel_url.raw_path).lstrip("/").partition("/")
        query = dict(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True))
        if not name:
            rows = "".join(f"<Bucket><Name>{escape(b)}</Name></Bucket>" for b in self.buckets)
            return _xml(f"<ListAllMyBucketsResult><Buckets>{rows}</Buckets></ListAllMyBucketsResult>")
        bucket = self.buckets.get(name)
        if bucket is None:
            return _error(
                "NoSuchBucket", "The specified bucket does not exist", 404, head=request.method == "HEAD"
            )
        return (
            self._object(request, bucket, key, query, body)
            if key
            else self._bucket(request, bucket, query, body)
        )

    # -- buckets ------------------------------------------------------------------------------------------------------

    def _bucket(
        self, request: web.Request, bucket: Bucket, query: dict[str, str], body: bytes
    ) -> web.StreamResponse:
        match request.method:
            case "HEAD":
                return web.Response()
            case "GET" if "location" in query:
                return _xml("<LocationConstraint/>")
            case "GET" if "versioning" in query:
                status = f"<Status>{bucket.versioning}</Status>" if bucket.versioning else ""
                return _xml(f"<VersioningConfiguration>{status}</VersioningConfiguration>")
            case "GET" if "object-lock" in query:
                return _error("ObjectLockConfigurationNotFoundError", "none", 404)
            case "GET" if "versions" in query:
                return self._list_versions(bucket, query)
            case "GET" if "uploads" in query:
                return self._list_uploads(bucket, query)
            case "GET":
                return self._list_objects(bucket, query)
            case "PUT" if "versioning" in query:
                found = _text(ElementTree.fromstring(body), "Status")
                bucket.versioning = found
                return web.Response()
            case "POST" if "delete" in query:
                return self._delete_many(bucket, body)
            case "DELETE":
                if bucket.versions or bucket.uploads:
                    return _error("BucketNotEmpty", "The bucket you tried to delete is not empty", 409)
                del self.buckets[bucket.name]
                return web.Response(status=204)
        return _error("NotImplemented", "not implemented", 501)

    def _list_versions(self, bucket: Bucket, query: dict[str, str]) -> web.StreamResponse:
        prefix, most = query.get("prefix", ""), min(int(query.get("max-keys", "1000")), 1000)
        after = query.get("key-marker", ""), query.get("version-id-marker", "")
        rows = [v for v in bucket.rows() if v.key.startswith(prefix)]
        rows = _after(rows, *after)
        page, more = rows[:most], len(rows) > most
        out = "".join(_version(v, bucket, query) for v in page)
        tail = (
            f"<NextKeyMarker>{_name(page[-1].key, query)}</NextKeyMarker><NextVersionIdMarker>{page[-1].id}</NextVersionIdMarker>"
            if more
            else ""
        )
        return _listing("ListVersionsResult", bucket, query, out + tail, more)

    def _list_objects(self, bucket: Bucket, query: dict[str, str]) -> web.StreamResponse:
        prefix, most = query.get("prefix", ""), min(int(query.get("max-keys", "1000")), 1000)
        after = query.get("continuation-token") or query.get("start-after") or query.get("marker", "")
        delimiter = query.get("delimiter", "")
        names, folders = [], []
        for key in sorted({v.key for v in bucket.versions.values()}):
            newest = bucket.newest(key)
            if newest is None or newest.marker or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folder = prefix + rest.split(delimiter)[0] + delimiter
                if folder not in folders and folder > after:
                    folders.append(folder)
            elif key > after:
                names.append(newest)
        page, more = names[:most], len(names) > most
        out = "".join(
            f'<Contents><Key>{_name(v.key, query)}</Key><Size>{v.size}</Size><ETag>"e"</ETag><LastModified>{_NOW}</LastModified></Contents>'
            for v in page
        )
        out += "".join(
            f"<CommonPrefixes><Prefix>{_name(f, query)}</Prefix></CommonPrefixes>" for f in folders
        )
        if more:
            out += f"<NextContinuationToken>{_name(page[-1].key, query)}</NextContinuationToken><NextMarker>{_name(page[-1].key, query)}</NextMarker>"
        return _listing("ListBucketResult", bucket, query, f"<KeyCount>{len(page)}</KeyCount>" + out, more)

    def _list_uploads(self, bucket: Bucket, query: dict[str, str]) -> web.StreamResponse:
        most = min(int(query.get("max-uploads", "1000")), 1000)
        after = query.get("key-marker", ""), query.get("upload-id-marker", "")
        rows = sorted((key, id) for id, key in bucket.uploads.items())
        rows = [r for r in rows if not after[0] or r > after]
        page, more = rows[:most], len(rows) > most
        out = "".join(
            f"<Upload><Key>{_name(k, query)}</Key><UploadId>{i}</UploadId></Upload>" for k, i in page
        )
        if more:
            out += f"<NextKeyMarker>{_name(page[-1][0], query)}</NextKeyMarker><NextUploadIdMarker>{page[-1][1]}</NextUploadIdMarker>"
        return _listing("ListMultipartUploadsResult", bucket, query, out, more)

    def _delete_many(self, bucket: Bucket, body: bytes) -> web.StreamResponse:
        root = ElementTree.fromstring(body)
        quiet = _text(root, "Quiet").lower() == "true"
        out = ""
        for row in _all(root, "Object"):
            key, id = _text(row, "Key"), _text(row, "VersionId")
            if self._delete_one(bucket, key, id):
                out += "" if quiet else f"<Deleted><Key>{escape(key)}</Key></Deleted>"
            else:
                out += f"<Error><Key>{escape(key)}</Key><VersionId>{id}</VersionId><Code>AccessDenied</Code><Message>under retention</Message></Error>"
        return _xml(f"<DeleteResult>{out}</DeleteResult>")

    def _delete_one(self, bucket: Bucket, key: str, id: str) -> bool:
        """False when it is under retention. Without a version id: a marker where versions are kept."""
        if id:
            found = bucket.versions.get((key, id))
            if found is not None and found.locked:
                return False
            bucket.versions.pop((key, id), None)
        elif bucket.versioning:
            bucket.put(key, b"", marker=True)
        else:
            bucket.versions.pop((key, "null"), None)
        return True

    # -- objects ------------------------------------------------------------------------------------------------------

    def _object(
        self, request: web.Request, bucket: Bucket, key: str, query: dict[str, str], body: bytes
    ) -> web.StreamResponse:
        newest = bucket.newest(key)
        there = newest is not None and not newest.marker
        match request.method:
            case "PUT":
                if request.headers.get("If-None-Match") == "*" and there:
                    return _error("PreconditionFailed", "At least one of the preconditions did not hold", 412)
                bucket.put(key, _dechunked(request, body))
                return web.Response(headers={"ETag": f'"{hashlib.md5(body).hexdigest()}"'})
            case "GET" | "HEAD" if not there:
                return _error(
                    "NoSuchKey", "The specified key does not exist.", 404, head=request.method == "HEAD"
                )
            case "GET":
                assert newest is not None
                return web.Response(
                    body=newest.body or b"x" * newest.size,
                    headers={"ETag": '"e"', "Last-Modified": _HTTP_NOW},
                )
            case "HEAD":
                assert newest is not None
                return web.Response(
                    headers={"Content-Length": str(newest.size), "ETag": '"e"', "Last-Modified": _HTTP_NOW}
                )
            case "DELETE" if "uploadId" in query:
                if bucket.uploads.pop(query["uploadId"], None) is None:
                    return _error("NoSuchUpload", "no such upload", 404)
                return web.Response(status=204)
            case "DELETE":
                if not self._delete_one(bucket, key, query.get("versionId", "")):
                    return _error("AccessDenied", "under retention", 403)
                return web.Response(status=204)
        return _error("NotImplemented", "not implemented", 501)

    # -- signatures ---------------------------------------------------------------------------------------------------

    def _unsigned(self, request: web.Request, body: bytes) -> web.StreamResponse | None:
        """The refusal of a request whose signature does not hold; None when it does."""
        head = request.method == "HEAD"
        given = request.headers.get("Authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            return _error("AccessDenied", "Access Denied", 403, head=head)
        parts = dict(p.strip().split("=", 1) for p in given.removeprefix("AWS4-HMAC-SHA256 ").split(","))
        id, day, region, service, _ = parts["Credential"].split("/")
        secret = self.keys.get(id)
        if secret is None:
            return _error(
                "InvalidAccessKeyId", "The access key id does not exist in our records.", 403, head=head
            )
        names = parts["SignedHeaders"].split(";")
        headers = "".join(f"{n}:{' '.join(request.headers.get(n, '').split())}\n" for n in names)
        query = "&".join(
            sorted(
                f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}"
                for k, v in parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True)
            )
        )
        payload = request.headers.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest())
        canonical = "\n".join(
            [request.method, request.rel_url.raw_path, query, headers, ";".join(names), payload]
        )
        scope = f"{day}/{region}/{service}/aws4_request"
        to_sign = "\n".join(
            [
                "AWS4-HMAC-SHA256",
                request.headers.get("x-amz-date", ""),
                scope,
                hashlib.sha256(canonical.encode()).hexdigest(),
            ]
        )
        key = f"AWS4{secret}".encode()
        for step in (day, region, service, "aws4_request"):
            key = hmac.new(key, step.encode(), hashlib.sha256).digest()
        if not hmac.compare_digest(
            hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest(), parts["Signature"]
        ):
            return _error(
                "SignatureDoesNotMatch", "The request signature we calculated does not match.", 403, head=head
            )
        return None


_NOW = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
_HTTP_NOW = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")


def _filled(spec: BucketSpec) -> Bucket:
    bucket = Bucket(spec.name, "Enabled" if spec.versioning else "")
    for n in range(spec.objects):
        for _ in range(spec.versions_each):
            bucket.put(f"{spec.prefix}{n:07}", b"", size=spec.bytes_each, locked=n < spec.locked)
    for n in range(spec.markers):
        bucket.put(f"{spec.prefix}{n:07}", b"", marker=True)
    for n in range(spec.uploads):
        bucket.uploads[uuid.uuid4().hex] = f"{spec.prefix}upload-{n:05}"
    for key, text in spec.files.items():
        bucket.put(key, text.encode())
    return bucket


def _after(rows: list[Version], key: str, id: str) -> list[Version]:
    """Rows behind a marker; a marker whose version has gone meanwhile still has its place."""
    if not key:
        return rows
    if id:
        for n, v in enumerate(rows):
            if (v.key, v.id) == (key, id):
                return rows[n + 1 :]
        return (
            [v for v in rows if v.key >= key]
            if any(v.key == key for v in rows)
            else [v for v in rows if v.key > key]
        )
    return [v for v in rows if v.key > key]


def _dechunked(request: web.Request, body: bytes) -> bytes:
    """A body without the framing of `aws-chunked`."""
    if "aws-chunked" not in request.headers.get("Content-Encoding", ""):
        return body
    out, rest = b"", body
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head.split(b";")[0], 16)
        if size == 0:
            break
        out, rest = out + rest[:size], rest[size + 2 :]
    return out


def _version(v: Version, bucket: Bucket, query: dict[str, str]) -> str:
    newest = bucket.newest(v.key)
    latest = str(newest is not None and newest.id == v.id).lower()
    kind = "DeleteMarker" if v.marker else "Version"
    size = "" if v.marker else f'<Size>{v.size}</Size><ETag>"e"</ETag>'
    return f"<{kind}><Key>{_name(v.key, query)}</Key><VersionId>{v.id}</VersionId><IsLatest>{latest}</IsLatest><LastModified>{_NOW}</LastModified>{size}</{kind}>"


def _name(key: str, query: dict[str, str]) -> str:
    return quote(key, safe="/-_.~") if query.get("encoding-type") == "url" else escape(key)


def _listing(tag: str, bucket: Bucket, query: dict[str, str], rows: str, more: bool) -> web.StreamResponse:
    encoding = "<EncodingType>url</EncodingType>" if query.get("encoding-type") == "url" else ""
    head = f"<Name>{escape(bucket.name)}</Name><Prefix>{_name(query.get('prefix', ''), query)}</Prefix>{encoding}<MaxKeys>1000</MaxKeys>"
    return _xml(
        f'<{tag} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{head}<IsTruncated>{str(more).lower()}</IsTruncated>{rows}</{tag}>'
    )


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _all(root: ElementTree.Element, tag: str) -> Iterable[ElementTree.Element]:
    return (e for e in root if _local(e.tag) == tag)


def _text(root: ElementTree.Element, tag: str) -> str:
    return next((e.text or "" for e in root if _local(e.tag) == tag), "")


def _xml(text: str, status: int = 200) -> web.Response:
    return web.Response(
        text=f'<?xml version="1.0" encoding="UTF-8"?>\n{text}', content_type="application/xml", status=status
    )


def _error(code: str, message: str, status: int, *, head: bool = False) -> web.Response:
    if head:
        return web.Response(status=status)
    return _xml(
        f"<Error><Code>{code}</Code><Message>{escape(message)}</Message><RequestId>{uuid.uuid4().hex[:16]}</RequestId></Error>",
        status,
    )


def _render(fault: Fault) -> web.StreamResponse:
    status = int(fault.status or 500)
    code = {403: "AccessDenied", 404: "NoSuchBucket", 429: "SlowDown", 503: "SlowDown"}.get(
        status, "InternalError"
    )
    answer = _error(code, fault.message or "injected fault", status)
    if fault.retry_after:
        answer.headers["Retry-After"] = f"{fault.retry_after:g}"
    return answer


def _call_of(request: web.Request) -> tuple[str, str]:
    query = request.rel_url.query
    path = unquote(request.rel_url.raw_path).lstrip("/")
    if request.method == "POST" and "delete" in query:
        return "DeleteObjects", path
    if request.method == "GET" and "versions" in query:
        return "ListObjectVersions", path
    if request.method == "GET" and "uploads" in query:
        return "ListMultipartUploads", path
    if request.method == "GET" and "list-type" in query:
        return "ListObjectsV2", path
    return f"{request.method}", path
