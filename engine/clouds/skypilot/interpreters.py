"""Which Python has a usable SkyPilot: the operator's own first, because its version fits their API server; then ours."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def candidates(programs: Sequence[str], home: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Interpreters to try, in order. `programs`: paths of `sky` scripts or interpreters, the preferred first; empty ones are skipped."""
    found = [python for program in programs if program and (python := python_of(program, home, environ))]
    return tuple(dict.fromkeys([*found, sys.executable]))


def python_of(program: str, home: Path, environ: Mapping[str, str]) -> str:
    """The interpreter that runs a `sky` script: the one that its first line names, else the one beside it. An interpreter is
    returned as it is; nothing when there is none."""
    if program.startswith("~/"):
        program = str(home / program[2:])
    path = shutil.which(program, path=environ.get("PATH", os.defpath))
    if path is None:
        return ""
    if Path(path).name.startswith("python"):
        return path
    named = _first_line(Path(path)).removeprefix("#!").strip()
    if Path(named).name.startswith("python") and os.access(named, os.X_OK):
        return named
    beside = (Path(path).resolve().parent / name for name in ("python", "python3"))
    return next((str(python) for python in beside if os.access(python, os.X_OK)), "")


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            line = file.readline(1024)
    except OSError:
        return ""
    return line.decode("utf-8", "replace").rstrip("\n") if line.startswith(b"#!") else ""
