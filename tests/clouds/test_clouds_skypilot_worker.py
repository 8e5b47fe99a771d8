"""The worker as a process: it ends with us, survives its own noise, and is replaced when it is stuck. `sky` is a stand-in here."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.clock import Clock
from engine.clouds.skypilot import Sky
from engine.clouds.skypilot.isolation import environment, scratch_home
from engine.settings import Settings, read
from engine.words.intents import Intent
from engine.words.presence import Cause, Ref
from engine.words.trouble import Trouble

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "engine/clouds/skypilot/worker.py"
INTENT = Intent("key", Ref("run", "r"), "", threading.Event())

SKY = """
import enum, os, subprocess, sys, time
class StatusRefreshMode(enum.Enum):
    NONE = "NONE"; FORCE = "FORCE"
def status(**kwargs): return "status"
def down(name, purge=False):
    if name == "hangs": time.sleep(60)
    return "down"
def api_cancel(ids, silent=False): pass
"""
JOBS = """
def queue_v2(**kwargs): return "queue"
def cancel(**kwargs): return "cancel"
"""
COMMON = """
import json
def get_server_url(): return "http://user:secret@127.0.0.1:1"
class Response:
    status_code = 200
    text = ""
    def __init__(self, value): self.value = value
    def json(self): return {"status": "SUCCEEDED", "return_value": json.dumps(self.value), "error": "null"}
def make_authenticated_request(method, path, **kwargs):
    rows = [{"job_id": n, "task_id": 0, "job_name": "x" * 50, "status": "RUNNING"} for n in range(NUMBER)]
    return Response({"jobs": rows, "total": len(rows)} if path.endswith("queue") else [])
"""


class StandIn:
    """A package `sky` made of the given text, for `PYTHONPATH`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.make()

    def make(self, init: str = "", version: str = "0.14.1", jobs: int = 2) -> None:
        for name, text in {
            "sky/__init__.py": SKY + textwrap.dedent(init),
            "sky/jobs/__init__.py": JOBS,
            "sky/server/__init__.py": "",
            "sky/server/common.py": COMMON.replace("NUMBER", str(jobs)),
            "skypilot-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: skypilot\nVersion: {version}\n",
        }.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        init_file = self.folder / "sky/__init__.py"
        init_file.write_text(init_file.read_text() + "\nfrom sky import jobs\n")

    def settings(self, **more: str) -> Settings:
        return read({"PATH": os.environ["PATH"], "PYTHONPATH": str(self.folder), **more})


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path / "packages")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/.sky").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
async def sky(stand_in: StandIn, home: Path, temporary: Path) -> AsyncIterator[Sky]:
    async with Sky(stand_in.settings(), Clock(0.01), home=home) as sky:
        yield sky
    assert not list(temporary.iterdir()), "the scratch folder goes with the worker"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(true: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


async def test_one_worker_answers_many_questions(sky: Sky) -> None:
    queues = await asyncio.gather(*(sky.queue() for _ in range(10)))
    assert {len(queue.jobs) for queue in queues} == {2}
    assert all(queue.gap is None and "0.14.1 127.0.0.1" in queue.by for queue in queues)
    pid = sky.worker_pid
    await sky.clusters()
    assert sky.worker_pid == pid


async def test_many_rows_come_whole(stand_in: StandIn, sky: Sky) -> None:
    stand_in.make(jobs=20_000)
    queue = await sky.queue()
    assert queue.gap is None and len(queue.jobs) == 20_000


async def test_noise_on_standard_output_breaks_nothing(stand_in: StandIn, sky: Sky) -> None:
    stand_in.make(
        """
        print('{"id": 1, "done": {}}')
        sys.stdout.write("half a line"); sys.stdout.flush()
        os.write(1, b'\\n{"hello": 7}\\n\\xff\\xfe\\n')
        subprocess.run(["echo", '{"id": 1, "rows": []}'])
        input_is_closed = not sys.stdin.read()
        def status(**kwargs):
            sys.stdout.write("half a line")
            sys.stdout.flush()
            return "status"
        """
    )
    assert len((await sky.queue()).jobs) == 2
    clusters, gap = await sky.clusters()
    assert (clusters, gap) == ((), None)


async def test_noise_before_our_own_first_line_breaks_nothing(stand_in: StandIn, sky: Sky) -> None:
    (stand_in.folder / "sitecustomize.py").write_text(
        "import sys\n"
        "if sys.argv and 'guardian' not in str(sys.orig_argv): print('[]\\n{\"hello\": 7}\\nnoise')\n"
    )
    assert len((await sky.queue()).jobs) == 2


@pytest.mark.parametrize(
    ("version", "usable"),
    [
        ("0.11.9", False),
        ("0.12.0", True),
        ("0.13.7", True),
        ("0.14.1", True),
        ("0.15.0", False),
        ("1.0.0.dev1", False),
    ],
)
async def test_versions_that_are_not_spoken_here_are_refused(
    stand_in: StandIn, sky: Sky, version: str, usable: bool
) -> None:
    stand_in.make(version=version)
    queue = await sky.queue()
    assert (queue.gap is None) is usable
    if queue.gap is not None:
        assert queue.gap.cause is Cause.NO_CLIENT and version in queue.gap.detail


@pytest.mark.parametrize(
    "init", ["raise RuntimeError('broken install')", "os._exit(7)", "sys.exit('broken install')"]
)
async def test_a_broken_install_is_no_client(stand_in: StandIn, sky: Sky, init: str) -> None:
    stand_in.make(init)
    queue = await sky.queue()
    assert queue.gap is not None and queue.gap.cause is Cause.NO_CLIENT
    assert "npa-tui[skypilot]" in queue.gap.detail
    assert not queue.controller_absent
    with pytest.raises(Trouble):
        await sky.down(INTENT, "x")


async def test_the_operators_own_interpreter_comes_first(
    stand_in: StandIn, home: Path, tmp_path: Path
) -> None:
    script = tmp_path / "venv/bin/sky"
    script.parent.mkdir(parents=True)
    python = script.with_name("python")
    for usable in (True, False):
        python.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/ran\n'
            + (f'exec {sys.executable} "$@"\n' if usable else "exit 1\n")
        )
        python.chmod(0o755)
        script.write_text(f"#!{python}\n")
        script.chmod(0o755)
        settings = stand_in.settings(NPA_SKYPILOT_BIN=str(script))
        async with Sky(settings, Clock(0.01), home=home) as sky:
            assert (await sky.queue()).gap is None, "ours stands in for one that does not work"
    assert (tmp_path / "ran").read_text().count("worker.py") == 2


async def test_the_import_is_not_waited_for_for_ever(
    stand_in: StandIn, sky: Sky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.clouds.skypilot.process.START_SECONDS", 0.3)
    stand_in.make("time.sleep(60)")
    started = time.monotonic()
    queue = await sky.queue()
    assert queue.gap is not None and queue.gap.cause is Cause.NO_CLIENT
    assert time.monotonic() - started < 5
    assert sky.worker_pid is None


async def test_a_call_that_hangs_in_the_client_holds_up_nothing_else(
    stand_in: StandIn, sky: Sky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.clouds.skypilot.client._LEAST_REAL", 0.3)
    monkeypatch.setattr("engine.clouds.skypilot.client.DOWN_SECONDS", 30.0)
    await sky.queue()
    first = sky.worker_pid
    hanging = asyncio.create_task(sky.down(INTENT, "hangs"))
    await asyncio.sleep(0.05)
    started = time.monotonic()
    assert (await sky.queue()).gap is None
    with pytest.raises(Trouble) as raised:
        await hanging
    assert raised.value.cause is Cause.TIMED_OUT
    assert time.monotonic() - started < 4, "the worker itself tells, before it counts as stuck"
    assert first is not None and not alive(first), "a worker with a thread that hangs is not kept"
    assert (await sky.queue()).gap is None
    assert sky.worker_pid != first


async def test_a_stuck_worker_is_killed_and_replaced(sky: Sky, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.clouds.skypilot.client._LEAST_REAL", 0.1)
    monkeypatch.setattr("engine.clouds.skypilot.process.GRACE_SECONDS", 0.3)
    monkeypatch.setattr("engine.clouds.skypilot.client.READ_SECONDS", 10.0)
    await sky.queue()
    pid = sky.worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    gap = (await sky.queue()).gap
    assert gap is not None and gap.cause is Cause.TIMED_OUT
    assert not alive(pid)
    assert (await sky.queue()).gap is None


async def test_a_worker_that_dies_under_a_question_is_unreachable(sky: Sky) -> None:
    await sky.queue()
    pid = sky.worker_pid
    assert pid is not None
    asking = asyncio.create_task(sky.down(INTENT, "hangs"))
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(Trouble) as raised:
        await asking
    assert raised.value.cause is Cause.UNREACHABLE
    assert (await sky.queue()).gap is None


async def test_a_cancelled_question_returns_at_once(sky: Sky) -> None:
    await sky.queue()
    asking = asyncio.create_task(sky.down(INTENT, "hangs"))
    await asyncio.sleep(0.05)
    started = time.monotonic()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert time.monotonic() - started < 0.5
    assert (await sky.queue()).gap is None


def test_the_end_of_its_input_ends_it_even_while_it_imports(stand_in: StandIn, temporary: Path) -> None:
    stand_in.make("time.sleep(60)")
    scratch = temporary / "scratch"
    scratch.mkdir()
    env = {**stand_in.settings().environ, "NPA_SKYPILOT_SCRATCH": str(scratch)}
    with subprocess.Popen(
        [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as worker:
        time.sleep(0.3)
        assert worker.poll() is None
        assert worker.stdin is not None
        worker.stdin.close()
        assert worker.wait(timeout=2) == 0
    assert not scratch.exists()


def test_it_ends_when_we_are_killed(stand_in: StandIn, home: Path, temporary: Path) -> None:
    program = f"""
import asyncio, tempfile
from pathlib import Path
from engine.clock import Clock
from engine.clouds.skypilot import Sky
from engine.settings import read
tempfile.tempdir = {str(temporary)!r}
async def main():
    sky = Sky(read(), Clock(), home=Path({str(home)!r}))
    await sky.queue()
    print(sky.worker_pid, flush=True)
    await sky.down(__import__("threading").Event(), "hangs")
asyncio.run(main())
"""
    env = {**stand_in.settings().environ, "PYTHONPATH": f"{stand_in.folder}:{ROOT}"}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=env) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.2)
        assert alive(pid)
        parent.kill()
    assert eventually(lambda: not alive(pid))
    assert eventually(lambda: not list(temporary.iterdir()))


# ----------------------------------------------------------------------------------------------------- isolation


async def test_reading_writes_nothing_into_the_operators_home(
    stand_in: StandIn, sky: Sky, home: Path
) -> None:
    stand_in.make(
        """
        from pathlib import Path
        (Path.home() / ".sky/locks").mkdir()
        (Path.home() / ".sky/new").write_text(Path("~/.sky/config.yaml").expanduser().read_text())
        (Path.home() / ".sky/cookies.txt").resolve().write_text("changed")
        assert Path.cwd() == Path.home()
        """
    )
    (home / ".sky/config.yaml").write_text("api_server: {}\n")
    (home / ".sky/cookies.txt").write_text("a cookie")
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    assert (await sky.queue()).gap is None
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before
    assert (home / ".sky/cookies.txt").read_text() == "a cookie"


async def test_what_the_worker_sees_of_the_environment(stand_in: StandIn, home: Path, tmp_path: Path) -> None:
    stand_in.make(f"import json; open({str(tmp_path / 'env')!r}, 'w').write(json.dumps(dict(os.environ)))")
    ambient = {"NEBIUS_IAM_TOKEN": "stale", "DISPLAY": ":0", "KUBECONFIG": "/ambient", "BROWSER": "firefox"}
    kubeconfig = tmp_path / "kubeconfig"
    async with Sky(stand_in.settings(**ambient), Clock(0.01), kubeconfig=kubeconfig, home=home) as sky:
        await sky.queue()
    seen = json.loads((tmp_path / "env").read_text())
    assert seen["KUBECONFIG"] == str(kubeconfig)
    assert (seen["SKYPILOT_DISABLE_USAGE_COLLECTION"], seen["SKYPILOT_DISABLE_LOCAL_API_SERVER"]) == (
        "1",
        "1",
    )
    assert seen["BROWSER"] == "true"
    assert not {"NEBIUS_IAM_TOKEN", "DISPLAY"} & set(seen)
    assert seen["HOME"] != str(home)


def test_a_token_stays_when_it_is_to_be_used(tmp_path: Path) -> None:
    env: Any = {"NEBIUS_IAM_TOKEN": "wanted"}
    assert environment(env, tmp_path, None, reuse_token=True)["NEBIUS_IAM_TOKEN"] == "wanted"


def test_the_scratch_home_is_ours_alone(home: Path) -> None:
    (home / ".sky/user_hash").write_text("abcd1234")
    (home / ".kube").mkdir()
    scratch = scratch_home(home)
    assert scratch.stat().st_mode & 0o777 == 0o700
    assert (scratch / ".sky/user_hash").read_text() == "abcd1234"
    assert (scratch / ".kube").is_symlink()


async def test_secrets_of_the_endpoint_are_not_told(sky: Sky) -> None:
    assert "secret" not in (await sky.queue()).by
