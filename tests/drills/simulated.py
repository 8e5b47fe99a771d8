"""A simulator process for tests: its environment, its control, and commands run against it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCALE = 0.02


@dataclass
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Stdout as the one document that it must be."""
        return json.loads(self.out)


@dataclass
class Simulation:
    """A running world. `npa` runs a command against it with its own HOME."""

    home: Path
    env: dict[str, str]
    control: str
    project: str
    alias: str
    process: subprocess.Popen[bytes] = field(repr=False)

    def environ(self, **more: str) -> dict[str, str]:
        kept = {
            k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE")
        }
        return {**kept, **self.env, "PYTHONPATH": str(ROOT), **more}

    def npa(self, *args: str, timeout: float = 120, stdin: int = subprocess.DEVNULL, **more: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "engine", *args],
            env=self.environ(**more),
            stdin=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            cwd=self.home,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *args: str, **more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "engine", *args],
            env=self.environ(**more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.home,
        )  # fmt: skip

    def get(self, path: str) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.control + path, timeout=10) as answer:
            return json.load(answer)

    def post(self, path: str, document: Any) -> Any:
        request = urllib.request.Request(
            self.control + path, json.dumps(document).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return json.load(answer)

    def ids(self) -> dict[str, set[str]]:
        """Everything that the cloud has, by kind: an independent read."""
        return {kind: {r["id"] for r in rows} for kind, rows in self.get("/state")["resources"].items()}

    def changes(self) -> list[tuple[str, str]]:
        """Every request that asked for a change, in order: (call, subject)."""
        return [(r["call"], r["subject"]) for r in self.get("/log") if _changes(r["service"], r["call"])]

    def tree(self) -> dict[str, tuple[str, int, int]]:
        """Bytes, mode and mtime of everything under HOME."""
        found = {}
        for path in sorted(self.home.rglob("*")):
            stat = path.lstat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path.relative_to(self.home))] = (digest, stat.st_mode, stat.st_mtime_ns)
        return found


def _changes(service: str, call: str) -> bool:
    match service:
        case "nebius":
            return not call.partition("/")[2].startswith(("Get", "List", "Estimate"))
        case "skypilot":
            return call in ("POST /jobs/cancel", "POST /down")
        case "kubernetes":
            return call.split(" ")[0] in ("DELETE", "PUT", "POST", "PATCH")
        case "s3":
            return not call.startswith(("Get", "Head", "List"))
        case _:
            return True


@contextmanager
def simulation(world: str, home: Path, scale: float = SCALE, *, keep: bool = False) -> Iterator[Simulation]:
    """A world while it runs."""
    argv = [
        sys.executable,
        "-m",
        "engine.simulator",
        "--world",
        world,
        "--home",
        str(home),
        "--time-scale",
        str(scale),
        "--exit-with-parent",
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(
        [*argv, *(["--keep-home"] if keep else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
        cwd=ROOT,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        ready = json.loads(child.stdout.readline())
        yield Simulation(home, ready["env"], ready["control"], ready["project"], ready["alias"], child)
    finally:
        child.stdin.close()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
