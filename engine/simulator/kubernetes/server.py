"""The API over HTTP: paths, who may do what, and the verbs on a cluster's state."""

from __future__ import annotations

import base64
import binascii
import copy
import fnmatch
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from engine.simulator.faults import Fault, Timetable
from engine.simulator.kubernetes import budgets, kinds, objects, selectors, status
from engine.simulator.kubernetes.kinds import BUDGETS, NAMESPACES, OWNERS, PODS, REVIEWS, Doc, Kind
from engine.simulator.kubernetes.objects import VERSION
from engine.simulator.kubernetes.state import State
from engine.simulator.kubernetes.status import Failed
from engine.simulator.web import Served, guarded, retry_after, served

USER, ANONYMOUS = "operator", "system:anonymous"
PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")


@dataclass(frozen=True)
class Target:
    """What a path is about. `name` is empty for a collection, `subresource` for the thing itself."""

    kind: Kind
    namespace: str
    name: str
    subresource: str

    @property
    def resource(self) -> str:
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural


class Api:
    """The requests of one cluster. `tokens`: bearer tokens that are valid, shared with who changes them."""

    def __init__(
        self,
        state: State,
        tokens: set[str],
        forbidden: Sequence[str],
        timetable: Timetable,
        alive: Callable[[], bool],
    ) -> None:
        self.log: list[Served] = []
        self._state, self._tokens, self._forbidden = state, tokens, tuple(forbidden)
        self._timetable, self._alive = timetable, alive

    def app(self) -> web.Application:
        guard = guarded("kubernetes", self._timetable, self.log, _render, _call_of, self._alive)
        app = web.Application(middlewares=[guard])
        app.router.add_route("*", "/{tail:.*}", self._serve)
        return app

    def may(self, verb: str, resource: str) -> bool:
        """Whether callers may do that, such as `delete pods`."""
        return not any(fnmatch.fnmatchcase(f"{verb} {resource}", f) for f in self._forbidden)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        known = token in self._tokens
        served()["principal"] = USER if known else ANONYMOUS
        try:
            if not known:
                raise Failed(401, "Unauthorized")
            return await self._answer(request)
        except Failed as no:
            return no.answer()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        parts = [p for p in request.path.split("/") if p]
        if request.method == "GET" and (document := _discovery(parts)) is not None:
            return web.json_response(document)
        match parts:
            case ["api", "v1", *rest]:
                group = ""
            case ["apis", group, "v1", *rest]:
                pass
            case _:
                raise status.unknown_resource()
        body = await _body(request)
        if (group, rest, request.method) == (REVIEWS, ["selfsubjectaccessreviews"], "POST"):
            return self._review(body)
        target = _target(group, rest)
        dry = "All" in request.query.getall("dryRun", []) or "All" in (body.get("dryRun") or [])
        match request.method, bool(target.name), target.subresource:
            case "GET", False, "":
                self._allow("list", target)
                return self._list(target, request)
            case "GET", True, "":
                self._allow("get", target)
                return web.json_response(self._find(target))
            case "POST", False, "":
                self._allow("create", target)
                return self._create(target, body, dry)
            case "PATCH", True, "":
                self._allow("patch", target)
                return self._patch(target, request.content_type, body, dry)
            case "DELETE", True, "":
                self._allow("delete", target)
                grace = body.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
                return self._delete(target, body, dry, at_once=grace in (0, "0"))
            case "POST", True, "eviction" if target.kind is PODS:
                self._allow("create", target)
                return self._evict(target, body, dry)
        raise Failed(405, "the server does not allow this method on the requested resource")

    # -- access ---------------------------------------------------------------------------------------------------------

    def _allow(self, verb: str, t: Target) -> None:
        if not self.may(verb, t.resource):
            raise status.forbidden(USER, verb, t.kind, t.subresource, t.namespace, t.name)

    def _review(self, body: Doc) -> web.StreamResponse:
        spec = body.get("spec") or {}
        asked = spec.get("resourceAttributes") or {}
        resource = "/".join(filter(None, (asked.get("resource", ""), asked.get("subresource", ""))))
        head = {"kind": "SelfSubjectAccessReview", "apiVersion": f"{REVIEWS}/v1", "metadata": {}}
        answer = {"allowed": self.may(asked.get("verb", ""), resource)}
        return web.json_response({**head, "spec": spec, "status": answer}, status=201)

    # -- verbs ----------------------------------------------------------------------------------------------------------

    def _find(self, t: Target) -> Doc:
        found = self._state.get(t.kind, t.namespace, t.name)
        if found is None:
            raise status.not_found(t.kind, t.name)
        return found

    def _list(self, t: Target, request: web.Request) -> web.StreamResponse:
        query = request.query
        if query.get("watch", "").lower() in ("true", "1"):
            raise Failed(405, "this server does not serve watches")
        terms = selectors.field_terms(t.kind, query.get("fieldSelector", ""))
        rows = [
            d
            for d in self._state.rows(t.kind, t.namespace)
            if selectors.by_labels(d["metadata"].get("labels") or {}, query.get("labelSelector", ""))
            and selectors.by_fields(d, terms)
        ]
        if token := query.get("continue"):
            after = _from_token(token)
            rows = [d for d in rows if _place(d) > after]
        limit = int(query.get("limit") or 0)
        page = rows[:limit] if limit else rows
        meta: Doc = {"resourceVersion": str(self._state.version)}
        if len(page) < len(rows):
            meta |= {"continue": _token(_place(page[-1])), "remainingItemCount": len(rows) - len(page)}
        head = {"kind": f"{t.kind.name}List", "apiVersion": t.kind.api_version, "metadata": meta}
        return web.json_response({**head, "items": page})

    def _create(self, t: Target, body: Doc, dry: bool) -> web.StreamResponse:
        meta = dict(body.get("metadata") or {})
        if meta.get("generateName") and not meta.get("name"):
            meta["name"] = f"{meta['generateName']}{random.getrandbits(20):05x}"
        if t.kind.namespaced:
            meta.setdefault("namespace", t.namespace)
        self._check_new(t, body, meta)
        made: Doc = {"metadata": meta, "spec": body.get("spec") or {}, "status": {}}
        made["status"] = _first_status(t.kind, made)
        if dry:
            made = {"apiVersion": t.kind.api_version, "kind": t.kind.name, **made}
        else:
            made = self._state.create(t.kind, made)
        return web.json_response(made, status=201)

    def _check_new(self, t: Target, body: Doc, meta: Doc) -> None:
        """Raises `Failed` for an object that cannot be made here."""
        if body.get("kind", t.kind.name) != t.kind.name:
            raise Failed(
                400,
                f"{body['kind']} in version {body.get('apiVersion')} cannot be handled as a {t.kind.name}",
            )
        if not meta.get("name"):
            raise Failed(422, "metadata.name: Required value: name or generateName is required")
        if meta.get("namespace", "") != t.namespace:
            raise Failed(
                400, "the namespace of the provided object does not match the namespace sent on the request"
            )
        if meta.get("resourceVersion"):
            raise Failed(500, "resourceVersion should not be set on objects to be created")
        if t.kind.namespaced and self._state.get(NAMESPACES, "", t.namespace) is None:
            raise status.not_found(NAMESPACES, t.namespace)
        if self._state.get(t.kind, t.namespace, meta["name"]):
            raise status.exists(t.kind, meta["name"])

    def _patch(self, t: Target, content_type: str, body: Doc, dry: bool) -> web.StreamResponse:
        if content_type not in PATCHES:
            raise Failed(415, f"the body of the request was in an unknown format: {content_type}")
        found, meta = self._find(t), body.get("metadata") or {}
        _precondition(t, found, {"uid": meta.get("uid")})
        if meta.get("resourceVersion") not in (None, found["metadata"]["resourceVersion"]):
            why = (
                "the object has been modified; please apply your changes to the latest version and try again"
            )
            raise status.conflict(t.kind, t.name, why)
        return web.json_response(found if dry else self._state.merge(t.kind, found, body))

    def _delete(self, t: Target, body: Doc, dry: bool, *, at_once: bool) -> web.StreamResponse:
        found = self._find(t)
        _precondition(t, found, body.get("preconditions") or {})
        answer: Doc | None = copy.deepcopy(found)
        if not dry:
            self._state.delete(t.kind, found, at_once=at_once)
            answer = self._state.get(t.kind, t.namespace, t.name)
        if t.kind is PODS or answer is not None:
            return web.json_response(answer or found)
        details = {
            "name": t.name,
            "kind": t.kind.plural,
            "group": t.kind.group,
            "uid": found["metadata"]["uid"],
        }
        return status.succeeded(200, details)

    def _evict(self, t: Target, body: Doc, dry: bool) -> web.StreamResponse:
        if (body.get("metadata") or {}).get("name") != t.name:
            raise Failed(400, "name in URL does not match name in Eviction object")
        options, pod = body.get("deleteOptions") or {}, self._find(t)
        _precondition(t, pod, options.get("preconditions") or {})
        covering = [b for b in self._state.rows(BUDGETS, t.namespace) if budgets.covers(b, pod)]
        budgets.check_eviction(pod, covering)
        if not dry and "All" not in (options.get("dryRun") or []):
            self._state.delete(PODS, pod, at_once=options.get("gracePeriodSeconds") == 0)
        return status.succeeded(201)


def _target(group: str, rest: list[str]) -> Target:
    """Raises `Failed` for a path that means nothing here."""
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    kind = kinds.find(group, rest[0]) if 1 <= len(rest) <= 3 else None
    if kind is None:
        raise status.unknown_resource()
    everywhere = kind.namespaced and len(rest) == 1
    if kind.namespaced != bool(namespace) and not everywhere:
        raise status.unknown_resource()
    return Target(kind, namespace, *[*rest[1:], "", ""][:2])


def _first_status(kind: Kind, doc: Doc) -> Doc:
    """The status of a new object that no controller has seen yet."""
    if kind is PODS:
        return objects.pod_status("Pending", ready=False, scheduled=False)
    if kind is BUDGETS:
        return budgets.status(doc, [], 0, observed=0)
    return objects.owner_status(kind.name, 0, 0) if kind.name in OWNERS else {}


def _precondition(t: Target, found: Doc, wanted: Doc) -> None:
    for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        here = found["metadata"][field]
        if wanted.get(field) and wanted[field] != here:
            why = (
                f"Precondition failed: {word} in precondition: {wanted[field]}, {word} in object meta: {here}"
            )
            raise status.conflict(t.kind, t.name, why)


async def _body(request: web.Request) -> Doc:
    raw = await request.read()
    if not raw:
        return {}
    if "protobuf" in request.content_type:
        raise Failed(415, "the body of the request was in an unknown format")
    try:
        document = json.loads(raw)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Failed(400, "the object provided is unrecognized")
    return document


def _discovery(parts: list[str]) -> Doc | None:
    """The document at a path that says what there is; None at others."""
    known = [g["name"] for g in kinds.groups()]
    match parts:
        case ["version"]:
            return {
                "major": "1", "minor": "33", "gitVersion": VERSION, "gitCommit": "0" * 40, "gitTreeState": "clean",
                "buildDate": "2026-10-01T00:00:00Z", "goVersion": "go1.24", "compiler": "gc", "platform": "linux/amd64",
            }  # fmt: skip
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": kinds.groups()}
        case ["api", "v1"]:
            return kinds.resources("")
        case ["apis", name] if name in known:
            return {"kind": "APIGroup", "apiVersion": "v1", **kinds.group(name)}
        case ["apis", name, "v1"] if name in known:
            return kinds.resources(name)
    return None


def _place(doc: Doc) -> tuple[str, str]:
    return doc["metadata"].get("namespace", ""), doc["metadata"]["name"]


def _token(place: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _from_token(token: str) -> tuple[str, str]:
    try:
        namespace, name = json.loads(base64.urlsafe_b64decode(token))
    except (binascii.Error, ValueError, TypeError):
        raise Failed(400, "continue key is not valid") from None
    return str(namespace), str(name)


def _call_of(request: web.Request) -> tuple[str, str]:
    return f"{request.method} {request.path}", ""


def _render(fault: Fault, request: web.Request) -> web.StreamResponse:
    return Failed(
        int(fault.status or 500), fault.message or "injected fault", headers=retry_after(fault)
    ).answer()
