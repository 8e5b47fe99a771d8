"""What a drain would meet: the budgets that hold it up, the pods that it loses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes_server import Cluster, answering, kubeconfig, serving, status

from engine.clock import Clock
from engine.clouds.kubernetes import DrainPreview, Kubernetes
from engine.clouds.kubernetes.drain import matches
from engine.words.presence import Cause

SYSTEM = ("cilium-operator", "coredns", "coredns-autoscaler", "metrics-server")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with serving(Cluster()) as running:
        yield running


async def look(cluster: Cluster, folder: Path) -> DrainPreview:
    async with Kubernetes(kubeconfig(folder, cluster.url), "mine", Clock(0.01), environ={}) as client:
        return await client.drain_preview()


def node(cluster: Cluster, name: str, **labels: str) -> None:
    cluster.add("nodes", name, metadata={"labels": labels})


def covered(name: str) -> dict[str, Any]:
    return {"matchLabels": {"app": name}}


async def test_four_system_budgets_on_the_only_node_of_a_pool(cluster: Cluster, tmp_path: Path) -> None:
    node(cluster, "cpu-1", **{"nebius.com/node-group-id": "cpu"})
    node(cluster, "gpu-1", **{"nebius.com/node-group-id": "gpu"})
    node(cluster, "gpu-2", **{"nebius.com/node-group-id": "gpu"})
    for name in SYSTEM:
        for number in range(2 if name == "coredns" else 1):
            cluster.pod(
                f"{name}-{number}",
                "kube-system",
                node="cpu-1",
                owner=("ReplicaSet", f"{name}-7"),
                labels={"app": name},
            )
        cluster.budget(
            name,
            "kube-system",
            selector=covered(name),
            allowed=1 if name == "coredns" else 0,
            annotations={"k": "v"},
        )
    preview = await look(cluster, tmp_path)
    assert preview.unread is None
    assert [b.name for b in preview.blockers] == list(SYSTEM)
    assert all(b.one_node_pool and b.nodes == ("cpu-1",) for b in preview.blockers)
    coredns = preview.blockers[1]
    assert coredns.pods == ("kube-system/coredns-0", "kube-system/coredns-1")
    assert coredns.workloads == ("kube-system/ReplicaSet/coredns-7",)
    assert "cpu-1 is the only node of its pool" in coredns.reason
    assert (coredns.allowed, coredns.current, coredns.desired, coredns.minimum) == (1, 2, 2, "2")
    assert (coredns.uid, coredns.annotations) == ("uid-kube-system-coredns", {"k": "v"})
    assert coredns.spec["selector"] == covered("coredns")
    assert {seen.method for seen in cluster.seen} == {"GET"}


@pytest.mark.parametrize(
    ("pods", "budget", "blocks"),
    [
        ([{}], {"allowed": 1}, False),
        ([{}, {}], {"allowed": 1}, True),
        ([{}], {"allowed": 0}, True),
        ([{}], {"allowed": -1}, True),
        ([], {"allowed": 0}, False),
        ([{"phase": "Succeeded"}], {"allowed": 0}, False),
        ([{"phase": "Pending", "ready": False}], {"allowed": 0, "current": 0}, False),
        ([{"deletionTimestamp": "2026-06-01T00:00:00Z"}], {"allowed": 0}, False),
        ([{"owner": ("DaemonSet", "d")}], {"allowed": 0}, False),
        ([{"annotations": {"kubernetes.io/config.mirror": "x"}}], {"allowed": 0}, False),
        ([{"node": ""}], {"allowed": 0}, False),
        ([{"namespace": "elsewhere"}], {"allowed": 0}, False),
        ([{"ready": False}], {"allowed": 0, "current": 1, "desired": 2}, True),
        ([{"ready": False}], {"allowed": 0, "current": 2, "desired": 2}, False),
        (
            [{"ready": False}],
            {"allowed": 0, "current": 1, "spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}},
            False,
        ),
    ],
)
async def test_which_budgets_block(
    cluster: Cluster, tmp_path: Path, pods: list[dict[str, Any]], budget: dict[str, Any], blocks: bool
) -> None:
    node(cluster, "n1")
    node(cluster, "n2")
    for number, pod in enumerate(pods):
        cluster.pod(f"p{number}", labels={"app": "web"}, **pod)
    cluster.budget("b", selector=covered("web"), **budget)
    blockers = (await look(cluster, tmp_path)).blockers
    assert bool(blockers) is blocks
    assert not any(blocker.one_node_pool for blocker in blockers), "two alike CPU nodes are one pool"


async def test_what_a_drain_loses_and_leaves(cluster: Cluster, tmp_path: Path) -> None:
    cluster.pod("bare", owner=None)
    cluster.pod("scratch", spec={"volumes": [{"name": "x", "emptyDir": {}}]})
    cluster.pod("agent", owner=("DaemonSet", "agent"))
    cluster.pod("static", annotations={"kubernetes.io/config.mirror": "x"})
    preview = await look(cluster, tmp_path)
    assert (preview.unmanaged, preview.local_data) == (("app/bare",), ("app/scratch",))
    assert (preview.daemons, preview.mirrors) == (1, 1)


async def test_accelerators_make_pools_where_no_label_does(cluster: Cluster, tmp_path: Path) -> None:
    node(cluster, "n1")
    node(cluster, "n2")
    cluster.add("nodes", "n3", status={"capacity": {"nvidia.com/gpu": "8"}})
    cluster.pod("a", node="n1", labels={"app": "a"})
    cluster.pod("b", node="n3", labels={"app": "b"})
    cluster.budget("a", selector=covered("a"))
    cluster.budget("b", selector=covered("b"))
    assert [(b.name, b.one_node_pool) for b in (await look(cluster, tmp_path)).blockers] == [
        ("a", False),
        ("b", True),
    ]


async def test_without_pods_a_budget_blocks_by_what_it_allows(cluster: Cluster, tmp_path: Path) -> None:
    cluster.budget("none", selector=covered("web"), allowed=0)
    cluster.budget("some", selector=covered("web"), allowed=1)
    cluster.rules.append(answering(lambda: status(403, "Forbidden", "no"), match="/pods"))
    preview = await look(cluster, tmp_path)
    assert [b.name for b in preview.blockers] == ["none"]
    assert preview.unread is not None and preview.unread.cause is Cause.DENIED


@pytest.mark.parametrize("match", ["/nodes", "/pods", "/poddisruptionbudgets"])
async def test_anything_unread_is_told(cluster: Cluster, tmp_path: Path, match: str) -> None:
    cluster.rules.append(answering(lambda: status(401, "Unauthorized", "no"), match=match))
    preview = await look(cluster, tmp_path)
    assert preview.unread is not None and preview.unread.cause is Cause.UNAUTHENTICATED


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)


@given(LABELS)
def test_an_empty_selector_fits_everything_and_none_nothing(labels: dict[str, str]) -> None:
    assert matches({}, labels)
    assert not matches(None, labels)


@given(LABELS, st.sampled_from("abc"), st.lists(st.sampled_from("xyz"), min_size=1))
def test_operators_come_in_opposites(labels: dict[str, str], key: str, values: list[str]) -> None:
    def fits(operator: str) -> bool:
        return matches({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}, labels)

    assert fits("In") is not fits("NotIn")
    assert fits("Exists") is not fits("DoesNotExist")
    assert fits("In") is (labels.get(key) in values)
    assert not fits("Near")


@given(LABELS, LABELS)
def test_labels_must_all_fit(wanted: dict[str, str], labels: dict[str, str]) -> None:
    assert matches(json.loads(json.dumps({"matchLabels": wanted})), labels) is (
        wanted.items() <= labels.items()
    )
