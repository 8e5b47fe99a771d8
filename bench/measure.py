"""Whole processes, measured from outside: CPU seconds and peak memory by the operating system's own accounting."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU and of wall clock, MB of peak memory, and the exit code."""

    cpu: float
    wall: float
    peak_mb: float
    code: int


def once(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end; what it prints is thrown away."""
    start = time.monotonic()
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
        cwd=ROOT,
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return Cost(
        usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss / 1024, child.returncode
    )


def cpu(argv: Sequence[str], env: Mapping[str, str] | None = None, runs: int = 7) -> float:
    """Median CPU seconds after one run that is not counted: byte code and file caches are warm then."""
    once(argv, env)
    return statistics.median(once(argv, env).cpu for _ in range(runs))


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]
