"""A program on a pseudo-terminal, with an emulator that knows what its screen shows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyte


class Terminal:
    """`press` sends keys, `until` waits for words on the screen."""

    def __init__(self, pid: int, fd: int, columns: int, rows: int) -> None:
        self.pid, self._fd = pid, fd
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.status: int | None = None

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def line(self, words: str) -> str:
        """The first line with these words, or an empty string."""
        return next((line for line in self._screen.display if words in line), "")

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def read(self, seconds: float) -> None:
        """Take in what comes within so long."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            ready, _, _ = select.select([self._fd], [], [], left)
            if not ready:
                return
            try:
                data = os.read(self._fd, 65536)
            except OSError:
                data = b""
            if not data:
                if self.status is None:
                    self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                return
            self._stream.feed(data)

    def until(self, *words: str, seconds: float = 60.0) -> str:
        """Wait until one of these is on the screen; which one."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.read(0.1)
            for word in words:
                if word in self.text:
                    return word
            if self.status is not None:
                break
        raise AssertionError(f"never on the screen: {words}; it ended with {self.status}\n{self.text}")


@contextmanager
def terminal(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, columns: int = 120, rows: int = 36
) -> Iterator[Terminal]:
    """Run a program until the context ends; what still runs then is killed."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(argv[0], list(argv), {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"})
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    shown = Terminal(pid, fd, columns, rows)
    try:
        yield shown
    finally:
        if shown.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(fd)
