"""A Kubernetes API: what the official client and `kubectl get` need of nodes, pods, services, volumes, namespaces and budgets."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from engine.simulator.faults import Fault, Timetable
from engine.simulator.web import guarded

BORN = "2026-11-20T08:00:00Z"

Doc = dict[str, Any]


class PodSpec(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    namespace: str = "default"
    node: str = ""
    labels: dict[str, str] = {}
    owner: str = Field(default="", description="KIND/NAME of its controller")
    finalizers: list[str] = []
    ready: bool = True


class BudgetSpec(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    namespace: str = "default"
    selector: dict[str, str]
    min_available: int | str = 1


class KubernetesSpec(BaseModel):
    """What is in a cluster at first."""

    model_config = ConfigDict(extra="forbid")

    nodes: list[str] = []
    pods: list[PodSpec] = []
    budgets: list[BudgetSpec] = []
    load_balancers: list[str] = Field(default=[], description="names of services of type LoadBalancer")
    volumes: list[str] = Field(default=[], description="names of persistent volumes")
    system: bool = Field(default=True, description="the four kube-system workloads with their budgets")
    grace_seconds: float = Field(
        default=2.0, description="nominal seconds that a deleted pod stays Terminating"
    )


RESOURCES = {
    "nodes": ("v1", "Node", False), "pods": ("v1", "Pod", True), "services": ("v1", "Service", True),
    "persistentvolumes": ("v1", "PersistentVolume", False), "namespaces": ("v1", "Namespace", False),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget", True),
}  # fmt: skip
SYSTEM = ("cilium-operator", "coredns", "coredns-autoscaler", "metrics-server")


class KubernetesCluster:
    """One cluster's API. `tokens` are the bearer tokens that it accepts; once stopped it answers nothing any more."""

    def __init__(
        self, spec: KubernetesSpec, tokens: set[str], timetable: Timetable, time_scale: float
    ) -> None:
        self.stopped = False
        self.log: list[Doc] = []
        self._tokens = tokens
        self._timetable = timetable
        self._grace = spec.grace_seconds * time_scale
        self._version = 100
        self._objects: dict[str, dict[tuple[str, str], Doc]] = {kind: {} for kind in RESOURCES}
        for name in ("default", "kube-system", "sky-system"):
            self._put("namespaces", "", name, {"spec": {}, "status": {"phase": "Active"}})
        for name in spec.nodes:
            self._put(
                "nodes",
                "",
                name,
                {"spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            )
        first = spec.nodes[0] if spec.nodes else ""
        if spec.system:
            for name in SYSTEM:
                self.add_pod(
                    PodSpec(
                        name=f"{name}-0",
                        namespace="kube-system",
                        node=first,
                        labels={"k8s-app": name},
                        owner=f"ReplicaSet/{name}-1",
                    )
                )
                self._budget(BudgetSpec(name=name, namespace="kube-system", selector={"k8s-app": name}))
        for pod in spec.pods:
            self.add_pod(pod if pod.node else pod.model_copy(update={"node": first}))
        for budget in spec.budgets:
            self._budget(budget)
        for name in spec.load_balancers:
            self._put(
                "services",
                "default",
                name,
                {"spec": {"type": "LoadBalancer", "ports": []}, "status": {"loadBalancer": {}}},
            )
        for name in spec.volumes:
            self._put(
                "persistentvolumes",
                "",
                name,
                {"spec": {"capacity": {"storage": "10Gi"}}, "status": {"phase": "Bound"}},
            )

    # -- what is there --------------------------------------------------------------------------------------------------

    def add_pod(self, pod: PodSpec) -> Doc:
        kind, _, owner = pod.owner.partition("/")
        owners = (
            [
                {
                    "apiVersion": "apps/v1",
                    "kind": kind,
                    "name": owner,
                    "uid": str(uuid.uuid4()),
                    "controller": True,
                }
            ]
            if owner
            else []
        )
        ready = "True" if pod.ready else "False"
        doc = {
            "spec": {"nodeName": pod.node, "containers": [{"name": "main", "image": "example"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        }
        made = self._put("pods", pod.namespace, pod.name, doc, labels=pod.labels)
        made["metadata"] |= {"ownerReferences": owners} if owners else {}
        made["metadata"] |= {"finalizers": list(pod.finalizers)} if pod.finalizers else {}
        return made

    def _budget(self, b: BudgetSpec) -> Doc:
        spec = {"minAvailable": b.min_available, "selector": {"matchLabels": b.selector}}
        return self._put("poddisruptionbudgets", b.namespace, b.name, {"spec": spec, "status": {}})

    def _put(
        self, kind: str, namespace: str, name: str, body: Doc, labels: dict[str, str] | None = None
    ) -> Doc:
        self._version += 1
        api, word, namespaced = RESOURCES[kind]
        meta: Doc = {
            "name": name,
            "uid": str(uuid.uuid4()),
            "resourceVersion": str(self._version),
            "creationTimestamp": BORN,
            "labels": labels or {},
        }
        if namespaced:
            meta["namespace"] = namespace
        made = {"apiVersion": api, "kind": word, "metadata": meta, **body}
        self._objects[kind][namespace, name] = made
        return made

    def find(self, labels: dict[str, str]) -> list[Doc]:
        """Pods with all of these labels."""
        return [
            p
            for p in self._objects["pods"].values()
            if all(p["metadata"]["labels"].get(k) == v for k, v in labels.items())
        ]

    def remove_pods(self, labels: dict[str, str]) -> None:
        for pod in self.find(labels):
            self._delete("pods", pod)

    def accept(self, token: str) -> None:
        """Take one more bearer token."""
        self._tokens.add(token)

    def stop(self) -> None:
        """The control plane is gone: connections are closed without an answer."""
        self.stopped = True

    def describe(self) -> Doc:
        return {
            kind: sorted(f"{ns}/{name}".lstrip("/") for ns, name in rows)
            for kind, rows in self._objects.items()
        } | {"stopped": self.stopped}

    def _delete(self, kind: str, doc: Doc) -> None:
        meta = doc["metadata"]
        if kind != "pods":
            self._objects[kind].pop((meta.get("namespace", ""), meta["name"]), None)
            return
        if "deletionTimestamp" not in meta:
            meta["deletionTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            meta["deletionGracePeriodSeconds"] = 30
            if not meta.get("finalizers"):
                asyncio.get_running_loop().call_later(
                    self._grace, self._gone, meta["namespace"], meta["name"], meta["uid"]
                )

    def _gone(self, namespace: str, name: str, uid: str) -> None:
        if (found := self._objects["pods"].get((namespace, name))) and found["metadata"]["uid"] == uid:
            del self._objects["pods"][namespace, name]

    # -- how it speaks ----------------------------------------------------------------------------------------------------

    def app(self) -> web.Application:
        @web.middleware
        async def alive(request: web.Request, handler: Any) -> web.StreamResponse:
            if self.stopped:
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=500)
            if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self._tokens:
                return _status(401, "Unauthorized", "Unauthorized")
            answer: web.StreamResponse = await handler(request)
            return answer

        app = web.Application(
            middlewares=[
                alive,
                guarded(
                    "kubernetes", self._timetable, self.log, _render, lambda r: (f"{r.method} {r.path}", "")
                ),
            ]
        )
        app.router.add_get("/version{slash:/?}", self._version_info)
        app.router.add_get(
            "/api", lambda r: _async(web.json_response({"kind": "APIVersions", "versions": ["v1"]}))
        )
        app.router.add_get("/api/v1", self._discover)
        app.router.add_get("/apis", self._groups)
        app.router.add_get("/apis/policy/v1", self._discover)
        for prefix in ("/api/v1", "/apis/policy/v1"):
            app.router.add_route("*", prefix + "/{kind:[a-z]+}", self._collection)
            app.router.add_route("*", prefix + "/namespaces/{namespace}/{kind:[a-z]+}", self._collection)
            app.router.add_post(prefix + "/namespaces/{namespace}/pods/{name}/eviction", self._evict)
            app.router.add_route("*", prefix + "/namespaces/{namespace}/{kind:[a-z]+}/{name}", self._one)
            app.router.add_route("*", prefix + "/{kind:[a-z]+}/{name}", self._one)
        return app

    async def _version_info(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"major": "1", "minor": "33", "gitVersion": "v1.33.0", "platform": "linux/amd64"}
        )

    async def _groups(self, request: web.Request) -> web.StreamResponse:
        version = {"groupVersion": "policy/v1", "version": "v1"}
        return web.json_response(
            {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [{"name": "policy", "versions": [version], "preferredVersion": version}],
            }
        )

    async def _discover(self, request: web.Request) -> web.StreamResponse:
        group = "policy/v1" if "policy" in request.path else "v1"
        verbs = ["get", "list", "delete", "create"]
        rows = [
            {"name": k, "singularName": word.lower(), "namespaced": spaced, "kind": word, "verbs": verbs}
            for k, (api, word, spaced) in RESOURCES.items()
            if api == group
        ]
        return web.json_response(
            {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": rows}
        )

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        kind, namespace = request.match_info["kind"], request.match_info.get("namespace", "")
        if kind not in RESOURCES:
            return _status(404, "NotFound", "the server could not find the requested resource")
        if request.method == "POST":
            body = await request.json()
            name = body["metadata"]["name"]
            if (namespace, name) in self._objects[kind]:
                return _status(409, "AlreadyExists", f'{kind} "{name}" already exists')
            made = self._put(
                kind,
                namespace,
                name,
                {"spec": body.get("spec", {}), "status": {}},
                labels=body["metadata"].get("labels"),
            )
            made["metadata"]["annotations"] = body["metadata"].get("annotations", {})
            return web.json_response(made, status=201)
        rows = [d for (ns, _), d in sorted(self._objects[kind].items()) if not namespace or ns == namespace]
        rows = [
            d
            for d in rows
            if _selected(d, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
        ]
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 0)
        page = rows[start : start + limit] if limit else rows
        api, word, _ = RESOURCES[kind]
        meta: Doc = {"resourceVersion": str(self._version)}
        if limit and start + limit < len(rows):
            meta |= {"continue": str(start + limit), "remainingItemCount": len(rows) - start - limit}
        return web.json_response(
            {
                "kind": f"{word}List",
                "apiVersion": api,
                "metadata": meta,
                "items": [self._whole(kind, d) for d in page],
            }
        )

    async def _one(self, request: web.Request) -> web.StreamResponse:
        kind, name = request.match_info["kind"], request.match_info["name"]
        found = self._objects.get(kind, {}).get((request.match_info.get("namespace", ""), name))
        if found is None:
            return _status(404, "NotFound", f'{kind} "{name}" not found')
        if request.method == "GET":
            return web.json_response(self._whole(kind, found))
        if request.method == "DELETE":
            text = await request.text()
            wanted = (json.loads(text) if text else {}).get("preconditions") or {}
            for field, at in (("uid", "uid"), ("resourceVersion", "resourceVersion")):
                if wanted.get(field) and wanted[field] != found["metadata"][at]:
                    return _status(409, "Conflict", f"the {field} in the precondition does not match")
            self._delete(kind, found)
            return web.json_response(self._whole(kind, found))
        return _status(405, "MethodNotAllowed", "not supported")

    async def _evict(self, request: web.Request) -> web.StreamResponse:
        pod = self._objects["pods"].get((request.match_info["namespace"], request.match_info["name"]))
        if pod is None:
            return _status(404, "NotFound", f'pods "{request.match_info["name"]}" not found')
        budgets = [b for b in self._objects["poddisruptionbudgets"].values() if self._covers(b, pod)]
        if len(budgets) > 1:
            return _status(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            )
        if budgets and self._budget_status(budgets[0])["disruptionsAllowed"] <= 0:
            name = budgets[0]["metadata"]["name"]
            details = {
                "causes": [
                    {
                        "reason": "DisruptionBudget",
                        "message": f"The disruption budget {name} needs more healthy pods",
                    }
                ]
            }
            return _status(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
                details,
            )
        self._delete("pods", pod)
        return _status(201, "", "", word="Success")

    def _covers(self, budget: Doc, pod: Doc) -> bool:
        wanted = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
        same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
        return same and all(pod["metadata"]["labels"].get(k) == v for k, v in wanted.items())

    def _budget_status(self, budget: Doc) -> Doc:
        pods = [
            p
            for p in self._objects["pods"].values()
            if self._covers(budget, p) and "deletionTimestamp" not in p["metadata"]
        ]
        healthy = sum(1 for p in pods if p["status"]["conditions"][0]["status"] == "True")
        wanted = int(budget["spec"].get("minAvailable", 0))
        return {
            "currentHealthy": healthy, "desiredHealthy": wanted, "expectedPods": len(pods), "disruptionsAllowed": max(0, healthy - wanted),
            "observedGeneration": 1,
        }  # fmt: skip

    def _whole(self, kind: str, doc: Doc) -> Doc:
        return {**doc, "status": self._budget_status(doc)} if kind == "poddisruptionbudgets" else doc


async def _async(answer: web.StreamResponse) -> web.StreamResponse:
    return answer


def _selected(doc: Doc, labels: str, fields: str) -> bool:
    have = doc["metadata"]["labels"]
    for term in (t.strip() for t in re.split(r",(?![^(]*\))", labels) if t.strip()):
        if m := re.fullmatch(r"(\S+)\s+(in|notin)\s+\((.*)\)", term):
            inside = have.get(m[1]) in [v.strip() for v in m[3].split(",")]
            if inside != (m[2] == "in"):
                return False
        elif "!=" in term:
            key, _, value = term.partition("!=")
            if have.get(key) == value:
                return False
        elif "=" in term:
            key, _, value = term.replace("==", "=").partition("=")
            if have.get(key) != value:
                return False
        elif term.lstrip("!") in have if term.startswith("!") else term not in have:
            return False
    for term in (t for t in fields.split(",") if t):
        key, _, value = term.partition("=")
        here: Any = doc
        for part in key.split("."):
            here = here.get(part, "") if isinstance(here, dict) else ""
        if here != value:
            return False
    return True


def _status(
    code: int, reason: str, message: str, details: Doc | None = None, word: str = "Failure"
) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": word,
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.json_response({**body, "details": details or {}}, status=code)


def _render(fault: Fault) -> web.StreamResponse:
    status = int(fault.status or 500)
    reason = {
        401: "Unauthorized",
        403: "Forbidden",
        404: "NotFound",
        429: "TooManyRequests",
        503: "ServiceUnavailable",
    }.get(status, "InternalError")
    answer = _status(status, reason, fault.message or "injected fault")
    if fault.retry_after:
        answer.headers["Retry-After"] = f"{fault.retry_after:g}"
    return answer
