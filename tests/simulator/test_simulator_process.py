"""The simulator as a process: how it starts, says where it is, is controlled, ends, and starts again as the same cloud."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import simulated
import yaml

from engine.simulator.cloud import Cloud
from engine.simulator.inhabit import inhabit
from engine.simulator.world import load


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simulated.Simulation]:
    with simulated.simulation("clean-project", tmp_path_factory.mktemp("home")) as running:
        yield running


def argv(home: Path, *more: str, world: str = "clean-project") -> list[str]:
    base = [sys.executable, "-m", "engine.simulator", "--world", world, "--home", str(home)]
    return [*base, "--time-scale", "0.02", *more]


def start(home: Path, *more: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    child = subprocess.Popen(
        argv(home, *more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=simulated.ROOT,
    )
    assert child.stdout is not None
    return child, json.loads(child.stdout.readline())


def end(child: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str, str]:
    child.send_signal(number)
    out, err = child.communicate(timeout=10)
    return child.returncode, out, err


def fails(*args: str) -> str:
    """What a start that must fail says, in one line."""
    done = subprocess.run(
        list(args), capture_output=True, text=True, timeout=30, cwd=simulated.ROOT, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def listens(address: str) -> bool:
    host, _, port = address.rpartition("/")[2].rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_one_line_says_everything_that_a_client_needs(sim: simulated.Simulation) -> None:
    assert (sim.project, sim.alias) == ("project-e00clean", "demo")
    assert set(sim.env) == {
        "HOME", "NEBIUS_ENDPOINT", "NPA_NEBIUS_PLAINTEXT", "SKYPILOT_API_SERVER_ENDPOINT", "NPA_TIME_SCALE",
        "SKYPILOT_DISABLE_USAGE_COLLECTION", "NPA_SIMULATOR_CONTROL",
    }  # fmt: skip
    assert sim.env["HOME"] == str(sim.home)
    assert sim.env["NPA_TIME_SCALE"] == "0.02"
    for name in ("NEBIUS_ENDPOINT", "SKYPILOT_API_SERVER_ENDPOINT", "NPA_SIMULATOR_CONTROL"):
        assert "127.0.0.1:" in sim.env[name]
        assert listens(sim.env[name]), name


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_also_with_a_request_that_hangs(tmp_path: Path, number: int) -> None:
    child, ready = start(tmp_path)
    assert ready["pid"] == child.pid
    running = simulated.Simulation(tmp_path, ready["env"], ready["control"], "", "", child)  # type: ignore[arg-type]
    running.post("/faults", [{"service": "skypilot", "kind": "hang"}])
    host, port = ready["env"]["SKYPILOT_API_SERVER_ENDPOINT"].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as hanging:
        hanging.sendall(b"GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.1)
        assert end(child, number) == (0, "", "")
    assert not listens(ready["control"])


def test_it_ends_when_the_parents_end_of_the_pipe_closes(tmp_path: Path) -> None:
    child, _ = start(tmp_path, "--exit-with-parent")
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(10) == 0
    for pipe in (child.stdout, child.stderr):
        assert pipe is not None
        pipe.close()


def test_a_start_that_cannot_be_says_why_in_one_sentence(sim: simulated.Simulation, tmp_path: Path) -> None:
    assert "is not empty" in fails(*argv(sim.home))
    assert "was not laid by a simulation" in fails(*argv(tmp_path / "new", "--keep-home"))
    assert "there is no world 'nowhere'" in fails(*argv(tmp_path / "new", world="nowhere"))
    assert "no pipe" in fails(*argv(tmp_path / "new", "--exit-with-parent"))
    assert not (tmp_path / "new/.npa").exists()
    assert "cannot be had" in fails(*argv(sim.home, "--keep-home")), "it is running: its ports are taken"
    (tmp_path / "file").write_text("")
    assert "file" in fails(*argv(tmp_path / "file"))


def test_a_time_scale_is_a_positive_number(tmp_path: Path) -> None:
    for scale in ("0", "-1", "nan", "much"):
        done = subprocess.run(
            argv(tmp_path, "--time-scale", scale), capture_output=True, text=True, timeout=30, cwd=simulated.ROOT
        )  # fmt: skip
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_it_starts_again_as_the_same_cloud(tmp_path: Path) -> None:
    def whole(sim: simulated.Simulation) -> tuple[Any, ...]:
        state = sim.get("/state")
        return (
            sim.ids(),
            set(state["object_store"]),
            state["skypilot"],
            state["kubernetes"]["demo-gpu"]["stopped"],
        )

    with simulated.simulation("clean-project", tmp_path) as first:
        cluster, bucket = next(iter(first.ids()["cluster"])), next(iter(first.ids()["bucket"]))
        for id in (cluster, bucket):
            first.post("/change", {"delete": id})
        first.post("/change", {"login": "another-token"})
        before, env = whole(first), first.env
        config = (tmp_path / ".npa/clusters/demo-gpu/kubeconfig").read_bytes()
    with simulated.simulation("clean-project", tmp_path, keep=True) as second:
        assert second.env == env, "the same ports"
        assert whole(second) == before, "what had gone is gone, with all that was in it"
        assert before[3] is True
        assert not {cluster, bucket} & {id for ids in second.ids().values() for id in ids}
        assert (tmp_path / ".nebius/token").read_text().strip() == "another-token"
        assert (tmp_path / ".npa/clusters/demo-gpu/kubeconfig").read_bytes() == config
        assert second.process.pid != first.process.pid


def test_it_starts_again_after_it_was_killed_and_clients_trust_it(tmp_path: Path) -> None:
    from kubernetes import client, config

    with simulated.simulation("clean-project", tmp_path) as first:
        first.process.kill()
        first.process.wait(10)
    with simulated.simulation("clean-project", tmp_path, keep=True) as second:
        path = tmp_path / ".npa/clusters/demo-gpu/kubeconfig"
        api = client.CoreV1Api(config.new_client_from_config(str(path)))
        assert api.list_node().items
        assert second.ids()["cluster"]


async def test_the_same_seed_makes_the_same_ids() -> None:
    def operations(seed: int) -> list[str]:
        cloud = Cloud(load("clean-project"), 0.001, seed)
        inhabit(cloud, cloud.world)
        kinds = (("cluster", "mk8scluster-e00cleank8s"), ("instance", "computeinstance-e00cleanagent"))
        return [cloud.delete(kind, id).id for kind, id in kinds]

    assert operations(7) == operations(7) != operations(8)


# -- the control ------------------------------------------------------------------------------------------------------


def test_the_state_holds_every_kind_with_what_tells_things_apart(sim: simulated.Simulation) -> None:
    state = sim.get("/state")
    assert set(state) == {"resources", "object_store", "skypilot", "kubernetes", "operations_running"}
    assert set(state["resources"]) >= {
        "tenant", "project", "serviceaccount", "accesskey", "accesspermit", "group", "groupmembership", "bucket", "cluster", "nodegroup",
        "instance", "disk", "network", "subnet", "securitygroup", "securityrule", "allocation", "routetable", "registry", "artifact",
    }  # fmt: skip
    for rows in state["resources"].values():
        for row in rows:
            assert {"id", "name", "parent", "state", "created_at", "going", "doc"} <= set(row)
    (instance, *_) = state["resources"]["instance"]
    assert (instance["state"], instance["going"]) == ("RUNNING", False)
    assert state["resources"]["cluster"][0]["created_at"].endswith("Z")


def test_a_change_is_in_the_state_at_once_and_nonsense_is_refused(sim: simulated.Simulation) -> None:
    new = {
        "kind": "disk", "id": "computedisk-e00added", "parent": sim.project, "name": "added",
        "attrs": {"spec": {"sizeGibibytes": "10"}, "status": {"state": "READY"}},
    }  # fmt: skip
    sim.post("/change", {"create": new})
    assert "computedisk-e00added" in sim.ids()["disk"]
    assert refused(sim, "/change", {"create": new}) == (409, "ALREADY_EXISTS")
    sim.post(
        "/change", {"update": "computedisk-e00added", "set": {"metadata": {"name": "renamed"}, "spec": None}}
    )
    (row,) = [r for r in sim.get("/state")["resources"]["disk"] if r["id"] == "computedisk-e00added"]
    assert row["name"] == "renamed"
    assert row["doc"]["metadata"]["resourceVersion"] == "2"
    assert "spec" not in row["doc"]
    sim.post("/change", {"delete": "computedisk-e00added"})
    assert "computedisk-e00added" not in sim.ids()["disk"]
    for change in ({"delete": "computedisk-e00added"}, {"update": "nothing", "set": {}}):
        assert refused(sim, "/change", change) == (404, "NOT_FOUND")
    for change in ({}, {"create": {"kind": "disk"}}, {"rename": "x"}):
        assert refused(sim, "/change", change) == (400, "INVALID_ARGUMENT")
    assert refused(sim, "/faults", [{"service": "nebius", "kind": "explode"}]) == (400, "INVALID_ARGUMENT")
    assert refused(sim, "/terraform/destroy", {"id": "x"}) == (400, "INVALID_ARGUMENT")


def refused(sim: simulated.Simulation, path: str, document: Any) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        sim.post(path, document)
    with caught.value as answer:
        return answer.code, json.load(answer)["error"].partition(":")[0]


def test_terraform_is_told_when_a_deletion_is_over_or_refused(sim: simulated.Simulation) -> None:
    """The agent's own network has a subnet in the way; its address is free once the VM is gone."""
    assert refused(sim, "/terraform/destroy", {"kind": "network", "id": "vpcnetwork-e00cleanagent"}) == (
        409,
        "FAILED_PRECONDITION",
    )
    for kind, id in (
        ("instance", "computeinstance-e00cleanagent"),
        ("allocation", "vpcallocation-e00cleanagent"),
        ("allocation", "vpcallocation-e00cleanagent"),
    ):
        assert sim.post("/terraform/destroy", {"kind": kind, "id": id}) == {}
    assert "vpcallocation-e00cleanagent" not in sim.ids().get("allocation", set())
    rows = [(r["call"], r["code"]) for r in sim.get("/log") if r["service"] == "terraform"]
    assert rows[-3:] == [
        ("destroy instance", "OK"),
        ("destroy allocation", "OK"),
        ("destroy allocation", "NOT_FOUND"),
    ]


def test_a_key_that_is_gone_no_longer_opens_the_object_store(sim: simulated.Simulation) -> None:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError

    state = yaml.safe_load((sim.home / ".npa/config.yaml").read_text())["projects"]["demo"]["terraform_state"]
    s3 = boto3.client(
        "s3", endpoint_url=state["endpoint"], region_name="eu-north1", aws_access_key_id=state["access_key"],
        aws_secret_access_key=state["secret_key"], config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
    )  # fmt: skip
    key = "npa/terraform-state/demo/agent/terraform.tfstate"
    body = json.load(s3.get_object(Bucket=state["bucket"], Key=key)["Body"])
    ids = {i["attributes"]["id"] for r in body["resources"] for i in r["instances"]}
    assert "computeinstance-e00cleanagent" in ids
    sim.post("/change", {"delete": "accesskey-e00cleanbktstor"})
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        s3.get_object(Bucket=state["bucket"], Key=key)
