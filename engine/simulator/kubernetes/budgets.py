"""Disruption budgets: what they allow now, and whether a pod may be evicted under them.

The rules are those of Kubernetes: `pkg/controller/disruption/disruption.go` for the numbers, and
`pkg/registry/core/pod/storage/eviction.go` for the decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.simulator.kubernetes.kinds import Doc
from engine.simulator.kubernetes.objects import BORN
from engine.simulator.kubernetes.selectors import by_selector
from engine.simulator.kubernetes.status import Failed

UNOBSERVED_WAIT = 10
"""Seconds that a client is told to wait while a budget has not been observed."""


def ready(doc: Doc) -> bool:
    """A pod, or a node, is ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in doc["status"].get("conditions", ()))


def going(doc: Doc) -> bool:
    return "deletionTimestamp" in doc["metadata"]


def covers(budget: Doc, pod: Doc) -> bool:
    same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and by_selector(pod["metadata"].get("labels") or {}, budget["spec"].get("selector"))


def status(budget: Doc, pods: Sequence[Doc], wanted_by_owners: int, observed: int) -> Doc:
    """A budget's status, given the pods it covers and how many their owners want. `observed`: the generation seen."""
    spec, minimum = budget["spec"], budget["spec"].get("minAvailable")
    healthy = sum(1 for p in pods if ready(p) and not going(p))
    if isinstance(minimum, int):
        expected, desired = len(pods), minimum
    elif minimum is not None:
        expected, desired = wanted_by_owners, _share(minimum, wanted_by_owners)
    else:
        expected = wanted_by_owners
        desired = max(0, expected - _share(spec.get("maxUnavailable", 0), expected))
    allowed = max(0, healthy - desired) if expected else 0
    condition = {
        "type": "DisruptionAllowed", "status": "True" if allowed else "False", "message": "", "observedGeneration": observed,
        "reason": "SufficientPods" if allowed else "InsufficientPods", "lastTransitionTime": BORN,
    }  # fmt: skip
    return {
        "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected, "disruptionsAllowed": allowed,
        "observedGeneration": observed, "conditions": [condition],
    }  # fmt: skip


def _share(given: int | str, whole: int) -> int:
    """A number, or a percentage of `whole`, rounded up."""
    return given if isinstance(given, int) else math.ceil(int(given.removesuffix("%")) * whole / 100)


def check_eviction(pod: Doc, covering: Sequence[Doc]) -> None:
    """Raises `Failed` when a pod may not be evicted under the budgets that cover it, whose statuses are current."""
    if pod["status"]["phase"] in ("Pending", "Succeeded", "Failed") or going(pod):
        return
    if len(covering) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
        raise Failed(500, message, reason="")
    for budget in covering:
        _check(pod, budget)


def _check(pod: Doc, budget: Doc) -> None:
    name, status = budget["metadata"]["name"], budget["status"]
    current, desired = status["currentHealthy"], status["desiredHealthy"]
    always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    if not ready(pod) and (always or current >= desired > 0):
        return
    if status["observedGeneration"] < budget["metadata"]["generation"]:
        raise _too_many(
            f"The disruption budget {name} is still being processed by the server.", UNOBSERVED_WAIT
        )
    if status["disruptionsAllowed"] <= 0:
        raise _too_many(
            f"The disruption budget {name} needs {desired} healthy pods and has {current} currently", 0
        )


def _too_many(cause: str, wait: int) -> Failed:
    """A wait is told only where it is known to help: not while pods are missing."""
    details: Doc = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    details |= {"retryAfterSeconds": wait} if wait else {}
    headers = {"Retry-After": str(wait)} if wait else None
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return Failed(429, message, details, headers=headers)
