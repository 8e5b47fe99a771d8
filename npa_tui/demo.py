"""The simulated cloud of `--demo`: a process of its own that ends with us, and the environment that leads to it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START = 60.0
STOP = 10.0


@contextmanager
def simulated(world: str = "busy", time_scale: float = 0.05) -> Iterator[dict[str, str]]:
    """What has to be put into the environment. Raises `OSError` when the simulator does not come up."""
    with tempfile.TemporaryDirectory(prefix="npa-demo-", ignore_cleanup_errors=True) as home:
        argv = [
            sys.executable, "-m", "engine.simulator", "--world", world, "--home", home, "--time-scale", str(time_scale),
            "--exit-with-parent",
        ]  # fmt: skip
        root = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        with open(Path(home) / "simulator.log", "wb") as log:  # noqa: PTH123
            child = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,  # kept open: the simulator ends when it closes, however we end
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        try:
            yield _ready(child, Path(log.name))
        finally:
            _end(child)


def _ready(child: subprocess.Popen[bytes], log: Path) -> dict[str, str]:
    """The environment from the simulator's first line."""
    assert child.stdout is not None
    line, deadline = b"", time.monotonic() + START
    while not line.endswith(b"\n") and time.monotonic() < deadline:
        if select.select([child.stdout], [], [], 0.2)[0]:
            got = os.read(child.stdout.fileno(), 65536)
            if not got:
                break
            line += got
    try:
        said = json.loads(line)
        return {str(k): str(v) for k, v in said["env"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise OSError(last[0] if last else f"no answer within {START:.0f} s") from None


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.stdin:
        child.stdin.close()
    try:
        child.wait(STOP)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout:
        child.stdout.close()
