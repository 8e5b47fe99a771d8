"""Changing a cluster: evictions by the API server's own table, deletions of exactly what was seen, budgets given back."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes_server import Cluster, answering, kubeconfig, serving, status

from engine.clock import Clock
from engine.clouds.kubernetes import Kubernetes
from engine.words.intents import Intent
from engine.words.presence import Cause, Ref, Resource
from engine.words.trouble import Trouble

FAST = Clock(0.01)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with serving(Cluster()) as running:
        yield running


@pytest.fixture
async def client(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Kubernetes]:
    async with Kubernetes(kubeconfig(tmp_path, cluster.url), "mine", FAST, environ={}) as client:
        yield client


def intent(ref: Ref, expect: str = "") -> Intent:
    return Intent("key-1", ref, expect, threading.Event())


async def only_pod(client: Kubernetes) -> Resource:
    (pod,) = (await client.pods()).items
    return pod


WEB = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("pod", "budgets", "outcome"),
    [
        ({}, [], "accepted"),
        ({}, [{"allowed": 1}], "accepted"),
        ({}, [{"allowed": 0}], "pdb_blocked"),
        ({"phase": "Pending"}, [{"allowed": 0}], "accepted"),
        ({"phase": "Succeeded"}, [{"allowed": 0}], "accepted"),
        ({}, [{"allowed": 1}, {"allowed": 1}], "several_budgets"),
        ({}, [{"allowed": 0, "generation": 2}], "pdb_blocked"),
    ],
)
async def test_the_eviction_table(
    cluster: Cluster, client: Kubernetes, pod: dict[str, Any], budgets: list[dict[str, Any]], outcome: str
) -> None:
    cluster.pod("p", labels={"app": "web"}, **pod)
    for number, budget in enumerate(budgets):
        cluster.budget(f"b{number}", selector=WEB, **budget)
    result = await client.evict(intent((await only_pod(client)).ref))
    assert result.outcome == outcome
    if outcome == "pdb_blocked":
        assert "disruption budget b0" in result.message
        assert result.retry_after == (10 if "generation" in budgets[0] else None)
    evictions = [path for path in cluster.calls("POST") if path.endswith("/eviction")]
    assert len(evictions) == 1, "a budget's refusal is not to be tried again here"


async def test_an_eviction_names_the_pod_by_its_uid(cluster: Cluster, client: Kubernetes) -> None:
    cluster.pod("p", uid="u-1")
    await client.evict(intent(Ref("pod", "u-1")))
    body = cluster.seen[-1].body
    assert body is not None
    assert body["deleteOptions"] == {"preconditions": {"uid": "u-1"}}
    assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")


async def test_api_priority_is_no_budget(cluster: Cluster, client: Kubernetes) -> None:
    cluster.pod("p")
    ref = (await only_pod(client)).ref
    cluster.rules.append(answering(lambda: status(429, "TooManyRequests", "x"), match="eviction", times=1))
    assert (await client.evict(intent(ref))).outcome == "accepted"
    cluster.pod("p")
    cluster.rules[:] = [answering(lambda: status(429, "TooManyRequests", "x"), match="eviction")]
    with pytest.raises(Trouble) as raised:
        await client.evict(intent(ref))
    assert raised.value.cause is Cause.THROTTLED


async def test_a_forbidden_eviction_is_a_failure(cluster: Cluster, client: Kubernetes) -> None:
    cluster.pod("p", labels={"app": "web"})
    cluster.budget("b", selector=WEB, allowed=-1)
    with pytest.raises(Trouble) as raised:
        await client.evict(intent((await only_pod(client)).ref))
    assert raised.value.cause is Cause.DENIED
    assert raised.value.request_id == "audit-9"


async def test_a_pod_that_went_or_was_replaced_is_already_gone(cluster: Cluster, client: Kubernetes) -> None:
    cluster.pod("p", uid="old")
    ref = (await only_pod(client)).ref
    cluster.pod("p", uid="new")
    assert (await client.evict(intent(ref))).outcome == "already_gone"
    cluster.objects["pods"].clear()
    assert (await client.evict(intent(ref))).outcome == "already_gone"
    assert (await client.evict(intent(Ref("pod", "never-seen")))).outcome == "already_gone"
    assert not cluster.calls("POST")


async def test_a_pod_that_is_replaced_between_look_and_call_is_spared(
    cluster: Cluster, client: Kubernetes
) -> None:
    cluster.pod("p", uid="old")
    ref = (await only_pod(client)).ref

    async def swap(request: web.Request) -> web.Response | None:
        if request.method in ("POST", "DELETE"):
            cluster.pod("p", uid="new")
        return None

    cluster.rules.append(swap)
    assert (await client.evict(intent(ref))).outcome == "already_gone"
    cluster.pod("p", uid="old")
    await client.delete_pod(intent(ref))
    assert cluster.objects["pods"]["app/p"]["metadata"]["uid"] == "new"
    assert "deletionTimestamp" not in cluster.objects["pods"]["app/p"]["metadata"]


async def test_no_place_for_a_uid_is_no_absence_when_the_listing_failed(
    cluster: Cluster, client: Kubernetes
) -> None:
    cluster.rules.append(answering(lambda: status(403, "Forbidden", "no")))
    for change in (client.evict, client.delete_pod):
        with pytest.raises(Trouble) as raised:
            await change(intent(Ref("pod", "u")))
        assert raised.value.cause is Cause.DENIED


async def test_a_404_of_a_proxy_is_no_absence(cluster: Cluster, client: Kubernetes) -> None:
    cluster.pod("p")
    ref = (await only_pod(client)).ref
    cluster.rules.append(answering(lambda: web.Response(status=404, text="no such page")))
    with pytest.raises(Trouble) as raised:
        await client.evict(intent(ref))
    assert raised.value.cause is Cause.MALFORMED


async def test_deleting_a_pod_passes_budgets_and_waits_for_nothing(
    cluster: Cluster, client: Kubernetes
) -> None:
    cluster.pod("p", labels={"app": "web"}, finalizers=["x/y"])
    cluster.budget("b", selector=WEB, allowed=0)
    pod = await only_pod(client)
    await client.delete_pod(intent(pod.ref, pod.presence.fingerprint))
    assert (await only_pod(client)).presence.leaving
    assert cluster.seen[-2].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": pod.ref.id},
    }
    await client.delete_pod(intent(pod.ref))
    cluster.objects["pods"].clear()
    await client.delete_pod(intent(pod.ref))


async def test_another_fingerprint_is_refused_before_the_call(cluster: Cluster, client: Kubernetes) -> None:
    cluster.pod("p")
    ref = (await only_pod(client)).ref
    for change in (client.evict, client.delete_pod):
        with pytest.raises(Trouble) as raised:
            await change(intent(ref, "0123456789abcdef"))
        assert raised.value.cause is Cause.CONFLICT
        assert "changed since it was looked at" in raised.value.detail
    assert cluster.calls("POST") == cluster.calls("DELETE") == []


async def test_an_intent_for_another_kind_is_refused(cluster: Cluster, client: Kubernetes) -> None:
    with pytest.raises(Trouble):
        await client.delete_pod(intent(Ref("pdb", "u")))
    assert not cluster.seen


async def listed_budget(client: Kubernetes) -> Resource:
    (budget,) = (await client.budgets()).items
    return budget


async def test_a_budget_is_deleted_in_the_version_that_was_compared(
    cluster: Cluster, client: Kubernetes
) -> None:
    cluster.budget("coredns", "kube-system", selector=WEB)
    budget = await listed_budget(client)
    await client.delete_budget(intent(budget.ref, budget.presence.fingerprint))
    body = cluster.seen[-1].body
    assert body is not None
    assert body["preconditions"] == {
        "uid": budget.ref.id,
        "resourceVersion": budget.attrs["resource_version"],
    }
    assert not cluster.objects["poddisruptionbudgets"]
    await client.delete_budget(intent(budget.ref, budget.presence.fingerprint))


async def test_a_status_that_keeps_changing_is_followed_three_times(
    cluster: Cluster, client: Kubernetes
) -> None:
    body = cluster.budget("b", selector=WEB)
    budget = await listed_budget(client)
    left = [2]

    async def bump(request: web.Request) -> web.Response | None:
        if request.method == "DELETE" and left[0]:
            left[0] -= 1
            body["metadata"]["resourceVersion"] = str(next(cluster.versions))
        return None

    cluster.rules.append(bump)
    await client.delete_budget(intent(budget.ref, budget.presence.fingerprint))
    assert len(cluster.calls("DELETE")) == 3
    cluster.objects["poddisruptionbudgets"]["app/b"] = body
    left[0] = 99
    with pytest.raises(Trouble) as raised:
        await client.delete_budget(intent(budget.ref, budget.presence.fingerprint))
    assert raised.value.cause is Cause.CONFLICT
    assert len(cluster.calls("DELETE")) == 6


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["spec"].update(minAvailable=1),
        lambda body: body["metadata"].update(labels={"a": "b"}),
        lambda body: body["metadata"].update(annotations={"a": "b"}),
    ],
)
async def test_a_budget_that_demands_something_else_is_kept(
    cluster: Cluster, client: Kubernetes, change: Any
) -> None:
    body = cluster.budget("b", selector=WEB)
    budget = await listed_budget(client)
    change(body)
    with pytest.raises(Trouble) as raised:
        await client.delete_budget(intent(budget.ref, budget.presence.fingerprint))
    assert raised.value.cause is Cause.CONFLICT
    assert not cluster.calls("DELETE")
    assert len(cluster.calls("GET")) == 2, "looking again does not help"


async def test_a_replaced_budget_is_kept(cluster: Cluster, client: Kubernetes) -> None:
    body = cluster.budget("b", selector=WEB)
    budget = await listed_budget(client)
    body["metadata"]["uid"] = "another"
    await client.delete_budget(intent(budget.ref, budget.presence.fingerprint))
    assert not cluster.calls("DELETE") and cluster.objects["poddisruptionbudgets"]


async def test_a_budget_comes_back_as_it_was(cluster: Cluster, client: Kubernetes) -> None:
    cluster.budget(
        "b",
        selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        spec={"minAvailable": "50%", "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        labels={"addon": "x"},
        annotations={"note": "token: kept-verbatim " + "x" * 900},
    )
    before = await listed_budget(client)
    await client.delete_budget(intent(before.ref, before.presence.fingerprint))
    await client.restore_budget(intent(before.ref), json.loads(before.attrs["manifest"]))
    after = await listed_budget(client)
    assert after.attrs["manifest"] == before.attrs["manifest"]
    await client.restore_budget(intent(before.ref), json.loads(before.attrs["manifest"]))
    assert cluster.calls("PUT") == [], "what is there already is not written again"


async def test_a_budget_that_came_back_different_is_replaced(cluster: Cluster, client: Kubernetes) -> None:
    cluster.budget("b", selector=WEB, desired=2)
    before = await listed_budget(client)
    cluster.budget("b", selector=WEB, desired=1)
    await client.restore_budget(intent(before.ref), json.loads(before.attrs["manifest"]))
    assert cluster.objects["poddisruptionbudgets"]["app/b"]["spec"]["minAvailable"] == 2


async def test_a_restore_that_has_no_effect_is_no_success(cluster: Cluster, client: Kubernetes) -> None:
    cluster.budget("b", selector=WEB)
    before = await listed_budget(client)
    cluster.objects["poddisruptionbudgets"].clear()
    cluster.rules.append(answering(lambda: web.json_response({}, status=201), method="POST"))
    with pytest.raises(Trouble) as raised:
        await client.restore_budget(intent(before.ref), json.loads(before.attrs["manifest"]))
    assert raised.value.cause is Cause.CONFLICT


async def test_a_restore_whose_answer_was_lost_is_found_done(cluster: Cluster, client: Kubernetes) -> None:
    cluster.budget("b", selector=WEB)
    before = await listed_budget(client)
    manifest = json.loads(before.attrs["manifest"])
    kept = dict(cluster.objects["poddisruptionbudgets"])
    cluster.objects["poddisruptionbudgets"].clear()

    async def applied_but_lost(request: web.Request) -> web.StreamResponse | None:
        if request.method == "POST" and not cluster.objects["poddisruptionbudgets"]:
            cluster.objects["poddisruptionbudgets"] = kept
            assert request.transport is not None
            request.transport.abort()
        return None

    cluster.rules.append(applied_but_lost)
    await client.restore_budget(intent(before.ref), manifest)


async def test_a_missing_namespace_is_told(cluster: Cluster, client: Kubernetes) -> None:
    cluster.budget("b", selector=WEB)
    before = await listed_budget(client)
    cluster.objects["poddisruptionbudgets"].clear()
    cluster.rules.append(
        answering(lambda: status(404, "NotFound", 'namespaces "app" not found'), method="POST")
    )
    with pytest.raises(Trouble) as raised:
        await client.restore_budget(intent(before.ref), json.loads(before.attrs["manifest"]))
    assert 'namespaces "app" not found' in raised.value.detail


async def test_a_manifest_that_is_none_is_refused(cluster: Cluster, client: Kubernetes) -> None:
    with pytest.raises(Trouble):
        await client.restore_budget(intent(Ref("pdb", "u")), {"minAvailable": 1})
    assert not cluster.seen


async def test_many_evictions_side_by_side(cluster: Cluster, client: Kubernetes) -> None:
    for number in range(30):
        cluster.pod(f"p{number}")
    pods = (await client.pods()).items
    results = await asyncio.gather(*(client.evict(intent(pod.ref)) for pod in pods))
    assert {result.outcome for result in results} == {"accepted"}
