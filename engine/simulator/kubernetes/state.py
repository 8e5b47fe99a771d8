"""What lives in a cluster: its objects, and what happens to them by themselves. Pods take time to go, their controllers replace
them, finalizers hold them, budgets count them."""

from __future__ import annotations

import asyncio
import copy
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

from engine.simulator.kubernetes import budgets, objects
from engine.simulator.kubernetes.kinds import (
    BUDGETS,
    CLAIMS,
    KINDS,
    NAMESPACES,
    NODES,
    OWNERS,
    PODS,
    SERVICES,
    VOLUMES,
    Doc,
    Kind,
)
from engine.simulator.kubernetes.spec import KubernetesSpec, PodSpec, system_parts

ALWAYS_THERE = ("default", "kube-system")
FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
"""Metadata that no patch changes."""
Place = tuple[str, str]
"""(namespace, name) of an object; the namespace is empty for what has none."""


class State:
    """All objects of a cluster, by kind and place. `time_scale`: real seconds for a nominal one."""

    def __init__(self, spec: KubernetesSpec, time_scale: float) -> None:
        self.version = 1000
        self._objects: dict[Kind, dict[Place, Doc]] = {kind: {} for kind in KINDS}
        self._grace = spec.grace_seconds * time_scale
        self._notice = spec.budget_seconds * time_scale
        self._templates: dict[str, PodSpec] = {}
        self._stopped: set[str] = set()
        self._observed: dict[str, int] = {}
        self._fill(spec)

    def _fill(self, spec: KubernetesSpec) -> None:
        for name in ALWAYS_THERE:
            self._namespace(name)
        for n in spec.nodes:
            self._put(NODES, objects.node(n))
        pods, guards = system_parts() if spec.system else ([], [])
        first = spec.nodes[0].name if spec.nodes else ""
        for p in [*pods, *spec.pods]:
            placed = p.node or p.phase == "Pending"
            self.add_pod(p if placed else p.model_copy(update={"node": first}))
        for b in [*guards, *spec.budgets]:
            self._namespace(b.namespace)
            made = self._put(BUDGETS, objects.budget(b))
            self._observed[made["metadata"]["uid"]] = 1
        for s in spec.load_balancers:
            self._namespace(s.namespace)
            self._put(SERVICES, objects.service(s))
        for v in spec.volumes:
            self._put(VOLUMES, objects.volume(v))
            if v.claim:
                claim = objects.claim(v)
                self._namespace(claim["metadata"]["namespace"])
                self._put(CLAIMS, claim)

    def _namespace(self, name: str) -> None:
        if ("", name) not in self._objects[NAMESPACES]:
            self._put(NAMESPACES, {"metadata": {"name": name}, "spec": {}, "status": {"phase": "Active"}})

    # -- reading --------------------------------------------------------------------------------------------------------

    def get(self, kind: Kind, namespace: str, name: str) -> Doc | None:
        found = self._objects[kind].get((namespace, name))
        return self._shown(kind, found) if found else None

    def rows(self, kind: Kind, namespace: str = "") -> Iterator[Doc]:
        """Objects in the order of their places; those of one namespace, or all."""
        for (where, _), doc in sorted(self._objects[kind].items()):
            if not namespace or where == namespace:
                yield self._shown(kind, doc)

    def _shown(self, kind: Kind, doc: Doc) -> Doc:
        """An object with the status that follows from the others."""
        if kind is BUDGETS:
            doc["status"] = self._budget_status(doc)
        elif kind.name in OWNERS:
            pods = self._pods_of(doc)
            wanted = doc["spec"].get("replicas", len(pods))
            doc["status"] = objects.owner_status(kind.name, wanted, sum(budgets.ready(p) for p in pods))
        return doc

    def _budget_status(self, budget: Doc) -> Doc:
        pods = [p for p in self._objects[PODS].values() if budgets.covers(budget, p)]
        alone, owners = 0, dict[str, int]()
        for p in pods:
            owner = self._owner_of(p)
            if owner is None:
                alone += 1
            else:
                owners[owner["metadata"]["uid"]] = owner["spec"].get("replicas", len(self._pods_of(owner)))
        observed = self._observed.get(budget["metadata"]["uid"], 0)
        return budgets.status(budget, pods, alone + sum(owners.values()), observed)

    def _owner_of(self, pod: Doc) -> Doc | None:
        """The object that controls a pod, if the API serves its kind."""
        for reference in pod["metadata"].get("ownerReferences", ()):
            if kind := OWNERS.get(reference["kind"]):
                return self._objects[kind].get((pod["metadata"]["namespace"], reference["name"]))
        return None

    def _pods_of(self, owner: Doc) -> list[Doc]:
        """The pods that it controls and that are not going."""
        return [
            p for p in self._objects[PODS].values() if not budgets.going(p) and self._owner_of(p) is owner
        ]

    # -- writing --------------------------------------------------------------------------------------------------------

    def _put(self, kind: Kind, doc: Doc, born: str = objects.BORN) -> Doc:
        """A new object; what the server knows of it is filled in."""
        meta = doc["metadata"]
        meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": born}
        meta |= {"generation": 1} if kind.group else {}
        made: Doc = {"apiVersion": kind.api_version, "kind": kind.name, **doc}
        self._objects[kind][meta.get("namespace", ""), meta["name"]] = made
        self._touch(made)
        return made

    def create(self, kind: Kind, doc: Doc) -> Doc:
        """An object that a client makes."""
        made = self._put(kind, doc, _now())
        self._settle(kind, made)
        return self._shown(kind, made)

    def add_pod(self, p: PodSpec) -> Doc:
        """A pod, with its namespace and its controller, where they are not there yet."""
        self._namespace(p.namespace)
        owner = self._share_owner(p) if p.owner else None
        made = self._put(PODS, objects.pod(p, owner))
        if owner and p.recreate:
            self._templates[made["metadata"]["uid"]] = p
        return made

    def _share_owner(self, p: PodSpec) -> Doc:
        """The controller of a pod, which wants one pod more with it."""
        word, _, name = p.owner.partition("/")
        kind = OWNERS.get(word)
        if kind is None:
            return {"apiVersion": "v1", "kind": word, "metadata": {"name": name, "uid": str(uuid.uuid4())}}
        found = self._objects[kind].get((p.namespace, name))
        if found is None:
            return self._put(kind, objects.owner(word, p.namespace, name, p.labels))
        if "replicas" in found["spec"]:
            found["spec"]["replicas"] += 1
        return found

    def merge(self, kind: Kind, doc: Doc, patch: Doc) -> Doc:
        """Merge a patch into an object."""
        spec, kept = (
            copy.deepcopy(doc["spec"]),
            {k: doc["metadata"][k] for k in FIXED if k in doc["metadata"]},
        )
        _merge(doc, {k: v for k, v in patch.items() if k in ("metadata", "spec", "status")})
        doc["metadata"] |= kept
        if kind.group and doc["spec"] != spec:
            doc["metadata"]["generation"] += 1
        self._touch(doc)
        self._settle(kind, doc)
        self._release(kind, doc)
        return self._shown(kind, doc)

    def delete(self, kind: Kind, doc: Doc, *, at_once: bool = False) -> None:
        """Begin a deletion: pods stop first, and what has finalizers waits for them. Again it changes nothing, but `at_once`."""
        meta, first = doc["metadata"], not budgets.going(doc)
        if first:
            meta["deletionTimestamp"] = _now()
            meta["deletionGracePeriodSeconds"] = 30 if kind is PODS and not at_once else 0
            self._touch(doc)
        if kind is not PODS:
            self._delete_contents(kind, doc)
            self._release(kind, doc)
            return
        if first:
            self._replace(doc)
        runs = doc["spec"].get("nodeName") and doc["status"]["phase"] in ("Running", "Pending")
        if at_once or not runs or not self._grace:
            self._stop_pod(doc)
        elif first:
            asyncio.get_running_loop().call_later(self._grace, self._stop_pod, doc)

    def _stop_pod(self, doc: Doc) -> None:
        self._stopped.add(doc["metadata"]["uid"])
        self._release(PODS, doc)

    def _release(self, kind: Kind, doc: Doc) -> None:
        """Remove an object whose deletion nothing holds up any more."""
        meta = doc["metadata"]
        place = meta.get("namespace", ""), meta["name"]
        if not budgets.going(doc) or meta.get("finalizers") or self._objects[kind].get(place) is not doc:
            return
        if kind is PODS and meta["uid"] not in self._stopped:
            return
        if kind is NAMESPACES and self._inside(meta["name"]):
            return
        del self._objects[kind][place]
        self.version += 1
        if namespace := self._objects[NAMESPACES].get(("", place[0])):
            self._release(NAMESPACES, namespace)

    def _delete_contents(self, kind: Kind, doc: Doc) -> None:
        """What goes with an object: all in a namespace, the pods of a controller."""
        if kind is NAMESPACES:
            doc["status"] = {"phase": "Terminating"}
            for inner, inside in self._inside(doc["metadata"]["name"]):
                self.delete(inner, inside)
        elif kind.name in OWNERS:
            for pod in self._pods_of(doc):
                self.delete(PODS, pod)

    def _inside(self, namespace: str) -> list[tuple[Kind, Doc]]:
        return [
            (k, d)
            for k, rows in self._objects.items()
            for (where, _), d in rows.items()
            if where == namespace
        ]

    def _touch(self, doc: Doc) -> None:
        self.version += 1
        doc["metadata"]["resourceVersion"] = str(self.version)

    # -- controllers ----------------------------------------------------------------------------------------------------

    def _settle(self, kind: Kind, doc: Doc) -> None:
        """What controllers do about an object that was made or changed."""
        if kind is NODES:
            self._schedule()
        if kind is BUDGETS:
            uid, generation = doc["metadata"]["uid"], doc["metadata"]["generation"]
            if self._notice:
                asyncio.get_running_loop().call_later(
                    self._notice, self._observed.__setitem__, uid, generation
                )
            else:
                self._observed[uid] = generation

    def _replace(self, gone: Doc) -> None:
        """What the controller of a pod does when the pod goes: one more like it, pending where no node takes it."""
        template, owner = self._templates.pop(gone["metadata"]["uid"], None), self._owner_of(gone)
        if template is None or owner is None or budgets.going(owner):
            return
        node = template.node if owner["kind"] == "DaemonSet" else self._free_node()
        again = template.model_copy(
            update={
                "name": f"{owner['metadata']['name']}-{random.getrandbits(20):05x}",
                "node": node,
                "phase": "Running" if node else "Pending",
            }
        )
        made = self._put(PODS, objects.pod(again, owner), _now())
        self._templates[made["metadata"]["uid"]] = again

    def _free_node(self) -> str:
        """A node that takes pods; empty when there is none."""
        for node in self._objects[NODES].values():
            if budgets.ready(node) and not node["spec"].get("unschedulable") and not budgets.going(node):
                return str(node["metadata"]["name"])
        return ""

    def _schedule(self) -> None:
        """Pods that wait for a node get one."""
        node = self._free_node()
        for pod in self._objects[PODS].values() if node else ():
            template = self._templates.get(pod["metadata"]["uid"])
            if template and not pod["spec"].get("nodeName"):
                pod["spec"]["nodeName"] = node
                pod["status"] = objects.pod_status("Running", template.ready, scheduled=True)
                self._touch(pod)


def _merge(into: Doc, patch: Doc) -> None:
    """JSON merge patch, RFC 7396."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(into.get(key), dict):
                into[key] = {}
            _merge(into[key], value)
        else:
            into[key] = value


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
