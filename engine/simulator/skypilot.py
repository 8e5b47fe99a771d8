"""The SkyPilot API server's REST surface, as much of it as its own SDK needs: status, queue, cancel, down, and their requests."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from engine.simulator.faults import Fault, Timetable
from engine.simulator.kubernetes import KubernetesCluster
from engine.simulator.web import guarded

NONE = base64.b64encode(pickle.dumps(None, 4)).decode()
TERMINAL = frozenset(
    {
        "SUCCEEDED",
        "CANCELLED",
        "FAILED",
        "FAILED_SETUP",
        "FAILED_PRECHECKS",
        "FAILED_NO_RESOURCE",
        "FAILED_CONTROLLER",
    }
)
API_VERSION, VERSION = "62", "0.14.1"


class JobSpec(BaseModel):
    """One managed job."""

    model_config = ConfigDict(extra="forbid")

    job_id: int
    name: str
    status: str = "RUNNING"
    user: str = "operator"
    workspace: str = "default"
    cancel_seconds: float = Field(default=5.0, description="nominal seconds from CANCELLING to CANCELLED")
    ignores_cancels: int = Field(default=0, description="so many cancels have no effect")


@dataclass
class Row:
    """A SkyPilot cluster: the jobs controller."""

    name: str
    context: str
    status: str = "UP"
    launched_at: int = field(default_factory=lambda: int(time.time()) - 3600)


@dataclass
class Request:
    id: str
    name: str
    created_at: float
    status: str = "RUNNING"
    value: str = "null"
    error: str = "null"
    lines: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    finished_at: float | None = None
    task: asyncio.Task[None] | None = None


class SkyError(Exception):
    """An error as the real server serialises it: a pickled plain dictionary beside its type and message."""

    def __init__(self, kind: str, message: str, attributes: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        plain = {
            "type": kind,
            "message": message,
            "args": (message,),
            "attributes": attributes or {},
            "stacktrace": None,
        }
        self.document = {
            "object": base64.b64encode(pickle.dumps(plain, 2)).decode(),
            "type": kind,
            "message": message,
        }


class SkyServer:
    """The server of one operator: one jobs controller at most, its queue, and the clusters that it may live on."""

    def __init__(
        self,
        user_hash: str,
        controller: Row | None,
        jobs: list[JobSpec],
        contexts: dict[str, KubernetesCluster],
        timetable: Timetable,
        time_scale: float,
    ) -> None:
        self.user_hash = user_hash
        self.controller = controller
        self.jobs = [j.model_copy() for j in jobs]
        self.log: list[dict[str, Any]] = []
        self._contexts = contexts
        self._timetable = timetable
        self._scale = time_scale
        self._requests: dict[str, Request] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # -- what it does ---------------------------------------------------------------------------------------------------

    def _needs_controller(self) -> None:
        if self.controller is None:
            raise SkyError(
                "ClusterNotUpError", "No in-progress managed jobs.", {"cluster_status": None, "handle": None}
            )
        cluster = self._contexts.get(self.controller.context)
        if cluster is None or cluster.stopped:
            raise SkyError("RuntimeError", "Failed to fetch managed jobs with returncode: 1")

    async def _status(self, body: dict[str, Any], say: Callable[[str], None]) -> Any:
        names = body.get("cluster_names")
        row = self.controller
        if row is None or (names and row.name not in names):
            return []
        cluster = self._contexts.get(row.context)
        if (
            body.get("refresh") == "FORCE"
            and cluster is not None
            and not cluster.stopped
            and not cluster.find(_controller_labels(row.name))
        ):
            self.controller = None
            return []
        return [
            {
                "name": row.name, "launched_at": row.launched_at, "last_use": "sky jobs launch", "status": row.status, "autostop": -1,
                "to_down": False, "owner": None, "metadata": {}, "cluster_hash": "5b0f", "cluster_ever_up": True,
                "status_updated_at": int(time.time()), "user_hash": self.user_hash, "user_name": "operator", "workspace": "default",
                "is_managed": False, "nodes": 1, "cloud": "Kubernetes", "region": row.context, "cpus": "4", "memory": "16", "labels": {},
                "resources_str": "1x(cpus=4, mem=16)", "resources_str_full": "1x(cpus=4, mem=16, disk=50)",
                "cluster_name_on_cloud": f"{row.name}-{self.user_hash}", "handle": NONE, "storage_mounts_metadata": NONE,
            }
        ]  # fmt: skip

    async def _queue_v2(self, body: dict[str, Any], say: Callable[[str], None]) -> Any:
        self._needs_controller()
        rows = [self._job(j) for j in self.jobs if body.get("all_users", True) or j.user == "operator"]
        every = len(rows)
        if body.get("skip_finished"):
            rows = [r for r in rows if r["status"] not in TERMINAL]
        if body.get("job_ids"):
            rows = [r for r in rows if r["job_id"] in body["job_ids"]]
        counts: dict[str, int] = {}
        for r in rows:
            counts[r["status"]] = counts.get(r["status"], 0) + 1
        return {
            "jobs": rows,
            "total": len(rows),
            "total_no_filter": every,
            "status_counts": counts,
            "infra_options": [],
        }

    async def _queue(self, body: dict[str, Any], say: Callable[[str], None]) -> Any:
        return (await self._queue_v2(body, say))["jobs"]

    def _job(self, j: JobSpec) -> dict[str, Any]:
        now = time.time()
        return {
            "job_id": j.job_id, "task_id": 0, "job_name": j.name, "task_name": j.name, "status": j.status, "workspace": j.workspace,
            "user_hash": self.user_hash, "user_name": j.user, "resources": "1x[L40S:1]", "submitted_at": now - 900,
            "start_at": None if j.status == "PENDING" else now - 800, "end_at": now if j.status in TERMINAL else None,
            "job_duration": 800.0, "recovery_count": 0,
        }  # fmt: skip

    async def _cancel(self, body: dict[str, Any], say: Callable[[str], None]) -> Any:
        self._needs_controller()
        chosen = [
            bool(body.get("job_ids")),
            body.get("name") is not None,
            bool(body.get("all") or body.get("all_users")),
        ]
        if sum(chosen) != 1:
            raise SkyError("ValueError", "Can only specify one of JOB_IDS, name, pool, or all/all_users.")
        for j in self.jobs:
            wanted = j.job_id in (body.get("job_ids") or []) or j.name == body.get("name") or chosen[2]
            if not wanted:
                continue
            if j.status in TERMINAL:
                say(f"Job {j.job_id} is already in terminal state {j.status}. Skipped.\n")
            elif j.ignores_cancels > 0:
                j.ignores_cancels -= 1
                say(f"Job with ID {j.job_id} is scheduled to be cancelled.\n")
            elif j.status == "PENDING":
                j.status = "CANCELLED"
            elif j.status != "CANCELLING":
                j.status = "CANCELLING"
                self._later(self._end(j))
                say(f"Job with ID {j.job_id} is scheduled to be cancelled.\n")
        return None

    async def _end(self, j: JobSpec) -> None:
        await asyncio.sleep(j.cancel_seconds * self._scale)
        j.status = "CANCELLED"

    async def _down(self, body: dict[str, Any], say: Callable[[str], None]) -> Any:
        """Refuses nothing, like the SDK's own: the gate is the caller's."""
        if self.controller is None or body.get("cluster_name") != self.controller.name:
            raise SkyError("ClusterDoesNotExist", f"Cluster {body.get('cluster_name')!r} does not exist.")
        cluster = self._contexts.get(self.controller.context)
        if cluster is not None and not cluster.stopped:
            cluster.remove_pods(_controller_labels(self.controller.name))
        self.controller, self.jobs = None, []
        return None

    async def _nothing(self, body: dict[str, Any], say: Callable[[str], None]) -> Any:
        return []

    def describe(self) -> dict[str, Any]:
        """Jobs and clusters, for the independent read."""
        clusters = (
            [
                {
                    "name": self.controller.name,
                    "context": self.controller.context,
                    "status": self.controller.status,
                }
            ]
            if self.controller
            else []
        )
        return {"jobs": [j.model_dump() for j in self.jobs], "clusters": clusters}

    # -- how it speaks --------------------------------------------------------------------------------------------------

    def app(self) -> web.Application:
        verbs: dict[str, tuple[str, Callable[..., Awaitable[Any]]]] = {
            "/status": ("sky.status", self._status),
            "/jobs/queue/v2": ("sky.jobs.queue_v2", self._queue_v2),
            "/jobs/queue": ("sky.jobs.queue", self._queue),
            "/jobs/cancel": ("sky.jobs.cancel", self._cancel),
            "/down": ("sky.down", self._down),
            "/jobs/pool_status": ("sky.jobs.pool_status", self._nothing),
            "/serve/status": ("sky.serve.status", self._nothing),
        }

        async def submit(request: web.Request) -> web.StreamResponse:
            name, verb = verbs[request.path]
            body = await request.json()
            made = Request(str(uuid.uuid4()), name, time.time())
            self._requests[made.id] = made
            made.task = asyncio.get_running_loop().create_task(self._carry_out(made, verb, body))
            return _json(None, request, headers={"X-Skypilot-Request-ID": made.id})

        app = web.Application(
            middlewares=[
                guarded(
                    "skypilot", self._timetable, self.log, _render, lambda r: (f"{r.method} {r.path}", "")
                )
            ]
        )
        app.router.add_get("/api/health", self._health)
        app.router.add_get("/api/get", self._get)
        app.router.add_get("/api/stream", self._stream)
        app.router.add_get("/api/status", self._api_status)
        app.router.add_post("/api/cancel", self._api_cancel)
        for path in verbs:
            app.router.add_post(path, submit)
        return app

    async def _carry_out(
        self, made: Request, verb: Callable[..., Awaitable[Any]], body: dict[str, Any]
    ) -> None:
        try:
            made.value = json.dumps(await verb(body, made.lines.append))
            made.status = "SUCCEEDED"
        except SkyError as error:
            made.error, made.status = json.dumps(error.document), "FAILED"
        except asyncio.CancelledError:
            made.status = "CANCELLED"
        finally:
            made.finished_at = time.time()
            made.over.set()

    async def _health(self, request: web.Request) -> web.StreamResponse:
        document = {
            "status": "healthy", "api_version": API_VERSION, "version": VERSION, "version_on_disk": VERSION, "commit": "0" * 40,
            "user": None, "basic_auth_enabled": False, "latest_version": None,
        }  # fmt: skip
        return _json(document, request)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        made = self._find(request.query.get("request_id", ""))
        if made is None:
            return _json({"detail": f"Request {request.query.get('request_id')!r} not found"}, request, 404)
        await made.over.wait()
        payload = self._payload(made)
        return (
            _json({"detail": payload}, request, 500) if made.status == "FAILED" else _json(payload, request)
        )

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        made = self._find(request.query.get("request_id", "")) or next(
            reversed(self._requests.values()), None
        )
        if made is None:
            return _json({"detail": "No requests found"}, request, 404)
        answer = web.StreamResponse(
            headers={
                **_headers(request),
                "X-SkyPilot-Stream-Request-ID": made.id,
                "Content-Type": "text/plain",
            }
        )
        await answer.prepare(request)
        await made.over.wait()
        await answer.write("".join(made.lines).encode())
        await answer.write_eof()
        return answer

    async def _api_status(self, request: web.Request) -> web.StreamResponse:
        return _json([self._payload(r) for r in self._requests.values()], request)

    async def _api_cancel(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        for id in body.get("request_ids") or []:
            if (made := self._find(id)) and made.task:
                made.task.cancel()
        done = Request(
            str(uuid.uuid4()),
            "sky.api_cancel",
            time.time(),
            "SUCCEEDED",
            json.dumps(body.get("request_ids") or []),
        )
        done.over.set()
        self._requests[done.id] = done
        return _json(None, request, headers={"X-Skypilot-Request-ID": done.id})

    def _find(self, id: str) -> Request | None:
        return next((r for k, r in self._requests.items() if id and k.startswith(id)), None)

    def _payload(self, r: Request) -> dict[str, Any]:
        return {
            "request_id": r.id, "name": r.name, "entrypoint": NONE, "request_body": NONE, "status": r.status, "created_at": r.created_at,
            "user_id": self.user_hash, "return_value": r.value, "error": r.error, "pid": None, "schedule_type": "short", "user_name": None,
            "cluster_name": None, "status_msg": None, "should_retry": False, "finished_at": r.finished_at, "file_mounts_blob_id": None,
        }  # fmt: skip

    def _later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _controller_labels(name: str) -> dict[str, str]:
    return {"skypilot-cluster": name}


def _headers(request: web.Request) -> dict[str, str]:
    """The client's own version comes back: any client that asks is then compatible."""
    return {
        "X-SkyPilot-API-Version": request.headers.get("X-SkyPilot-API-Version", API_VERSION),
        "X-SkyPilot-Version": request.headers.get("X-SkyPilot-Version", VERSION),
    }


def _json(
    document: Any, request: web.Request, status: int = 200, headers: dict[str, str] | None = None
) -> web.StreamResponse:
    return web.json_response(document, status=status, headers={**_headers(request), **(headers or {})})


def _render(fault: Fault) -> web.StreamResponse:
    status = int(fault.status or 500)
    headers = {"Retry-After": f"{fault.retry_after:g}"} if fault.retry_after else {}
    return web.json_response({"detail": fault.message or "injected fault"}, status=status, headers=headers)
