"""What the HTTP servers share: faults and the log around every request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from engine.simulator.faults import Fault, Timetable

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Render = Callable[[Fault], web.StreamResponse]


def guarded(
    service: str,
    timetable: Timetable,
    log: list[dict[str, Any]],
    render: Render,
    call_of: Callable[[web.Request], tuple[str, str]],
) -> Any:
    """Middleware: log the request, let it meet its fault, render that in the service's own error format."""

    @web.middleware
    async def middle(request: web.Request, handler: Handler) -> web.StreamResponse:
        call, subject = call_of(request)
        entry = {
            "service": service,
            "call": call,
            "subject": subject,
            "at": datetime.now(UTC).isoformat(),
            "code": "",
            "key": "",
            "principal": "",
        }
        log.append(entry)
        fault = await timetable.meet(service, call, subject)
        if fault is not None:
            entry["code"] = f"fault:{fault.kind}"
            if fault.kind == "hang":
                await timetable.hang(fault)
            if fault.kind in ("hang", "drop"):
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=500)
            return render(fault)
        answer = await handler(request)
        entry["code"] = str(answer.status)
        return answer

    return middle
