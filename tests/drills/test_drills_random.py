"""SIGKILL at a hundred random instants, in chains of kills of the same teardown: the last run of each chain converges."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy
from test_drills_crash import check

CHAINS, KILLS = 25, 4


@pytest.mark.slow
@pytest.mark.parametrize("chain", range(CHAINS))
def test_a_chain_of_kills_at_random_instants_is_survived(tmp_path: Path, chain: int) -> None:
    rng = random.Random(chain)
    cloud = toy.seed(tmp_path, lag=bool(chain % 2))
    for _ in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, str(Path(toy.__file__)), str(tmp_path)], env=dict(os.environ)
        )
        while child.poll() is None and not (tmp_path / "journal.jsonl").exists():
            time.sleep(0.002)  # start-up is not what is drilled
        time.sleep(rng.uniform(0.0, 0.12))
        child.kill()
        child.wait()
    assert asyncio.run(toy.destroy(tmp_path, cloud, "last")) == 0
    check(tmp_path, cloud)
