"""Launch to first paint in a real terminal: when the first text of the first screen reaches the other end of a pty."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import termios
import time
from collections.abc import Mapping, Sequence

SECONDS = 20.0


def first_paint(argv: Sequence[str], word: bytes, env: Mapping[str, str] | None = None) -> float:
    """Seconds until `word` is painted. The program is ended then."""
    start = time.monotonic()
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(env or {})
        os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor"})
        os.execvp(argv[0], list(argv))
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    seen = b""
    try:
        while time.monotonic() - start < SECONDS:
            if select.select([fd], [], [], 0.05)[0]:
                try:
                    seen += os.read(fd, 65536)
                except OSError:
                    break
                if word in seen:
                    return time.monotonic() - start
        raise RuntimeError(f"{word!r} was never painted by {argv[-1]}: {seen[-300:]!r}")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)


def median(argv: Sequence[str], word: bytes, env: Mapping[str, str] | None = None, runs: int = 5) -> float:
    """Median of several launches after one that is not counted."""
    first_paint(argv, word, env)
    return statistics.median(first_paint(argv, word, env) for _ in range(runs))
