"""A home folder of its own for each test, recorded states laid under it, and a picture of everything in it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.home.roots import Roots, roots


@pytest.fixture
def home(tmp_path: Path) -> Roots:
    """Roots below an empty home folder."""
    user = tmp_path / "op"
    user.mkdir(mode=0o700)
    return roots({"HOME": str(user)})


@pytest.fixture
def put(home: Roots) -> Callable[[str, str], Path]:
    """Write a file below `~/.npa`, with the modes that the CLI leaves."""

    def write(name: str, text: str) -> Path:
        path = home.home / name
        for folder in reversed([p for p in path.parents if p.is_relative_to(home.home)]):
            if not folder.exists():
                folder.mkdir(mode=0o700)
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write


@pytest.fixture
def state(home: Roots, states: Path) -> Callable[[str], Roots]:
    """Lay a recorded state under the home folder."""

    def lay(name: str) -> Roots:
        subprocess.run([sys.executable, str(states / "materialize"), name, str(home.user)], check=True)
        return home

    return lay


@pytest.fixture
def picture() -> Callable[[Path], dict[str, tuple[object, ...]]]:
    """Mode, size, mtime and hash of everything below a folder."""

    def take(folder: Path) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = {}
        for path in [folder, *sorted(folder.rglob("*"))]:
            seen = path.lstat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path)] = (seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ino, digest)
        return found

    return take


@pytest.fixture
def as_another_user(tmp_path: Path) -> Callable[[Callable[[], str]], str]:
    """Run something in a child process without the rights of root, and give what it returned."""

    def run(body: Callable[[], str]) -> str:
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                if os.geteuid() == 0:
                    os.setgroups([])
                    os.setgid(65534)
                    os.setuid(65534)
                os.write(into, body().encode())
            except BaseException as failure:
                os.write(into, repr(failure).encode())
            finally:
                os._exit(0)
        os.close(into)
        with os.fdopen(out) as stream:
            answer = stream.read()
        os.waitpid(child, 0)
        return answer

    return run
