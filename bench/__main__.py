"""Prints every published figure, in one run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from bench.critical_path import critical_path
from bench.measure import ROOT, cpu, once, python
from bench.paint import median
from engine.run.runner import Pace

LISTS_MODULES = """
import atexit, pathlib, runpy, sys
listed = pathlib.Path(sys.argv.pop(1))
atexit.register(lambda: listed.write_text("\\n".join(sys.modules)))
sys.argv[0] = "npa"
runpy.run_module("engine", run_name="__main__")
"""
"""Runs the program, and says at its end which modules it had loaded."""

IMPORTS = """
import importlib, sys
for name in open(sys.argv[1]).read().split():
    if name.partition(".")[0] not in ("engine", "__main__"):
        try: importlib.import_module(name)
        except ImportError: pass
"""
"""Loads the same modules but ours, and does nothing."""


@contextmanager
def world(name: str, scale: float) -> Iterator[dict[str, Any]]:
    """A running simulation: its `env`, `control`, `alias`; its home goes afterwards."""
    home = tempfile.mkdtemp(prefix="npa-bench-")
    argv = python(
        "-m",
        "engine.simulator",
        "--world",
        name,
        "--home",
        home,
        "--time-scale",
        str(scale),
        "--exit-with-parent",
    )
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        yield dict(json.loads(child.stdout.readline()))
    finally:
        child.stdin.close()
        child.wait(10)
        child.stdout.close()
        shutil.rmtree(home, ignore_errors=True)


def row(what: str, value: str, beside: str) -> None:
    sys.stdout.write(f"{what:44} {value:>18}   {beside}\n")
    sys.stdout.flush()


def start_up() -> None:
    with world("full", 0.02) as sim:
        plan = cpu(
            python("-m", "engine", "destroy", "--project", sim["alias"], "--all", "--json"), sim["env"]
        )
        base = cpu(python("-c", "import pydantic, yaml"))
        row(
            "CPU of a plan",
            f"{plan:.3f} s",
            f"aim 0.25 s; `import pydantic, yaml` {base:.3f} s, ratio {plan / base:.2f}",
        )
    version, bare = cpu(python("-m", "engine", "--version")), cpu(python("-c", "pass"))
    row("CPU of npa --version", f"{version:.3f} s", f"aim 0.15 s; `python -c pass` {bare:.3f} s")


def paint() -> None:
    with world("busy", 0.02) as sim:
        ours = median(python("-m", "npa_tui", "--project", sim["alias"]), b"Plan", sim["env"])
    empty = median(python("-m", "bench.empty_app"), b"Hello")
    row(
        "first paint over an empty Textual app",
        f"{ours / empty:.2f}",
        f"at most 2; {ours:.3f} s over {empty:.3f} s",
    )


def makespan() -> None:
    scale = 1.0  # real seconds: what programs take to start must not be blown up by a short scale
    with world("clean-project", scale) as sim:
        argv = python("-m", "engine", "destroy", "--project", sim["alias"], "--all", "--yes", "--json")
        done = subprocess.run(
            argv, env={**sim["env"], "PATH": "/usr/bin:/bin"}, capture_output=True, cwd=ROOT, check=False
        )
        document = json.loads(done.stdout)
    took = document["duration_seconds"] / scale
    least = critical_path(declared("clean-project"))
    row(
        "makespan over the critical path",
        f"{took / least:.3f}",
        f"at most 1.10; {took:.0f} over {least:.0f} nominal s, exit {done.returncode}",
    )


def declared(name: str) -> dict[str, float]:
    """Nominal seconds that each phase cannot do without: the world's durations in their order, and two spaced looks."""
    seconds = yaml.safe_load((ROOT / f"engine/simulator/worlds/{name}.yaml").read_text())["seconds"]

    def chain(*kinds: str) -> float:
        return sum(seconds.get(k, seconds["default"]) for k in kinds) + Pace().spacing

    return {
        "workflows": 5.0 + Pace().spacing,
        "agents": chain("instance", "disk", "securitygroup", "subnet", "network"),
        "agent_iam": chain("accesskey", "serviceaccount"),
        "controller": 2.0 + Pace().spacing,
        "clusters": chain("nodegroup", "cluster", "subnet", "network"),
        "bucket": 60.0 + Pace().spacing,
        "storage_iam": chain("accesskey", "group", "serviceaccount"),
        "local_cleanup": 0.0,
        "forget_alias": 0.0,
        "final_audit": 0.0,
    }


def memory() -> None:
    with world("busy", 0.02) as sim, tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "modules"
        ours = once(
            python("-c", LISTS_MODULES, str(listed), "destroy", "--project", sim["alias"], "--all", "--yes", "--json"),
            sim["env"],
        )  # fmt: skip
        sdk = once(python("-c", IMPORTS, str(listed)))
    more = ours.peak_mb - sdk.peak_mb
    row(
        "peak memory over the same SDK modules alone",
        f"{more:+.0f} MB",
        f"at most 40 MB; {ours.peak_mb:.0f} MB over {sdk.peak_mb:.0f} MB, exit {ours.code}",
    )


def main() -> int:
    sys.stdout.write(
        f"Python {sys.version.split()[0]}, medians; CPU and memory as the operating system counts them\n\n"
    )
    for figure in (start_up, paint, makespan, memory):
        figure()
    return 0


if __name__ == "__main__":
    sys.exit(main())
