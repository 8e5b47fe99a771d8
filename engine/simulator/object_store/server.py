"""The endpoint: who may ask, and what each operation does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree

from aiohttp import web

from engine.simulator.faults import Fault, Timetable
from engine.simulator.object_store import listings
from engine.simulator.object_store.bucket import Bucket, Version
from engine.simulator.object_store.errors import S3Error, element, error, injected, xml
from engine.simulator.object_store.operations import Asked
from engine.simulator.object_store.signature import Signed, plain_body, signer
from engine.simulator.object_store.spec import BucketSpec, Usage
from engine.simulator.web import Served, guarded, retry_after, served

BATCH = 1000
"""Objects in one DeleteObjects at most."""
BYPASS = "x-amz-bypass-governance-retention"


class ObjectStore:
    """All buckets of an account, in path style. `keys`: access key id -> secret; all of them may do everything."""

    def __init__(self, buckets: Sequence[BucketSpec], keys: dict[str, str], timetable: Timetable) -> None:
        self.buckets = {spec.name: Bucket.filled(spec) for spec in buckets}
        self.keys = dict(keys)
        self.log: list[Served] = []
        self._timetable = timetable
        self._operations: dict[str, Callable[[Asked, Bucket, bytes], web.StreamResponse]] = {
            "HeadBucket": lambda asked, bucket, body: web.Response(),
            "DeleteBucket": self._delete_bucket,
            "ListObjects": lambda asked, bucket, body: xml(listings.objects(bucket, asked.query)),
            "ListObjectsV2": lambda asked, bucket, body: xml(listings.objects(bucket, asked.query)),
            "ListObjectVersions": lambda asked, bucket, body: xml(listings.versions(bucket, asked.query)),
            "ListMultipartUploads": lambda asked, bucket, body: xml(listings.uploads(bucket, asked.query)),
            "GetBucketLocation": lambda asked, bucket, body: xml("<LocationConstraint/>"),
            "GetBucketVersioning": self._get_versioning,
            "PutBucketVersioning": self._put_versioning,
            "GetObjectLockConfiguration": self._get_object_lock,
            "DeleteObjects": self._delete_objects,
            "HeadObject": self._get_object,
            "GetObject": self._get_object,
            "PutObject": self._put_object,
            "DeleteObject": self._delete_object,
            "GetObjectRetention": self._get_retention,
            "CreateMultipartUpload": self._create_upload,
            "UploadPart": self._upload_part,
            "CompleteMultipartUpload": self._complete_upload,
            "AbortMultipartUpload": self._abort_upload,
        }

    # -- for those who run it -------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        return name in self.buckets

    def drop_bucket(self, name: str) -> None:
        """The provider's own purge: bucket and contents go at once."""
        self.buckets.pop(name, None)

    def revoke(self, access_key_id: str) -> None:
        """The key is not valid any more."""
        self.keys.pop(access_key_id, None)

    def usage(self, name: str) -> Usage:
        """What a bucket holds; nothing when there is none of that name."""
        bucket = self.buckets.get(name)
        return Usage(0, 0, 0, 0, 0) if bucket is None else bucket.usage()

    def describe(self) -> dict[str, dict[str, int | str]]:
        """Usage and versioning, by bucket."""
        return {name: {**vars(b.usage()), "versioning": b.versioning} for name, b in self.buckets.items()}

    def app(self) -> web.Application:
        app = web.Application(
            client_max_size=256 << 20,
            middlewares=[guarded("s3", self._timetable, self.log, _render, _call_of)],
        )
        # Keys may hold line ends, which a dot does not match.
        app.router.add_route("*", r"/{tail:[\s\S]*}", self._serve)
        return app

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked, body = Asked(request), await request.read()
        try:
            signed = Signed(asked.method, asked.raw_path, asked.raw_query, asked.headers, body)
            served()["principal"] = signer(signed, self.keys, datetime.now(UTC))
            answer = self._answer(asked, plain_body(asked.headers, body))
        except S3Error as no:
            answer = no.answer(head=asked.method == "HEAD", headers=_marker_headers(no))
        answer.headers["x-amz-request-id"] = f"{len(self.log):016X}"
        return answer

    def _answer(self, asked: Asked, body: bytes) -> web.StreamResponse:
        if asked.operation == "ListBuckets":
            return xml(listings.buckets(self.buckets.values()))
        bucket = self.buckets.get(asked.bucket)
        if bucket is None:
            message = "The specified bucket does not exist"
            raise S3Error("NoSuchBucket", message, {"BucketName": asked.bucket})
        if perform := self._operations.get(asked.operation):
            return perform(asked, bucket, body)
        raise S3Error(
            "NotImplemented", "A header or query you provided implies functionality that is not implemented."
        )

    # -- buckets --------------------------------------------------------------------------------------------------------

    def _delete_bucket(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        if not bucket.usage().empty:
            raise S3Error("BucketNotEmpty", "The bucket you tried to delete is not empty")
        del self.buckets[bucket.name]
        return web.Response(status=204)

    def _get_versioning(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        return _document(
            "VersioningConfiguration", {"Status": bucket.versioning} if bucket.versioning else {}
        )

    def _put_versioning(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        status = _text(_parse(body), "Status")
        if status not in ("Enabled", "Suspended"):
            raise S3Error("MalformedXML", "The XML you provided was not well-formed")
        if bucket.locking and status == "Suspended":
            raise S3Error("InvalidRequest", "Object Lock is enabled, so versioning cannot be suspended.")
        bucket.versioning = status
        return web.Response()

    def _get_object_lock(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        if not bucket.locking:
            message = "Object Lock configuration does not exist for this bucket"
            raise S3Error("ObjectLockConfigurationNotFoundError", message)
        return _document("ObjectLockConfiguration", {"ObjectLockEnabled": "Enabled"})

    def _delete_objects(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        if not any(h.lower().startswith(("content-md5", "x-amz-checksum-")) for h in asked.headers):
            raise S3Error("InvalidRequest", "Missing required header for this request: Content-MD5")
        root = _parse(body)
        objects = list(_all(root, "Object"))
        if not 0 < len(objects) <= BATCH:
            raise S3Error("MalformedXML", "The XML you provided was not well-formed")
        quiet, out = _text(root, "Quiet").lower() == "true", []
        for row in objects:
            key, id = _text(row, "Key"), _text(row, "VersionId")
            named = element("Key", key) + (element("VersionId", id) if id else "")
            try:
                self._meet_item(bucket, key)
                deleted = self._delete(asked, bucket, key, id)
            except S3Error as no:
                out.append(
                    f"<Error>{named}{element('Code', no.code)}{element('Message', no.message)}</Error>"
                )
                continue
            if not quiet:
                out.append(f"<Deleted>{named}{_deleted(deleted)}</Deleted>")
        return xml(f"<DeleteResult {listings.NAMESPACE}>{''.join(out)}</DeleteResult>")

    def _meet_item(self, bucket: Bucket, key: str) -> None:
        fault = self._timetable.meet_item("s3", "DeleteObjects/Item", f"{bucket.name}/{key}")
        if fault:
            code, _, message = injected(fault.status, fault.message)
            raise S3Error(code, message)

    def _delete(self, asked: Asked, bucket: Bucket, key: str, id: str) -> Version | None:
        """Delete a version, or, without an id, the current object: the version that is gone, or the marker that was made of it."""
        bypass = asked.headers.get(BYPASS, "").lower() == "true"
        if bypass and not bucket.locking:
            raise S3Error("InvalidArgument", f"{BYPASS} is only applicable to Object Lock enabled buckets.")
        if not id and bucket.versioning:
            return bucket.mark(key)
        found = bucket.version(key, id or "null")
        held = found.retention if found else None
        if held and held.until > datetime.now(UTC).timestamp() and not (bypass and held.mode == "GOVERNANCE"):
            raise S3Error("AccessDenied", "Access Denied because object protected by object lock.")
        bucket.remove(key, id or "null")
        return found if id else None

    # -- objects --------------------------------------------------------------------------------------------------------

    def _find(self, asked: Asked, bucket: Bucket) -> Version:
        if id := asked.query.get("versionId", ""):
            found = bucket.version(asked.key, id)
            if found is None:
                raise S3Error("NoSuchVersion", "The specified version does not exist.")
            if found.marker:
                raise S3Error(
                    "MethodNotAllowed", "The specified method is not allowed against this resource."
                )
            return found
        newest = bucket.newest(asked.key)
        if newest is None or newest.marker:
            more = {"Key": asked.key} | ({"VersionId": newest.id} if newest else {})
            raise S3Error("NoSuchKey", "The specified key does not exist.", more)
        return newest

    def _get_object(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        found = self._find(asked, bucket)
        headers = {
            "ETag": f'"{found.etag}"',
            "Last-Modified": listings.http_date(found.born),
            "Accept-Ranges": "bytes",
            "Content-Type": "binary/octet-stream",
        }
        if bucket.versioning:
            headers["x-amz-version-id"] = found.id
        if found.retention:
            headers["x-amz-object-lock-mode"] = found.retention.mode
            headers["x-amz-object-lock-retain-until-date"] = listings.iso(int(found.retention.until))
        if asked.method == "HEAD":
            return web.Response(headers={**headers, "Content-Length": str(found.size)})
        wanted = asked.headers.get("Range")
        if wanted is None:
            return web.Response(body=found.content(), headers=headers)
        start, end = _range(wanted, found.size)
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{found.size}"
        return web.Response(body=found.content()[start:end], headers=headers, status=206)

    def _put_object(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        newest = bucket.newest(asked.key)
        etag = newest.etag if newest and not newest.marker else None
        match, none_match = asked.headers.get("If-Match"), asked.headers.get("If-None-Match")
        if (none_match == "*" and etag is not None) or (match and match.strip('"') != etag):
            raise S3Error(
                "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"
            )
        return web.Response(headers=_written(bucket, bucket.put(asked.key, body)))

    def _delete_object(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        gone = self._delete(asked, bucket, asked.key, asked.query.get("versionId", ""))
        headers = {} if gone is None else {"x-amz-version-id": gone.id}
        if gone and gone.marker:
            headers["x-amz-delete-marker"] = "true"
        return web.Response(status=204, headers=headers)

    def _get_retention(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        held = self._find(asked, bucket).retention
        if held is None:
            message = "The specified object does not have a ObjectLock configuration"
            raise S3Error("NoSuchObjectLockConfiguration", message)
        return _document("Retention", {"Mode": held.mode, "RetainUntilDate": listings.iso(int(held.until))})

    # -- multipart uploads ----------------------------------------------------------------------------------------------

    def _create_upload(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        rows = {"Bucket": bucket.name, "Key": asked.key, "UploadId": bucket.begin_upload(asked.key)}
        return _document("InitiateMultipartUploadResult", rows)

    def _upload_part(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        upload, number = self._upload(asked, bucket), asked.query.get("partNumber", "")
        if not number.isdecimal() or not 1 <= int(number) <= 10_000:
            raise S3Error("InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")
        bucket.uploads[upload].parts[int(number)] = body
        return web.Response(headers={"ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'})

    def _complete_upload(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        id = self._upload(asked, bucket)
        parts = bucket.uploads[id].parts
        numbers = [_text(part, "PartNumber") for part in _all(_parse(body), "Part")]
        if not numbers or not all(n.isdecimal() and int(n) in parts for n in numbers):
            raise S3Error("InvalidPart", "One or more of the specified parts could not be found.")
        del bucket.uploads[id]
        made = bucket.put(asked.key, b"".join(parts[int(n)] for n in numbers))
        rows = {"Bucket": bucket.name, "Key": made.key, "ETag": f'"{made.etag}"'}
        return _document("CompleteMultipartUploadResult", rows, _written(bucket, made))

    def _abort_upload(self, asked: Asked, bucket: Bucket, body: bytes) -> web.StreamResponse:
        del bucket.uploads[self._upload(asked, bucket)]
        return web.Response(status=204)

    def _upload(self, asked: Asked, bucket: Bucket) -> str:
        id = asked.query["uploadId"]
        if id not in bucket.uploads or bucket.uploads[id].key != asked.key:
            raise S3Error("NoSuchUpload", "The specified upload does not exist.")
        return id


def _document(tag: str, rows: dict[str, str], headers: dict[str, str] | None = None) -> web.Response:
    inside = "".join(element(k, v) for k, v in rows.items())
    return xml(f"<{tag} {listings.NAMESPACE}>{inside}</{tag}>", headers=headers)


def _written(bucket: Bucket, made: Version) -> dict[str, str]:
    return {"ETag": f'"{made.etag}"'} | ({"x-amz-version-id": made.id} if bucket.versioning else {})


def _deleted(gone: Version | None) -> str:
    """What a Deleted row says beside what was asked: about a marker that was made or deleted."""
    if gone is None or not gone.marker:
        return ""
    return f"<DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>{gone.id}</DeleteMarkerVersionId>"


def _marker_headers(no: S3Error) -> dict[str, str]:
    """A key that is hidden by a delete marker says so, also to HEAD."""
    marker = no.more.get("VersionId") if no.code == "NoSuchKey" else None
    return {"x-amz-delete-marker": "true", "x-amz-version-id": marker} if marker else {}


def _range(text: str, size: int) -> tuple[int, int]:
    """Start and end of `bytes=A-B`, `bytes=A-` or `bytes=-N` in so many bytes."""
    unit, _, span = text.partition("=")
    first, _, last = span.partition("-")
    try:
        start = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
    except ValueError:
        start, end = size, size
    if unit != "bytes" or start >= end:
        raise S3Error("InvalidRange", "The requested range is not satisfiable")
    return start, end


def _parse(body: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(body)
    except ElementTree.ParseError:
        raise S3Error("MalformedXML", "The XML you provided was not well-formed") from None


def _all(root: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    return (e for e in root if e.tag.rpartition("}")[2] == tag)


def _text(root: ElementTree.Element, tag: str) -> str:
    return next((e.text or "" for e in _all(root, tag)), "")


def _render(fault: Fault, request: web.Request) -> web.StreamResponse:
    code, status, message = injected(fault.status, fault.message)
    return error(code, message, status, head=request.method == "HEAD", headers=retry_after(fault))


def _call_of(request: web.Request) -> tuple[str, str]:
    asked = Asked(request)
    return asked.operation or asked.method, asked.subject
