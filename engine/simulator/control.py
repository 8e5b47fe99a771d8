"""The control of a running simulation, over HTTP on loopback: its state and log, its faults, and changes to its world."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from engine.simulator.cloud import Cloud, Refusal
from engine.simulator.faults import Fault, Timetable
from engine.simulator.kubernetes import KubernetesCluster
from engine.simulator.object_store import ObjectStore
from engine.simulator.skypilot import SkyServer


class Control:
    """`GET /state`, `GET /log`, `POST /faults`, `POST /faults/end`, `POST /change`, and what Terraform's provisioners call."""

    def __init__(
        self,
        cloud: Cloud,
        store: ObjectStore,
        sky: SkyServer,
        clusters: dict[str, KubernetesCluster],
        timetable: Timetable,
        save_token: Callable[[str], None],
    ) -> None:
        self._cloud, self._store, self._sky, self._clusters = cloud, store, sky, clusters
        self._timetable = timetable
        self._save_token = save_token

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/state", self._state)
        app.router.add_get("/log", self._log)
        app.router.add_post("/faults", self._faults)
        app.router.add_post("/faults/end", self._end)
        app.router.add_post("/change", self._change)
        app.router.add_post("/terraform/destroy", self._destroy)
        return app

    async def _state(self, request: web.Request) -> web.StreamResponse:
        running = [o.id for o in self._cloud.operations.values() if o.finished_at is None]
        document = {
            "resources": self._cloud.describe(), "object_store": self._store.describe(), "skypilot": self._sky.describe(),
            "kubernetes": {name: c.describe() for name, c in self._clusters.items()}, "operations_running": running,
        }  # fmt: skip
        return web.json_response(document)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        rows = (
            self._cloud.log
            + self._store.log
            + self._sky.log
            + [r for c in self._clusters.values() for r in c.log]
        )
        return web.json_response(sorted(rows, key=lambda r: r["at"]))

    async def _faults(self, request: web.Request) -> web.StreamResponse:
        self._timetable.add([Fault.model_validate(f) for f in await request.json()])
        return web.json_response({})

    async def _end(self, request: web.Request) -> web.StreamResponse:
        self._timetable.end()
        self._cloud.faults_over.set()
        return web.json_response({})

    async def _change(self, request: web.Request) -> web.StreamResponse:
        change: dict[str, Any] = await request.json()
        if new := change.get("create"):
            self._cloud.add(
                new["kind"],
                new["id"],
                new["parent"],
                new["name"],
                labels=new.get("labels"),
                **new.get("attrs", {}),
            )
        if id := change.get("delete"):
            self._cloud.resources.pop(id, None)
        if id := change.get("update"):
            _merge(self._cloud.resources[id].doc, change["set"])
        if token := change.get("token"):
            self._cloud.token = token
        if token := change.get("login"):
            self._cloud.token = token
            self._save_token(token)
        return web.json_response({})

    async def _destroy(self, request: web.Request) -> web.StreamResponse:
        """Start a deletion for Terraform, and answer when it is over."""
        asked = await request.json()
        kind, id = asked["kind"], asked["id"]
        self._cloud.log.append(
            {
                "service": "terraform",
                "call": f"destroy {kind}",
                "subject": id,
                "at": _now(),
                "code": "",
                "key": "",
                "principal": "terraform",
            }
        )
        try:
            operation = self._cloud.delete(kind, id)
        except Refusal as no:
            if no.code == "NOT_FOUND":
                return web.json_response({})
            return web.json_response({"error": f"{no.code}: {no.message}"}, status=409)
        await operation.over.wait()
        if operation.code != "OK":
            return web.json_response({"error": f"{operation.code}: {operation.message}"}, status=409)
        return web.json_response({})


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _now() -> str:
    return datetime.now(UTC).isoformat()
