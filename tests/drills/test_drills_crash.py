"""SIGKILL at every journal line and at every call, then the same command again: it converges, and claims nothing unseen."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import toy

from engine.ledger.journal import read
from engine.words.presence import Absent

LINES = 37
CALLS = 9


def kill_at(root: Path, point: str) -> int:
    done = subprocess.run(
        [sys.executable, str(Path(toy.__file__)), str(root)],
        env={**os.environ, "CRASH": point},
        check=False,
        timeout=30,
    )
    return done.returncode


def check(root: Path, cloud: toy.Cloud) -> None:
    world = cloud.read()
    assert world["things"] == {}
    assert not list(root.glob("*.record")), "local records stayed although everything is gone"
    deletes = Counter(name for verb, name, _ in world["log"] if verb == "delete")
    entries = [e for e, _ in read(root / "journal.jsonl")]
    proven: set[str] = set()
    for entry in entries:
        match entry.event:
            case toy.Intended(verb="delete") as i:
                assert i.ref.id not in proven, f"{i.ref.id} was asked to go after it had been seen gone twice"
            case _ if entry.event.type == "proven":
                assert all(isinstance(o.presence, Absent) for o in entry.event.proof)
                proven |= {o.ref.id for o in entry.event.proof}
            case _:
                pass
    assert set(deletes) <= proven, "something was deleted and never proven gone"
    assert all(there for verb, name, there in world["log"] if verb == "delete" and deletes[name] == 1)


@pytest.mark.parametrize("lag", [False, True], ids=["prompt", "lagging"])
@pytest.mark.parametrize(
    "point", [f"entry:{n}" for n in range(1, LINES + 1)] + [f"call:{n}" for n in range(1, CALLS + 1)]
)
def test_a_kill_at_any_point_is_survived(tmp_path: Path, point: str, lag: bool) -> None:
    cloud = toy.seed(tmp_path, lag)
    killed = kill_at(tmp_path, point)
    assert killed == -signal.SIGKILL
    assert asyncio.run(toy.destroy(tmp_path, cloud, "again")) == 0
    check(tmp_path, cloud)


def test_the_points_above_are_all_points(tmp_path: Path) -> None:
    """So that a longer journal does not quietly go undrilled."""
    cloud = toy.seed(tmp_path)
    assert asyncio.run(toy.destroy(tmp_path, cloud, "once")) == 0
    assert sum(1 for _ in read(tmp_path / "journal.jsonl")) == LINES
    assert len(cloud.read()["log"]) == CALLS


@pytest.mark.parametrize("write", range(1, LINES + 1))
def test_no_space_at_any_write_is_survived(tmp_path: Path, write: int) -> None:
    cloud = toy.seed(tmp_path)
    before = cloud.read()
    code = kill_at(tmp_path, f"full:{write}")
    # Lines that come together are written together: a run has fewer writes than lines, never fewer than 20.
    assert code == 1 or (code == 0 and write > 20), "it ends by itself, and not as if all were well"
    if write == 1:
        assert cloud.read() == before, "nothing is asked for before a line says so"
    for _ in read(tmp_path / "journal.jsonl"):
        pass  # no half line stays behind
    assert (tmp_path / "journal.jsonl").read_bytes()[-1:] in (b"\n", b"")
    assert asyncio.run(toy.destroy(tmp_path, cloud, "again")) == 0
    check(tmp_path, cloud)
