"""`npa simulate`: starts the simulator as a process, and either stays beside it or runs one command against it."""

from __future__ import annotations

import argparse
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.commands.output import SCHEMA, Output
from engine.words.reasons import Reason, Refusal, Refused

START_SECONDS = 60.0
STOP_SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> None:
    parser.add_argument(
        "--world",
        required=True,
        metavar="NAME|FILE",
        help="a world that comes with the program, or a YAML file",
    )
    parser.add_argument(
        "--home", required=True, metavar="DIR", help="the HOME to use: the matching ~/.npa is laid in it"
    )
    parser.add_argument(
        "--time-scale",
        type=float,
        default=1.0,
        metavar="S",
        help="multiplies every duration of the world (default 1)",
    )
    parser.add_argument("--keep-home", action="store_true", help="DIR was laid before: leave it as it is")
    parser.add_argument("--json", action="store_true", help="print one document instead of `export` lines")
    parser.add_argument(
        "command", nargs="*", metavar="-- COMMAND", help="run this against it, and end with its exit code"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    with simulator(args.world, args.home, args.time_scale, args.keep_home) as ready:
        if args.command:
            return _run_one(args.command, ready["env"])
        if output.mode == "json":
            output.document({"schema_version": SCHEMA, "result": "serving", "exit_code": 0, **ready})
        else:
            for name, value in ready["env"].items():
                output.line(f"export {name}={shlex.quote(str(value))}")
        _until_interrupted()
    return 0


@contextmanager
def simulator(world: str, home: str, scale: float, keep_home: bool) -> Iterator[dict[str, Any]]:
    """A simulator process and what it said when it was ready: `env`, `control`, `project`, `alias`. Ended on leaving."""
    argv = [
        sys.executable,
        "-m",
        "engine.simulator",
        "--world",
        world,
        "--home",
        home,
        "--time-scale",
        str(scale),
        "--exit-with-parent",
    ]
    if keep_home:
        argv.append("--keep-home")
    root = str(Path(__file__).resolve().parents[2])
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p),
    }
    child = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        start_new_session=True,
    )
    try:
        yield _ready(child)
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe:
                pipe.close()


def _ready(child: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert child.stdout is not None
    assert child.stderr is not None
    line, deadline = b"", time.monotonic() + START_SECONDS
    while not line.endswith(b"\n") and time.monotonic() < deadline:
        if select.select([child.stdout], [], [], 0.2)[0]:
            got = os.read(child.stdout.fileno(), 65536)
            if not got:
                break
            line += got
    if line.endswith(b"\n"):
        return dict(json.loads(line))
    child.kill()
    said = child.stderr.read().decode(errors="replace").strip().splitlines()
    why = said[-1] if said else f"no answer within {START_SECONDS:.0f} s"
    raise Refused(
        Refusal(Reason.PREFLIGHT_FAILED, f"the simulator did not start: {why}", "npa simulate --help")
    )


def _run_one(command: list[str], env: dict[str, str]) -> int:
    """Run a command in the simulated environment; a signal that ends it counts as the shell counts it."""
    try:
        done = subprocess.run(command, env={**os.environ, **env}, check=False)
    except FileNotFoundError:
        raise Refused(
            Refusal(Reason.USAGE, f"there is no command {command[0]!r}", "npa simulate --help")
        ) from None
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _until_interrupted() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        signal.pause()
    except KeyboardInterrupt:
        return
