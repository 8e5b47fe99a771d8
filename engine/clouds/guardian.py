"""The process between us and a child that must never be orphaned. Run by path; standard library only, for a fast start.

    guardian.py CONTROL_FD LADDER ARGV...

LADDER is the stop ladder as `signal:seconds` pairs in real seconds, such as `2:30,15:10,9:0`. CONTROL_FD is one end of a
socket pair whose other end the parent owns:

* we write `pid N` once the child runs, or `error ERRNO` when it cannot be started, and `exit STATUS` when it is over
  (negative for a signal, as `subprocess` has it);
* we read one byte per command, the number of a signal for the child. Signals go through us because only we know that the
  pid is not reaped and reused;
* when the other end closes, the parent is gone, however it died: the ladder begins. A rung that was already taken by command is
  not repeated, because to Terraform a second interrupt means "leave at once".
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time

Ladder = list[tuple[int, float]]


def parse_ladder(text: str) -> Ladder:
    return [
        (int(number), float(seconds)) for number, seconds in (rung.split(":") for rung in text.split(","))
    ]


def deliver(child: subprocess.Popen[bytes], number: int) -> None:
    """A polite signal goes to the child alone, which passes it on as it sees fit; a kill goes to its whole group."""
    if child.poll() is not None:
        return
    if number == signal.SIGKILL:
        try:
            os.killpg(child.pid, number)
        except PermissionError:  # macOS, for a group whose members are zombies already
            child.kill()
    else:
        child.send_signal(number)


class Guard:
    """Watches one child and one control socket until the child is over."""

    def __init__(
        self, child: subprocess.Popen[bytes], control: socket.socket, wake: int, ladder: Ladder
    ) -> None:
        self._child, self._control, self._wake = child, control, wake
        self._left = list(ladder)
        self._due: float | None = None
        """When the next rung is to be taken. None as long as the parent lives."""
        self._grace = 0.0
        self._since = 0.0

    def run(self) -> int:
        while (status := self._child.poll()) is None:
            timeout = None if self._due is None else max(0.0, self._due - time.monotonic())
            watched = [self._wake] if self._due is not None else [self._wake, self._control.fileno()]
            ready, _, _ = select.select(watched, [], [], timeout)
            if self._wake in ready and signal.SIGTERM in os.read(self._wake, 512) and self._due is None:
                # Somebody ends all processes of a service at once: the child got this signal too, so only the waiting begins.
                self._took(signal.SIGTERM)
                self._begin()
            if self._control.fileno() in ready:
                commands = self._read()
                for number in commands:
                    self._took(number)
                    deliver(self._child, number)
                if not commands:
                    self._begin()
            if self._due is not None and time.monotonic() >= self._due:
                self._climb()
        return status

    def _read(self) -> bytes:
        try:
            return self._control.recv(64)
        except ConnectionError:
            return b""

    def _took(self, number: int) -> None:
        """A rung was taken: it and those before it are not taken again, but the time that they grant is."""
        for i, (rung, _) in enumerate(self._left):
            if rung == number:
                self._grace, self._since = sum(s for _, s in self._left[: i + 1]), time.monotonic()
                del self._left[: i + 1]
                return

    def _begin(self) -> None:
        self._due = self._since + self._grace

    def _climb(self) -> None:
        number, seconds = self._left.pop(0) if self._left else (signal.SIGKILL, 1.0)
        deliver(self._child, number)
        self._due = time.monotonic() + max(seconds, 0.01)


def main(arguments: list[str]) -> int:
    control = socket.socket(fileno=int(arguments[0]))
    control.set_inheritable(False)
    wake, alarm = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(alarm, False)
    # Handlers rather than SIG_IGN: what is ignored stays ignored in the child, and then it could not be interrupted.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    try:
        child = subprocess.Popen(arguments[2:], start_new_session=True)
    except OSError as error:
        control.sendall(b"error %d\n" % (error.errno or 0))
        return 127
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # so that the end of the child's output is the child's doing
        os.dup2(null, standard)
    report(control, b"pid %d\n" % child.pid)
    status = Guard(child, control, wake, parse_ladder(arguments[1])).run()
    report(control, b"exit %d\n" % status)
    return 0


def report(control: socket.socket, line: bytes) -> None:
    try:
        control.sendall(line)
    except OSError:
        return  # nobody is left to hear it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
