"""What a failed call means: from the SDK's exceptions and gRPC's status codes to a `Cause`, or to "no such thing"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from nebius.aio.service_error import RequestError

CAUSES = {
    "PERMISSION_DENIED": Cause.DENIED,
    "UNAUTHENTICATED": Cause.UNAUTHENTICATED,
    "RESOURCE_EXHAUSTED": Cause.THROTTLED,
    "DEADLINE_EXCEEDED": Cause.TIMED_OUT,
    "UNAVAILABLE": Cause.UNREACHABLE,
    # The far side failed, or cut the call off: nothing was learnt, and the next attempt may fare better.
    "CANCELLED": Cause.UNREACHABLE,
    "INTERNAL": Cause.UNREACHABLE,
    "UNKNOWN": Cause.UNREACHABLE,
    "DATA_LOSS": Cause.UNREACHABLE,
    "FAILED_PRECONDITION": Cause.CONFLICT,
    "ABORTED": Cause.CONFLICT,
    "ALREADY_EXISTS": Cause.CONFLICT,
    # The two sides do not speak the same language: a call that is not offered, a request that is not understood.
    "UNIMPLEMENTED": Cause.MALFORMED,
    "INVALID_ARGUMENT": Cause.MALFORMED,
    "OUT_OF_RANGE": Cause.MALFORMED,
}
"""Cause of each gRPC status code that is a failure. NOT_FOUND is not here: it is an answer (`Missing`)."""

TRANSIENT = frozenset({Cause.UNREACHABLE, Cause.TIMED_OUT, Cause.THROTTLED})
"""Causes after which the same call may be tried again."""


class Missing(Exception):
    """The service that was asked answered NOT_FOUND. `named`: the ids that its answer says are missing."""

    def __init__(self, named: frozenset[str], detail: str, request_id: str) -> None:
        super().__init__(detail)
        self.named = named
        self.detail = detail
        self.request_id = request_id

    def proves_absence_of(self, id: str) -> bool:
        """Whether the answer is about this id: it names it, or it names none at all."""
        return not self.named or id in self.named

    def as_trouble(self, what: str) -> Trouble:
        """The same for a call in which NOT_FOUND is no answer, such as a listing below a parent."""
        return Trouble(Cause.WRONG_SCOPE, f"{what}: not found: {self.detail}", self.request_id)


def classify(error: BaseException, what: str, *, answered: bool) -> Trouble | Missing:
    """What a failed request means. `answered`: the service itself gave this status. Otherwise it arose before the call was
    made, in the exchange of credentials, whose NOT_FOUND or refusal says nothing about the thing that was asked for."""
    from nebius.aio.service_error import RequestError
    from nebius.base.error import SDKError

    match error:
        case Trouble():
            return error
        case RequestError():
            return _of_status(error, what, answered=answered)
        case TimeoutError():
            return Trouble(Cause.TIMED_OUT, f"{what}: no answer in time")
        case OSError() if answered:
            return Trouble(Cause.UNREACHABLE, _said(what, error))
        case OSError() | SDKError() if not answered:
            return Trouble(Cause.UNAUTHENTICATED, _said(f"{what}: could not authenticate", error))
        case _:
            # The decoder raises all sorts of things over answers it cannot make sense of.
            return Trouble(Cause.MALFORMED, _said(what, error))


def _of_status(error: RequestError, what: str, *, answered: bool) -> Trouble | Missing:
    status = error.status
    code = status.code.name
    detail = redact(_message(status.message or "", status.service_errors))
    if not answered:
        cause = CAUSES.get(code, Cause.UNAUTHENTICATED)
        return Trouble(
            cause if cause in TRANSIENT else Cause.UNAUTHENTICATED,
            f"{what}: could not authenticate: {code}: {detail}",
            redact(status.request_id),
        )
    if code == "NOT_FOUND":
        return Missing(named(detail, status.service_errors), detail, redact(status.request_id))
    return of_code(code, f"{what}: {detail}" if detail else what, redact(status.request_id))


def of_code(code: str, detail: str, request_id: str = "") -> Trouble:
    """A status code by name as a `Trouble`. NOT_FOUND here is that of an operation, which proves nothing about the thing."""
    return Trouble(CAUSES.get(code, Cause.MALFORMED), f"{code}: {detail}", request_id)


def named(message: str, service_errors: Iterable[object]) -> frozenset[str]:
    """The ids that a NOT_FOUND is about: its `resource_not_found` details, else what its text has that looks like an id.

    The text is read only for the worse: a NOT_FOUND without details that speaks of another id, such as the parent's, must
    not pass for an answer about the id asked for.
    """
    structured = frozenset(id for error in service_errors for id in _missing_ids(error))
    return structured or frozenset(_RESOURCE_ID.findall(message))


_RESOURCE_ID = re.compile(r"\b[a-z][a-z0-9]{2,49}-[a-z](?=[a-z0-9]*[0-9])[a-z0-9]{2,}\b")
"""The provider's ids: kind, three characters that route, the body. A digit is asked for, as in the routing code `e00`, so
that hyphenated words do not count."""


def _missing_ids(service_error: object) -> Iterator[str]:
    details = getattr(service_error, "details", None)
    if getattr(details, "field", "") == "resource_not_found":
        id = getattr(getattr(details, "value", None), "resource_id", "")
        if isinstance(id, str) and id:
            yield id


def _message(message: str, service_errors: Iterable[object]) -> str:
    """The message, with what the structured details add to it, such as which child is in the way."""
    parts = [message]
    for error in service_errors:
        said = getattr(getattr(getattr(error, "details", None), "value", None), "message", "")
        if isinstance(said, str) and said and said not in parts[0]:
            parts.append(said)
    return "; ".join(part for part in parts if part)


def _said(what: str, error: BaseException) -> str:
    return redact(f"{what}: {type(error).__name__}: {error}")
