"""Starts a runner that outlives us, and shakes hands with it: its run id once its journal is durable, or its refusal."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.words.reasons import Reason, Refusal

SECONDS = 60.0


def start(arguments: Sequence[str], environ: Mapping[str, str], log: Path) -> str | Refusal:
    """Run `npa ARGUMENTS` detached: own session, no terminal, output into `log`. Blocks until the handshake, at most a minute."""
    ours, theirs = os.pipe()
    argv = [sys.executable, "-m", "engine", *arguments, "--handshake-fd", str(theirs)]
    root = str(Path(__file__).resolve().parents[2])
    env = {**environ, "PYTHONPATH": os.pathsep.join(p for p in (root, environ.get("PYTHONPATH", "")) if p)}
    try:
        for folder in (log.parent.parent, log.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=fd,
                stderr=fd,
                env=env,
                start_new_session=True,
                pass_fds=(theirs,),
                cwd="/",
            )
        finally:
            os.close(fd)
    except OSError as error:
        os.close(ours)
        return Refusal(Reason.NOT_WRITABLE, f"the runner cannot be started: {error}", "")
    finally:
        os.close(theirs)
    try:
        return _handshake(ours, child, log)
    finally:
        os.close(ours)


def _handshake(fd: int, child: subprocess.Popen[bytes], log: Path) -> str | Refusal:
    said, deadline = b"", time.monotonic() + SECONDS
    while not said.endswith(b"\n") and time.monotonic() < deadline:
        if select.select([fd], [], [], 0.2)[0]:
            got = os.read(fd, 65536)
            if not got:
                break
            said += got
    try:
        answer = json.loads(said)
        if "run" in answer:
            return str(answer["run"])
        return Refusal(Reason(answer["reason_code"]), str(answer["message"]), str(answer["next_command"]))
    except (ValueError, KeyError, TypeError):
        ended = child.poll()
        how = f"it ended with {ended}" if ended is not None else "it did not answer in time"
        return Refusal(Reason.INTERNAL, f"the runner did not start: {how}; see {log}", "")


def shake(fd: int, answer: str | Refusal) -> None:
    """The runner's side of the handshake."""
    doc = (
        {"run": answer}
        if isinstance(answer, str)
        else {
            "reason_code": str(answer.reason),
            "message": answer.sentence,
            "next_command": answer.next_command,
        }
    )
    try:
        os.write(fd, json.dumps(doc).encode() + b"\n")
        os.close(fd)
    except OSError:
        pass  # whoever started us is gone; the run goes on
