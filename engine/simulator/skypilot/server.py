"""The REST surface: every verb is a request with an id, whose result and log are asked for afterwards."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from engine.simulator.faults import Fault, Timetable
from engine.simulator.kubernetes import KubernetesCluster
from engine.simulator.skypilot.errors import NONE, SkyError
from engine.simulator.skypilot.jobs import Body, Queue
from engine.simulator.skypilot.records import Records
from engine.simulator.skypilot.spec import JobSpec, SkySpec
from engine.simulator.web import Served, guarded, retry_after, served

API_VERSION, VERSION = "62", "0.14.1"
_LOOK = 0.05
"""Seconds between two looks at the log of a request that is streamed."""
Say = Callable[[str], None]
Verb = Callable[[Body, str, Say], Awaitable[Any]]
"""Body, hash of who asks, and where log lines go; the value that is returned becomes JSON."""


@dataclass
class Request:
    """One request and its result. `over` is set once `status` is final."""

    name: str
    user_hash: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created_at: float = field(default_factory=time.time)
    status: str = "RUNNING"
    value: str = "null"
    error: str = "null"
    lines: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    finished_at: float | None = None
    task: asyncio.Task[None] | None = None

    def finish(self, status: str) -> None:
        self.status, self.finished_at = status, time.time()
        self.over.set()

    def payload(self) -> Body:
        return {
            "request_id": self.id, "name": self.name, "entrypoint": NONE, "request_body": NONE, "status": self.status,
            "created_at": self.created_at, "user_id": self.user_hash, "return_value": self.value, "error": self.error, "pid": None,
            "schedule_type": "short", "user_name": None, "cluster_name": None, "status_msg": None, "should_retry": False,
            "finished_at": self.finished_at, "file_mounts_blob_id": None,
        }  # fmt: skip


class SkyServer:
    """The API server of one operator. `contexts`: the Kubernetes clusters that it can reach, by the name of their context."""

    def __init__(
        self,
        spec: SkySpec,
        contexts: Mapping[str, KubernetesCluster],
        timetable: Timetable,
        time_scale: float,
    ) -> None:
        self.log: list[Served] = []
        self._timetable = timetable
        self._records = Records(spec, contexts, time_scale)
        self._queue = Queue(spec, time_scale, self._records.controller_lives, self._job_ended)
        self._requests: dict[str, Request] = {}
        self._verbs: dict[str, tuple[str, Verb]] = {
            "/status": ("sky.status", self._status),
            "/jobs/queue/v2": ("sky.jobs.queue_v2", self._queue_v2),
            "/jobs/queue": ("sky.jobs.queue", self._queue_v1),
            "/jobs/cancel": ("sky.jobs.cancel", self._cancel),
            "/down": ("sky.down", self._down),
            "/jobs/pool_status": ("sky.jobs.pool_status", self._nothing),
            "/serve/status": ("sky.serve.status", self._nothing),
        }

    def describe(self) -> dict[str, list[dict[str, Any]]]:
        """Jobs, as specs to start from again, and clusters on record."""
        clusters = [r.spec.model_dump(include={"name", "context", "status"}) for r in self._records.all]
        return {"jobs": [j.spec.model_dump() for j in self._queue.jobs], "clusters": clusters}

    # -- verbs ----------------------------------------------------------------------------------------------------------

    async def _status(self, body: Body, user_hash: str, say: Say) -> list[Body]:
        return self._records.look(body, user_hash, say)

    async def _queue_v2(self, body: Body, user_hash: str, say: Say) -> Body:
        self._records.reach_controller()
        return self._queue.rows(body, user_hash)

    async def _queue_v1(self, body: Body, user_hash: str, say: Say) -> list[Body]:
        rows: list[Body] = (await self._queue_v2(body, user_hash, say))["jobs"]
        return rows

    async def _cancel(self, body: Body, user_hash: str, say: Say) -> None:
        self._records.reach_controller()
        self._queue.cancel(body, user_hash, say)

    async def _down(self, body: Body, user_hash: str, say: Say) -> None:
        if (await self._records.down(body)).is_controller:
            self._queue.clear()

    async def _nothing(self, body: Body, user_hash: str, say: Say) -> list[Body]:
        self._records.reach_controller()
        return []

    def _job_ended(self, job: JobSpec) -> None:
        controller = self._records.controller
        home = self._records.home_of(controller) if controller else None
        if job.worker and home:
            home.remove_pods({"skypilot-cluster-name": job.worker})

    # -- HTTP -----------------------------------------------------------------------------------------------------------

    def app(self) -> web.Application:
        app = web.Application(middlewares=[guarded("skypilot", self._timetable, self.log, _render, _call_of)])
        app.cleanup_ctx.append(self._life)
        app.router.add_get("/api/health", self._health)
        app.router.add_get("/api/get", self._get)
        app.router.add_get("/api/stream", self._stream)
        app.router.add_get("/api/status", self._api_status)
        app.router.add_post("/api/cancel", self._api_cancel)
        for path in self._verbs:
            app.router.add_post(path, self._submit)
        return app

    async def _life(self, app: web.Application) -> AsyncIterator[None]:
        """Jobs go on while the application runs; then nothing is left under way."""
        self._queue.start()
        yield
        self._queue.stop()
        tasks = [r.task for r in self._requests.values() if r.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _submit(self, request: web.Request) -> web.StreamResponse:
        name, verb = self._verbs[request.path]
        body: Body = await request.json()
        who = body.get("env_vars") or {}
        served()["principal"] = str(who.get("SKYPILOT_USER", ""))
        made = self._remember(Request(name, str(who.get("SKYPILOT_USER_ID", ""))))
        made.task = asyncio.get_running_loop().create_task(_carry_out(made, verb, body))
        return _json(None, request, headers={"X-Skypilot-Request-ID": made.id})

    async def _health(self, request: web.Request) -> web.StreamResponse:
        document = {
            "status": "healthy", "api_version": API_VERSION, "version": VERSION, "version_on_disk": VERSION, "commit": "0" * 40,
            "user": None, "basic_auth_enabled": False, "latest_version": None,
        }  # fmt: skip
        return _json(document, request)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        found = self._find(request.query.get("request_id", ""))
        if found is None:
            return _no_such(request)
        await found.over.wait()
        failed = found.status == "FAILED"
        return _json(
            {"detail": found.payload()} if failed else found.payload(), request, 500 if failed else 200
        )

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        id = request.query.get("request_id", "")
        found = self._find(id) if id else next(reversed(self._requests.values()), None)
        if found is None:
            return _no_such(request)
        more = {"X-SkyPilot-Stream-Request-ID": found.id, "Content-Type": "text/plain"}
        answer = web.StreamResponse(headers={**_headers(request), **more})
        await answer.prepare(request)
        sent, follow = 0, request.query.get("follow", "true").lower() != "false"
        while True:
            ended = found.over.is_set()
            lines, sent = found.lines[sent:], len(found.lines)
            await answer.write("".join(lines).encode())
            if ended or not follow:
                break
            await asyncio.sleep(_LOOK)
        await answer.write_eof()
        return answer

    async def _api_status(self, request: web.Request) -> web.StreamResponse:
        return _json([r.payload() for r in self._requests.values()], request)

    async def _api_cancel(self, request: web.Request) -> web.StreamResponse:
        body: Body = await request.json()
        cancelled = []
        for id in body.get("request_ids") or []:
            found = self._find(id)
            if found and found.task and not found.over.is_set():
                found.task.cancel()
                cancelled.append(found.id)
        done = self._remember(Request("sky.api_cancel", ""))
        done.value = json.dumps(cancelled)
        done.finish("SUCCEEDED")
        return _json(None, request, headers={"X-Skypilot-Request-ID": done.id})

    def _remember(self, made: Request) -> Request:
        self._requests[made.id] = made
        return made

    def _find(self, id: str) -> Request | None:
        """A request by its id, or by how that begins."""
        return next((r for known, r in self._requests.items() if id and known.startswith(id)), None)


async def _carry_out(made: Request, verb: Verb, body: Body) -> None:
    try:
        made.value = json.dumps(await verb(body, made.user_hash, made.lines.append))
    except SkyError as error:
        made.error = json.dumps(error.document)
        made.finish("FAILED")
    except asyncio.CancelledError:
        made.finish("CANCELLED")
        raise
    except Exception as error:
        # A body that makes no sense; the real server fails such a request in the same way.
        made.error = json.dumps(SkyError(type(error).__name__, str(error)).document)
        made.finish("FAILED")
    else:
        made.finish("SUCCEEDED")


def _headers(request: web.Request) -> dict[str, str]:
    """The client's own version comes back: any client that asks is then compatible."""
    names = {"X-SkyPilot-API-Version": API_VERSION, "X-SkyPilot-Version": VERSION}
    return {name: request.headers.get(name, ours) for name, ours in names.items()}


def _json(
    document: object, request: web.Request, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    return web.json_response(document, status=status, headers={**_headers(request), **(headers or {})})


def _no_such(request: web.Request) -> web.StreamResponse:
    return _json({"detail": f"Request {request.query.get('request_id', '')!r} not found"}, request, 404)


def _render(fault: Fault, request: web.Request) -> web.StreamResponse:
    status = int(fault.status or 500)
    return _json({"detail": fault.message or "injected fault"}, request, status, retry_after(fault))


def _call_of(request: web.Request) -> tuple[str, str]:
    return f"{request.method} {request.path}", ""
