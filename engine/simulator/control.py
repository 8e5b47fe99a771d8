"""The control of a running simulation, over HTTP on loopback: its state and log, its faults, and changes to its world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from engine.simulator.cloud import Cloud
from engine.simulator.faults import Fault, Timetable
from engine.simulator.kubernetes import KubernetesCluster
from engine.simulator.object_store import ObjectStore
from engine.simulator.resources import Refusal
from engine.simulator.skypilot import SkyServer

_FAULTS = TypeAdapter(list[Fault])
_STATUS = {"NOT_FOUND": 404, "ALREADY_EXISTS": 409, "FAILED_PRECONDITION": 409, "ABORTED": 409}


class Control:
    """What tests and a rehearsal ask for; every answer is JSON, an error is `{"error": ...}`.

    `GET /state`                what exists everywhere, by kind: the independent read
    `GET /log`                  every request that was served, in order
    `POST /faults`              a list of faults; they begin to count now
    `POST /faults/end`          no fault and no stumble applies any more
    `POST /change`              `{"create": {kind, id, parent, name, labels?, attrs?}}`, `{"delete": ID}` at once and without asking,
                                `{"update": ID, "set": PATCH}`, `{"token": T}` the valid token is another one,
                                `{"login": T}` the same, and the home has it
    `POST /terraform/destroy`   `{"kind": K, "id": ID}`: deletes it, and answers when that is over
    """

    def __init__(
        self,
        cloud: Cloud,
        store: ObjectStore,
        sky: SkyServer,
        clusters: dict[str, KubernetesCluster],
        timetable: Timetable,
        log_in: Callable[[str], None],
    ) -> None:
        self._cloud, self._store, self._sky, self._clusters = cloud, store, sky, clusters
        self._timetable = timetable
        self._log_in = log_in

    def app(self) -> web.Application:
        app = web.Application(middlewares=[_errors])
        app.router.add_get("/state", self._state)
        app.router.add_get("/log", self._log)
        app.router.add_post("/faults", self._faults)
        app.router.add_post("/faults/end", self._end)
        app.router.add_post("/change", self._change)
        app.router.add_post("/terraform/destroy", self._destroy)
        return app

    async def _state(self, request: web.Request) -> web.StreamResponse:
        document = {
            "resources": self._cloud.describe(), "object_store": self._store.describe(), "skypilot": self._sky.describe(),
            "kubernetes": {name: c.describe() for name, c in self._clusters.items()},
            "operations_running": [o.id for o in self._cloud.running()],
        }  # fmt: skip
        return web.json_response(document)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        logs: list[Sequence[Mapping[str, Any]]] = [self._cloud.log, self._store.log, self._sky.log]
        logs += [c.log for c in self._clusters.values()]
        return web.json_response(sorted((row for log in logs for row in log), key=lambda row: str(row["at"])))

    async def _faults(self, request: web.Request) -> web.StreamResponse:
        self._timetable.add(_FAULTS.validate_json(await request.read()))
        return web.json_response({})

    async def _end(self, request: web.Request) -> web.StreamResponse:
        self._timetable.end()
        self._cloud.faults_over.set()
        return web.json_response({})

    async def _change(self, request: web.Request) -> web.StreamResponse:
        change: Any = await request.json()
        match change:
            case {"create": {"kind": str(kind), "id": str(id), "parent": str(parent), "name": str(name)}}:
                labels, attrs = change["create"].get("labels"), change["create"].get("attrs", {})
                self._cloud.add(kind, id, parent, name, labels=labels, born=datetime.now(UTC), **attrs)
            case {"delete": str(id)}:
                self._cloud.vanish(id)
            case {"update": str(id), "set": dict(patch)}:
                self._cloud.change(id, patch)
            case {"token": str(token)}:
                self._cloud.token = token
            case {"login": str(token)}:
                self._cloud.token = token
                self._log_in(token)
            case _:
                raise Refusal("INVALID_ARGUMENT", "this is no change")
        return web.json_response({})

    async def _destroy(self, request: web.Request) -> web.StreamResponse:
        """Delete a thing for Terraform. What is gone, or going already, is waited for."""
        asked: dict[str, Any] = await request.json()
        kind, id = str(asked["kind"]), str(asked["id"])
        entry = {"service": "terraform", "call": f"destroy {kind}", "subject": id, "at": _now(), "code": "OK"}
        entry |= {"key": "", "principal": "terraform"}
        self._cloud.log.append(entry)
        try:
            operation = self._cloud.delete(kind, id)
        except Refusal as no:
            entry["code"] = no.code
            if no.code == "NOT_FOUND":
                return web.json_response({})
            if no.code != "ABORTED" or not no.operation:
                raise
            operation = self._cloud.operations[no.operation]
        entry["operation"] = operation.id
        await operation.over.wait()
        entry["code"] = operation.code
        if operation.code != "OK":
            raise Refusal(operation.code, operation.message, id)
        return web.json_response({})


@web.middleware
async def _errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as no:
        return web.json_response({"error": f"{no.code}: {no}"}, status=_STATUS.get(no.code, 400))
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        return web.json_response({"error": f"INVALID_ARGUMENT: {error}"}, status=400)


def _now() -> str:
    return datetime.now(UTC).isoformat()
