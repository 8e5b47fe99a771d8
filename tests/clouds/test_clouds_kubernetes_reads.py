"""Reading a cluster: what is there, and every way of not knowing it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes_server import Cluster, answering, hang, kubeconfig, reset, serving, status

from engine.clock import Clock
from engine.clouds.kubernetes import Kubernetes
from engine.words.presence import Cause, Ref

FAST = Clock(0.01)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with serving(Cluster()) as running:
        yield running


@pytest.fixture
async def client(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Kubernetes]:
    async with Kubernetes(kubeconfig(tmp_path, cluster.url), "mine", FAST, environ={}) as client:
        yield client


async def test_pods_carry_what_identifies_and_explains_them(cluster: Cluster, client: Kubernetes) -> None:
    cluster.pod("web-1-a", labels={"app": "web", "parent": "skypilot"})
    cluster.pod("bare", "other", owner=None, ready=False, phase="Pending", node="")
    listing = await client.pods()
    assert listing.gap is None
    bare, web_pod = sorted(listing.items, key=lambda item: item.name, reverse=True)
    assert web_pod.ref == Ref("pod", "uid-app-web-1-a")
    assert web_pod.name == "app/web-1-a"
    assert web_pod.labels == {"app": "web", "parent": "skypilot"}
    assert web_pod.attrs["owner"] == "app/ReplicaSet/web-1"
    assert (web_pod.attrs["node"], web_pod.attrs["phase"], web_pod.attrs["ready"]) == ("n1", "Running", "yes")
    assert (bare.attrs["owner"], bare.attrs["ready"], bare.presence.state) == ("", "", "Pending")
    assert "mine@127.0.0.1" in listing.by and "audit-7" in listing.by


async def test_a_terminating_pod_is_present_and_leaving(cluster: Cluster, client: Kubernetes) -> None:
    cluster.pod("p", deletionTimestamp="2026-06-01T00:00:00Z", finalizers=["x/y"])
    (pod,) = (await client.pods()).items
    assert pod.presence.leaving and pod.presence.state == "Terminating"
    assert (pod.attrs["terminating"], pod.attrs["finalizers"]) == ("yes", "x/y")


async def test_a_fingerprint_is_that_of_the_uid_and_survives_a_change_of_state(
    cluster: Cluster, client: Kubernetes
) -> None:
    pod = cluster.pod("p")
    before = (await client.pods()).items[0].presence
    pod["status"]["phase"] = "Failed"
    pod["metadata"]["resourceVersion"] = "9999"
    assert (await client.pods()).items[0].presence.fingerprint == before.fingerprint
    pod["metadata"]["uid"] = "another"
    assert (await client.pods()).items[0].presence.fingerprint != before.fingerprint


async def test_selector_and_namespace_narrow_at_the_server(cluster: Cluster, client: Kubernetes) -> None:
    cluster.pod("a", labels={"parent": "skypilot"})
    cluster.pod("b", "sys", labels={"parent": "skypilot"})
    cluster.pod("c", "sys")
    assert {p.name for p in (await client.pods("parent=skypilot")).items} == {"app/a", "sys/b"}
    assert {p.name for p in (await client.pods(namespace="sys")).items} == {"sys/b", "sys/c"}
    assert cluster.seen[0].query["labelSelector"] == "parent=skypilot"


async def test_load_balancers_and_volumes_name_what_outlives_the_cluster(
    cluster: Cluster, client: Kubernetes
) -> None:
    cluster.add("services", "inner", "app", spec={"type": "ClusterIP"})
    cluster.add(
        "services",
        "outer",
        "app",
        spec={"type": "LoadBalancer"},
        status={"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}, {"hostname": "lb.example"}]}},
    )
    cluster.add(
        "persistentvolumes",
        "pv-1",
        spec={
            "capacity": {"storage": "10Gi"},
            "csi": {"driver": "compute.csi.nebius.com", "volumeHandle": "computedisk-e00x1"},
            "claimRef": {"namespace": "app", "name": "data"},
            "persistentVolumeReclaimPolicy": "Delete",
        },
        status={"phase": "Bound"},
    )
    (service,) = (await client.services()).items
    assert (service.name, service.attrs["addresses"]) == ("app/outer", "203.0.113.7 lb.example")
    (volume,) = (await client.volumes()).items
    assert volume.attrs["handle"] == "computedisk-e00x1"
    assert (volume.name, volume.attrs["claim"], volume.attrs["reclaim"]) == ("pv-1", "app/data", "Delete")


async def test_nodes_and_budgets(cluster: Cluster, client: Kubernetes) -> None:
    cluster.add(
        "nodes",
        "n1",
        metadata={"labels": {"nebius.com/node-group-id": "g"}},
        spec={"providerID": "nebius://computeinstance-e00x1", "unschedulable": True},
        status={"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"nvidia.com/gpu": "8"}},
    )
    cluster.budget("b", selector={"matchLabels": {"app": "x"}}, allowed=1)
    (node,) = (await client.nodes()).items
    assert (node.attrs["gpus"], node.attrs["unschedulable"], node.presence.state) == ("8", "yes", "Ready")
    (budget,) = (await client.budgets()).items
    assert budget.ref.kind == "pdb"
    assert (budget.attrs["allowed"], budget.attrs["policy"]) == ("1", "IfHealthyBudget")
    assert budget.attrs["selector"] == '{"matchLabels": {"app": "x"}}'


async def test_an_empty_cluster_is_proven_empty(client: Kubernetes) -> None:
    listing = await client.pods()
    assert listing.proves_empty


async def test_all_pages_are_read(cluster: Cluster, client: Kubernetes) -> None:
    cluster.page = 3
    for number in range(10):
        cluster.pod(f"p{number}")
    listing = await client.pods()
    assert len({item.ref for item in listing.items}) == 10 and listing.gap is None
    assert len(cluster.seen) == 4


async def test_a_failing_second_page_leaves_a_gap_and_keeps_the_first(
    cluster: Cluster, client: Kubernetes
) -> None:
    cluster.page = 2
    for number in range(4):
        cluster.pod(f"p{number}")

    async def second(request: web.Request) -> web.Response | None:
        return status(403, "Forbidden", "pods is forbidden") if "continue" in request.query else None

    cluster.rules.append(second)
    listing = await client.pods()
    assert len(listing.items) == 2
    assert listing.gap is not None and listing.gap.cause is Cause.DENIED


async def test_a_page_that_repeats_is_no_complete_listing(cluster: Cluster, client: Kubernetes) -> None:
    cluster.rules.append(
        answering(
            lambda: web.json_response({"kind": "PodList", "metadata": {"continue": "same"}, "items": []})
        )
    )
    listing = await client.pods()
    assert listing.gap is not None and listing.gap.cause is Cause.MALFORMED
    assert len(cluster.seen) == 2


async def test_an_expired_snapshot_is_begun_anew(cluster: Cluster, client: Kubernetes) -> None:
    cluster.page = 2
    for number in range(3):
        cluster.pod(f"p{number}")
    expired = [True]

    async def once(request: web.Request) -> web.Response | None:
        if "continue" in request.query and expired:
            expired.pop()
            return status(410, "Expired", "The provided continue parameter is too old")
        return None

    cluster.rules.append(once)
    listing = await client.pods()
    assert listing.gap is None
    assert len(listing.items) == len({item.ref for item in listing.items}) == 3


def forbidden(message: str) -> web.Response:
    return status(403, "Forbidden", message)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (lambda: forbidden('pods is forbidden: User "u" cannot list resource "pods"'), Cause.DENIED),
        (
            lambda: forbidden('pods is forbidden: User "system:anonymous" cannot list'),
            Cause.UNAUTHENTICATED,
        ),
        (lambda: status(401, "Unauthorized", "Unauthorized"), Cause.UNAUTHENTICATED),
        (lambda: status(429, "TooManyRequests", "slow down", retry_after=1), Cause.THROTTLED),
        (lambda: status(500, "InternalError", "etcd"), Cause.UNREACHABLE),
        (lambda: status(503, "ServiceUnavailable", "starting"), Cause.UNREACHABLE),
        (lambda: status(504, "Timeout", "timeout"), Cause.TIMED_OUT),
        (lambda: web.Response(status=404, text="404 page not found"), Cause.MALFORMED),
        (lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/login"}), Cause.MALFORMED),
        (lambda: web.Response(text="<html>log in</html>", content_type="text/html"), Cause.MALFORMED),
        (lambda: web.Response(body=b"\xff\xfe{"), Cause.MALFORMED),
        (lambda: web.json_response([]), Cause.MALFORMED),
        (lambda: web.json_response({"kind": "PodList", "items": None}), Cause.MALFORMED),
        (lambda: web.json_response({"kind": "NodeList", "items": []}), Cause.MALFORMED),
        (
            lambda: web.json_response({"kind": "PodList", "items": [{"metadata": {"name": "x"}}]}),
            Cause.MALFORMED,
        ),
        (lambda: web.json_response({"kind": "PodList", "items": [None]}), Cause.MALFORMED),
    ],
)
async def test_every_error_answer_is_a_gap_with_its_cause(
    cluster: Cluster, client: Kubernetes, answer: Any, cause: Cause
) -> None:
    cluster.rules.append(answering(answer))
    listing = await client.pods()
    assert not listing.items
    assert listing.gap is not None and listing.gap.cause is cause
    assert await client.reachable() is not None


async def test_transient_failures_are_tried_again(cluster: Cluster, client: Kubernetes) -> None:
    cluster.rules.append(answering(lambda: status(503, "ServiceUnavailable", "x"), times=2))
    assert (await client.pods()).proves_empty
    assert len(cluster.seen) == 3


async def test_a_refusal_is_not_tried_again(cluster: Cluster, client: Kubernetes) -> None:
    cluster.rules.append(answering(lambda: forbidden("no")))
    await client.pods()
    assert len(cluster.seen) == 1


async def test_retry_after_is_honoured(cluster: Cluster, tmp_path: Path) -> None:
    clock = Clock(0.05)
    cluster.rules.append(answering(lambda: status(429, "TooManyRequests", "x", retry_after=20), times=1))
    async with Kubernetes(kubeconfig(tmp_path, cluster.url), "mine", clock, environ={}) as client:
        await client.reachable()
        started = time.monotonic()
        cluster.rules[:] = [answering(lambda: status(429, "TooManyRequests", "x", retry_after=10), times=1)]
        assert await client.reachable() is None
    assert time.monotonic() - started >= 10 * 0.05


async def test_a_reset_connection_is_unreachable(cluster: Cluster, client: Kubernetes) -> None:
    cluster.rules.append(reset)
    gap = (await client.pods()).gap
    assert gap is not None and gap.cause is Cause.UNREACHABLE
    assert len(cluster.seen) == 3


async def test_nobody_listening_is_unreachable(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        async with Kubernetes(kubeconfig(tmp_path, url), "mine", FAST, environ={}) as client:
            gap = (await client.pods()).gap
    assert gap is not None and gap.cause is Cause.UNREACHABLE


async def test_a_name_that_does_not_resolve_is_unreachable(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://no-such-host.invalid")
    async with Kubernetes(path, "mine", FAST, environ={}) as client:
        gap = (await client.pods()).gap
    assert gap is not None and gap.cause is Cause.UNREACHABLE


async def test_a_server_that_accepts_and_never_answers_times_out(
    cluster: Cluster, client: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.clouds.kubernetes.connection._LEAST_REAL", 0.2)
    cluster.rules.append(hang)
    started = time.monotonic()
    gap = (await client.pods()).gap
    assert gap is not None and gap.cause is Cause.TIMED_OUT
    assert time.monotonic() - started < 2


async def test_a_server_that_trickles_times_out(
    cluster: Cluster, client: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.clouds.kubernetes.connection._LEAST_REAL", 0.2)

    left: list[bool] = []

    async def trickle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        try:
            for _ in range(100):
                await answer.write(b" ")
                await asyncio.sleep(0.05)
        except (ConnectionError, asyncio.CancelledError):
            left.append(True)
            raise
        return answer

    cluster.rules.append(trickle)
    gap = (await client.pods()).gap
    assert gap is not None and gap.cause is Cause.TIMED_OUT
    await asyncio.sleep(0.4)
    assert len(left) == len(cluster.seen), "no thread goes on reading"


async def test_cancelling_a_read_returns_at_once(cluster: Cluster, client: Kubernetes) -> None:
    assert await client.reachable() is None
    cluster.rules.append(hang)
    reading = asyncio.create_task(client.pods())
    await asyncio.sleep(0.1)
    started = time.monotonic()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert time.monotonic() - started < 0.5


async def test_text_from_outside_is_redacted_and_harmless(cluster: Cluster, client: Kubernetes) -> None:
    cluster.pod("p", labels={"note": "password=hunter2 \x1b[2J"})
    (pod,) = (await client.pods()).items
    assert "hunter2" not in repr(pod) and "\x1b" not in repr(pod)
    cluster.rules.append(answering(lambda: forbidden("Bearer abcdefghijk \x1b]0;x\x07")))
    gap = (await client.pods()).gap
    assert gap is not None and "abcdefghijk" not in gap.detail and "\x1b" not in gap.detail
    assert "audit-9" in gap.detail


async def test_the_ambient_proxy_is_not_used_for_this_machine(cluster: Cluster, tmp_path: Path) -> None:
    environ = {"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1"}
    async with Kubernetes(kubeconfig(tmp_path, cluster.url), "mine", FAST, environ=environ) as client:
        assert await client.reachable() is None


async def test_the_ambient_proxy_is_used_elsewhere_and_no_proxy_is_obeyed(tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    path = kubeconfig(tmp_path, "https://api.cluster.invalid:8443")
    environ = {"https_proxy": f"http://127.0.0.1:{port}"}
    async with server:
        async with Kubernetes(path, "mine", FAST, environ=environ) as client:
            gap = (await client.pods()).gap
        assert gap is not None and gap.cause is Cause.UNREACHABLE
        assert asked and asked[0].startswith(b"CONNECT api.cluster.invalid:8443")
        asked.clear()
        environ["no_proxy"] = "localhost,.cluster.invalid"
        async with Kubernetes(path, "mine", FAST, environ=environ) as client:
            await client.pods()
        assert not asked


def test_importing_the_client_loads_no_heavy_library() -> None:
    program = (
        "import sys, engine.clouds.kubernetes as k;"
        "bad = {'kubernetes', 'urllib3', 'yaml', 'pydantic'} & set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=20)
