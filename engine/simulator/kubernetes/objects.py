"""Objects as the API shows them, made from their specs; complete enough for clients that check what they read."""

from __future__ import annotations

from engine.simulator.kubernetes.kinds import Doc
from engine.simulator.kubernetes.spec import (
    MIRROR,
    BudgetSpec,
    NodeSpec,
    PodSpec,
    ServiceSpec,
    VolumeSpec,
)

BORN = "2026-11-20T08:00:00Z"
VERSION = "v1.33.4"
DRIVER = "compute.csi.nebius.com"
IMAGE = "registry.example/main:1"


def node(n: NodeSpec) -> Doc:
    labels = {
        "kubernetes.io/hostname": n.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **({"nebius.com/node-group-id": n.pool} if n.pool else {}),
        **n.labels,
    }
    capacity = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "90Gi"}
    capacity |= {"nvidia.com/gpu": str(n.gpus)} if n.gpus else {}
    spec: Doc = {"providerID": n.provider_id} if n.provider_id else {}
    spec |= {"unschedulable": True} if n.unschedulable else {}
    info = {
        "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.0.4", "kernelVersion": "6.11.0",
        "kubeProxyVersion": "", "kubeletVersion": VERSION, "machineID": "", "operatingSystem": "linux", "osImage": "Ubuntu 24.04",
        "systemUUID": "",
    }  # fmt: skip
    status = {
        "capacity": capacity,
        "allocatable": dict(capacity),
        "conditions": [_condition("Ready", n.ready, "KubeletReady" if n.ready else "NodeStatusUnknown")],
        "addresses": [{"type": "Hostname", "address": n.name}],
        "nodeInfo": info,
    }
    return {"metadata": {"name": n.name, "labels": labels}, "spec": spec, "status": status}


def pod(p: PodSpec, owner: Doc | None) -> Doc:
    """A pod. `owner`: the object that controls it."""
    meta: Doc = {"name": p.name, "namespace": p.namespace, "labels": dict(p.labels)}
    annotations = p.annotations | ({MIRROR: "static"} if p.mirror else {})
    meta |= {"annotations": annotations} if annotations else {}
    meta |= {"finalizers": list(p.finalizers)} if p.finalizers else {}
    if owner:
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
        }
        reference |= {"uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}
        meta["ownerReferences"] = [reference]
    volumes: list[Doc] = [{"name": "scratch", "emptyDir": {}}] if p.local_data else []
    volumes += [{"name": "data", "persistentVolumeClaim": {"claimName": p.claim}}] if p.claim else []
    spec: Doc = {"containers": [{"name": "main", "image": IMAGE}], "terminationGracePeriodSeconds": 30}
    spec |= {"volumes": volumes} if volumes else {}
    spec |= {"nodeName": p.node} if p.node else {}
    return {"metadata": meta, "spec": spec, "status": pod_status(p.phase, p.ready, scheduled=bool(p.node))}


def pod_status(phase: str, ready: bool, *, scheduled: bool) -> Doc:
    running = phase == "Running"
    conditions = [
        _condition("PodScheduled", scheduled, "" if scheduled else "Unschedulable"),
        _condition("Ready", running and ready, "" if running and ready else "ContainersNotReady"),
    ]
    status: Doc = {"phase": phase, "conditions": conditions, "qosClass": "BestEffort"}
    if running:
        container = {
            "name": "main",
            "image": IMAGE,
            "imageID": "",
            "ready": ready,
            "restartCount": 0,
            "started": True,
        }
        status["startTime"] = BORN
        status["containerStatuses"] = [container | {"state": {"running": {"startedAt": BORN}}}]
    return status


def owner(kind: str, namespace: str, name: str, labels: dict[str, str]) -> Doc:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet that wants one pod with these labels."""
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": IMAGE}]}}
    spec: Doc = {"selector": {"matchLabels": labels}, "template": template}
    spec |= {"serviceName": name} if kind == "StatefulSet" else {}
    spec |= {} if kind == "DaemonSet" else {"replicas": 1}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec, "status": {}}


def owner_status(kind: str, wanted: int, ready: int) -> Doc:
    if kind == "DaemonSet":
        return {
            "currentNumberScheduled": wanted, "desiredNumberScheduled": wanted, "numberMisscheduled": 0, "numberReady": ready,
        }  # fmt: skip
    status: Doc = {
        "replicas": wanted,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "observedGeneration": 1,
    }
    return status | ({"currentReplicas": wanted} if kind == "StatefulSet" else {})


def budget(b: BudgetSpec) -> Doc:
    spec: Doc = {}
    if b.max_unavailable is not None:
        spec["maxUnavailable"] = b.max_unavailable
    else:
        spec["minAvailable"] = 1 if b.min_available is None else b.min_available
    if b.selector is not None:
        spec["selector"] = {"matchLabels": b.selector} if b.selector else {}
    spec |= {"unhealthyPodEvictionPolicy": b.policy} if b.policy else {}
    meta: Doc = {"name": b.name, "namespace": b.namespace, "labels": dict(b.labels)}
    meta |= {"annotations": dict(b.annotations)} if b.annotations else {}
    return {"metadata": meta, "spec": spec, "status": {}}


def service(s: ServiceSpec) -> Doc:
    port = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080}
    balancer = {"ingress": [{"ip": s.address, "ipMode": "VIP"}]} if s.address else {}
    return {
        "metadata": {"name": s.name, "namespace": s.namespace, "labels": dict(s.labels)},
        "spec": {"type": "LoadBalancer", "ports": [port], "clusterIP": "10.96.0.10"},
        "status": {"loadBalancer": balancer},
    }


def volume(v: VolumeSpec) -> Doc:
    spec: Doc = {
        "capacity": {"storage": v.capacity},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": v.reclaim,
        "storageClassName": "compute-csi-default-sc",
        "csi": {"driver": DRIVER, "volumeHandle": v.handle or v.name},
    }
    if v.claim:
        namespace, _, name = v.claim.rpartition("/")
        spec["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "namespace": namespace or "default",
            "name": name,
        }
    return {
        "metadata": {"name": v.name},
        "spec": spec,
        "status": {"phase": "Bound" if v.claim else "Available"},
    }


def claim(v: VolumeSpec) -> Doc:
    """The claim that a volume is bound to."""
    namespace, _, name = v.claim.rpartition("/")
    wanted = {"requests": {"storage": v.capacity}}
    return {
        "metadata": {"name": name, "namespace": namespace or "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": wanted, "volumeName": v.name},
        "status": {"phase": "Bound", "capacity": {"storage": v.capacity}},
    }


def _condition(kind: str, holds: bool, reason: str) -> Doc:
    made: Doc = {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": BORN}
    return made | ({"reason": reason} if reason else {})
