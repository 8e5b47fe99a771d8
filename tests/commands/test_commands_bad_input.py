"""Bad input and bad surroundings: a clear error, one document, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import simulated

ENGINE = [sys.executable, "-m", "engine"]


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simulated.Simulation]:
    with simulated.simulation("clean-project", tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.mark.parametrize(
    "args",
    [
        ("destroy", "--no-such-flag"),
        ("destroy", "--project"),
        ("destroy", "--project", "demo"),
        ("destroy", "--project", "demo", "--all", "--keep", "no-such-phase"),
        ("destroy", "--project", "demo", "--all", "--yes", "--abandon-operation", "x"),
        ("workbench", "deploy"),
        ("nonsense",),
    ],
)
def test_what_cannot_be_parsed_is_64_and_one_document(
    sim: simulated.Simulation, args: tuple[str, ...]
) -> None:
    done = sim.npa(*args, "--json")
    assert done.code == 64
    assert (done.document["reason_code"], done.document["exit_code"]) == ("usage", 64)
    text = sim.npa(*args)
    assert (text.code, text.out) == (64, "")
    assert text.err


def test_a_command_of_the_other_program_is_named_as_such(sim: simulated.Simulation) -> None:
    assert "belongs to the npa CLI" in sim.npa("workbench", "list").err


def test_help_and_version_need_nothing(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(simulated.ROOT), "HOME": str(tmp_path / "nowhere")}
    for args in (
        ["--help"],
        ["--version"],
        ["destroy", "--help"],
        ["cleanup", "--help"],
        ["watch", "-h"],
        ["stop", "-h"],
        ["simulate", "-h"],
    ):
        done = subprocess.run(
            [*ENGINE, *args], env=env, capture_output=True, text=True, check=False, timeout=30
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout
    assert not (tmp_path / "nowhere").exists()


def test_malformed_configuration_is_named_and_kept(tmp_path: Path) -> None:
    (tmp_path / ".npa").mkdir(mode=0o700)
    path = tmp_path / ".npa/config.yaml"
    path.write_text("projects: [unclosed\n")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(simulated.ROOT), "HOME": str(tmp_path)}
    for args in (["destroy", "--project", "demo", "--all", "--yes", "--json"], ["cleanup", "--json"]):
        done = subprocess.run(
            [*ENGINE, *args], env=env, capture_output=True, text=True, check=False, timeout=30
        )
        document = json.loads(done.stdout)
        assert str(path) in done.stdout
        assert document["exit_code"] == done.returncode == 1
        assert document["reason_code"] == "record_unreadable"
    assert path.read_text() == "projects: [unclosed\n"


def test_a_closed_stdout_changes_no_exit_code(sim: simulated.Simulation) -> None:
    command = " ".join([*ENGINE, "destroy", "--project", sim.alias, "--all", "--json"])
    for redirect in (">&-", "| true", "<&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command} {redirect}"],
            env=sim.environ(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode in (0, 141), (redirect, done.stderr)
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("folder", [".npa/teardown", ".npa/teardown-receipts", ".npa/operations/.projects"])
def test_a_linked_state_folder_is_refused_before_anything_is_asked_for(tmp_path: Path, folder: str) -> None:
    with simulated.simulation("clean-project", tmp_path / "home") as sim:
        real = tmp_path / "elsewhere"
        link = sim.home / folder
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.exists():
            link.rename(real)
        else:
            real.mkdir()
        link.symlink_to(real)
        done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        assert done.code in (1, 2), done.out
        assert not done.document["mutated"]
        assert str(link) in done.out, "the link is named"
        assert sim.changes() == []


def test_a_time_scale_is_refused_off_this_machine(sim: simulated.Simulation) -> None:
    done = sim.npa(
        "destroy",
        "--project",
        sim.alias,
        "--all",
        "--json",
        NEBIUS_ENDPOINT="api.example.com:443",
        NPA_NEBIUS_PLAINTEXT="0",
    )
    assert (done.code, done.document["reason_code"]) == (1, "endpoint_refused")
    plain = sim.npa(
        "destroy", "--project", sim.alias, "--all", "--json", NEBIUS_ENDPOINT="api.example.com:443"
    )
    assert (plain.code, plain.document["reason_code"]) == (1, "endpoint_refused")
    odd = sim.npa("destroy", "--project", sim.alias, "--all", "--json", NPA_TIME_SCALE="fast")
    assert (odd.code, odd.document["reason_code"]) == (1, "endpoint_refused")


def test_an_expired_token_says_so_before_anything_is_changed(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        sim.post("/change", {"token": "another"})
        done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        assert (done.code, done.document["reason_code"]) == (2, "needs_login")
        assert not done.document["mutated"]
        assert sim.changes() == []


def test_the_plan_that_was_shown_or_none(sim: simulated.Simulation) -> None:
    done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json", "--plan", "0" * 16)
    assert (done.code, done.document["reason_code"]) == (1, "plan_changed")
    assert sim.changes() == []
    assert not (sim.home / ".npa/teardown").exists()
