"""What a drain of all nodes would meet: which disruption budgets would hold it up, and which pods it would lose. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.clouds.kubernetes.objects import Budget, Json, Node, Pod, items, mapping, text
from engine.words.presence import Unknown
from engine.words.redact import redact

POOL_LABELS = (
    "nebius.com/node-group-id",
    "mk8s.nebius.ai/node-group-id",
    "nebius.ai/node-group-id",
    "node.kubernetes.io/instance-group",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
)
"""Node labels that name the pool of a node, the more telling ones first."""
GPU_PRODUCT = "nvidia.com/gpu.product"


@dataclass(frozen=True, slots=True)
class Blocker:
    """A budget that would hold up a drain.

    pods           `namespace/name` of the pods that it covers and a drain would evict
    workloads      `namespace/Kind/name` of what they belong to
    one_node_pool  one of its nodes is alone in its pool, so that no replacement can be scheduled
    manifest       all that is needed to make it again as it was, verbatim: not for showing
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    fingerprint: str
    current: int
    desired: int
    allowed: int
    minimum: str
    maximum: str
    policy: str
    pods: tuple[str, ...]
    workloads: tuple[str, ...]
    nodes: tuple[str, ...]
    one_node_pool: bool
    reason: str
    manifest: Json = field(repr=False)

    @property
    def spec(self) -> Json:
        return mapping(self.manifest, "spec")

    @property
    def labels(self) -> Json:
        return mapping(self.manifest, "metadata", "labels")

    @property
    def annotations(self) -> Json:
        return mapping(self.manifest, "metadata", "annotations")


@dataclass(frozen=True, slots=True)
class DrainPreview:
    """What a drain would meet. With `unread` it is a guess from what could be read: an empty one promises nothing.

    unmanaged   pods that nothing recreates: what they hold is lost
    local_data  pods with an emptyDir, whose content is lost
    daemons, mirrors   how many pods a drain leaves alone, because their node or its DaemonSet owns them
    """

    blockers: tuple[Blocker, ...]
    unread: Unknown | None = None
    unmanaged: tuple[str, ...] = ()
    local_data: tuple[str, ...] = ()
    daemons: int = 0
    mirrors: int = 0
    at: str = ""


def preview(
    nodes: Sequence[Node],
    pods: Sequence[Pod] | None,
    budgets: Sequence[Budget],
    unread: Unknown | None = None,
    at: str = "",
) -> DrainPreview:
    """`pods`: None when none could be listed; then a budget counts as a blocker when it allows nothing."""
    alone = single_nodes(nodes)
    drained = [pod for pod in pods or () if is_drained(pod)]
    blockers = [
        blocker
        for budget in budgets
        if (
            blocker := _blocker(
                budget, None if pods is None else [p for p in drained if covers(budget, p)], alone
            )
        )
    ]
    return DrainPreview(
        blockers=tuple(sorted(blockers, key=lambda b: (b.namespace, b.name))),
        unread=unread,
        unmanaged=tuple(sorted(redact(pod.head.path) for pod in drained if pod.owner is None)),
        local_data=tuple(sorted(redact(pod.head.path) for pod in drained if pod.local_data)),
        daemons=sum(_of_daemon_set(pod) for pod in pods or ()),
        mirrors=sum(pod.mirror for pod in pods or ()),
        at=at,
    )


def is_drained(pod: Pod) -> bool:
    """Whether a drain would evict it: it sits on a node, still runs, and neither a DaemonSet nor the node itself owns it."""
    return bool(
        pod.node and not pod.head.deleting and not pod.finished and not pod.mirror and not _of_daemon_set(pod)
    )


def _of_daemon_set(pod: Pod) -> bool:
    owner = pod.owner
    return owner is not None and owner.kind == "DaemonSet"


def covers(budget: Budget, pod: Pod) -> bool:
    return budget.head.namespace == pod.head.namespace and matches(budget.selector, pod.head.labels)


def matches(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector fits. None fits nothing, an empty one everything; an operator we do not know fits nothing."""
    if selector is None:
        return False
    wanted = mapping(selector, "matchLabels")
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _fits(expression, labels) for expression in items(selector, "matchExpressions")
    )


def _fits(expression: Json, labels: Mapping[str, str]) -> bool:
    key = text(expression, "key")
    values = expression.get("values")
    values = values if isinstance(values, list) else []
    match text(expression, "operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def single_nodes(nodes: Sequence[Node]) -> frozenset[str]:
    """Names of the nodes that are alone in their pool."""
    sizes = Counter(pool(node) for node in nodes)
    return frozenset(node.head.name for node in nodes if sizes[pool(node)] == 1)


def pool(node: Node) -> tuple[str, str]:
    """What makes nodes interchangeable: the label that names their pool, else their accelerator."""
    labels = node.head.labels
    for label in POOL_LABELS:
        if value := labels.get(label):
            return label, value
    return "accelerator", labels.get(GPU_PRODUCT) or ("gpu" if node.gpus else "cpu")


def _blocker(budget: Budget, pods: Sequence[Pod] | None, alone: frozenset[str]) -> Blocker | None:
    reason = _reason(budget, pods)
    if not reason:
        return None
    nodes = tuple(sorted({pod.node for pod in pods or ()}))
    lonely = [node for node in nodes if node in alone]
    if lonely:
        reason += f"; {lonely[0]} is the only node of its pool, so no replacement can be scheduled"
    return Blocker(
        namespace=redact(budget.head.namespace),
        name=redact(budget.head.name),
        uid=redact(budget.head.uid),
        resource_version=redact(budget.head.resource_version),
        fingerprint=budget.fingerprint,
        current=budget.current,
        desired=budget.desired,
        allowed=budget.allowed,
        minimum=redact(budget.minimum),
        maximum=redact(budget.maximum),
        policy=redact(budget.policy),
        pods=tuple(sorted(redact(pod.head.path) for pod in pods or ())),
        workloads=tuple(sorted({redact(pod.workload) for pod in pods or ()})),
        nodes=tuple(redact(node) for node in nodes),
        one_node_pool=bool(lonely),
        reason=redact(reason),
        manifest=budget.manifest,
    )


def _reason(budget: Budget, pods: Sequence[Pod] | None) -> str:
    """Why it blocks, or nothing. The API server asks no budget about a Pending pod, and lets an unready one go as long as the
    budget's healthy pods suffice."""
    if pods is None:
        return (
            f"allows {budget.allowed} disruptions; its pods could not be listed"
            if budget.allowed <= 0
            else ""
        )
    running = [pod for pod in pods if pod.phase != "Pending"]
    ready = sum(pod.ready for pod in running)
    if ready > max(0, budget.allowed):
        return f"allows {_count(max(0, budget.allowed), 'disruption')}, while a drain evicts {_count(ready, 'ready pod')}"
    unready = len(running) - ready
    if unready and budget.policy != "AlwaysAllow" and budget.current < budget.desired:
        return (
            f"{budget.current} of {budget.desired} pods are healthy, so {_count(unready, 'pod')} that"
            f" {'is' if unready == 1 else 'are'} not ready stays protected"
        )
    return ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
