"""The real `sky` client against a loopback API server. One worker serves all tests, because importing `sky` takes seconds."""

from __future__ import annotations

import asyncio
import enum
import os
import sys
import threading
import time
import types
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from skypilot_server import ServerError, SkyServer, serving

from engine.clock import Clock
from engine.clouds.skypilot import Queue, Sky
from engine.settings import read
from engine.words.intents import Intent
from engine.words.presence import Cause, Ref, Unknown
from engine.words.trouble import Trouble

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("sky") is None, reason="SkyPilot is not installed"),
]

INTENT = Intent("key", Ref("run", "r"), "", threading.Event())
CONTROLLER = "sky-jobs-controller-abcd1234"
ENVIRON = {"PATH": os.environ.get("PATH", ""), "LANG": os.environ.get("LANG", "C.UTF-8")}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def both(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Sky, SkyServer, Path]]:
    home = tmp_path_factory.mktemp("home")
    (home / ".sky").mkdir()
    (home / ".sky/user_hash").write_text("abcd1234")
    async with serving(SkyServer()) as server:
        settings = read({**ENVIRON, "SKYPILOT_API_SERVER_ENDPOINT": server.url})
        async with Sky(settings, Clock(0.1), home=home) as sky:
            yield sky, server, home


@pytest.fixture
def server(both: tuple[Sky, SkyServer, Path]) -> Iterator[SkyServer]:
    both[1].reset()
    yield both[1]
    both[1].reset()


@pytest.fixture
def sky(both: tuple[Sky, SkyServer, Path]) -> Sky:
    return both[0]


class ClusterStatus(enum.Enum):
    """Pickled under the name that the real one has."""

    INIT = "INIT"
    STOPPED = "STOPPED"


ClusterStatus.__module__ = "sky.utils.status_lib"


@pytest.fixture
def real_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `pickle` find the enum where a server has it, without importing `sky` here."""
    module = types.ModuleType("sky.utils.status_lib")
    module.ClusterStatus = ClusterStatus  # type: ignore[attr-defined]
    for name in ("sky", "sky.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "sky.utils.status_lib", module)


def raising(error: ServerError) -> Any:
    def raise_it(_: Any) -> Any:
        raise error

    return raise_it


async def test_the_queue_of_all_users(sky: Sky, server: SkyServer) -> None:
    server.job(1, "RUNNING", "train")
    server.job(2, "SUCCEEDED", "done", user_name="alice", user_hash="ffff0000", workspace="lab")
    server.job(3, "SUCCEEDED", "pipe")
    server.job(3, "RUNNING", "pipe", task_id=1, task_name="second")
    queue = await sky.queue()
    assert queue.gap is None and not queue.controller_absent
    assert [(j.id, j.name, j.status, j.terminal) for j in queue.jobs] == [
        (1, "train", "RUNNING", False),
        (2, "done", "SUCCEEDED", True),
        (3, "pipe", "RUNNING", False),
    ]
    assert (queue.jobs[1].user, queue.jobs[1].workspace) == ("alice", "lab")
    (body,) = server.bodies("/jobs/queue/v2")
    assert (body["refresh"], body["all_users"], body["skip_finished"]) == (False, True, False)
    assert body["env_vars"]["SKYPILOT_USER_ID"] == "abcd1234"


async def test_a_word_that_the_client_does_not_know_loses_nothing(sky: Sky, server: SkyServer) -> None:
    server.job(1, "TELEPORTING")
    server.job(2, "RUNNING")
    queue = await sky.queue()
    assert queue.gap is None
    assert [(j.status, j.terminal) for j in queue.jobs] == [("TELEPORTING", False), ("RUNNING", False)]


async def test_no_record_of_a_controller_is_no_gap(sky: Sky, server: SkyServer) -> None:
    server.controller = False
    queue = await sky.queue()
    assert (queue.jobs, queue.gap, queue.controller_absent) == ((), None, True)


@pytest.mark.usefixtures("real_names")
@pytest.mark.parametrize("status", list(ClusterStatus))
async def test_a_controller_that_is_stopped_or_starting_is_a_gap(
    sky: Sky, server: SkyServer, status: ClusterStatus
) -> None:
    server.results["/jobs/queue/v2"] = raising(
        # The very sentence that is also said about a controller that does not exist.
        ServerError("ClusterNotUpError", "No in-progress managed jobs.", cluster_status=status)
    )
    queue = await sky.queue()
    assert not queue.controller_absent
    assert queue.gap is not None and queue.gap.cause is Cause.UNREACHABLE
    assert "ClusterNotUpError" in queue.gap.detail


@pytest.mark.parametrize(
    ("type", "message", "attributes", "cause"),
    [
        ("RuntimeError", "Failed to fetch managed jobs with returncode: 1", {}, Cause.UNREACHABLE),
        ("PermissionDeniedError", "no", {}, Cause.DENIED),
        ("ClusterOwnerIdentityMismatchError", "other user", {}, Cause.WRONG_SCOPE),
        (
            "CloudError",
            "x",
            {"cloud_provider": "urllib3", "error_type": "MaxRetryError"},
            Cause.UNREACHABLE,
        ),
    ],
)
async def test_an_error_of_the_server_is_a_gap_with_its_cause(
    sky: Sky, server: SkyServer, type: str, message: str, attributes: dict[str, Any], cause: Cause
) -> None:
    server.results["/jobs/queue/v2"] = raising(ServerError(type, message, **attributes))
    server.results["/status"] = raising(ServerError(type, message, **attributes))
    queue = await sky.queue()
    assert queue.gap is not None and queue.gap.cause is cause
    assert "(request " in queue.gap.detail
    clusters, gap = await sky.clusters()
    assert not clusters and gap is not None and gap.cause is cause


@pytest.mark.parametrize("value", [None, [], "text", {"jobs": None}, {"total": 1}])
async def test_an_answer_that_is_no_queue_is_malformed(sky: Sky, server: SkyServer, value: Any) -> None:
    server.results["/jobs/queue/v2"] = lambda _: value
    queue = await sky.queue()
    assert queue.gap is not None and queue.gap.cause is Cause.MALFORMED


async def test_fewer_rows_than_jobs_are_a_gap(sky: Sky, server: SkyServer) -> None:
    server.job(1)
    server.total = 5
    queue = await sky.queue()
    assert len(queue.jobs) == 1 and queue.gap is not None


@pytest.mark.parametrize(
    ("path", "code", "cause"),
    [
        ("/jobs/queue/v2", 401, Cause.UNAUTHENTICATED),
        ("/jobs/queue/v2", 403, Cause.DENIED),
        ("/api/get", 401, Cause.UNAUTHENTICATED),
        ("/api/get", 404, Cause.MALFORMED),
    ],
)
async def test_refusals_of_the_api_itself(
    sky: Sky, server: SkyServer, path: str, code: int, cause: Cause
) -> None:
    server.refuse = lambda at: web.json_response({"detail": "no"}, status=code) if at == path else None
    queue = await sky.queue()
    assert queue.gap is not None and queue.gap.cause is cause


async def test_a_proxy_that_cuts_the_wait_is_waited_out(sky: Sky, server: SkyServer) -> None:
    server.job(1)
    left = [2]

    def cut(path: str) -> web.Response | None:
        if path == "/api/get" and left[0]:
            left[0] -= 1
            return web.Response(status=504, text="<html>gateway timeout</html>")
        return None

    server.refuse = cut
    queue = await sky.queue()
    assert queue.gap is None and len(queue.jobs) == 1
    assert len(server.bodies("/jobs/queue/v2")) == 1, "the question itself is asked once"


async def test_clusters(sky: Sky, server: SkyServer) -> None:
    server.cluster(CONTROLLER, "INIT")
    server.cluster("odd", "LEVITATING", cloud="Nebius", region="eu-north1")
    clusters, gap = await sky.clusters()
    assert gap is None
    controller, odd = clusters
    assert (controller.name, controller.status, controller.context) == (CONTROLLER, "INIT", "mine")
    assert (controller.cloud, controller.name_on_cloud) == ("Kubernetes", f"{CONTROLLER}-abcd1234")
    assert controller.is_jobs_controller and not odd.is_jobs_controller
    assert (odd.status, controller.updated_at) == ("LEVITATING", "2026-12-01T04:40:00.000Z")
    (body,) = server.bodies("/status")
    assert (body["refresh"], body["all_users"]) == ("NONE", True)


async def test_exactly_the_named_jobs_are_cancelled_in_one_request(sky: Sky, server: SkyServer) -> None:
    for id in (1, 2, 3):
        server.job(id)
    await sky.cancel(INTENT, [3, 1, 3])
    (body,) = server.bodies("/jobs/cancel")
    assert body["job_ids"] == [3, 1]
    assert not (body["all"] or body["all_users"] or body["name"] or body["pool"])
    assert [j.leaving for j in (await sky.queue()).jobs] == [True, False, True]


async def test_cancelling_nothing_asks_nothing(sky: Sky, server: SkyServer) -> None:
    await sky.cancel(INTENT, [])
    assert not server.bodies("/jobs/cancel")


async def test_cancelling_without_a_controller_is_fine_and_any_other_failure_is_not(
    sky: Sky, server: SkyServer
) -> None:
    server.controller = False
    await sky.cancel(INTENT, [1])
    server.results["/jobs/cancel"] = raising(ServerError("ClusterNotUpError", "Failed to connect"))
    with pytest.raises(Trouble) as raised:
        await sky.cancel(INTENT, [1])
    assert raised.value.cause is Cause.UNREACHABLE and raised.value.request_id


async def test_down_never_purges_and_what_is_gone_is_fine(sky: Sky, server: SkyServer) -> None:
    server.cluster(CONTROLLER)
    await sky.down(INTENT, CONTROLLER)
    await sky.down(INTENT, CONTROLLER)
    assert [body["purge"] for body in server.bodies("/down")] == [False, False]
    server.results["/down"] = raising(ServerError("NotSupportedError", "in progress"))
    with pytest.raises(Trouble) as raised:
        await sky.down(INTENT, CONTROLLER)
    assert raised.value.cause is Cause.CONFLICT


async def test_a_record_is_forgotten_by_a_refresh_or_else_by_a_purge(sky: Sky, server: SkyServer) -> None:
    await sky.forget(INTENT, CONTROLLER)
    (body,) = server.bodies("/status")
    assert (body["cluster_names"], body["refresh"], server.bodies("/down")) == ([CONTROLLER], "FORCE", [])
    server.cluster(CONTROLLER)
    await sky.forget(INTENT, CONTROLLER)
    assert [body["purge"] for body in server.bodies("/down")] == [True]
    server.cluster(CONTROLLER)
    server.results["/status"] = raising(ServerError("ClusterStatusFetchingError", "context is gone"))
    await sky.forget(INTENT, CONTROLLER)
    assert not server.clusters
    server.results["/status"] = raising(ServerError("ClusterDoesNotExist", "no"))
    await sky.forget(INTENT, CONTROLLER)
    assert len(server.bodies("/down")) == 2


async def test_a_request_that_does_not_end_is_cancelled_at_the_server(
    sky: Sky, server: SkyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.clouds.skypilot.client._LEAST_REAL", 0.5)
    monkeypatch.setattr("engine.clouds.skypilot.client.READ_SECONDS", 0.1)
    server.results["/jobs/queue/v2"] = lambda _: asyncio.sleep(60)
    started = time.monotonic()
    queue = await sky.queue()
    assert queue.gap is not None and queue.gap.cause is Cause.TIMED_OUT
    assert time.monotonic() - started < 1.4
    hung = server.bodies("/api/get")
    for _ in range(100):
        if server.cancelled:
            break
        await asyncio.sleep(0.02)
    assert server.cancelled[0] in [body["request_id"] for body in hung]


async def test_the_operators_home_stays_as_it_is(both: tuple[Sky, SkyServer, Path]) -> None:
    sky, _, home = both
    await sky.queue()
    assert sorted(str(path.relative_to(home)) for path in home.rglob("*")) == [".sky", ".sky/user_hash"]


async def ask_alone(server: SkyServer | None, tmp_path: Path) -> Queue:
    endpoint = server.url if server else "http://127.0.0.1:1"
    settings = read({**ENVIRON, "SKYPILOT_API_SERVER_ENDPOINT": endpoint})
    async with Sky(settings, Clock(0.1), home=tmp_path) as sky:
        return await sky.queue()


async def test_an_api_server_that_asks_for_a_login(tmp_path: Path) -> None:
    server = SkyServer(health=lambda: web.Response(status=401))
    async with serving(server):
        queue = await ask_alone(server, tmp_path)
    assert queue.gap is not None and queue.gap.cause is Cause.UNAUTHENTICATED
    assert not queue.controller_absent


async def test_an_api_server_that_does_not_run_is_not_started(tmp_path: Path) -> None:
    queue = await ask_alone(None, tmp_path)
    assert isinstance(queue.gap, Unknown) and queue.gap.cause is Cause.UNREACHABLE
    assert not queue.controller_absent
