"""From the API's objects to `Resource` words.

kind     attrs, beside those of the table's second line
pod      node, phase, ready, terminating ("yes" or ""), owner ("namespace/Kind/name"), mirror, finalizers (space-separated)
node     ready, unschedulable, provider_id, gpus
pdb      allowed, current, desired, expected, minimum, maximum, policy, selector, spec, manifest (JSON, verbatim, to restore it)
service  type, addresses (space-separated)
volume   phase, capacity, driver, handle, claim, reclaim
all      name; namespace and resource_version where they have one
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from engine.clouds.kubernetes.objects import Budget, Head, Node, Pod, Service, Volume
from engine.words.presence import Present, Ref, Resource
from engine.words.redact import redact

POD, NODE, BUDGET, SERVICE, VOLUME = "pod", "node", "pdb", "service", "volume"
"""Kinds of `Ref`; the id is the object's uid."""


def pod(pod: Pod) -> Resource:
    return _resource(
        POD,
        pod.head,
        state="Terminating" if pod.head.deleting else pod.phase,
        node=pod.node,
        phase=pod.phase,
        ready=_yes(pod.ready),
        terminating=_yes(bool(pod.head.deleting)),
        owner=pod.workload if pod.owner else "",
        mirror=_yes(pod.mirror),
        finalizers=" ".join(pod.head.finalizers),
    )


def node(node: Node) -> Resource:
    return _resource(
        NODE,
        node.head,
        state="Ready" if node.ready else "NotReady",
        ready=_yes(node.ready),
        unschedulable=_yes(node.unschedulable),
        provider_id=node.provider_id,
        gpus=str(node.gpus),
    )


def budget(budget: Budget) -> Resource:
    return _resource(
        BUDGET,
        budget.head,
        fingerprint=budget.fingerprint,
        verbatim={
            # Not redacted: what is restored must be what was taken away. Budgets hold selectors and numbers.
            "selector": "" if budget.selector is None else json.dumps(budget.selector, sort_keys=True),
            "spec": json.dumps(budget.spec, sort_keys=True),
            "manifest": json.dumps(budget.manifest, sort_keys=True),
        },
        allowed=str(budget.allowed),
        current=str(budget.current),
        desired=str(budget.desired),
        expected=str(budget.expected),
        minimum=budget.minimum,
        maximum=budget.maximum,
        policy=budget.policy,
    )


def service(service: Service) -> Resource:
    return _resource(SERVICE, service.head, type=service.type, addresses=" ".join(service.addresses))


def volume(volume: Volume) -> Resource:
    return _resource(
        VOLUME,
        volume.head,
        state=volume.phase,
        phase=volume.phase,
        capacity=volume.capacity,
        driver=volume.driver,
        handle=volume.handle,
        claim=volume.claim,
        reclaim=volume.reclaim,
    )


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _resource(
    kind: str,
    head: Head,
    *,
    state: str = "",
    fingerprint: str = "",
    verbatim: Mapping[str, str] | None = None,
    **attrs: str,
) -> Resource:
    plain = {
        "namespace": head.namespace,
        "name": head.name,
        "resource_version": head.resource_version,
        **attrs,
    }
    return Resource(
        ref=Ref(kind, redact(head.uid)),
        name=redact(head.path),
        parent=redact(head.namespace),
        presence=Present(
            fingerprint=fingerprint or head.fingerprint(),
            state=redact(state),
            leaving=bool(head.deleting),
        ),
        created_at=redact(head.created),
        labels={redact(key): redact(value) for key, value in head.labels.items()},
        attrs={**{key: redact(value) for key, value in plain.items()}, **(verbatim or {})},
    )
