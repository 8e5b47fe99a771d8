"""Errors of the protocol: the one table of codes and statuses, and how they look on the wire."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping

from aiohttp import web

STATUS = {
    "AccessDenied": 403, "AuthorizationHeaderMalformed": 400, "BadDigest": 400, "BucketNotEmpty": 409, "InternalError": 500,
    "InvalidAccessKeyId": 403, "InvalidArgument": 400, "InvalidDigest": 400, "InvalidPart": 400, "InvalidRange": 416,
    "InvalidRequest": 400, "MalformedXML": 400, "MethodNotAllowed": 405, "NoSuchBucket": 404, "NoSuchKey": 404,
    "NoSuchObjectLockConfiguration": 404, "NoSuchUpload": 404, "NoSuchVersion": 404, "NotImplemented": 501,
    "ObjectLockConfigurationNotFoundError": 404, "PreconditionFailed": 412, "RequestTimeTooSkewed": 403,
    "SignatureDoesNotMatch": 403, "SlowDown": 503, "TooManyRequests": 429, "XAmzContentSHA256Mismatch": 400,
}  # fmt: skip
_CODE = {
    401: "AccessDenied",
    403: "AccessDenied",
    404: "NoSuchBucket",
    429: "TooManyRequests",
    503: "SlowDown",
}


class S3Error(Exception):
    """A request that is refused. `more`: elements of the error document beside code and message."""

    def __init__(self, code: str, message: str, more: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.more = code, message, dict(more or {})

    def answer(self, *, head: bool, headers: Mapping[str, str] | None = None) -> web.Response:
        """The answer; that to a HEAD has no body, so its code is lost."""
        return error(self.code, self.message, STATUS[self.code], self.more, head=head, headers=headers)


def injected(status: str | int | None, message: str) -> tuple[str, int, str]:
    """Code, HTTP status and message of an injected error, given either of the first two."""
    if isinstance(status, str) and not status.isdecimal():
        return status, STATUS.get(status, 400), message or "injected fault"
    number = int(status or 500)
    return _CODE.get(number, "InternalError"), number, message or "injected fault"


def error(
    code: str,
    message: str,
    status: int,
    more: Mapping[str, str] | None = None,
    *,
    head: bool = False,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    if head:
        return web.Response(status=status, headers=headers)
    rows = "".join(element(k, v) for k, v in {"Code": code, "Message": message, **(more or {})}.items())
    return xml(f"<Error>{rows}{element('RequestId', uuid.uuid4().hex[:16])}</Error>", status, headers)


def xml(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
    return web.Response(body=body, content_type="application/xml", status=status, headers=headers)


_SPECIAL = re.compile(r"[&<>\"\x00-\x1f\x7f\ufffe\uffff]")
_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def escape(text: str) -> str:
    """Text inside an element. Most control characters are not in XML 1.0, as references neither: readers refuse them, which is why
    listings can be had with their keys URL-encoded."""
    return _SPECIAL.sub(lambda m: _NAMED.get(m[0]) or f"&#x{ord(m[0]):x};", text)


def element(tag: str, text: str) -> str:
    return f"<{tag}>{escape(text)}</{tag}>"
