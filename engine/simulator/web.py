"""What the HTTP servers share: the log of every request, and faults, each in the service's own error format."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypedDict

from aiohttp import web

from engine.simulator.faults import Fault, Timetable

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

Render = Callable[[Fault, web.Request], web.StreamResponse]

_LOOK = 0.05
"""Seconds between two looks at whether the client of a hanging request is still there."""


class Served(TypedDict):
    """One request in a server's log, from its arrival on.

    call, subject   what faults match: method and path, or the operation's name and what it is about
    at              arrival, ISO 8601 in UTC
    code            HTTP status; `fault:KIND` when a fault ended it; `closed` without an answer; empty while it is under way
    key             an idempotency key, where the protocol has one
    principal       who asked, once that is known
    """

    service: str
    call: str
    subject: str
    at: str
    code: str
    key: str
    principal: str


_CURRENT: ContextVar[Served] = ContextVar("served")


def served() -> Served:
    """The log's entry of the guarded request that is being handled."""
    return _CURRENT.get()


def guarded(
    service: str,
    timetable: Timetable,
    log: list[Served],
    render: Render,
    call_of: Callable[[web.Request], tuple[str, str]],
    alive: Callable[[], bool] = lambda: True,
) -> Middleware:
    """Middleware: log the request and let it meet its fault before it is handled. Handlers name the principal.

    While the server is not `alive`, connections are closed without an answer, faults or not.
    """

    @web.middleware
    async def middle(request: web.Request, handler: Handler) -> web.StreamResponse:
        call, subject = call_of(request)
        entry: Served = {
            "service": service, "call": call, "subject": subject, "at": datetime.now(UTC).isoformat(),
            "code": "", "key": "", "principal": "",
        }  # fmt: skip
        _CURRENT.set(entry)
        log.append(entry)
        if not alive():
            entry["code"] = "closed"
            return _closed(request)
        fault = await timetable.meet(service, call, subject)
        if fault is None:
            try:
                answer = await handler(request)
            except web.HTTPException as other:
                entry["code"] = str(other.status)
                raise
            entry["code"] = str(answer.status)
            return answer
        try:
            if fault.kind == "hang":
                await _hang(timetable, fault, request)
        finally:
            entry["code"] = f"fault:{fault.kind}"
        return render(fault, request) if fault.kind == "status" else _closed(request)

    return middle


def retry_after(fault: Fault) -> dict[str, str]:
    """The header with which an error asks to wait, if it does."""
    return {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}


def _closed(request: web.Request) -> web.StreamResponse:
    """Close the connection without an answer. The response goes nowhere; a handler has to return one."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


async def _hang(timetable: Timetable, fault: Fault, request: web.Request) -> None:
    """Hang until the fault is over or the client has gone."""
    hanging = asyncio.ensure_future(timetable.hang(fault))
    try:
        while request.transport is not None and not request.transport.is_closing():
            done, _ = await asyncio.wait({hanging}, timeout=_LOOK)
            if done:
                return
    finally:
        hanging.cancel()
