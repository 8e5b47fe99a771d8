"""Every recorded state: the commands that read answer with one document, change nothing on disk, and never call a broken state clean."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import simulated

NAMES = [
    "after-partial-destroy", "corrupt-receipts", "crashed-deploy-lease", "credentials-with-service-tokens", "forgotten-alias", "full",
    "iam-marker-blocks-forget", "legacy-flat-config", "legacy-storage-record", "malformed-config", "storage-only", "two-iam-generations",
]  # fmt: skip


def npa(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(simulated.ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "engine", *args],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=home,
    )


def tree(home: Path) -> dict[str, Any]:
    found = {}
    for path in sorted(home.rglob("*")):
        stat = path.lstat()
        found[str(path)] = (
            stat.st_mode,
            stat.st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
    return found


@pytest.fixture
def laid(states: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    subprocess.run([sys.executable, str(states / "materialize"), request.param, str(tmp_path)], check=True)
    return tmp_path


COMMANDS = [
    ("cleanup", "--json"),
    ("cleanup", "--list-receipts", "--json"),
    ("destroy", "--project", "demo", "--all", "--json"),
    ("destroy", "--project", "nobody-knows-it", "--all", "--json"),
]


@pytest.mark.parametrize("laid", NAMES, indirect=True)
def test_reading_commands_answer_and_write_nothing(laid: Path) -> None:
    before = tree(laid)
    for command in COMMANDS:
        done = npa(laid, *command)
        document = json.loads(done.stdout)
        assert document["exit_code"] == done.returncode, (command, done.stdout, done.stderr)
        assert done.returncode in (0, 1), (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert not document["mutated"]
        if done.returncode:
            assert {"result", "reason_code", "message", "next_command"} <= set(document)
    assert tree(laid) == before


@pytest.mark.parametrize("laid", ["malformed-config", "corrupt-receipts"], indirect=True)
def test_a_broken_state_is_never_called_clean(laid: Path) -> None:
    done = npa(laid, "cleanup", "--json")
    document = json.loads(done.stdout)
    assert document["result"] not in ("fully_clean", "fully_cleaned")
    assert str(laid) in done.stdout, "the file is named"


@pytest.mark.parametrize("laid", ["corrupt-receipts"], indirect=True)
def test_a_receipt_that_cannot_be_read_is_listed_and_hides_no_other(laid: Path) -> None:
    rows = json.loads(npa(laid, "cleanup", "--list-receipts", "--json").stdout)["receipts"]
    by_id = {row["receipt_id"]: row for row in rows}
    assert by_id["corrupt"]["schema_version"] == "unreadable"
    assert by_id["v9"]["operational_status"] == "unresolved"
    assert by_id["v1-legacy"]["schema_version"] == "npa.teardown.receipt.v1"


@pytest.mark.parametrize("laid", ["forgotten-alias"], indirect=True)
def test_a_forgotten_alias_is_found_through_its_receipt(laid: Path) -> None:
    done = npa(laid, "destroy", "--project", "demo", "--all", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["project_id"] == "project-e00demo"
    assert document["receipt_id"] == "demo-35ca7d3f2427"


@pytest.mark.parametrize("laid", ["full"], indirect=True)
def test_unknown_and_missing_selectors_are_refused_with_what_is_known(laid: Path) -> None:
    done = npa(laid, "destroy", "--project", "nope", "--all", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["reason_code"]) == (1, "unknown_alias")
    assert "demo" in document["message"]
    by_id = json.loads(npa(laid, "destroy", "--project", "project-e00demo", "--all", "--json").stdout)
    assert by_id["project"] == "demo"
    assert json.loads(npa(laid, "destroy", "--all", "--json").stdout)["project"] == "demo", (
        "the only one may stand in"
    )
    other = npa(laid, "destroy", "--project", "demo", "--project-id", "project-e00other", "--all", "--json")
    assert (other.returncode, json.loads(other.stdout)["reason_code"]) == (1, "identity_conflict")


@pytest.mark.parametrize("laid", ["crashed-deploy-lease"], indirect=True)
def test_bytes_of_a_crashed_deploy_stay_while_it_is_only_looked_at(laid: Path) -> None:
    before = tree(laid)
    assert npa(laid, "destroy", "--project", "demo", "--all", "--json").returncode in (0, 1)
    assert tree(laid) == before
