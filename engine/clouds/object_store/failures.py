"""What an S3 error means. Codes decide; the status alone only where an answer has no body, as for HEAD."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.sax.saxutils import unescape

from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

_CAUSES: dict[str, Cause] = {
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidObjectState"), Cause.DENIED),
    **dict.fromkeys(
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired",
         "MissingSecurityHeader", "RequestTimeTooSkewed", "InvalidSecurity", "NotSignedUp"),
        Cause.UNAUTHENTICATED,
    ),
    **dict.fromkeys(
        ("SlowDown", "ServiceUnavailable", "TooManyRequests", "RequestLimitExceeded", "Throttling", "ThrottlingException"),
        Cause.THROTTLED,
    ),
    **dict.fromkeys(("InternalError", "BadGateway", "Busy"), Cause.UNREACHABLE),
    **dict.fromkeys(("RequestTimeout", "GatewayTimeout"), Cause.TIMED_OUT),
    **dict.fromkeys(("OperationAborted", "BucketNotEmpty", "InvalidBucketState", "ConditionalRequestConflict"), Cause.CONFLICT),
    **dict.fromkeys(
        ("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "NoSuchBucket"),
        Cause.WRONG_SCOPE,
    ),
}  # fmt: skip
_BY_STATUS = {
    401: Cause.UNAUTHENTICATED,
    403: Cause.DENIED,
    408: Cause.TIMED_OUT,
    409: Cause.CONFLICT,
    429: Cause.THROTTLED,
    500: Cause.UNREACHABLE,
    501: Cause.MALFORMED,
    502: Cause.UNREACHABLE,
    503: Cause.THROTTLED,
    504: Cause.TIMED_OUT,
}
TRANSIENT = frozenset({Cause.THROTTLED, Cause.UNREACHABLE, Cause.TIMED_OUT})


class StoreTrouble(Trouble):
    """An S3 call failed. `code` is S3's own, or empty; `fields` are the plain elements of its error document."""

    def __init__(
        self,
        cause: Cause,
        detail: str,
        *,
        status: int = 0,
        code: str = "",
        fields: Mapping[str, str] | None = None,
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(cause, redact(detail[:1000]), request_id)
        self.status, self.code, self.fields, self.retry_after = status, code, dict(fields or {}), retry_after


def cause_of_key(code: str) -> Cause:
    """The cause of one key's failure inside an answer of 200."""
    return _CAUSES.get(code, Cause.CONFLICT)


def failure(status: int, headers: Mapping[str, str], body: bytes, what: str) -> StoreTrouble:
    """The failure that an answer other than 2xx tells of. `what` names the call."""
    text = body[:65536].decode(errors="replace")
    fields: dict[str, str] = {}
    if "<Error>" in text or "<Error " in text:
        fields = {name: unescape(value) for name, value in re.findall(r"<(\w+)>([^<]*)</\1>", text)}
    if region := headers.get("x-amz-bucket-region", ""):
        fields.setdefault("Region", region)
    code = fields.get("Code", "")
    cause = _CAUSES.get(code)
    if cause is None:
        # A 404 that is not S3's own (a proxy's page, say) proves nothing.
        cause = _BY_STATUS.get(status, Cause.UNREACHABLE if status >= 500 else Cause.MALFORMED)
    try:
        retry_after: float | None = max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        retry_after = None
    return StoreTrouble(
        cause,
        f"{what}: {status} {code} {fields.get('Message', '')}".rstrip(),
        status=status,
        code=code,
        fields=fields,
        request_id=redact(fields.get("RequestId") or headers.get("x-amz-request-id", ""), 80),
        retry_after=retry_after,
    )
