"""A small Kubernetes API server on loopback for the tests of the client: lists in pages, reads, deletions with preconditions,
evictions by the real server's table, budgets, bearer tokens; and whatever misbehaviour a test puts in its way."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Body = dict[str, Any]
Rule = Callable[[web.Request], Awaitable[web.StreamResponse | None]]

KINDS = {
    "nodes": "Node",
    "pods": "Pod",
    "services": "Service",
    "persistentvolumes": "PersistentVolume",
    "poddisruptionbudgets": "PodDisruptionBudget",
}


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    authorization: str
    body: Body | None


@dataclass
class Cluster:
    """Objects by resource and `namespace/name`. `token`: what a request must bear, or None to let everybody in."""

    token: str | None = "T"
    page: int = 500
    objects: dict[str, dict[str, Body]] = field(default_factory=lambda: {name: {} for name in KINDS})
    seen: list[Seen] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    url: str = ""
    versions: itertools.count[int] = field(default_factory=lambda: itertools.count(100))

    def add(self, resource: str, name: str, namespace: str = "", uid: str = "", **parts: Any) -> Body:
        metadata = {
            "name": name,
            "uid": uid or f"uid-{namespace}-{name}",
            "resourceVersion": str(next(self.versions)),
            "creationTimestamp": "2026-05-01T12:00:00Z",
            **({"namespace": namespace} if namespace else {}),
            **parts.pop("metadata", {}),
        }
        body = {"metadata": metadata, "spec": {}, "status": {}, **parts}
        self.objects[resource][f"{namespace}/{name}"] = body
        return body

    def pod(
        self,
        name: str,
        namespace: str = "app",
        *,
        node: str = "n1",
        phase: str = "Running",
        ready: bool = True,
        owner: tuple[str, str] | None = ("ReplicaSet", "web-1"),
        labels: dict[str, str] | None = None,
        uid: str = "",
        spec: Body | None = None,
        **metadata: Any,
    ) -> Body:
        if owner:
            metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
        return self.add(
            "pods",
            name,
            namespace,
            uid,
            metadata={"labels": labels or {}, **metadata},
            spec={"nodeName": node, **(spec or {})},
            status={
                "phase": phase,
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            },
        )

    def budget(
        self,
        name: str,
        namespace: str = "app",
        *,
        selector: Body | None = None,
        allowed: int = 0,
        current: int = 2,
        desired: int = 2,
        spec: Body | None = None,
        **metadata: Any,
    ) -> Body:
        return self.add(
            "poddisruptionbudgets",
            name,
            namespace,
            metadata={"generation": 1, **metadata},
            spec={"minAvailable": desired, "selector": selector, **(spec or {})},
            status={
                "disruptionsAllowed": allowed,
                "currentHealthy": current,
                "desiredHealthy": desired,
                "expectedPods": 2,
                "observedGeneration": 1,
            },
        )

    def calls(self, method: str) -> list[str]:
        return [seen.path for seen in self.seen if seen.method == method]

    # -------------------------------------------------------------------------------------------------- serving

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.seen.append(
            Seen(
                request.method,
                request.path,
                dict(request.query),
                request.headers.get("Authorization", ""),
                json.loads(text) if text else None,
            )
        )
        for rule in list(self.rules):
            if (answer := await rule(request)) is not None:
                return answer
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized", "Unauthorized")
        if request.path == "/api":
            return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
        return self._route(request, json.loads(text) if text else {})

    def _route(self, request: web.Request, body: Body) -> web.Response:
        parts = request.path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        resource, name, sub = (*rest, "", "")[:3]
        if resource not in KINDS:
            return web.Response(status=404, text="404 page not found")
        key = f"{namespace}/{name}"
        store = self.objects[resource]
        if not name:
            return (
                self._create(store, resource, namespace, body)
                if body
                else self._list(request, resource, namespace)
            )
        found = store.get(key)
        if found is None:
            return status(404, "NotFound", f'{resource} "{name}" not found')
        if sub == "eviction":
            return self._evict(found, body)
        match request.method:
            case "GET":
                return web.json_response({"kind": KINDS[resource], **found})
            case "DELETE":
                return self._delete(store, key, body.get("preconditions") or {})
            case "PUT":
                return self._replace(store, key, body)
        return status(405, "MethodNotAllowed", "no")

    def _list(self, request: web.Request, resource: str, namespace: str) -> web.Response:
        wanted = dict(
            pair.split("=", 1) for pair in request.query.get("labelSelector", "").split(",") if pair
        )
        items = [
            item
            for key, item in sorted(self.objects[resource].items())
            if (not namespace or key.startswith(f"{namespace}/"))
            and wanted.items() <= (item["metadata"].get("labels") or {}).items()
        ]
        start = int(request.query.get("continue", "0"))
        end = start + min(self.page, int(request.query.get("limit", "500")))
        metadata = {"resourceVersion": "1", **({"continue": str(end)} if end < len(items) else {})}
        return web.json_response(
            {"kind": f"{KINDS[resource]}List", "metadata": metadata, "items": items[start:end]},
            headers={"Audit-Id": "audit-7"},
        )

    def _create(self, store: dict[str, Body], resource: str, namespace: str, body: Body) -> web.Response:
        key = f"{namespace}/{body['metadata']['name']}"
        if key in store:
            return status(409, "AlreadyExists", "already exists")
        made = copy.deepcopy(body)
        made["metadata"] |= {
            "uid": f"uid-new-{next(self.versions)}",
            "resourceVersion": str(next(self.versions)),
            "creationTimestamp": "2026-06-01T12:00:00Z",
        }
        store[key] = made
        return web.json_response(made, status=201)

    def _replace(self, store: dict[str, Body], key: str, body: Body) -> web.Response:
        old = store[key]["metadata"]
        if body["metadata"].get("resourceVersion") != old["resourceVersion"]:
            return status(409, "Conflict", "the object has been modified")
        made = copy.deepcopy(body)
        made["metadata"] |= {
            "uid": old["uid"],
            "creationTimestamp": old["creationTimestamp"],
            "resourceVersion": str(next(self.versions)),
        }
        store[key] = made
        return web.json_response(made)

    def _delete(self, store: dict[str, Body], key: str, preconditions: Body) -> web.Response:
        found = store[key]["metadata"]
        for name in ("uid", "resourceVersion"):
            if name in preconditions and preconditions[name] != found[name]:
                return status(409, "Conflict", f"Precondition failed: {name}")
        if found.get("finalizers"):
            found["deletionTimestamp"] = "2026-06-01T12:00:00Z"
            return web.json_response({"kind": "Pod", **store[key]})
        del store[key]
        return web.json_response({"kind": "Status", "status": "Success"})

    def _evict(self, pod: Body, body: Body) -> web.Response:
        metadata = pod["metadata"]
        namespace = metadata["namespace"]
        wanted = (body.get("deleteOptions") or {}).get("preconditions") or {}
        if wanted.get("uid") not in (None, metadata["uid"]):
            return status(409, "Conflict", "Precondition failed: UID")
        budgets = [
            budget
            for key, budget in self.objects["poddisruptionbudgets"].items()
            if key.startswith(f"{namespace}/")
            and (selector := budget["spec"].get("selector")) is not None
            and (selector.get("matchLabels") or {}).items() <= metadata.get("labels", {}).items()
        ]
        if pod["status"]["phase"] == "Running" and not metadata.get("deletionTimestamp"):
            if len(budgets) > 1:
                return status(
                    500,
                    "InternalError",
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                )
            for budget in budgets:
                if answer := self._budget_says(budget):
                    return answer
        metadata["deletionTimestamp"] = "2026-06-01T12:00:00Z"
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    @staticmethod
    def _budget_says(budget: Body) -> web.Response | None:
        state, name = budget["status"], budget["metadata"]["name"]
        if state["observedGeneration"] < budget["metadata"]["generation"]:
            return too_many(f"The disruption budget {name} is still being processed by the server.", 10)
        if state["disruptionsAllowed"] < 0:
            return status(403, "Forbidden", "pdb disruptions allowed is negative")
        if state["disruptionsAllowed"] == 0:
            return too_many(
                f"The disruption budget {name} needs {state['desiredHealthy']} healthy pods and has"
                f" {state['currentHealthy']} currently"
            )
        state["disruptionsAllowed"] -= 1
        return None


def status(
    code: int, reason: str, message: str, *, retry_after: int = 0, causes: list[Body] | None = None
) -> web.Response:
    details: Body = {"causes": causes} if causes else {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return web.json_response(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": message,
            "code": code,
            "details": details,
        },
        status=code,
        headers={"Audit-Id": "audit-9"} | ({"Retry-After": str(retry_after)} if retry_after else {}),
    )


def too_many(message: str, retry_after: int = 0) -> web.Response:
    return status(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        retry_after=retry_after,
        causes=[{"reason": "DisruptionBudget", "message": message}],
    )


def answering(
    answer: Callable[[], web.Response], match: str = "", times: int = 10**6, method: str = ""
) -> Rule:
    """A rule that answers instead of the server, for paths that contain `match`, so many times."""
    left = itertools.count(times, -1)

    async def rule(request: web.Request) -> web.Response | None:
        if match in request.path and method in ("", request.method) and next(left) > 0:
            return answer()
        return None

    return rule


async def hang(request: web.Request) -> web.StreamResponse | None:
    await asyncio.sleep(60)
    return None


async def reset(request: web.Request) -> web.StreamResponse | None:
    assert request.transport is not None
    request.transport.abort()
    return None


@asynccontextmanager
async def serving(cluster: Cluster, tls: ssl.SSLContext | None = None) -> AsyncIterator[Cluster]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cluster.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    cluster.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield cluster
    finally:
        await runner.cleanup()


def kubeconfig(
    folder: Path,
    server: str,
    user: Body | None = None,
    *,
    context: str = "mine",
    cluster: Body | None = None,
    **more: Any,
) -> Path:
    """A kubeconfig with one context, whose user bears the token `T` unless told otherwise."""
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "T"} if user is None else user}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
        "current-context": context,
        **more,
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return path
