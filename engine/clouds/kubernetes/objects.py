"""The API's objects, as far as we read them: from JSON to typed values, or the finding that they are malformed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.words.presence import Cause
from engine.words.trouble import Trouble

Json = Mapping[str, object]

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a static pod's image in the API: its node runs it, whatever the API is told."""


class Owner(NamedTuple):
    kind: str
    name: str
    controller: bool


@dataclass(frozen=True, slots=True)
class Head:
    """What every object has. `annotations` may hold anything and are kept verbatim."""

    uid: str
    namespace: str
    name: str
    created: str
    resource_version: str
    generation: int
    deleting: str
    finalizers: tuple[str, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(repr=False)

    @property
    def path(self) -> str:
        """`namespace/name`, or the name of what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def fingerprint(self, *more: str) -> str:
        """First 16 hex digits of SHA-256 over uid, name, namespace, creation time, and what else makes it this very thing."""
        parts = "\0".join((self.uid, self.name, self.namespace, self.created, *more))
        return hashlib.sha256(parts.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Pod:
    head: Head
    node: str
    phase: str
    ready: bool
    owners: tuple[Owner, ...]
    local_data: bool
    """It has an emptyDir, whose content goes with it."""

    @property
    def mirror(self) -> bool:
        return MIRROR in self.head.annotations

    @property
    def owner(self) -> Owner | None:
        """The owner that recreates it, else the first one."""
        return next((o for o in self.owners if o.controller), self.owners[0] if self.owners else None)

    @property
    def workload(self) -> str:
        """`namespace/Kind/name` of its owner, or of itself when it has none."""
        owner = self.owner
        return f"{self.head.namespace}/{owner.kind if owner else 'Pod'}/{owner.name if owner else self.head.name}"

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Node:
    head: Head
    ready: bool
    unschedulable: bool
    provider_id: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget. `spec` is verbatim. `selector`: None selects nothing, an empty one every pod of its namespace."""

    head: Head
    spec: Json = field(repr=False)
    selector: Json | None
    minimum: str
    maximum: str
    policy: str
    allowed: int
    current: int
    desired: int
    expected: int

    @property
    def manifest(self) -> Json:
        """All that is needed to make it again as it was."""
        metadata: dict[str, object] = {"name": self.head.name, "namespace": self.head.namespace}
        if self.head.labels:
            metadata["labels"] = dict(self.head.labels)
        if self.head.annotations:
            metadata["annotations"] = dict(self.head.annotations)
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": self.spec,
        }

    @property
    def fingerprint(self) -> str:
        """Changes with its spec, labels and annotations too: a budget is what it demands."""
        return self.head.fingerprint(json.dumps(self.manifest, sort_keys=True))


@dataclass(frozen=True, slots=True)
class Service:
    head: Head
    type: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume. `handle` is the storage driver's id of it: the provider's disk."""

    head: Head
    phase: str
    capacity: str
    driver: str
    handle: str
    claim: str
    reclaim: str


def mapping(value: object, *path: str) -> Json:
    """The mapping at `path`, or an empty one."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def items(value: object, *path: str) -> tuple[Json, ...]:
    """The mappings in the list at `path`."""
    found = mapping(value, *path[:-1]).get(path[-1])
    return tuple(i for i in found if isinstance(i, Mapping)) if isinstance(found, list) else ()


def text(value: object, *path: str) -> str:
    found = mapping(value, *path[:-1]).get(path[-1])
    return str(found) if isinstance(found, (str, int)) and not isinstance(found, bool) else ""


def number(value: object, *path: str) -> int:
    found = mapping(value, *path[:-1]).get(path[-1])
    return found if isinstance(found, int) else 0


def _texts(value: Json) -> dict[str, str]:
    return {str(key): str(content) for key, content in value.items()}


def head(body: Json) -> Head:
    """Raises `Trouble(MALFORMED)` for an object without uid and name: nothing could be said about which one it is."""
    metadata = mapping(body, "metadata")
    uid, name = text(metadata, "uid"), text(metadata, "name")
    if not uid or not name:
        raise Trouble(Cause.MALFORMED, "an object without uid or name")
    finalizers = metadata.get("finalizers")
    return Head(
        uid=uid,
        namespace=text(metadata, "namespace"),
        name=name,
        created=text(metadata, "creationTimestamp"),
        resource_version=text(metadata, "resourceVersion"),
        generation=number(metadata, "generation"),
        deleting=text(metadata, "deletionTimestamp"),
        finalizers=tuple(str(f) for f in finalizers) if isinstance(finalizers, list) else (),
        labels=_texts(mapping(metadata, "labels")),
        annotations=_texts(mapping(metadata, "annotations")),
    )


def _condition(body: Json, name: str) -> bool:
    return any(
        condition.get("type") == name and condition.get("status") == "True"
        for condition in items(body, "status", "conditions")
    )


def pod(body: Json) -> Pod:
    return Pod(
        head=head(body),
        node=text(body, "spec", "nodeName"),
        phase=text(body, "status", "phase"),
        ready=_condition(body, "Ready"),
        owners=tuple(
            Owner(text(owner, "kind"), text(owner, "name"), owner.get("controller") is True)
            for owner in items(body, "metadata", "ownerReferences")
        ),
        local_data=any("emptyDir" in volume for volume in items(body, "spec", "volumes")),
    )


def node(body: Json) -> Node:
    gpus = text(body, "status", "capacity", "nvidia.com/gpu")
    return Node(
        head=head(body),
        ready=_condition(body, "Ready"),
        unschedulable=mapping(body, "spec").get("unschedulable") is True,
        provider_id=text(body, "spec", "providerID"),
        gpus=int(gpus) if gpus.isdecimal() else 0,
    )


def budget(body: Json) -> Budget:
    spec = mapping(body, "spec")
    selector = spec.get("selector")
    return Budget(
        head=head(body),
        spec=spec,
        selector=selector if isinstance(selector, Mapping) else None,
        minimum=text(spec, "minAvailable"),
        maximum=text(spec, "maxUnavailable"),
        policy=text(spec, "unhealthyPodEvictionPolicy") or "IfHealthyBudget",
        allowed=number(body, "status", "disruptionsAllowed"),
        current=number(body, "status", "currentHealthy"),
        desired=number(body, "status", "desiredHealthy"),
        expected=number(body, "status", "expectedPods"),
    )


def service(body: Json) -> Service:
    return Service(
        head=head(body),
        type=text(body, "spec", "type"),
        addresses=tuple(
            address
            for ingress in items(body, "status", "loadBalancer", "ingress")
            if (address := text(ingress, "ip") or text(ingress, "hostname"))
        ),
    )


def volume(body: Json) -> Volume:
    claim = mapping(body, "spec", "claimRef")
    return Volume(
        head=head(body),
        phase=text(body, "status", "phase"),
        capacity=text(body, "spec", "capacity", "storage"),
        driver=text(body, "spec", "csi", "driver"),
        handle=text(body, "spec", "csi", "volumeHandle"),
        claim=f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else "",
        reclaim=text(body, "spec", "persistentVolumeReclaimPolicy"),
    )
