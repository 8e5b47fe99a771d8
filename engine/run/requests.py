"""How a console asks a runner for something: one file per request, renamed into place. No socket; works over any file system."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from engine.words.consent import Consent

What = Literal["consent", "keep", "pause", "resume", "stop"]


@dataclass(frozen=True, slots=True)
class Request:
    """`phase` goes with `keep`; `consent` with `consent`. `run` is the run that is meant: another one ignores it."""

    what: What
    run: str
    by: str
    phase: str = ""
    consent: Consent | None = None


def ask(inbox: Path, request: Request) -> Path:
    """Put a request where the runner looks. The file's disappearance says that it was read; the journal says the answer."""
    inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{uuid.uuid4().hex}.json"
    tmp = inbox / f".{name}"
    fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(asdict(request), file)
        file.flush()
        os.fsync(file.fileno())
    target = inbox / name
    tmp.rename(target)
    return target


def waiting(inbox: Path) -> Iterator[tuple[Path, Request | None]]:
    """Requests in the order of their arrival; None for a file that is no request. The caller unlinks what it has dealt with."""
    try:
        files = sorted((p for p in inbox.iterdir() if p.suffix == ".json" and p.name[0] != "."), key=_arrival)
    except FileNotFoundError:
        return
    for path in files:
        yield path, _read(path)


def _arrival(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, path.name
    except FileNotFoundError:
        return 0, path.name


def _read(path: Path) -> Request | None:
    try:
        doc = json.loads(path.read_bytes())
        given = doc.pop("consent", None)
        consent = None
        if given is not None:
            consent = Consent(
                given["digest"], tuple(given["phases"]), int(given["tier"]), given["by"], given["seen"]
            )
        if doc["what"] not in ("consent", "keep", "pause", "resume", "stop"):
            return None
        return Request(doc["what"], str(doc["run"]), str(doc["by"]), str(doc.get("phase", "")), consent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
