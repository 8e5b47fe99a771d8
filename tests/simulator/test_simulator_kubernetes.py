"""The official client and kubectl judge the Kubernetes API."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from loopback_app import Site, serving

from engine.simulator.certificates import loopback
from engine.simulator.faults import Fault, Timetable
from engine.simulator.kubernetes import (
    BudgetSpec,
    KubernetesCluster,
    KubernetesSpec,
    NodeSpec,
    PodSpec,
    ServiceSpec,
    VolumeSpec,
)

TOKEN = "example-token"
SCALE = 0.05
GRACE = 2.0


@dataclass
class Cluster:
    """A running cluster with a client of each API."""

    cluster: KubernetesCluster
    timetable: Timetable
    site: Site
    core: client.CoreV1Api
    policy: client.PolicyV1Api
    apps: client.AppsV1Api

    def pod(self, name: str, namespace: str = "app") -> Any:
        return self.core.read_namespaced_pod(name, namespace)

    def pods(self, namespace: str = "app") -> list[str]:
        return [p.metadata.name for p in self.core.list_namespaced_pod(namespace).items]

    def budget(self, name: str, namespace: str = "app") -> Any:
        return self.policy.read_namespaced_pod_disruption_budget(name, namespace)

    def evict(self, name: str, **more: Any) -> Any:
        body = client.V1Eviction(
            metadata=client.V1ObjectMeta(name=more.pop("called", name), namespace="app"),
            delete_options=client.V1DeleteOptions(**more.pop("options", {})),
        )
        return self.core.create_namespaced_pod_eviction(name, "app", body, **more)


def api(site: Site, token: str = TOKEN) -> client.ApiClient:
    configuration = client.Configuration(host=site.at, api_key={"authorization": f"Bearer {token}"})
    configuration.retries = False
    configuration.no_proxy = "*"
    return client.ApiClient(configuration)


@contextmanager
def running(time_scale: float = SCALE, **spec: Any) -> Iterator[Cluster]:
    timetable = Timetable([], time_scale)
    whole = {"system": False, "grace_seconds": GRACE, "nodes": ["n1", "n2"], **spec}
    cluster = KubernetesCluster(KubernetesSpec.model_validate(whole), {TOKEN}, timetable, time_scale)
    with serving(cluster.app()) as [site], api(site) as made:
        yield Cluster(
            cluster,
            timetable,
            site,
            client.CoreV1Api(made),
            client.PolicyV1Api(made),
            client.AppsV1Api(made),
        )


def refused(call: Callable[[], object]) -> tuple[int, dict[str, Any], ApiException]:
    """HTTP status and Status document of a call that has to be refused."""
    with pytest.raises(ApiException) as caught:
        call()
    return caught.value.status, json.loads(caught.value.body), caught.value


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.01)


def app_pod(name: str, **more: Any) -> PodSpec:
    return PodSpec(name=name, **{"namespace": "app", "labels": {"app": "web"}, **more})


# -- what the client reads --------------------------------------------------------------------------------------------


def test_everything_of_a_cluster_can_be_read_by_the_strict_client() -> None:
    with running(
        system=True,
        nodes=[
            NodeSpec(
                name="n1", pool="mk8snodegroup-e00one", gpus=8, provider_id="nebius://computeinstance-e00one"
            ),
            NodeSpec(name="n2", ready=False, unschedulable=True),
        ],
        pods=[
            app_pod("web-1", owner="ReplicaSet/web"),
            app_pod("db-0", owner="StatefulSet/db"),
            app_pod("log-a", owner="DaemonSet/log"),
            app_pod("job", phase="Succeeded"),
            app_pod("static", mirror=True, owner="Node/n1"),
            app_pod("waits", phase="Pending"),
        ],
        budgets=[BudgetSpec(name="web", namespace="app", selector={"app": "web"}, max_unavailable="50%")],
        load_balancers=[
            ServiceSpec(name="front", namespace="app", address="198.51.100.7"),
            ServiceSpec(name="new"),
        ],
        volumes=[
            VolumeSpec(name="pv1", handle="computedisk-e00pv", claim="app/data"),
            VolumeSpec(name="pv2"),
        ],
    ) as c:
        assert client.VersionApi(c.core.api_client).get_code().major == "1"
        nodes = {n.metadata.name: n for n in c.core.list_node().items}
        assert nodes["n1"].spec.provider_id == "nebius://computeinstance-e00one"
        assert nodes["n1"].status.capacity["nvidia.com/gpu"] == "8"
        assert nodes["n2"].spec.unschedulable is True
        assert [n.status.conditions[0].status for n in nodes.values()] == ["True", "False"]
        assert {n.metadata.name for n in c.core.list_namespace().items} == {"default", "kube-system", "app"}
        every = {p.metadata.name: p for p in c.core.list_pod_for_all_namespaces().items}
        assert len(every) == 10
        assert every["web-1"].metadata.owner_references[0].kind == "ReplicaSet"
        assert every["web-1"].metadata.owner_references[0].uid == (
            c.apps.read_namespaced_replica_set("web", "app").metadata.uid
        )
        assert every["waits"].spec.node_name is None
        assert c.apps.list_stateful_set_for_all_namespaces().items[0].status.ready_replicas == 1
        assert c.apps.list_daemon_set_for_all_namespaces().items[0].status.number_ready == 1
        services = c.core.list_service_for_all_namespaces().items
        assert [(s.metadata.name, s.spec.type) for s in services] == [
            ("front", "LoadBalancer"),
            ("new", "LoadBalancer"),
        ]
        assert services[0].status.load_balancer.ingress[0].ip == "198.51.100.7"
        assert services[1].status.load_balancer.ingress is None
        volumes = c.core.list_persistent_volume().items
        assert [(v.spec.csi.volume_handle, v.status.phase) for v in volumes] == [
            ("computedisk-e00pv", "Bound"),
            ("pv2", "Available"),
        ]
        assert c.core.list_namespaced_persistent_volume_claim("app").items[0].spec.volume_name == "pv1"
        assert len(c.policy.list_pod_disruption_budget_for_all_namespaces().items) == 5
        uids = [p.metadata.uid for p in every.values()]
        assert len(set(uids)) == len(uids)


@pytest.mark.parametrize(
    ("labels", "fields", "names"),
    [
        ("app=web", "", ["a", "b"]),
        ("app==web,tier!=back", "", ["a"]),
        ("app in (web, db)", "", ["a", "b", "c"]),
        ("tier notin (front,back)", "", ["c", "d"]),
        ("tier", "", ["a", "b"]),
        ("!tier,app", "", ["c"]),
        ("", "spec.nodeName=n1", ["a", "b", "d"]),
        ("", "spec.nodeName!=n1,status.phase=Running", ["c"]),
        ("app=web", "metadata.name=b", ["b"]),
        ("app=none", "", []),
    ],
)
def test_selectors(labels: str, fields: str, names: list[str]) -> None:
    pods = [
        app_pod("a", node="n1", labels={"app": "web", "tier": "front"}),
        app_pod("b", node="n1", labels={"app": "web", "tier": "back"}),
        app_pod("c", node="n2", labels={"app": "db"}),
        app_pod("d", node="n1", labels={}),
    ]
    with running(pods=pods) as c:
        found = c.core.list_namespaced_pod("app", label_selector=labels, field_selector=fields)
        assert [p.metadata.name for p in found.items] == names


def test_a_field_that_cannot_be_selected_by_is_refused() -> None:
    with running() as c:
        status, document, _ = refused(
            lambda: c.core.list_pod_for_all_namespaces(field_selector="spec.color=red")
        )
        assert status == 400
        assert "field label not supported: spec.color" in document["message"]


def test_pages_are_whole_when_pods_go_between_them() -> None:
    with running(pods=[app_pod(f"p{n}") for n in range(5)]) as c:
        first = c.core.list_pod_for_all_namespaces(limit=2)
        assert [p.metadata.name for p in first.items] == ["p0", "p1"]
        assert first.metadata.remaining_item_count == 3
        c.core.delete_namespaced_pod("p0", "app", grace_period_seconds=0)
        rest = c.core.list_pod_for_all_namespaces(limit=2, _continue=first.metadata._continue)
        last = c.core.list_pod_for_all_namespaces(limit=2, _continue=rest.metadata._continue)
        assert [p.metadata.name for p in [*rest.items, *last.items]] == ["p2", "p3", "p4"]
        assert last.metadata._continue is None
        assert refused(lambda: c.core.list_pod_for_all_namespaces(_continue="nonsense"))[0] == 400


# -- deletions --------------------------------------------------------------------------------------------------------


def test_a_deleted_pod_terminates_for_a_while() -> None:
    with running(pods=[app_pod("a")]) as c:
        before = c.pod("a")
        answer = c.core.delete_namespaced_pod("a", "app")
        assert answer.metadata.deletion_timestamp is not None
        going = c.pod("a")
        assert going.metadata.uid == before.metadata.uid
        assert int(going.metadata.resource_version) > int(before.metadata.resource_version)
        assert c.cluster.describe()["terminating"] == ["app/a"]
        began = time.monotonic()
        wait_for(lambda: c.pods() == [])
        assert time.monotonic() - began > GRACE * SCALE / 3
        status, document, _ = refused(lambda: c.pod("a"))
        assert (status, document["reason"], document["details"]["name"]) == (404, "NotFound", "a")


def test_no_grace_means_at_once_also_for_what_terminates() -> None:
    with running(time_scale=100, pods=[app_pod("a"), app_pod("b"), app_pod("c", phase="Pending")]) as c:
        c.core.delete_namespaced_pod("a", "app", grace_period_seconds=0)
        c.core.delete_namespaced_pod("b", "app")
        assert c.pods() == ["b", "c"]
        c.core.delete_namespaced_pod("b", "app", grace_period_seconds=0)
        c.core.delete_namespaced_pod("c", "app")
        assert c.pods() == [], "a pod that never ran has nothing to stop"


def test_finalizers_hold_a_pod_until_they_are_gone() -> None:
    with running(pods=[app_pod("a", finalizers=["example.com/hold"])]) as c:
        c.core.delete_namespaced_pod("a", "app", grace_period_seconds=0)
        time.sleep(GRACE * SCALE * 2)
        assert c.pod("a").metadata.deletion_timestamp is not None
        c.core.patch_namespaced_pod("a", "app", {"metadata": {"finalizers": None}})
        assert c.pods() == []


def test_a_pod_without_finalizers_still_needs_its_time() -> None:
    with running(time_scale=100, pods=[app_pod("a", finalizers=["example.com/hold"])]) as c:
        c.core.delete_namespaced_pod("a", "app")
        c.core.patch_namespaced_pod("a", "app", {"metadata": {"finalizers": None}})
        assert c.cluster.describe()["terminating"] == ["app/a"]


def test_preconditions_are_checked() -> None:
    with running(pods=[app_pod("a")], budgets=[BudgetSpec(name="b", namespace="app")]) as c:
        uid, version = c.pod("a").metadata.uid, c.pod("a").metadata.resource_version
        for wrong in ({"uid": "another"}, {"uid": uid, "resourceVersion": "1"}):
            body = client.V1DeleteOptions(preconditions=wrong)
            status, document, _ = refused(
                lambda body=body: c.core.delete_namespaced_pod("a", "app", body=body)
            )
            assert (status, document["reason"]) == (409, "Conflict")
            assert "Precondition failed" in document["message"]
        assert c.pod("a").metadata.deletion_timestamp is None
        right = client.V1DeleteOptions(preconditions={"uid": uid, "resourceVersion": version})
        c.core.delete_namespaced_pod("a", "app", body=right)
        done = c.policy.delete_namespaced_pod_disruption_budget("b", "app")
        assert (done.status, done.details.name) == ("Success", "b")
        assert refused(lambda: c.budget("b"))[0] == 404


def test_a_dry_run_changes_nothing() -> None:
    with running(pods=[app_pod("a")]) as c:
        c.core.delete_namespaced_pod("a", "app", dry_run="All")
        c.evict("a", dry_run="All")
        c.evict("a", options={"dry_run": ["All"]})
        made = client.V1PodDisruptionBudget(metadata=client.V1ObjectMeta(name="b"), spec={"minAvailable": 1})
        c.policy.create_namespaced_pod_disruption_budget("app", made, dry_run="All")
        assert c.pod("a").metadata.deletion_timestamp is None
        assert c.policy.list_namespaced_pod_disruption_budget("app").items == []


def test_a_namespace_goes_when_nothing_is_left_in_it() -> None:
    with running(pods=[app_pod("a", finalizers=["example.com/hold"]), app_pod("b")]) as c:
        c.core.delete_namespace("app")
        wait_for(lambda: c.pods() == ["a"])
        assert c.core.read_namespace("app").status.phase == "Terminating"
        c.core.patch_namespaced_pod("a", "app", {"metadata": {"finalizers": None}})
        wait_for(lambda: "app" not in {n.metadata.name for n in c.core.list_namespace().items})


# -- controllers ------------------------------------------------------------------------------------------------------


def test_a_controlled_pod_is_replaced_where_a_node_takes_it_and_waits_where_none_does() -> None:
    with running(pods=[app_pod("a", owner="ReplicaSet/web", node="n1"), app_pod("b", node="n1")]) as c:
        c.core.patch_node("n1", {"spec": {"unschedulable": True}})
        c.evict("a")
        new = next(p for p in c.core.list_namespaced_pod("app").items if p.metadata.name not in ("a", "b"))
        assert (new.spec.node_name, new.status.phase) == ("n2", "Running")
        c.core.patch_node("n2", {"spec": {"unschedulable": True}})
        c.evict(new.metadata.name)
        wait_for(lambda: len(c.pods()) == 2)
        waiting = next(p for p in c.core.list_namespaced_pod("app").items if p.metadata.name != "b")
        assert (waiting.spec.node_name, waiting.status.phase) == (None, "Pending")
        c.core.patch_node("n1", {"spec": {"unschedulable": None}})
        again = c.pod(waiting.metadata.name)
        assert (again.spec.node_name, again.status.phase) == ("n1", "Running")
        c.core.delete_namespaced_pod("b", "app")
        wait_for(lambda: c.pods() == [waiting.metadata.name])


def test_the_pods_of_a_controller_go_with_it() -> None:
    with running(pods=[app_pod("a", owner="Deployment/web"), app_pod("b", owner="Deployment/web")]) as c:
        assert c.apps.read_namespaced_deployment("web", "app").spec.replicas == 2
        c.apps.delete_namespaced_deployment("web", "app")
        wait_for(lambda: c.pods() == [])


# -- budgets and eviction ---------------------------------------------------------------------------------------------

WEB = {"app": "web"}


@pytest.mark.parametrize(
    ("budget", "ready", "numbers"),
    [
        ({"min_available": 2}, [True, True, True], (3, 2, 3, 1)),
        ({"min_available": 3}, [True, True, True], (3, 3, 3, 0)),
        ({"min_available": 1}, [True, False, False], (1, 1, 3, 0)),
        ({"min_available": "50%"}, [True, True, True], (3, 2, 3, 1)),
        ({"max_unavailable": 1}, [True, True, True], (3, 2, 3, 1)),
        ({"max_unavailable": 1}, [True, True, False], (2, 2, 3, 0)),
        ({"max_unavailable": "34%"}, [True, True, True], (3, 1, 3, 2)),
        ({"max_unavailable": 0}, [True], (1, 1, 1, 0)),
    ],
)
def test_a_budgets_status_is_counted(
    budget: dict[str, Any], ready: list[bool], numbers: tuple[int, int, int, int]
) -> None:
    pods = [app_pod(f"p{n}", owner="ReplicaSet/web", ready=r) for n, r in enumerate(ready)]
    pods.append(PodSpec(name="elsewhere", labels=WEB))
    with running(pods=pods, budgets=[BudgetSpec(name="b", namespace="app", selector=WEB, **budget)]) as c:
        s = c.budget("b").status
        assert (s.current_healthy, s.desired_healthy, s.expected_pods, s.disruptions_allowed) == numbers
        assert s.conditions[0].reason == ("SufficientPods" if numbers[3] else "InsufficientPods")


def test_an_eviction_that_the_budget_allows_uses_it_up() -> None:
    pods = [app_pod(n, owner="ReplicaSet/web") for n in ("a", "b")]
    with running(
        nodes=[NodeSpec(name="n1", unschedulable=True)],
        pods=[p.model_copy(update={"node": "n1"}) for p in pods],
        budgets=[BudgetSpec(name="b", namespace="app", selector=WEB, min_available=1)],
    ) as c:
        c.evict("a")
        assert c.pod("a").metadata.deletion_timestamp is not None
        status, document, error = refused(lambda: c.evict("b"))
        assert (status, document["reason"]) == (429, "TooManyRequests")
        assert document["details"]["causes"] == [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
            }
        ]
        assert "Retry-After" not in error.headers
        assert "retryAfterSeconds" not in document["details"]
        assert c.pod("b").metadata.deletion_timestamp is None
        c.evict("a")


EVICTIONS: list[tuple[str, dict[str, Any], list[dict[str, Any]], int | None]] = [
    ("no budget", {}, [], None),
    ("blocked", {}, [{"min_available": 1}], 429),
    ("a budget without a selector covers nothing", {}, [{"min_available": 1, "selector": None}], None),
    ("a budget of others", {}, [{"min_available": 1, "selector": {"app": "db"}}], None),
    ("a budget of others too", {}, [{"min_available": 1, "selector": {**WEB, "tier": "x"}}], None),
    ("an empty selector covers all", {}, [{"min_available": 1, "selector": {}}], 429),
    ("two budgets", {}, [{"min_available": 0}, {"min_available": 0}], 500),
    ("two budgets, pending", {"phase": "Pending"}, [{"min_available": 1}, {"min_available": 1}], None),
    ("pending", {"phase": "Pending"}, [{"min_available": 1}], None),
    ("finished", {"phase": "Failed"}, [{"min_available": 1}], None),
    ("not ready and the budget unhealthy", {"ready": False}, [{"min_available": 1}], 429),
    ("not ready, always allowed", {"ready": False}, [{"min_available": 1, "policy": "AlwaysAllow"}], None),
    ("not ready, nothing wanted", {"ready": False}, [{"min_available": 0}], 429),
]


@pytest.mark.parametrize(
    ("pod", "budgets", "status"), [row[1:] for row in EVICTIONS], ids=[r[0] for r in EVICTIONS]
)
def test_the_servers_decision_on_an_eviction(
    pod: dict[str, Any], budgets: list[dict[str, Any]], status: int | None
) -> None:
    specs = [
        BudgetSpec(name=f"b{n}", namespace="app", **{"selector": WEB, **b}) for n, b in enumerate(budgets)
    ]
    with running(pods=[app_pod("a", **pod)], budgets=specs) as c:
        if status is None:
            c.evict("a")
            assert "a" not in c.pods() or c.pod("a").metadata.deletion_timestamp is not None
            return
        found, document, _ = refused(lambda: c.evict("a"))
        assert found == status
        if status == 500:
            assert "more than one PodDisruptionBudget" in document["message"]
        assert c.pod("a").metadata.deletion_timestamp is None
        assert refused(lambda: c.evict("a", dry_run="All"))[0] == status, "a dry run tells the same"


@pytest.mark.parametrize(
    ("expression", "covered"),
    [
        ({"key": "app", "operator": "In", "values": ["web", "db"]}, True),
        ({"key": "app", "operator": "NotIn", "values": ["web"]}, False),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "app", "operator": "DoesNotExist"}, False),
    ],
)
def test_budgets_may_select_by_expressions(expression: dict[str, Any], covered: bool) -> None:
    with running(pods=[app_pod("a")]) as c:
        spec = {"minAvailable": 1, "selector": {"matchExpressions": [expression]}}
        c.policy.create_namespaced_pod_disruption_budget("app", {"metadata": {"name": "b"}, "spec": spec})
        assert c.budget("b").status.expected_pods == covered


def test_a_pod_that_is_not_ready_may_go_where_enough_are_healthy() -> None:
    pods = [app_pod("a"), app_pod("b", ready=False)]
    budget = BudgetSpec(name="b", namespace="app", selector=WEB, min_available=1)
    with running(pods=pods, budgets=[budget]) as c:
        assert c.budget("b").status.disruptions_allowed == 0
        assert refused(lambda: c.evict("a"))[0] == 429
        c.evict("b")
        assert c.pod("b").metadata.deletion_timestamp is not None


def test_evictions_that_name_the_wrong_pod() -> None:
    with running(pods=[app_pod("a")]) as c:
        assert refused(lambda: c.evict("nobody"))[0] == 404
        assert refused(lambda: c.evict("a", called="b"))[0] == 400
        status, document, _ = refused(lambda: c.evict("a", options={"preconditions": {"uid": "another"}}))
        assert (status, document["reason"]) == (409, "Conflict")
        c.evict("a", options={"preconditions": {"uid": c.pod("a").metadata.uid}})


def test_a_budget_is_taken_away_and_restored_as_it_was() -> None:
    spec = BudgetSpec(
        name="b", namespace="app", selector=WEB, min_available="60%", policy="AlwaysAllow", labels={"l": "1"}, annotations={"a": "2"}
    )  # fmt: skip
    with running(pods=[app_pod("a")], budgets=[spec]) as c:
        before = c.core.api_client.sanitize_for_serialization(c.budget("b"))
        c.policy.delete_namespaced_pod_disruption_budget("b", "app")
        c.evict("a", dry_run="All")
        again = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {k: before["metadata"][k] for k in ("name", "namespace", "labels", "annotations")},
            "spec": before["spec"],
        }
        c.policy.create_namespaced_pod_disruption_budget("app", again)
        after = c.core.api_client.sanitize_for_serialization(c.budget("b"))
        assert after["spec"] == before["spec"]
        assert (after["metadata"]["labels"], after["metadata"]["annotations"]) == ({"l": "1"}, {"a": "2"})
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["status"] == before["status"]
        status, document, _ = refused(lambda: c.policy.create_namespaced_pod_disruption_budget("app", again))
        assert (status, document["reason"]) == (409, "AlreadyExists")
        assert (
            refused(
                lambda: c.policy.create_namespaced_pod_disruption_budget(
                    "none", {**again, "metadata": {"name": "b"}}
                )
            )[0]
            == 404
        )
        stale = {**again, "metadata": {**again["metadata"], "name": "c", "resourceVersion": "1"}}
        assert refused(lambda: c.policy.create_namespaced_pod_disruption_budget("app", stale))[0] == 500


def test_a_changed_budget_is_not_decided_by_until_it_was_observed() -> None:
    budget = BudgetSpec(name="b", namespace="app", selector=WEB, min_available=1)
    with running(pods=[app_pod("a")], budgets=[budget], budget_seconds=4) as c:
        changed = c.policy.patch_namespaced_pod_disruption_budget("b", "app", {"spec": {"minAvailable": 0}})
        assert (changed.metadata.generation, changed.status.observed_generation) == (2, 1)
        status, document, error = refused(lambda: c.evict("a"))
        assert (status, error.headers["Retry-After"]) == (429, "10")
        assert document["details"]["retryAfterSeconds"] == 10
        assert "still being processed" in document["details"]["causes"][0]["message"]
        wait_for(lambda: c.budget("b").status.observed_generation == 2)
        c.evict("a")


def test_a_patch_on_an_older_version_is_a_conflict() -> None:
    with running() as c:
        version = c.core.read_node("n1").metadata.resource_version
        c.core.patch_node("n1", {"metadata": {"labels": {"a": "1"}}})
        stale = {"metadata": {"resourceVersion": version, "labels": {"a": "2"}}}
        status, document, _ = refused(lambda: c.core.patch_node("n1", stale))
        assert (status, document["reason"]) == (409, "Conflict")
        assert c.core.read_node("n1").metadata.labels["a"] == "1"


# -- who may ask ------------------------------------------------------------------------------------------------------


def test_an_unknown_token_is_unauthorized_and_a_new_one_is_taken() -> None:
    with running() as c, api(c.site, "another") as other:
        asked = client.CoreV1Api(other)
        status, document, _ = refused(asked.list_node)
        assert (status, document["reason"]) == (401, "Unauthorized")
        assert [c.cluster.log[-1][k] for k in ("call", "code", "principal")] == [
            "GET /api/v1/nodes",
            "401",
            "system:anonymous",
        ]
        c.site.run(lambda: c.cluster.accept("another"))
        assert len(asked.list_node().items) == 2


def test_what_is_forbidden_is_said_as_the_server_says_it() -> None:
    forbidden = ["list pods", "create pods/eviction", "delete poddisruptionbudgets", "* nodes"]
    with running(pods=[app_pod("a")], forbidden=forbidden) as c:
        for call, message in (
            (
                lambda: c.core.list_pod_for_all_namespaces(),
                'pods is forbidden: User "operator" cannot list resource "pods" in API group "" at the cluster scope',
            ),
            (
                lambda: c.core.list_namespaced_pod("app"),
                'pods is forbidden: User "operator" cannot list resource "pods" in API group "" in the namespace "app"',
            ),
            (
                lambda: c.evict("a"),
                'pods "a" is forbidden: User "operator" cannot create resource "pods/eviction" in API group "" in the namespace "app"',
            ),
            (
                lambda: c.policy.delete_namespaced_pod_disruption_budget("b", "app"),
                'poddisruptionbudgets.policy "b" is forbidden: User "operator" cannot delete resource "poddisruptionbudgets"'
                ' in API group "policy" in the namespace "app"',
            ),
            (
                lambda: c.core.read_node("n1"),
                'nodes "n1" is forbidden: User "operator" cannot get resource "nodes" in API group "" at the cluster scope',
            ),
        ):
            status, document, _ = refused(call)
            assert (status, document["reason"], document["message"]) == (403, "Forbidden", message)
        assert c.pod("a").metadata.deletion_timestamp is None
        reviews = client.AuthorizationV1Api(c.core.api_client)
        for verb, resource, subresource, allowed in (
            ("list", "pods", None, False),
            ("get", "pods", None, True),
            ("create", "pods", "eviction", False),
            ("delete", "nodes", None, False),
        ):
            asked = {"verb": verb, "resource": resource, "subresource": subresource}
            answer = reviews.create_self_subject_access_review({"spec": {"resourceAttributes": asked}})
            assert answer.status.allowed is allowed


def test_what_is_not_there_or_not_served() -> None:
    with running() as c:
        custom = client.CustomObjectsApi(c.core.api_client)
        status, document, _ = refused(
            lambda: custom.list_cluster_custom_object("ray.io", "v1", "rayclusters")
        )
        assert (status, document["message"]) == (404, "the server could not find the requested resource")
        assert refused(lambda: c.core.read_namespaced_secret("a", "default"))[0] == 404
        assert refused(lambda: c.core.replace_node("n1", {}))[0] == 405


def test_a_stopped_cluster_closes_connections_even_where_a_fault_would_answer() -> None:
    from urllib3.exceptions import HTTPError

    with running() as c:
        c.site.run(lambda: c.timetable.add([Fault(service="kubernetes", kind="status", status=401)]))
        assert refused(c.core.list_node)[0] == 401
        c.site.run(c.cluster.stop)
        with pytest.raises(HTTPError):
            c.core.list_node()
        assert c.cluster.log[-1]["code"] == "closed"
        assert c.cluster.describe()["stopped"] is True


def test_faults_are_of_method_and_path() -> None:
    faults = [
        Fault(service="kubernetes", match="GET /api/v1/pods*", kind="status", status=403, times=1),
        Fault(service="kubernetes", match="POST */pods/a/eviction", kind="status", status=429, retry_after=1),
    ]
    with running(pods=[app_pod("a")]) as c:
        c.site.run(lambda: c.timetable.add(faults))
        assert refused(c.core.list_pod_for_all_namespaces)[0] == 403
        assert c.pods() == ["a"]
        status, document, error = refused(lambda: c.evict("a"))
        assert (status, error.headers["Retry-After"], "details" in document) == (429, "1", False)


# -- what the rest of a simulation does -------------------------------------------------------------------------------


def test_pods_and_services_are_removed_and_added_by_the_simulation() -> None:
    mine = {"skypilot-cluster-name": "one"}
    with running(
        pods=[app_pod("a", labels=mine), app_pod("b", labels={**mine, "x": "y"}), app_pod("c")],
        load_balancers=[ServiceSpec(name="s", labels=mine), ServiceSpec(name="t")],
    ) as c:
        assert [p["metadata"]["name"] for p in c.cluster.find(mine)] == ["a", "b"]
        c.site.run(lambda: c.cluster.remove_pods(mine))
        c.site.run(lambda: c.cluster.remove_services(mine))
        assert c.cluster.describe()["terminating"] == ["app/a", "app/b"]
        assert c.cluster.describe()["services"] == ["default/t"]
        wait_for(lambda: c.pods() == ["c"])
        c.site.run(lambda: c.cluster.add_pod(app_pod("d", namespace="made")))
        assert c.pods("made") == ["d"]


def test_a_spec_may_name_things_alone_and_may_be_a_copy() -> None:
    spec = KubernetesSpec.model_validate(
        {"nodes": ["a", {"name": "b", "gpus": 1}], "load_balancers": ["front"]}
    )
    assert [n.gpus for n in spec.nodes] == [0, 1]
    copied = KubernetesCluster(spec.model_copy(update={"nodes": ["only"]}), {TOKEN}, Timetable([]), 1.0)
    assert copied.describe()["nodes"] == ["only"]
    with pytest.raises(ValueError, match="not both"):
        BudgetSpec(name="b", min_available=1, max_unavailable=1)
    with pytest.raises(ValueError, match="Extra inputs"):
        KubernetesSpec.model_validate({"pods": [{"name": "a", "colour": "red"}]})


# -- kubectl ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kubectl_gets_and_drains(tmp_path: Path) -> None:
    context, authority = loopback(tmp_path)
    timetable = Timetable([])
    pods = [
        app_pod("web", owner="ReplicaSet/web", node="n1"),
        app_pod("log", owner="DaemonSet/log", node="n1"),
        app_pod("free", owner="ReplicaSet/free", node="n1", labels={}),
        app_pod("static", mirror=True, owner="Node/n1", node="n1", labels={}),
    ]
    spec = KubernetesSpec(
        nodes=[NodeSpec(name="n1"), NodeSpec(name="n2")],
        pods=pods,
        budgets=[BudgetSpec(name="web", namespace="app", selector=WEB, min_available=3)],
        system=False,
        grace_seconds=0.2,
    )
    cluster = KubernetesCluster(spec, {TOKEN}, timetable, 1.0)
    with serving(cluster.app(), tls=context) as [site]:
        path = tmp_path / "kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [
                        {"name": "c", "cluster": {"server": site.at, "certificate-authority-data": authority}}
                    ],
                    "users": [{"name": "u", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )

        def kubectl(*args: str) -> tuple[int, str]:
            env = {
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "KUBECONFIG": str(path),
                "NO_PROXY": "*",
            }
            done = subprocess.run(["kubectl", *args], env=env, capture_output=True, timeout=60, check=False)
            return done.returncode, (done.stdout + done.stderr).decode()

        code, out = kubectl("get", "nodes,pods,pdb", "-A", "-o", "name")
        assert code == 0, out
        assert "node/n1" in out
        assert "poddisruptionbudget.policy/web" in out
        code, out = kubectl("drain", "n1", "--timeout=20s")
        assert code != 0
        assert "cannot delete DaemonSet-managed Pods" in out
        drain = ("drain", "n1", "--ignore-daemonsets", "--timeout=2s")
        code, out = kubectl(*drain)
        assert code != 0
        assert "would violate the pod's disruption budget" in out
        assert cluster.find({"app": "web"})[0]["metadata"]["name"] == "log"
        code, out = kubectl("delete", "pdb", "web", "-n", "app", "--wait=false")
        assert code == 0, out
        code, out = kubectl(*drain)
        assert code == 0, out
        on_node = {p["metadata"]["name"] for p in cluster.find({}) if p["spec"].get("nodeName") == "n1"}
        assert on_node == {"log", "static"}
        code, out = kubectl("uncordon", "n1")
        assert code == 0, out
