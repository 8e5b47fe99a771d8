"""SkyPilot's own SDK judges the API server; the rest is asked over plain REST, as the SDK would."""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from loopback_app import Site, serving

from engine.simulator.faults import Fault, Timetable
from engine.simulator.kubernetes import KubernetesCluster, KubernetesSpec, PodSpec, ServiceSpec
from engine.simulator.skypilot import JobSpec, SkyClusterSpec, SkyServer, SkySpec

USER = "abcd1234"
NAME = f"sky-jobs-controller-{USER}"
ON_CLOUD = f"{NAME}-{USER}"
SCALE = 0.05
LABELS = {"parent": "skypilot", "skypilot-cluster-name": ON_CLOUD}


class Refused(Exception):
    """A request that failed, as the SDK would raise it."""

    def __init__(self, kind: str, message: str, attributes: dict[str, Any]) -> None:
        super().__init__(message)
        self.kind, self.message, self.attributes = kind, message, attributes


class _Status(str):
    """Stands for the enum that the pickle names."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        assert (module, name) == ("sky.utils.status_lib", "ClusterStatus"), "nothing else is named"
        return _Status


@dataclass
class World:
    """A running server, and the cluster that its controller lives on."""

    server: SkyServer
    cluster: KubernetesCluster
    timetable: Timetable
    site: Site
    log: str = field(default="", init=False)

    def http(self, path: str, body: Any = None) -> tuple[int, Any, dict[str, str]]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.site.at + path, data, {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=10) as answer:
                text, status, headers = answer.read(), answer.status, dict(answer.headers)
        except urllib.error.HTTPError as error:
            text, status, headers = error.read(), error.code, dict(error.headers)
        plain = headers.get("Content-Type", "").startswith("text/plain")
        return status, text.decode() if plain else json.loads(text), headers

    def submit(self, path: str, user: str = USER, **body: Any) -> str:
        who = {"SKYPILOT_USER_ID": user, "SKYPILOT_USER": "operator"}
        status, _, headers = self.http(path, {"env_vars": who, **body})
        assert status == 200
        return headers["X-Skypilot-Request-ID"]

    def ask(self, path: str, user: str = USER, **body: Any) -> Any:
        id = self.submit(path, user, **body)
        status, payload, _ = self.http(f"/api/get?request_id={id}")
        self.log = self.http(f"/api/stream?request_id={id}")[1]
        if status == 200:
            assert payload["status"] == "SUCCEEDED"
            return json.loads(payload["return_value"])
        assert (status, payload["detail"]["status"]) == (500, "FAILED")
        error = json.loads(payload["detail"]["error"])
        pickled = _Unpickler(io.BytesIO(base64.b64decode(error["object"]))).load()
        assert (pickled["type"], pickled["message"]) == (error["type"], error["message"])
        raise Refused(error["type"], error["message"], pickled["attributes"])

    def jobs(self, **body: Any) -> dict[int, str]:
        rows = self.ask("/jobs/queue/v2", **{"all_users": True, **body})["jobs"]
        return {r["job_id"]: r["status"] for r in rows}

    def cancel(self, *ids: int, **body: Any) -> str:
        assert self.ask("/jobs/cancel", **({"job_ids": list(ids)} if ids else {}), **body) is None
        return self.log

    def names(self, **body: Any) -> list[str]:
        return [r["name"] for r in self.ask("/status", **body)]

    def pods(self) -> list[str]:
        found = self.cluster.describe()["pods"]
        assert isinstance(found, list)
        return found


@contextmanager
def world(
    *jobs: JobSpec | dict[str, Any],
    controller: dict[str, Any] | None = None,
    more: list[SkyClusterSpec] | None = None,
    kubernetes: dict[str, Any] | None = None,
    pod: bool = True,
    **spec: Any,
) -> Iterator[World]:
    timetable = Timetable([], SCALE)
    pods = [PodSpec(name=f"{ON_CLOUD}-head", labels=LABELS)] if pod else []
    whole = {
        "system": False,
        "nodes": ["n1"],
        "pods": pods,
        "load_balancers": [ServiceSpec(name=f"{ON_CLOUD}-head-ssh", labels=LABELS)],
        **(kubernetes or {}),
    }
    cluster = KubernetesCluster(KubernetesSpec.model_validate(whole), {"t"}, timetable, SCALE)
    mine = SkyClusterSpec.model_validate({"name": NAME, "context": "ctx", **(controller or {})})
    clusters = [*(more or []), *([] if spec.get("consolidated") or controller == {"name": ""} else [mine])]
    known = [
        j if isinstance(j, JobSpec) else JobSpec.model_validate({"name": f"job-{j['job_id']}", **j})
        for j in jobs
    ]
    made = SkySpec(user_hash=USER, clusters=clusters, jobs=known, **spec)
    server = SkyServer(made, {"ctx": cluster}, timetable, SCALE)
    with serving(server.app()) as [site]:
        yield World(server, cluster, timetable, site)


NO_CONTROLLER = {"name": ""}


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.01)


# -- the queue --------------------------------------------------------------------------------------------------------


def test_the_queue_shows_all_jobs_and_what_is_asked_for() -> None:
    jobs = [
        {"job_id": 1, "name": "train"},
        {"job_id": 2, "status": "PENDING"},
        {"job_id": 3, "status": "SUCCEEDED"},
        {"job_id": 4, "name": "train", "user": "alice"},
        {"job_id": 5, "status": "A_WORD_OF_TOMORROW"},
        {"job_id": 6, "status": "FAILED_SETUP", "tasks": ["first", "second"]},
    ]
    with world(*jobs) as w:
        whole = w.ask("/jobs/queue/v2", all_users=True)
        assert [(r["job_id"], r["task_id"]) for r in whole["jobs"]] == [
            (6, 0), (6, 1), (5, 0), (4, 0), (3, 0), (2, 0), (1, 0),
        ]  # fmt: skip
        assert (whole["total"], whole["total_no_filter"]) == (7, 7)
        assert whole["status_counts"] == {
            "RUNNING": 2, "PENDING": 1, "SUCCEEDED": 1, "A_WORD_OF_TOMORROW": 1, "FAILED_SETUP": 2,
        }  # fmt: skip
        assert set(w.jobs(all_users=False)) == {1, 2, 3, 5, 6}
        assert set(w.jobs(skip_finished=True)) == {1, 2, 4, 5}
        assert set(w.jobs(job_ids=[1, 3])) == {1, 3}
        assert set(w.jobs(statuses=["RUNNING"])) == {1, 4}
        assert set(w.jobs(name_match="trai")) == {1, 4}
        assert [r["job_id"] for r in w.ask("/jobs/queue/v2", all_users=True, limit=2, page=2)["jobs"]] == [
            5,
            4,
        ]
        narrow = w.ask("/jobs/queue/v2", all_users=True, fields=["job_name"], job_ids=[1])["jobs"]
        assert narrow == [{"job_id": 1, "task_id": 0, "status": "RUNNING", "job_name": "train"}]
        assert [r["job_id"] for r in w.ask("/jobs/queue", all_users=True)] == [6, 6, 5, 4, 3, 2, 1]


def test_a_cancel_takes_time_and_says_nothing_but_in_its_log() -> None:
    with world({"job_id": 1, "cancel_seconds": 4}, {"job_id": 2, "status": "PENDING"}) as w:
        assert w.cancel(1, 2) == "Jobs with IDs 1, 2 are scheduled to be cancelled.\n"
        assert w.jobs() == {1: "RUNNING", 2: "CANCELLED"}, "the running one does not know yet"
        wait_for(lambda: w.jobs()[1] == "CANCELLING")
        wait_for(lambda: w.jobs()[1] == "CANCELLED")
        assert (
            w.cancel(1, 9)
            == "Job 9 not found. Skipped.\nJob 1 is already in terminal state CANCELLED. Skipped.\nNo job to cancel.\n"
        )


def test_a_cancel_can_be_ignored_and_can_get_stuck() -> None:
    quick = {"cancel_seconds": 0, "notice_seconds": 0}
    with world(
        {"job_id": 1, "ignores_cancels": 2, **quick}, {"job_id": 2, "sticks_in": "CANCELLING", **quick}
    ) as w:
        for _ in range(2):
            assert w.cancel(1) == "Job with ID 1 is scheduled to be cancelled.\n"
            time.sleep(0.05)
            assert w.jobs()[1] == "RUNNING"
        w.cancel(1, 2)
        wait_for(lambda: w.jobs() == {1: "CANCELLED", 2: "CANCELLING"})
        w.cancel(2)
        time.sleep(0.05)
        assert w.jobs()[2] == "CANCELLING"


def test_whom_a_cancel_reaches() -> None:
    quick = {"cancel_seconds": 0, "notice_seconds": 0}
    jobs = [
        {"job_id": 1, "name": "same", **quick},
        {"job_id": 2, "name": "same", **quick},
        {"job_id": 3, "name": "one", **quick},
        {"job_id": 4, "user": "alice", **quick},
        {"job_id": 5, "workspace": "other", **quick},
    ]
    with world(*jobs) as w:
        with pytest.raises(Refused) as two:
            w.cancel(name="same")
        assert two.value.kind == "RuntimeError"
        assert w.cancel(name="none") == "No running job found with name 'none'.\nNo job to cancel.\n"
        w.cancel(name="one")
        wait_for(lambda: w.jobs()[3] == "CANCELLED")
        assert "5 is skipped as they are not in the active workspace 'default'" in w.cancel(5)
        assert w.cancel(5, override_skypilot_config={"active_workspace": "other"}).startswith(
            "Job with ID 5 is"
        )
        w.cancel(all=True)
        wait_for(lambda: set(w.jobs(skip_finished=True)) == {4})
        w.cancel(4)
        wait_for(lambda: not w.jobs(skip_finished=True))  # an id reaches anybody's job
        for body in ({}, {"job_ids": [1], "name": "one"}, {"all": True, "job_ids": [1]}):
            with pytest.raises(Refused) as none:
                w.ask("/jobs/cancel", **body)
            assert (none.value.kind, none.value.message[:17]) == ("ValueError", "Can only specify ")


def test_a_job_ends_by_itself_and_takes_its_worker_along() -> None:
    worker = {"skypilot-cluster-name": "train-1-abcd"}
    pods = [PodSpec(name=f"{ON_CLOUD}-head", labels=LABELS), PodSpec(name="train-1-abcd-head", labels=worker)]
    jobs = [
        {"job_id": 1, "worker": "train-1-abcd", "ends_after": 1, "ends_as": "FAILED"},
        {"job_id": 2, "status": "SUCCEEDED", "ends_after": 0, "ends_as": "FAILED"},
    ]
    with world(*jobs, kubernetes={"pods": pods}) as w:
        wait_for(lambda: w.jobs() == {1: "FAILED", 2: "SUCCEEDED"})
        wait_for(lambda: w.pods() == [f"default/{ON_CLOUD}-head"])


def test_what_is_over_stays_so() -> None:
    with world({"job_id": 1, "notice_seconds": 0, "cancel_seconds": 4, "ends_after": 2}) as w:
        w.cancel(1)
        wait_for(lambda: w.jobs()[1] == "SUCCEEDED")
        time.sleep(0.2)
        assert w.jobs()[1] == "SUCCEEDED"


# -- the controller ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ({"controller": NO_CONTROLLER}, None, "No in-progress managed jobs."),
        ({"controller": {"status": "STOPPED"}}, "STOPPED", "Jobs controller is stopped."),
        ({"controller": {"status": "INIT"}}, "INIT", "Failed to connect to jobs controller"),
        ({"pod": False}, "INIT", "Failed to connect to jobs controller"),
    ],
)
def test_a_queue_that_nobody_can_be_asked_about(
    given: dict[str, Any], status: str | None, message: str
) -> None:
    with world({"job_id": 1}, **given) as w:
        for path, body in (("/jobs/queue/v2", {"all_users": True}), ("/jobs/cancel", {"job_ids": [1]})):
            with pytest.raises(Refused) as caught:
                w.ask(path, **body)
            assert caught.value.kind == "ClusterNotUpError"
            assert caught.value.message.startswith(message)
            assert caught.value.attributes == {"cluster_status": status, "handle": None}
        assert [j["status"] for j in w.server.describe()["jobs"]] == ["RUNNING"]


def test_a_cluster_that_was_stopped_hides_the_queue_and_halts_its_jobs() -> None:
    with world({"job_id": 1, "cancel_seconds": 0, "notice_seconds": 1}) as w:
        w.cancel(1)
        w.site.run(w.cluster.stop)
        with pytest.raises(Refused) as caught:
            w.jobs()
        assert caught.value.kind == "RuntimeError"
        assert caught.value.message.startswith("Failed to fetch managed jobs with returncode: 1")
        time.sleep(0.15)
        assert w.server.describe()["jobs"][0]["status"] == "RUNNING", "nobody is there to cancel it"
        assert w.names() == [NAME]


def test_a_server_that_is_its_own_controller_has_nothing_to_take_down() -> None:
    with world({"job_id": 1}, consolidated=True, pod=False) as w:
        assert w.names() == []
        assert w.jobs() == {1: "RUNNING"}


def test_down_refuses_nothing_and_pods_go_later() -> None:
    with world({"job_id": 1}) as w:
        assert w.ask("/down", cluster_name=NAME) is None
        assert w.names() == []
        assert w.cluster.describe()["terminating"] == [f"default/{ON_CLOUD}-head"], (
            "its success proves nothing"
        )
        assert w.cluster.describe()["services"] == []
        wait_for(lambda: w.pods() == [])
        assert w.server.describe() == {"jobs": [], "clusters": []}
        for name in (NAME, "another"):
            with pytest.raises(Refused) as caught:
                w.ask("/down", cluster_name=name)
            assert caught.value.kind == "ClusterDoesNotExist"


def test_down_can_leave_the_pods_and_still_succeed() -> None:
    with world(controller={"down_leaves_pods": True}) as w:
        w.ask("/down", cluster_name=NAME)
        assert w.names() == []
        assert w.cluster.describe()["terminating"] == []
        assert w.pods() == [f"default/{ON_CLOUD}-head"]


@pytest.mark.parametrize(
    ("kubernetes", "stopped", "provider", "kind"),
    [
        ({"forbidden": ["delete pods"]}, False, "kubernetes", "ApiException"),
        ({}, True, "urllib3", "MaxRetryError"),
    ],
)
def test_down_fails_where_the_cluster_does_and_purge_hides_that(
    kubernetes: dict[str, Any], stopped: bool, provider: str, kind: str
) -> None:
    with world({"job_id": 1}, kubernetes=kubernetes) as w:
        if stopped:
            w.site.run(w.cluster.stop)
        with pytest.raises(Refused) as caught:
            w.ask("/down", cluster_name=NAME)
        assert caught.value.kind == "CloudError"
        assert caught.value.attributes == {"cloud_provider": provider, "error_type": kind}
        assert w.names() == [NAME], "the record stays"
        w.ask("/down", cluster_name=NAME, purge=True)
        assert w.names() == []
        assert w.pods() == [f"default/{ON_CLOUD}-head"], "and the pod too"


def test_another_cluster_goes_without_the_queue() -> None:
    dev = SkyClusterSpec(name="dev", context="ctx", name_on_cloud="dev-on-cloud", user="alice")
    with world({"job_id": 1}, more=[dev]) as w:
        assert w.names(all_users=False) == [NAME]
        w.ask("/down", cluster_name="dev")
        assert w.names() == [NAME]
        assert w.jobs() == {1: "RUNNING"}


def test_a_refresh_drops_a_record_without_pods_and_shows_the_old_one_where_it_cannot_look() -> None:
    with world() as w:
        old = w.ask("/status")[0]["status_updated_at"]
        assert old < time.time() - 60
        assert w.ask("/status", refresh="FORCE")[0]["status_updated_at"] > time.time() - 5
        w.site.run(lambda: w.cluster.remove_pods(LABELS))
        assert w.names(refresh="FORCE") == [NAME], "what terminates is there"
        wait_for(lambda: w.pods() == [])
        assert w.names() == [NAME]
        assert w.names(refresh="FORCE", cluster_names=["another"]) == []
        assert w.names() == [NAME]
        assert w.names(refresh="FORCE") == []
        assert w.cluster.describe()["services"] == []
    for kubernetes, stopped in (({"forbidden": ["list pods"]}, False), ({}, True)):
        with world(pod=False, kubernetes=kubernetes) as w:
            if stopped:
                w.site.run(w.cluster.stop)
            row = w.ask("/status", refresh="FORCE")[0]
            assert (row["name"], row["status"]) == (NAME, "UP")
            assert row["status_updated_at"] < time.time() - 60
            assert "ClusterStatusFetchingError" in w.log


# -- requests ---------------------------------------------------------------------------------------------------------


def test_a_request_is_found_by_the_beginning_of_its_id_and_can_be_cancelled() -> None:
    with world(controller={"down_seconds": 3600}) as w:
        id = w.submit("/down", cluster_name=NAME)
        assert w.http(f"/api/stream?request_id={id}&follow=false")[:2] == (200, "")
        running = [r for r in w.http("/api/status")[1] if r["request_id"] == id]
        assert [(r["name"], r["status"]) for r in running] == [("sky.down", "RUNNING")]
        done = w.http("/api/cancel", {"request_ids": [id[:8]]})[2]["X-Skypilot-Request-ID"]
        assert json.loads(w.http(f"/api/get?request_id={done}")[1]["return_value"]) == [id]
        status, payload, _ = w.http(f"/api/get?request_id={id[:8]}")
        assert (status, payload["status"]) == (200, "CANCELLED")
        assert w.names() == [NAME]
        status, payload, _ = w.http("/api/get?request_id=nothing")
        assert (status, payload) == (404, {"detail": "Request 'nothing' not found"})


def test_a_body_that_makes_no_sense_fails_its_request_and_nothing_else() -> None:
    with world({"job_id": 1}) as w:
        with pytest.raises(Refused) as caught:
            w.ask("/jobs/cancel", job_ids=5)
        assert caught.value.kind == "TypeError"
        assert w.jobs() == {1: "RUNNING"}


def test_faults_and_the_log() -> None:
    with world({"job_id": 1}) as w:
        w.site.run(
            lambda: w.timetable.add(
                [Fault(service="skypilot", match="POST /jobs/queue/v2", kind="status", status=503, times=1)]
            )
        )
        status, document, headers = w.http("/jobs/queue/v2", {})
        assert (status, document) == (503, {"detail": "injected fault"})
        assert headers["X-SkyPilot-API-Version"] == "62"
        assert w.jobs() == {1: "RUNNING"}
        rows = [(r["call"], r["code"], r["principal"]) for r in w.server.log]
        assert rows[:2] == [
            ("POST /jobs/queue/v2", "fault:status", ""),
            ("POST /jobs/queue/v2", "200", "operator"),
        ]


def test_what_is_left_under_way_ends_with_the_server() -> None:
    with world({"job_id": 1, "ends_after": 3600}, controller={"down_seconds": 3600}) as w:
        w.submit("/down", cluster_name=NAME)
        w.cancel(1)
    assert w.server.describe()["clusters"] == [{"name": NAME, "context": "ctx", "status": "UP"}]


def test_a_description_is_a_spec_to_start_from_again() -> None:
    with world({"job_id": 1, "ignores_cancels": 2}, {"job_id": 2, "status": "PENDING"}) as w:
        w.cancel(1, 2)
        kept = [JobSpec.model_validate(j) for j in w.server.describe()["jobs"]]
    assert [(j.status, j.ignores_cancels) for j in kept] == [("RUNNING", 1), ("CANCELLED", 0)]


# -- the SDK ----------------------------------------------------------------------------------------------------------


class Sdk:
    """The SDK of the installed SkyPilot, in a process of its own that knows nothing of this machine's home."""

    def __init__(self, at: str, home: Path) -> None:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "TMPDIR")}
        env = {
            **kept, "HOME": str(home), "SKYPILOT_API_SERVER_ENDPOINT": at, "SKYPILOT_USER_ID": USER, "SKYPILOT_USER": "operator",
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1", "SKYPILOT_DISABLE_LOCAL_API_SERVER": "1", "NO_PROXY": "*",
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("sky_worker.py"))],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=home,
        )  # fmt: skip

    def __call__(self, call: str, **args: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"call": call, "args": args}).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@contextmanager
def sdk(w: World, home: Path) -> Iterator[Sdk]:
    made = Sdk(w.site.at, home)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_the_sdk_reads_cancels_and_takes_down(tmp_path: Path) -> None:
    pytest.importorskip("sky", reason="SkyPilot is not installed")
    jobs = [
        {"job_id": 1, "name": "train", "cancel_seconds": 6},
        {"job_id": 2, "status": "PENDING"},
        {"job_id": 3, "status": "SUCCEEDED", "user": "alice"},
    ]
    with world(*jobs) as w, sdk(w, tmp_path) as sky:
        [row] = sky("status", all_users=True)["value"]
        assert row == {"name": NAME, "status": "UP", "cluster_name_on_cloud": ON_CLOUD, "region": "ctx"}

        def queue(**more: Any) -> dict[int, str]:
            rows, _, _, _ = sky("jobs.queue_v2", refresh=False, **{"all_users": True, **more})["value"]
            return {r["job_id"]: r["status"] for r in rows}

        assert queue() == {1: "RUNNING", 2: "PENDING", 3: "SUCCEEDED"}
        assert queue(all_users=False) == {1: "RUNNING", 2: "PENDING"}
        assert queue(skip_finished=True) == {1: "RUNNING", 2: "PENDING"}
        done = sky("jobs.cancel", job_ids=[1, 2, 3])
        assert done["value"] is None
        assert "Job 3 is already in terminal state SUCCEEDED. Skipped." in done["log"]
        assert "Jobs with IDs 1, 2 are scheduled to be cancelled." in done["log"]
        wait_for(lambda: queue() == {1: "CANCELLED", 2: "CANCELLED", 3: "SUCCEEDED"})
        assert sky("jobs.cancel")["error"] in ("ValueError", "UsageError")
        assert sky("down", cluster_name="another")["error"] == "ClusterDoesNotExist"
        assert sky("down", cluster_name=NAME)["value"] is None
        wait_for(lambda: w.pods() == [])
        assert sky("status", all_users=True, refresh="FORCE")["value"] == []
        gone = sky("jobs.queue_v2", refresh=False, all_users=True)
        assert (gone["error"], gone["status"]) == ("ClusterNotUpError", None)
        assert "No in-progress managed jobs." in gone["message"]


@pytest.mark.slow
def test_the_sdk_raises_what_the_real_server_fails_with(tmp_path: Path) -> None:
    pytest.importorskip("sky", reason="SkyPilot is not installed")
    ill = world({"job_id": 1}, controller={"status": "INIT"}, kubernetes={"forbidden": ["delete pods"]})
    with ill as w, sdk(w, tmp_path) as sky:
        unreached = sky("jobs.queue_v2", refresh=False, all_users=True)
        assert (unreached["error"], unreached["status"]) == ("ClusterNotUpError", "INIT")
        kept = sky("down", cluster_name=NAME)
        assert kept["error"] == "CloudError"
        assert "kubernetes error (ApiException)" in kept["message"]
        w.site.run(w.cluster.stop)
        assert "urllib3 error (MaxRetryError)" in sky("down", cluster_name=NAME)["message"]
        assert sky("down", cluster_name=NAME, purge=True)["value"] is None
        assert w.pods() == [f"default/{ON_CLOUD}-head"]
