"""AWS Signature Version 4: who signed a request, and whether the signature holds.

Source: "Signature Calculations for the Authorization Header", Amazon S3 API reference. Signatures of single chunks of a streamed
body are not looked at; the one of the request is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote, unquote_to_bytes

from multidict import CIMultiDictProxy

from engine.simulator.object_store.errors import S3Error

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW = 900
"""Seconds that the client's clock may be off."""
_TIME = "%Y%m%dT%H%M%SZ"
_HEADER = re.compile(
    rf"{ALGORITHM}\s+Credential=([^,/]+)/(\d{{8}})/([^,/]+)/s3/aws4_request,\s*SignedHeaders=([^,]+),\s*Signature=([0-9a-f]{{64}})"
)


@dataclass(frozen=True)
class Signed:
    """A request as it was sent: path and query still encoded."""

    method: str
    path: str
    query: str
    headers: CIMultiDictProxy[str]
    body: bytes


def signer(request: Signed, secrets: Mapping[str, str], now: datetime) -> str:
    """The access key id that a request is signed with. `secrets`: those that are valid, by id. Raises `S3Error`."""
    given = request.headers.get("Authorization", "")
    if not given:
        raise S3Error("AccessDenied", "Access Denied")
    found = _HEADER.fullmatch(given.strip())
    if not found:
        raise S3Error("AuthorizationHeaderMalformed", "The authorization header is malformed.")
    id, day, region, names, signature = found.groups()
    moment = _moment(request, day, now)
    secret = secrets.get(id)
    if secret is None:
        raise S3Error(
            "InvalidAccessKeyId",
            "The AWS Access Key Id you provided does not exist in our records.",
            {"AWSAccessKeyId": id},
        )
    scope = f"{day}/{region}/s3/aws4_request"
    canonical = _canonical(request, names.split(";"))
    to_sign = "\n".join([ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for step in scope.split("/"):
        key = hmac.digest(key, step.encode(), "sha256")
    if not hmac.compare_digest(hmac.digest(key, to_sign.encode(), "sha256").hex(), signature):
        raise S3Error(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
            {"AWSAccessKeyId": id, "StringToSign": to_sign, "CanonicalRequest": canonical},
        )
    _check_digests(request)
    return id


def _moment(request: Signed, day: str, now: datetime) -> str:
    """When it was signed. Raises `S3Error` when that is not said, or too far from now."""
    moment = request.headers.get("x-amz-date", "")
    try:
        signed = datetime.strptime(moment, _TIME).replace(tzinfo=UTC)
    except ValueError:
        raise S3Error(
            "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header"
        ) from None
    if not moment.startswith(day):
        raise S3Error("AuthorizationHeaderMalformed", "The date in the credential scope is another one.")
    if abs((now - signed).total_seconds()) > SKEW:
        raise S3Error(
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
            {
                "RequestTime": moment,
                "ServerTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "MaxAllowedSkewMilliseconds": str(SKEW * 1000),
            },
        )
    return moment


def _canonical(request: Signed, names: list[str]) -> str:
    """Raises `S3Error` when a header that has to be signed is not."""
    needed = {"host", "x-amz-date", *(h.lower() for h in request.headers if h.lower().startswith("x-amz-"))}
    if unsigned := needed - set(names):
        raise S3Error(
            "AccessDenied",
            "There were headers present in the request which were not signed",
            {"HeadersNotSigned": ", ".join(sorted(unsigned))},
        )
    headers = "".join(
        f"{n}:{','.join(' '.join(v.split()) for v in request.headers.getall(n, []))}\n" for n in names
    )
    pairs = (p.partition("=") for p in request.query.replace("+", "%20").split("&") if p)
    query = "&".join(sorted(f"{_encode(k)}={_encode(v)}" for k, _, v in pairs))
    path = quote(unquote_to_bytes(request.path), safe="/-_.~") or "/"
    payload = request.headers.get("x-amz-content-sha256", "")
    return "\n".join([request.method, path, query, headers, ";".join(names), payload])


def _encode(text: str) -> str:
    return quote(unquote(text), safe="-_.~")


def _check_digests(request: Signed) -> None:
    """Raises `S3Error` when the body is not the one that the headers tell of."""
    payload = request.headers.get("x-amz-content-sha256", "")
    if not payload:
        raise S3Error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    if re.fullmatch(r"[0-9a-f]{64}", payload) and payload != hashlib.sha256(request.body).hexdigest():
        raise S3Error(
            "XAmzContentSHA256Mismatch",
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        )
    if (md5 := request.headers.get("Content-MD5")) is None:
        return
    try:
        given = base64.b64decode(md5, validate=True)
    except binascii.Error:
        given = b""
    if len(given) != 16:
        raise S3Error("InvalidDigest", "The Content-MD5 you specified was invalid.")
    if given != hashlib.md5(request.body, usedforsecurity=False).digest():
        raise S3Error("BadDigest", "The Content-MD5 you specified did not match what we received.")


def plain_body(headers: CIMultiDictProxy[str], body: bytes) -> bytes:
    """A body without the framing of `aws-chunked`, and without its trailer."""
    streamed = headers.get("x-amz-content-sha256", "").startswith("STREAMING-")
    if not streamed and "aws-chunked" not in headers.get("Content-Encoding", ""):
        return body
    chunks, rest = [], body
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        try:
            size = int(head.split(b";")[0], 16)
        except ValueError:
            raise S3Error("InvalidRequest", "The chunks of the body are malformed.") from None
        if size == 0:
            break
        chunks.append(rest[:size])
        rest = rest[size + 2 :]
    return b"".join(chunks)
