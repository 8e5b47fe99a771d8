"""A loopback S3 for tests: versions, markers, uploads, locks, and the ways in which real stores misbehave."""

from __future__ import annotations

import asyncio
import bisect
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qsl, quote, unquote_to_bytes
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from aiohttp import web

NS = "http://s3.amazonaws.com/doc/2006-03-01/"
OLD = "2026-01-01T00:00:00.000Z"
ACCESS_KEY, SECRET_KEY = "NAKTESTKEY0001", "a-secret-for-tests"


class Row:
    """A version or delete marker."""

    __slots__ = ("alive", "key", "marker", "modified", "order", "size", "until", "version")

    def __init__(self, key: str, order: int, version: str, *, marker: bool, modified: str, size: int) -> None:
        self.key, self.order, self.version, self.marker = key, order, version, marker
        self.modified, self.size, self.alive, self.until = modified, size, True, ""

    @property
    def place(self) -> tuple[bytes, int]:
        return self.key.encode(), self.order


class Bucket:
    """Rows in S3's order: keys by their bytes, the newest version first."""

    def __init__(self, *, versioned: bool = True) -> None:
        self.rows: list[Row] = []
        self.index: dict[tuple[str, str], Row] = {}
        self.uploads: dict[str, tuple[str, str]] = {}
        self.status = "Enabled" if versioned else ""
        self.lock = False
        self.content: dict[str, bytes] = {}
        self.markers_made = 0
        self._counter = 0
        self._dead = 0

    def put(
        self, key: str, *, marker: bool = False, modified: str = OLD, size: int = 4, version: str = ""
    ) -> Row:
        self._counter += 1
        version = version or (f"v{self._counter:031x}" if self.status == "Enabled" else "null")
        if (old := self.index.get((key, version))) is not None and old.alive:
            self.remove(old)
        row = Row(key, -self._counter, version, marker=marker, modified=modified, size=0 if marker else size)
        bisect.insort(self.rows, row, key=lambda r: r.place)
        self.index[key, version] = row
        return row

    def fill(self, keys: Iterable[str], *, versions: int = 1, marker_every: int = 0) -> None:
        """Many rows at once: cheaper than `put`, as it sorts once."""
        for n, key in enumerate(keys):
            for v in range(versions):
                self._counter += 1
                version = f"v{self._counter:031x}" if self.status == "Enabled" else "null"
                row = Row(key, -self._counter, version, marker=False, modified=OLD, size=4)
                self.rows.append(row)
                self.index[key, version] = row
                if marker_every and n % marker_every == 0 and v == versions - 1:
                    self._counter += 1
                    row = Row(
                        key, -self._counter, f"m{self._counter:031x}", marker=True, modified=OLD, size=0
                    )
                    self.rows.append(row)
                    self.index[key, row.version] = row
        self.rows.sort(key=lambda r: r.place)

    @property
    def alive(self) -> list[Row]:
        return [r for r in self.rows if r.alive]

    def remove(self, row: Row) -> None:
        row.alive = False
        self._dead += 1
        if self._dead > 2000 and self._dead * 2 > len(self.rows):
            self.rows = self.alive
            self._dead = 0

    def after(self, key: str, version: str) -> int:
        if not key:
            return 0
        row = self.index.get((key, version))
        place = row.place if row is not None else (key.encode(), 1)
        return bisect.bisect_right(self.rows, place, key=lambda r: r.place)


@dataclass
class Faults:
    """What goes wrong. Everything is off by default."""

    slow_share: float = 0.0
    slow_first: int = 0
    retry_after: str = ""
    latency: float = 0.0
    key_errors: dict[str, list[str]] = field(default_factory=dict)
    """key -> codes, one for each attempt to delete it; the last one stays when it ends in `!`."""
    lying_end: bool = False
    """A listing that continues from a deleted version ends at once, with success."""
    ignores_marker: bool = False
    cut_body: int = 0
    """So many answers are cut short."""
    not_s3: int = 0
    """So many answers are a web page with 404."""
    deny: frozenset[str] = frozenset()
    region: str = ""
    endpoint: str = ""
    """A 301 that points there."""
    skew: timedelta = timedelta()
    codes: dict[str, tuple[int, str]] = field(default_factory=dict)
    """operation -> (status, code), always."""
    plain_keys: bool = False
    """Does not know encoding-type=url."""
    writer: Callable[[Server, int], None] | None = None
    """Called before each listing from the start, with its number."""
    hang: frozenset[str] = frozenset()


class Server:
    """One loopback endpoint. `calls` counts by operation; `bodies` keeps the deletion documents; `log` all queries."""

    def __init__(self, *, check_signatures: bool = True) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.faults = Faults()
        self.calls: Counter[str] = Counter()
        self.bodies: list[bytes] = []
        self.log: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.attempts: Counter[tuple[str, str]] = Counter()
        self.active = self.most_active = 0
        self.check_signatures = check_signatures
        self._random = random.Random(7)
        self._sweeps = 0
        self.port = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Server:
        self._runner = web.ServerRunner(web.Server(self._serve), access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, shutdown_timeout=0.1)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.faults.skew

    # -- the protocol --

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            body = await request.read()
            if self.faults.latency:
                await asyncio.sleep(self.faults.latency)
            status, headers, answer = await self._answer(request, body)
        finally:
            self.active -= 1
        if request.method == "HEAD":
            answer = b""
        if answer and self.faults.cut_body and status == 200:
            self.faults.cut_body -= 1
            answer = answer[: len(answer) // 2]
        return web.Response(
            status=status,
            body=answer,
            headers={"Date": format_datetime(self.now(), usegmt=True), "x-amz-request-id": "REQ1", **headers},
        )

    async def _answer(self, request: web.BaseRequest, body: bytes) -> tuple[int, dict[str, str], bytes]:
        path, _, line = request.raw_path.partition("?")
        query = dict(parse_qsl(line, keep_blank_values=True))
        _, name, *rest = path.split("/", 2)
        key = unquote_to_bytes(rest[0]).decode() if rest else ""
        operation = _operation(request.method, query, key)
        self.calls[operation] += 1
        self.log.append((operation, query, dict(request.headers)))
        faults = self.faults
        if operation in faults.hang:
            await asyncio.sleep(3600)
        if faults.not_s3:
            faults.not_s3 -= 1
            return 404, {"Content-Type": "text/html"}, b"<html>no such page</html>"
        if faults.slow_first or self._random.random() < faults.slow_share:
            faults.slow_first = max(0, faults.slow_first - 1)
            self.calls["503"] += 1
            return (
                503,
                ({"Retry-After": faults.retry_after} if faults.retry_after else {}),
                _error("SlowDown", "Please reduce"),
            )
        if faults.endpoint:
            return 301, {}, _error("PermanentRedirect", "Elsewhere", Endpoint=faults.endpoint)
        problem = self._unsigned(request, path, line, body) if self.check_signatures else None
        if problem is not None:
            return problem
        if operation in faults.deny:
            return 403, {}, _error("AccessDenied", "Access Denied")
        if operation in faults.codes:
            status, code = faults.codes[operation]
            return status, {}, _error(code, code)
        bucket = self.buckets.get(name)
        if bucket is None:
            return 404, {}, _error("NoSuchBucket", "The specified bucket does not exist", BucketName=name)
        handler: Callable[..., tuple[int, bytes]] = getattr(self, f"_{operation}")
        status, answer = handler(bucket, name, key, query, body)
        return status, {}, answer

    def _unsigned(
        self, request: web.BaseRequest, path: str, line: str, body: bytes
    ) -> tuple[int, dict[str, str], bytes] | None:
        """Check the signature with botocore's own signer, and the region and time that it is for."""
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        given = request.headers["Authorization"]
        region = given.split("/")[2]
        moment = request.headers["X-Amz-Date"]
        at = datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs(at - self.now()) > timedelta(minutes=15):
            return (
                403,
                {},
                _error(
                    "RequestTimeTooSkewed",
                    "too far",
                    ServerTime=self.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
                    RequestTime=moment,
                ),
            )
        if self.faults.region and region != self.faults.region:
            return (
                400,
                {},
                _error("AuthorizationHeaderMalformed", "the region is wrong", Region=self.faults.region),
            )
        names = given.split("SignedHeaders=")[1].split(",")[0].split(";")
        twin = AWSRequest(request.method, f"{self.endpoint}{path}{'?' + line if line else ''}", data=body)
        for header in names:
            twin.headers[header] = request.headers[header]
        signer = S3SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", region)
        twin.context["timestamp"] = moment
        canonical = signer.canonical_request(twin)
        signature = signer.signature(signer.string_to_sign(twin, canonical), twin)
        if not given.endswith(f"Signature={signature}"):
            return 403, {}, _error("SignatureDoesNotMatch", "does not match")
        return None

    # -- operations --

    def _head_bucket(self, bucket: Bucket, *_: object) -> tuple[int, bytes]:
        return 200, b""

    def _get_versioning(self, bucket: Bucket, *_: object) -> tuple[int, bytes]:
        status = f"<Status>{bucket.status}</Status>" if bucket.status else ""
        return 200, f'<VersioningConfiguration xmlns="{NS}">{status}</VersioningConfiguration>'.encode()

    def _put_versioning(
        self, bucket: Bucket, name: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        if bucket.lock:
            return 409, _error("InvalidBucketState", "object lock needs versioning")
        status = ElementTree.fromstring(body).findtext(f"{{{NS}}}Status")
        assert status in ("Enabled", "Suspended")
        bucket.status = status
        return 200, b""

    def _get_lock(self, bucket: Bucket, *_: object) -> tuple[int, bytes]:
        if not bucket.lock:
            return 404, _error("ObjectLockConfigurationNotFoundError", "none")
        return (
            200,
            b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>",
        )

    def _get_retention(
        self, bucket: Bucket, name: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        row = bucket.index.get((key, query["versionId"]))
        if row is None or not row.until:
            return 404, _error("NoSuchObjectLockConfiguration", "none")
        return (
            200,
            f"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>{row.until}</RetainUntilDate></Retention>".encode(),
        )

    def _get_object(
        self, bucket: Bucket, name: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        if key not in bucket.content:
            return 404, _error("NoSuchKey", "The specified key does not exist.")
        return 200, bucket.content[key]

    def _list_objects(
        self, bucket: Bucket, name: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        most, prefix, delimiter = (
            int(query.get("max-keys", 1000)),
            query.get("prefix", ""),
            query.get("delimiter", ""),
        )
        after = (
            unquote_to_bytes(query["continuation-token"][1:]).decode()
            if "continuation-token" in query
            else ""
        )
        known = sorted({*bucket.content, *(r.key for r in bucket.alive)}, key=str.encode)
        out: list[str] = []
        last, truncated, commons = "", False, dict[str, None]()
        for k in known:
            if (
                not k.startswith(prefix)
                or k <= after
                or (after.endswith("/") and delimiter and k.startswith(after))
            ):
                continue
            common = _common(k, prefix, delimiter)
            if common in commons:
                continue
            if len(out) + len(commons) >= most:
                truncated = True
                break
            last = common or k
            if common:
                commons[common] = None
            else:
                out.append(
                    f"<Contents><Key>{self._show(k, query)}</Key><LastModified>{OLD}</LastModified><Size>4</Size></Contents>"
                )
        token = f"<NextContinuationToken>t{quote(last)}</NextContinuationToken>" if truncated else ""
        return 200, self._page("ListBucketResult", query, truncated, token, out, commons)

    def _list_versions(
        self, bucket: Bucket, name: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        if "key-marker" not in query and "delimiter" not in query and self.faults.writer is not None:
            self._sweeps += 1
            self.faults.writer(self, self._sweeps)
        marker, version = query.get("key-marker", ""), query.get("version-id-marker", "")
        if self.faults.ignores_marker:
            marker = version = ""
        if (
            self.faults.lying_end
            and marker
            and (row := bucket.index.get((marker, version)))
            and not row.alive
        ):
            return 200, self._page("ListVersionsResult", query, False, "", [], {})
        prefix, delimiter, most = query.get("prefix", ""), query.get("delimiter", ""), 1000
        out: list[str] = []
        last: Row | None = None
        truncated, commons = False, dict[str, None]()
        latest = marker if version else ""
        for at in range(bucket.after(marker, version), len(bucket.rows)):
            row = bucket.rows[at]
            if not row.alive or (prefix and not row.key.startswith(prefix)):
                continue
            common = _common(row.key, prefix, delimiter) if delimiter else ""
            if common in commons:
                continue
            if len(out) + len(commons) >= most:
                truncated = True
                break
            last = row
            if common:
                commons[common] = None
                continue
            tag, extra = (
                ("DeleteMarker", "")
                if row.marker
                else ("Version", f"<ETag>&quot;0&quot;</ETag><Size>{row.size}</Size>")
            )
            shown = self._show(row.key, query)
            out.append(
                f"<{tag}><Key>{shown}</Key><VersionId>{row.version}</VersionId><IsLatest>{str(row.key != latest).lower()}</IsLatest>"
                f"<LastModified>{row.modified}</LastModified>{extra}<Owner><ID>o</ID></Owner></{tag}>"
            )
            latest = row.key
        token = ""
        if truncated and last is not None:
            token = f"<NextKeyMarker>{self._show(last.key, query)}</NextKeyMarker><NextVersionIdMarker>{last.version}</NextVersionIdMarker>"
        return 200, self._page("ListVersionsResult", query, truncated, token, out, commons)

    def _list_uploads(
        self, bucket: Bucket, name: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        order = sorted((k, u, began) for u, (k, began) in bucket.uploads.items())
        after = (query.get("key-marker", ""), query.get("upload-id-marker", ""))
        rest = [o for o in order if o[:2] > after]
        page, truncated = rest[:1000], len(rest) > 1000
        out = [
            f"<Upload><Key>{self._show(k, query)}</Key><UploadId>{u}</UploadId><Initiated>{began}</Initiated></Upload>"
            for k, u, began in page
        ]
        token = ""
        if truncated:
            token = f"<NextKeyMarker>{self._show(page[-1][0], query)}</NextKeyMarker><NextUploadIdMarker>{page[-1][1]}</NextUploadIdMarker>"
        return 200, self._page("ListMultipartUploadsResult", query, truncated, token, out, {})

    def _abort_upload(
        self, bucket: Bucket, name: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        if bucket.uploads.get(query["uploadId"], ("",))[0] != key:
            return 404, _error("NoSuchUpload", "none")
        if self.faults.key_errors.get(key):
            return 200, b""  # parts were in flight: it is still there
        del bucket.uploads[query["uploadId"]]
        return 204, b""

    def _delete_object(
        self, bucket: Bucket, name: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        if "versionId" not in query:
            bucket.markers_made += 1
            return 204, b""
        row = bucket.index.get((key, query["versionId"]))
        if row is not None and row.alive:
            bucket.remove(row)
        return 204, b""

    def _delete_objects(
        self, bucket: Bucket, name: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        self.bodies.append(body)
        bypass = self.log[-1][2].get("x-amz-bypass-governance-retention") == "true"
        if bypass and not bucket.lock:
            return 400, _error("InvalidArgument", "no object lock")
        failed: list[str] = []
        wanted = ElementTree.fromstring(body).findall(f"{{{NS}}}Object")
        if len(wanted) > 1000:
            return 400, _error("MalformedXML", "too many")
        for element in wanted:
            k = element.findtext(f"{{{NS}}}Key") or ""
            version = element.findtext(f"{{{NS}}}VersionId")
            if version is None:
                bucket.markers_made += 1
                continue
            self.attempts[k, version] += 1
            row = bucket.index.get((k, version))
            codes = self.faults.key_errors.get(k)
            code = ""
            if codes:
                code = codes[0].rstrip("!")
                if not codes[0].endswith("!"):
                    codes.pop(0)
            elif row is not None and row.until and not bypass:
                code = "AccessDenied"
            if code:
                failed.append(
                    f"<Error><Key>{escape(k)}</Key><VersionId>{version}</VersionId><Code>{code}</Code><Message>m</Message></Error>"
                )
            elif row is not None and row.alive:
                bucket.remove(row)
        return (
            200,
            f'<?xml version="1.0"?>\n<DeleteResult xmlns="{NS}">{"".join(failed)}</DeleteResult>'.encode(),
        )

    # -- rendering --

    def _show(self, key: str, query: dict[str, str]) -> str:
        if "encoding-type" in query and not self.faults.plain_keys:
            return quote(key, safe="/-_.~").replace("%20", "+")
        return escape(key)

    def _page(
        self,
        root: str,
        query: dict[str, str],
        truncated: bool,
        token: str,
        out: list[str],
        commons: Iterable[str],
    ) -> bytes:
        encoding = (
            "<EncodingType>url</EncodingType>"
            if "encoding-type" in query and not self.faults.plain_keys
            else ""
        )
        prefixes = "".join(
            f"<CommonPrefixes><Prefix>{self._show(p, query)}</Prefix></CommonPrefixes>" for p in commons
        )
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{NS}"><Name>b</Name><Prefix>{self._show(query.get("prefix", ""), query)}</Prefix>'
            f"<MaxKeys>1000</MaxKeys>{encoding}<IsTruncated>{str(truncated).lower()}</IsTruncated>{token}{''.join(out)}{prefixes}</{root}>"
        ).encode()


def _common(key: str, prefix: str, delimiter: str) -> str:
    if not delimiter:
        return ""
    end = key.find(delimiter, len(prefix))
    return key[: end + len(delimiter)] if end >= 0 else ""


def _error(code: str, message: str, **more: str) -> bytes:
    extra = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in more.items())
    return f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>{message}</Message>{extra}<RequestId>REQ1</RequestId></Error>'.encode()


def _operation(method: str, query: dict[str, str], key: str) -> str:
    if key:
        if method == "DELETE":
            return "abort_upload" if "uploadId" in query else "delete_object"
        return "get_retention" if "retention" in query else "get_object"
    for name, operation in (
        ("versions", "list_versions"),
        ("uploads", "list_uploads"),
        ("object-lock", "get_lock"),
        ("delete", "delete_objects"),
    ):
        if name in query:
            return operation
    if "versioning" in query:
        return "put_versioning" if method == "PUT" else "get_versioning"
    return "head_bucket" if method == "HEAD" else "list_objects"
