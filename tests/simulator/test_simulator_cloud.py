"""Foreign clients judge the simulator: the provider's SDK, boto3, the Kubernetes client, real Terraform."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import simulated
import yaml


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simulated.Simulation]:
    with simulated.simulation("clean-project", tmp_path_factory.mktemp("home")) as running:
        yield running


def sdk(sim: simulated.Simulation, token: str = "") -> Any:
    import grpc
    import nebius.base.options
    from nebius.base.resolver import Constant
    from nebius.sdk import SDK

    return SDK(
        resolver=Constant(sim.env["NEBIUS_ENDPOINT"]),
        options=[(nebius.base.options.INSECURE, True), ("grpc.enable_http_proxy", 0)],
        credentials=token or (sim.home / ".nebius/token").read_text().strip(),
        tls_credentials=grpc.ssl_channel_credentials(),
        user_agent_prefix="test/1",
    )


async def test_the_sdk_lists_reads_deletes_and_waits(sim: simulated.Simulation) -> None:
    from nebius.aio.service_error import RequestError
    from nebius.api.nebius.registry.v1 import (
        ArtifactServiceClient,
        DeleteArtifactRequest,
        DeleteRegistryRequest,
        GetArtifactRequest,
        ListArtifactsRequest,
        RegistryServiceClient,
    )

    client = sdk(sim)
    try:
        registry = next(iter(sim.ids()["registry"]))
        artifacts = ArtifactServiceClient(client)
        page = await artifacts.list(ListArtifactsRequest(parent_id=registry, page_size=1))
        assert len(page.items) == 1
        assert page.next_page_token
        rest = await artifacts.list(ListArtifactsRequest(parent_id=registry, page_token=page.next_page_token))
        assert [a.id for a in [*page.items, *rest.items]] == sorted(sim.ids()["artifact"])
        with pytest.raises(RequestError) as refused:
            await RegistryServiceClient(client).delete(DeleteRegistryRequest(id=registry))
        assert refused.value.status.code.name == "FAILED_PRECONDITION"
        first = page.items[0].id
        key = [("x-idempotency-key", "one-key")]
        one = await artifacts.delete(DeleteArtifactRequest(id=first), metadata=key)
        two = await artifacts.delete(DeleteArtifactRequest(id=first), metadata=key)
        assert one.id == two.id
        await one.wait(interval=0.02, timeout=5)
        assert one.successful()
        with pytest.raises(RequestError) as missing:
            await artifacts.get(GetArtifactRequest(id=first))
        assert missing.value.status.code.name == "NOT_FOUND"
        assert missing.value.status.request_id
    finally:
        await client.close()


async def test_another_token_is_nobody(sim: simulated.Simulation) -> None:
    from nebius.aio.service_error import RequestError

    client = sdk(sim, token="not-it")
    try:
        with pytest.raises(RequestError) as caught:
            await client.whoami()
        assert caught.value.status.code.name == "UNAUTHENTICATED"
    finally:
        await client.close()


def s3(sim: simulated.Simulation, secret: str = "") -> tuple[Any, str]:
    import boto3
    from botocore.config import Config

    state = yaml.safe_load((sim.home / ".npa/config.yaml").read_text())["projects"][sim.alias][
        "terraform_state"
    ]
    client = boto3.client(
        "s3",
        endpoint_url=state["endpoint"],
        region_name="eu-north1",
        aws_access_key_id=state["access_key"],
        aws_secret_access_key=secret or state["secret_key"],
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
    )
    return client, state["bucket"]


def test_boto3_writes_reads_versions_and_is_refused_without_the_secret(sim: simulated.Simulation) -> None:
    from botocore.exceptions import ClientError

    client, bucket = s3(sim)
    key = 'odd <&> "name" ü'
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    client.put_object(Bucket=bucket, Key=key, Body=b"one")
    client.put_object(Bucket=bucket, Key=key, Body=b"two")
    client.delete_object(Bucket=bucket, Key=key)
    found = client.list_object_versions(Bucket=bucket, Prefix="odd")
    assert len(found["Versions"]) == 2
    assert len(found["DeleteMarkers"]) == 1
    rows = [
        {"Key": v["Key"], "VersionId": v["VersionId"]} for v in found["Versions"] + found["DeleteMarkers"]
    ]
    client.delete_objects(Bucket=bucket, Delete={"Objects": rows})
    assert "Versions" not in client.list_object_versions(Bucket=bucket, Prefix="odd")
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        s3(sim, secret="wrong")[0].list_objects_v2(Bucket=bucket)
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=bucket, Key="data/0000000", Body=b"x", IfNoneMatch="*")


def test_the_kubernetes_client_reads_over_tls_and_evicts_by_the_budget(sim: simulated.Simulation) -> None:
    from kubernetes import client, config
    from kubernetes.client.exceptions import ApiException

    path = next((sim.home / ".npa/clusters").glob("*/kubeconfig"))
    api = client.CoreV1Api(config.new_client_from_config(str(path)))
    pods = api.list_pod_for_all_namespaces(label_selector="parent=skypilot")
    assert len(pods.items) == 1
    body = client.V1Eviction(metadata=client.V1ObjectMeta(name="coredns-0", namespace="kube-system"))
    with pytest.raises(ApiException) as blocked:
        api.create_namespaced_pod_eviction("coredns-0", "kube-system", body)
    assert blocked.value.status == 429
    assert json.loads(blocked.value.body)["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "Retry-After" not in blocked.value.headers


@pytest.mark.slow
def test_real_terraform_finds_nothing_to_change_and_destroys(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        module = sim.home / "repo/deploy/cluster"

        def terraform(*args: str) -> int:
            argv = [sys.executable, "-m", "engine.clouds.terraform.shim", f"-chdir={module}", *args]
            env = sim.environ(
                TF_DATA_DIR=str(tmp_path / "tfdata"), CHECKPOINT_DISABLE="1", TF_IN_AUTOMATION="1"
            )
            return subprocess.run(argv, env=env, capture_output=True, timeout=60, check=False).returncode

        assert terraform("init", "-input=false") == 0
        assert terraform("plan", "-input=false", "-refresh=false", "-detailed-exitcode") == 0
        assert terraform("destroy", "-auto-approve", "-input=false") == 0
        left = sim.ids()
        assert "cluster" not in left
        assert "nodegroup" not in left
        assert len(left["instance"]) == 1, "only the agent's VM stays"
        state = sim.get("/state")["kubernetes"]
        assert all(cluster["stopped"] for cluster in state.values())


def test_faults_come_by_the_timetable_and_end_together(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        sim.post(
            "/faults",
            [{"service": "nebius", "match": "ProfileService/*", "kind": "status", "status": "UNAVAILABLE"}],
        )

        async def ask() -> str:
            from nebius.aio.service_error import RequestError

            client = sdk(sim)
            try:
                await client.whoami(retries=1)
            except RequestError as error:
                return str(error.status.code.name)
            finally:
                await client.close()
            return "OK"

        assert asyncio.run(ask()) == "UNAVAILABLE"
        sim.post("/faults/end", {})
        assert asyncio.run(ask()) == "OK"


async def test_a_bucket_is_scheduled_and_goes_with_its_contents(tmp_path: Path) -> None:
    from nebius.api.nebius.storage.v1 import BucketServiceClient, DeleteBucketRequest, GetBucketRequest

    with simulated.simulation("clean-project", tmp_path) as sim:
        client = sdk(sim)
        try:
            bucket = next(iter(sim.ids()["bucket"]))
            buckets = BucketServiceClient(client)
            await buckets.delete(DeleteBucketRequest(id=bucket, ttl=timedelta(seconds=60)))
            seen = await buckets.get(GetBucketRequest(id=bucket))
            assert seen.status.state.name == "SCHEDULED_FOR_DELETION"
            assert seen.status.purge_at is not None
            async with asyncio.timeout(5):
                while "bucket" in sim.ids():  # noqa: ASYNC110 - the server is asked
                    await asyncio.sleep(0.05)
            assert sim.get("/state")["object_store"] == {}
        finally:
            await client.close()


def test_a_home_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".npa").mkdir()
    (tmp_path / ".npa/config.yaml").write_text("projects: {}\n")
    argv = [sys.executable, "-m", "engine.simulator", "--world", "clean-project", "--home", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, timeout=30, check=False, cwd=simulated.ROOT)
    assert done.returncode == 1
    assert b"not empty" in done.stderr
    assert (tmp_path / ".npa/config.yaml").read_text() == "projects: {}\n"


@pytest.mark.parametrize("name", ["clean-project", "busy", "after-a-crash", "hostile", "full"])
def test_every_world_loads_and_says_what_it_is_for(name: str) -> None:
    code = f"from engine.simulator.world import load; w = load({name!r}); assert w.description and w.projects"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=simulated.ROOT, timeout=30)
