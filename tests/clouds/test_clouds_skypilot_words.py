"""What SkyPilot's rows, exceptions and programs mean: pure, and without SkyPilot."""

from __future__ import annotations

import ast
import base64
import enum
import importlib.util
import io
import os
import pickle
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clouds.skypilot.failures import CAUSES, of_error
from engine.clouds.skypilot.interpreters import candidates, python_of
from engine.clouds.skypilot.jobs import TERMINAL, clusters_of, is_terminal, jobs_of
from engine.words.presence import Cause


class Status(enum.Enum):
    STOPPED = "STOPPED"


WORKER = Path(__file__).parents[2] / "engine/clouds/skypilot/worker.py"


def row(id: int, status: str, task: int = 0, **more: Any) -> dict[str, Any]:
    return {"job_id": id, "task_id": task, "job_name": f"j{id}", "status": status, **more}


# ---------------------------------------------------------------------------------------------------------- jobs


def test_the_words_are_those_of_the_sdk() -> None:
    """Read from the installed SDK's source, without importing it."""
    found = importlib.util.find_spec("sky")
    if found is None or found.origin is None:
        pytest.skip("SkyPilot is not installed")
    tree = ast.parse((Path(found.origin).parent / "jobs/state.py").read_text())
    words = {
        node.value.value
        for enum in ast.walk(tree)
        if isinstance(enum, ast.ClassDef) and enum.name == "ManagedJobStatus"
        for node in enum.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    assert words and words <= set(TERMINAL)


@given(st.text(max_size=12))
def test_an_unknown_word_is_never_the_end(word: str) -> None:
    assert is_terminal(word) is (word in TERMINAL and TERMINAL[word])


STATUS = st.sampled_from([*TERMINAL, "TELEPORTING"])


@given(st.lists(st.tuples(st.integers(1, 4), STATUS), max_size=12), st.randoms())
def test_a_job_is_over_only_when_all_its_tasks_are(pairs: list[tuple[int, str]], random: Any) -> None:
    rows = [row(id, status, task) for task, (id, status) in enumerate(pairs)]
    random.shuffle(rows)
    jobs, gap = jobs_of(rows)
    assert gap is None
    assert [job.id for job in jobs] == sorted({id for id, _ in pairs})
    for job in jobs:
        statuses = [status for id, status in pairs if id == job.id]
        assert job.terminal is all(is_terminal(status) for status in statuses)
        assert job.status in statuses
        assert is_terminal(job.status) is job.terminal


def test_the_task_that_tells_most_is_shown() -> None:
    jobs, _ = jobs_of([row(1, "SUCCEEDED", 0), row(1, "FAILED", 1), row(1, "SUCCEEDED", 2)])
    assert (jobs[0].status, jobs[0].task, jobs[0].terminal) == ("FAILED", 1, True)
    jobs, _ = jobs_of([row(1, "FAILED", 0), row(1, "RUNNING", 1)])
    assert (jobs[0].status, jobs[0].task, jobs[0].terminal) == ("RUNNING", 1, False)


def test_names_of_tasks_are_kept() -> None:
    jobs, _ = jobs_of([row(1, "RUNNING", 0, task_name="j1"), row(1, "PENDING", 1, task_name="run-7")])
    assert (jobs[0].name, jobs[0].task_names) == ("j1", ("run-7",))


@pytest.mark.parametrize("status", [None, 7, ""])
def test_a_row_without_a_status_is_not_over(status: Any) -> None:
    jobs, _ = jobs_of([row(1, status)])
    assert (jobs[0].status, jobs[0].terminal) == ("UNKNOWN", False)


@pytest.mark.parametrize(
    ("rows", "total", "whole"),
    [
        ([], 0, True),
        ([row(1, "RUNNING")], 1, True),
        ([row(1, "RUNNING"), row(1, "PENDING", 1)], 1, True),
        ([row(1, "RUNNING")], 2, False),
        ([], 1, False),
        ([{"status": "RUNNING"}], 1, False),
        ([row(True, "RUNNING")], 1, False),
        ([{}], 0, False),
        ([row(1, "RUNNING")], None, True),
    ],
)
def test_a_queue_with_something_missing_has_a_gap(rows: list[Any], total: Any, whole: bool) -> None:
    _, gap = jobs_of(rows, total)
    assert (gap is None) is whole
    assert gap is None or gap.cause is Cause.MALFORMED


def test_names_from_outside_cannot_steer_a_terminal() -> None:
    jobs, _ = jobs_of([row(1, "RUNNING", job_name="x\x1b[2J token=abcdefgh")])
    assert "\x1b" not in jobs[0].name and "abcdefgh" not in jobs[0].name


def test_moments_are_rfc_3339() -> None:
    jobs, _ = jobs_of([row(1, "RUNNING", submitted_at=1796100000.5), row(2, "RUNNING", submitted_at=1e300)])
    assert (jobs[0].submitted_at, jobs[1].submitted_at) == ("2026-12-01T04:40:00.500Z", "")


def test_a_cluster_without_a_name_is_a_gap() -> None:
    clusters, gap = clusters_of([{"name": "sky-jobs-controller-1", "status": "UP"}, {"status": "UP"}])
    assert [c.is_jobs_controller for c in clusters] == [True]
    assert gap is not None and gap.cause is Cause.MALFORMED


# ------------------------------------------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        *(({"type": name, "message": "m"}, cause) for name, cause in CAUSES.items()),
        ({"type": "SomethingNew", "message": "m"}, Cause.UNREACHABLE),
        ({}, Cause.UNREACHABLE),
        ({"type": "HTTPError", "http": 401}, Cause.UNAUTHENTICATED),
        ({"type": "HTTPError", "http": 403}, Cause.DENIED),
        ({"type": "HTTPError", "http": 429}, Cause.THROTTLED),
        ({"type": "HTTPError", "http": 404}, Cause.MALFORMED),
        ({"type": "HTTPError", "http": 500}, Cause.UNREACHABLE),
        ({"type": "CloudError", "cloud": "urllib3/MaxRetryError"}, Cause.UNREACHABLE),
        ({"type": "CloudError", "cloud": "kubernetes/ApiException"}, Cause.DENIED),
        ({"type": "CloudError", "cloud": "other/Thing"}, Cause.UNREACHABLE),
    ],
)
def test_causes_by_the_name_of_the_exception(error: dict[str, object], cause: Cause) -> None:
    assert of_error(error, "read").cause is cause


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        ({"type": "ClusterNotUpError", "cluster_status": None}, True),
        ({"type": "ClusterNotUpError", "cluster_status": "STOPPED"}, False),
        ({"type": "ClusterNotUpError", "cluster_status": "INIT"}, False),
        ({"type": "ClusterNotUpError", "message": "No in-progress managed jobs."}, False),
        ({"type": "RuntimeError", "cluster_status": None}, False),
    ],
)
def test_only_a_missing_record_of_the_controller_makes_it_gone(error: dict[str, object], gone: bool) -> None:
    assert of_error(error, "read").controller_gone is gone


# -------------------------------------------------------------------------------------------------- interpreters


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_interpreter_of_a_script_is_the_one_that_it_names(tmp_path: Path) -> None:
    python = program(tmp_path / "venv/bin/python3.11", "#!/bin/sh\n")
    script = program(tmp_path / "elsewhere/sky", f"#!{python}\n")
    assert python_of(str(script), tmp_path, {}) == str(python)


def test_without_a_usable_first_line_it_is_the_one_beside_the_real_script(tmp_path: Path) -> None:
    python = program(tmp_path / "venv/bin/python", "#!/bin/sh\n")
    program(tmp_path / "venv/bin/sky", "#!/bin/sh\n'''exec' /long/path/python \"$0\" \"$@\"\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sky").symlink_to(tmp_path / "venv/bin/sky")
    assert python_of(str(tmp_path / "bin/sky"), tmp_path, {}) == str(python)
    assert python_of("sky", tmp_path, {"PATH": str(tmp_path / "bin")}) == str(python)
    assert python_of("~/bin/sky", tmp_path, {}) == str(python)
    assert python_of(str(python), tmp_path, {}) == str(python)


def test_what_is_not_there_is_passed_over_and_ours_comes_last(tmp_path: Path) -> None:
    python = program(tmp_path / "bin/python", "#!/bin/sh\n")
    programs = [
        "",
        "/nonexistent/sky",
        str(program(tmp_path / "lone/sky", "binary")),
        str(python),
        str(python),
    ]
    assert candidates(programs, tmp_path, {}) == (str(python), sys.executable)


# -------------------------------------------------------------------------------------------------------- worker


def test_the_worker_runs_on_older_interpreters() -> None:
    ast.parse(WORKER.read_text(), feature_version=(3, 9))


def test_the_worker_imports_nothing_of_ours_and_no_neighbour(tmp_path: Path) -> None:
    """`jobs`, `client` and the like beside it must not shadow modules of those names."""
    (tmp_path / "jobs.py").write_text("mine = True\n")
    program = (
        f"import sys, runpy; sys.path.insert(0, {str(WORKER.parent)!r});"
        f"runpy.run_path({str(WORKER)!r}, run_name='worker');"
        "import jobs; assert jobs.mine; assert not any(name.startswith('engine') for name in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        timeout=20,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
    )


def test_pickles_of_a_server_run_nothing(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path}/pwned",)

    names = runpy.run_path(str(WORKER), run_name="worker")
    text = base64.b64encode(pickle.dumps({"attributes": {"handle": Evil(), "cluster_status": None}})).decode()
    assert names["attributes_of"](text)["cluster_status"] is None
    assert not (tmp_path / "pwned").exists()
    assert names["attributes_of"]("no base64 \x00") == names["attributes_of"](None) == {}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_enum_members_are_read_from_every_way_of_pickling_them(protocol: int) -> None:
    names = runpy.run_path(str(WORKER), run_name="worker")
    loaded = names["InertUnpickler"](
        io.BytesIO(pickle.dumps({"s": Status.STOPPED, "n": None}, protocol))
    ).load()
    assert names["enum_text"](loaded["s"]) == "STOPPED"
    assert names["enum_text"](loaded["n"]) is None


def test_importing_the_client_loads_no_sky() -> None:
    code = "import sys, engine.clouds.skypilot; assert not {'sky', 'pydantic', 'requests'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
