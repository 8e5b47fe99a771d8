"""Which operation a request is, by what its path names, its method, and the subresource in its query."""

from __future__ import annotations

from urllib.parse import unquote

from aiohttp import web

OPERATIONS = {
    ("service", "GET", ""): "ListBuckets",
    ("bucket", "HEAD", ""): "HeadBucket",
    ("bucket", "DELETE", ""): "DeleteBucket",
    ("bucket", "GET", ""): "ListObjects",
    ("bucket", "GET", "list-type"): "ListObjectsV2",
    ("bucket", "GET", "versions"): "ListObjectVersions",
    ("bucket", "GET", "uploads"): "ListMultipartUploads",
    ("bucket", "GET", "location"): "GetBucketLocation",
    ("bucket", "GET", "versioning"): "GetBucketVersioning",
    ("bucket", "PUT", "versioning"): "PutBucketVersioning",
    ("bucket", "GET", "object-lock"): "GetObjectLockConfiguration",
    ("bucket", "POST", "delete"): "DeleteObjects",
    ("object", "HEAD", ""): "HeadObject",
    ("object", "GET", ""): "GetObject",
    ("object", "PUT", ""): "PutObject",
    ("object", "DELETE", ""): "DeleteObject",
    ("object", "GET", "retention"): "GetObjectRetention",
    ("object", "POST", "uploads"): "CreateMultipartUpload",
    ("object", "PUT", "uploadId"): "UploadPart",
    ("object", "POST", "uploadId"): "CompleteMultipartUpload",
    ("object", "DELETE", "uploadId"): "AbortMultipartUpload",
}
SUBRESOURCES = frozenset({
    "accelerate", "acl", "analytics", "attributes", "cors", "delete", "encryption", "intelligent-tiering", "inventory",
    "legal-hold", "lifecycle", "list-type", "location", "logging", "metrics", "notification", "object-lock", "ownershipControls",
    "policy", "policyStatus", "publicAccessBlock", "replication", "requestPayment", "restore", "retention", "select", "tagging",
    "torrent", "uploadId", "uploads", "versioning", "versions", "website",
})  # fmt: skip
"""Names in a query that make another operation of a request, those that are not served included."""


class Asked:
    """One request, taken apart. `operation` is empty where the protocol has none that is served; `query` is decoded."""

    def __init__(self, request: web.Request) -> None:
        self.raw_path, _, self.raw_query = request.raw_path.partition("?")
        bucket, _, key = self.raw_path.removeprefix("/").partition("/")
        self.bucket, self.key = unquote(bucket), unquote(key)
        pairs = (p.partition("=") for p in self.raw_query.replace("+", "%20").split("&") if p)
        self.query = {unquote(k): unquote(v) for k, _, v in pairs}
        self.method, self.headers = request.method, request.headers
        on = "object" if self.key else "bucket" if self.bucket else "service"
        subresource = next((q for q in self.query if q in SUBRESOURCES), "")
        self.operation = OPERATIONS.get((on, self.method, subresource), "")

    @property
    def subject(self) -> str:
        """What it is about: a bucket, or BUCKET/KEY."""
        return f"{self.bucket}/{self.key}" if self.key else self.bucket
