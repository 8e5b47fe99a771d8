"""What a failed call means: from status codes, `Status` bodies and transport errors to a `Cause`."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

CAUSES = {
    401: Cause.UNAUTHENTICATED,
    403: Cause.DENIED,
    408: Cause.TIMED_OUT,
    409: Cause.CONFLICT,
    412: Cause.CONFLICT,
    429: Cause.THROTTLED,
    504: Cause.TIMED_OUT,
}
"""Cause of an HTTP status. Other 5xx are UNREACHABLE: the far side failed and nothing was learnt. The rest is MALFORMED: the
two sides do not speak the same language."""

TRANSIENT = frozenset({Cause.UNREACHABLE, Cause.TIMED_OUT, Cause.THROTTLED})
"""Causes after which the same call may be tried again."""

_CERTIFICATE_TIMES = frozenset({9, 10})
"""OpenSSL: not yet valid, expired. The other verification errors mean another server than the kubeconfig names."""


@dataclass(eq=False)
class StatusError(Exception):
    """The API server answered with an error. `reason`, `message` and `causes` come from its `Status` document.

    causes       reason -> message
    retry_after  seconds that it asks to wait, or None
    """

    status: int
    reason: str
    message: str
    causes: Mapping[str, str]
    retry_after: float | None
    request_id: str

    @property
    def cause(self) -> Cause:
        # Without credentials a request is not refused but attributed to nobody, and only the text of the refusal tells.
        if self.status == 403 and '"system:anonymous"' in self.message:
            return Cause.UNAUTHENTICATED
        if self.status in CAUSES:
            return CAUSES[self.status]
        return Cause.UNREACHABLE if self.status >= 500 else Cause.MALFORMED

    @property
    def by_budget(self) -> bool:
        """A 429 of a disruption budget, not of API priority: it stays as long as the pods do."""
        return self.status == 429 and "DisruptionBudget" in self.causes

    @property
    def by_several_budgets(self) -> bool:
        # A 500 like any other, except for its text: several budgets cover the pod, which no retry changes.
        return self.status == 500 and "more than one PodDisruptionBudget" in self.message

    @property
    def transient(self) -> bool:
        return self.cause in TRANSIENT and not self.by_budget and not self.by_several_budgets

    def trouble(self, what: str) -> Trouble:
        detail = redact(self.message or self.reason)
        return Trouble(self.cause, f"{what}: {self.status} {detail}".rstrip(), self.request_id)


def of_answer(status: int, headers: Mapping[str, str], body: bytes) -> StatusError:
    """An error answer. A body that is no `Status` document, as a proxy gives, leaves reason and causes empty."""
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    fields = document if isinstance(document, dict) and document.get("kind") == "Status" else {}
    details = fields.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    waits = (_seconds(headers.get("Retry-After")), _seconds(details.get("retryAfterSeconds")))
    return StatusError(
        status=status,
        reason=str(fields.get("reason") or ""),
        message=str(fields.get("message") or "") or ("" if fields else body[:200].decode("utf-8", "replace")),
        causes={
            str(cause.get("reason") or ""): str(cause.get("message") or "")
            for cause in (causes if isinstance(causes, list) else [])
            if isinstance(cause, dict)
        },
        retry_after=next((wait for wait in waits if wait), None),
        request_id=redact(headers.get("Audit-Id", "")),
    )


def _seconds(value: object) -> float | None:
    try:
        return max(0.0, float(str(value)))
    except ValueError:
        return None  # absent, or an HTTP date, which API servers do not send


def of_exception(error: BaseException, what: str) -> Trouble:
    """Anything else that a call can end in: of the transport, of TLS, of decoding."""
    import urllib3.exceptions as http

    chain = tuple(_chain(error))
    said = redact(f"{what}: {type(error).__name__}: {chain[-1]}")
    for link in chain:
        match link:
            case Trouble():
                return link
            case ssl.SSLCertVerificationError():
                other = link.verify_code not in _CERTIFICATE_TIMES
                return Trouble(
                    Cause.WRONG_SCOPE if other else Cause.UNREACHABLE,
                    redact(
                        f"{what}: the server's certificate is not the one to expect: {link.verify_message}"
                    ),
                )
            case http.NewConnectionError():
                # It counts among the timeouts of the library, although a refusal is none.
                return Trouble(Cause.UNREACHABLE, said)
            case http.TimeoutError() | TimeoutError():
                return Trouble(Cause.TIMED_OUT, f"{what}: no answer in time")
            case http.LocationValueError() | http.DecodeError():
                return Trouble(Cause.MALFORMED, said)
            case http.HTTPError() | OSError() | ssl.SSLError():
                continue  # what it was made of may tell more
    transport = any(isinstance(link, (http.HTTPError, OSError)) for link in chain)
    return Trouble(Cause.UNREACHABLE if transport else Cause.MALFORMED, said)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was made of, outermost first. The client's own wrapper keeps a TLS error only as its context."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        inner = getattr(link, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((a for a in link.args if isinstance(a, BaseException)), None)
        link = inner or link.__cause__ or link.__context__
