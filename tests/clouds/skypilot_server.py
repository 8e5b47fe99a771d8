"""A small SkyPilot API server on loopback for the tests of the client: health, requests, results; errors are serialized as the
real one does it, pickles included."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Body = dict[str, Any]
NONE = base64.b64encode(pickle.dumps(None)).decode()

NAMES = {
    "/status": "sky.status",
    "/jobs/queue/v2": "sky.jobs.queue_v2",
    "/jobs/cancel": "sky.jobs.cancel",
    "/down": "sky.down",
    "/api/cancel": "sky.api_cancel",
}


class ServerError(Exception):
    """What a request fails with. `attributes` are those of the exception, pickled like it."""

    def __init__(self, type: str, message: str, **attributes: Any) -> None:
        super().__init__(message)
        self.document = {
            "object": base64.b64encode(
                pickle.dumps(
                    {
                        "type": type,
                        "message": message,
                        "args": (message,),
                        "attributes": attributes,
                        "stacktrace": None,
                    }
                )
            ).decode(),
            "type": type,
            "message": message,
        }


@dataclass
class SkyServer:
    """`jobs` and `clusters` are rows as the real server sends them; `controller` False: no controller is recorded."""

    jobs: list[Body] = field(default_factory=list)
    clusters: list[Body] = field(default_factory=list)
    controller: bool = True
    total: int | None = None
    seen: list[tuple[str, Body]] = field(default_factory=list)
    results: dict[str, Callable[[Body], Any]] = field(default_factory=dict)
    """Path -> what to do instead: return a value, or raise `ServerError`, or return a coroutine."""
    health: Callable[[], web.Response] | None = None
    refuse: Callable[[str], web.Response | None] | None = None
    cancelled: list[str] = field(default_factory=list)
    url: str = ""
    _requests: dict[str, Body] = field(default_factory=dict)
    _done: dict[str, asyncio.Event] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def reset(self) -> None:
        fresh = SkyServer(url=self.url)
        self.__dict__.update(
            {k: v for k, v in fresh.__dict__.items() if k not in ("url", "_requests", "_done", "_tasks")}
        )

    def job(self, id: int, status: str = "RUNNING", name: str = "", **more: Any) -> None:
        self.jobs.append(
            {
                "job_id": id,
                "task_id": 0,
                "job_name": name or f"job-{id}",
                "task_name": name or f"job-{id}",
                "status": status,
                "workspace": "default",
                "user_hash": "abcd1234",
                "user_name": "operator",
                "submitted_at": 1796100000.0,
                "resources": "1x[H100:8]",
                **more,
            }
        )

    def cluster(self, name: str, status: str = "UP", **more: Any) -> None:
        self.clusters.append(
            {
                "name": name,
                "launched_at": 1796100000,
                "last_use": "sky jobs launch",
                "status": status,
                "autostop": -1,
                "to_down": False,
                "owner": None,
                "metadata": {},
                "cluster_hash": "x",
                "cluster_ever_up": True,
                "status_updated_at": 1796100000,
                "user_hash": "abcd1234",
                "user_name": "operator",
                "workspace": "default",
                "is_managed": False,
                "nodes": 1,
                "cloud": "Kubernetes",
                "region": "mine",
                "labels": {},
                "cluster_name_on_cloud": f"{name}-abcd1234",
                "handle": NONE,
                **more,
            }
        )

    def bodies(self, path: str) -> list[Body]:
        return [body for seen, body in self.seen if seen == path]

    # -------------------------------------------------------------------------------------------------- serving

    def _perform(self, path: str, body: Body) -> Any:
        if path in self.results:
            return self.results[path](body)
        if path == "/api/cancel":
            self.cancelled += body.get("request_ids") or []
            return []
        if path == "/status":
            names = body.get("cluster_names")
            return [row for row in self.clusters if not names or row["name"] in names]
        if path == "/down":
            if all(row["name"] != body["cluster_name"] for row in self.clusters):
                raise ServerError("ClusterDoesNotExist", f"Cluster {body['cluster_name']!r} does not exist.")
            self.clusters = [row for row in self.clusters if row["name"] != body["cluster_name"]]
            return None
        if not self.controller:
            raise ServerError(
                "ClusterNotUpError", "No in-progress managed jobs.", cluster_status=None, handle=None
            )
        if path == "/jobs/cancel":
            for row in self.jobs:
                if row["job_id"] in (body.get("job_ids") or []):
                    row["status"] = "CANCELLING"
            return None
        total = len({row["job_id"] for row in self.jobs}) if self.total is None else self.total
        return {
            "jobs": self.jobs,
            "total": total,
            "total_no_filter": total,
            "status_counts": {},
            "infra_options": [],
        }

    async def _run(self, id: str, path: str, body: Body) -> None:
        request = self._requests[id]
        try:
            value = self._perform(path, body)
            if asyncio.iscoroutine(value):
                value = await value
            request |= {"return_value": json.dumps(value), "status": "SUCCEEDED"}
        except ServerError as error:
            request |= {"error": json.dumps(error.document), "status": "FAILED"}
        except Exception as error:  # the test's own mistakes
            request |= {"error": json.dumps(ServerError("Bug", repr(error)).document), "status": "FAILED"}
        request["finished_at"] = time.time()
        self._done[id].set()

    async def submit(self, request: web.Request) -> web.Response:
        path, body = request.path, await request.json()
        self.seen.append((path, body))
        if self.refuse is not None and (answer := self.refuse(path)) is not None:
            return answer
        id = str(uuid.uuid4())
        self._requests[id] = {
            "request_id": id,
            "name": NAMES[path],
            "entrypoint": NONE,
            "request_body": NONE,
            "status": "RUNNING",
            "created_at": time.time(),
            "user_id": "abcd1234",
            "return_value": "null",
            "error": "null",
            "pid": None,
            "schedule_type": "short",
            "user_name": None,
            "cluster_name": None,
            "status_msg": None,
            "should_retry": False,
            "finished_at": None,
        }
        self._done[id] = asyncio.Event()
        task = asyncio.create_task(self._run(id, path, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.json_response(None, headers={**versions(request), "X-Skypilot-Request-ID": id})

    async def get(self, request: web.Request) -> web.Response:
        id = request.query["request_id"]
        self.seen.append(("/api/get", {"request_id": id}))
        if self.refuse is not None and (answer := self.refuse("/api/get")) is not None:
            return answer
        if id not in self._requests:
            return web.json_response({"detail": f"Request {id!r} not found"}, status=404)
        await self._done[id].wait()
        payload = self._requests[id]
        if payload["status"] == "FAILED":
            return web.json_response({"detail": payload}, status=500, headers=versions(request))
        return web.json_response(payload, headers=versions(request))

    async def healthy(self, request: web.Request) -> web.Response:
        self.seen.append(("/api/health", {}))
        if self.health is not None:
            return self.health()
        return web.json_response(
            {
                "status": "healthy",
                "api_version": "62",
                "version": "0.14.1",
                "version_on_disk": "0.14.1",
                "commit": "0" * 40,
                "user": None,
                "basic_auth_enabled": False,
                "latest_version": None,
            },
            headers=versions(request),
        )


def versions(request: web.Request) -> dict[str, str]:
    """The client's own version back: any client takes that for a server that it can talk to."""
    names = ("X-SkyPilot-API-Version", "X-SkyPilot-Version")
    return {name: request.headers[name] for name in names if name in request.headers}


@asynccontextmanager
async def serving(server: SkyServer) -> AsyncIterator[SkyServer]:
    app = web.Application()
    app.router.add_get("/api/health", server.healthy)
    app.router.add_get("/api/get", server.get)
    for path in NAMES:
        app.router.add_post(path, server.submit)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        for task in list(server._tasks):
            task.cancel()
        await runner.cleanup()
