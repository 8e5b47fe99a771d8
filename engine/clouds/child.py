"""Every child process that we start: its own session, a stop ladder, and a guardian that outlives us."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from engine.clock import Clock
from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

Ladder = tuple[tuple[signal.Signals, float], ...]
"""Which signal, and how many nominal seconds are granted after it. A kill ends every ladder."""

LADDER: Ladder = ((signal.SIGINT, 30.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 0.0))
AT_ONCE: Ladder = ((signal.SIGKILL, 0.0),)
"""For a child that only reads."""

MAX_LINE = 4 * 1024 * 1024
_CHUNK = 64 * 1024
_TAIL = 4 * 1024
_DRAIN = 2.0
"""Real seconds that output may still arrive after the child is over: a descendant may hold the pipe open for ever."""
_GUARDIAN = str(Path(__file__).with_name("guardian.py"))


class Lines:
    """The lines of a child's output, decoded, without their ends. One longer than `MAX_LINE` bytes comes in pieces."""

    def __init__(self, stream: asyncio.StreamReader, ended: asyncio.Future[int]) -> None:
        self._stream, self._ended = stream, ended
        self._buffer = bytearray()
        self._searched = 0
        self._closed = False

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0 and len(self._buffer) >= MAX_LINE:
                end = MAX_LINE
            if end >= 0:
                line = self._buffer[:end]
                del self._buffer[: end + (self._buffer[end : end + 1] == b"\n")]
                self._searched = 0
                return line.removesuffix(b"\r").decode(errors="replace")
            self._searched = len(self._buffer)
            if self._closed:
                if not self._buffer:
                    raise StopAsyncIteration
                self._buffer += b"\n"
                continue
            chunk = await _read(self._stream, self._ended)
            self._closed = not chunk
            self._buffer += chunk


async def _read(stream: asyncio.StreamReader, ended: asyncio.Future[int]) -> bytes:
    """More output, or nothing when it is over: closed, or held open by a descendant of a child that ended."""
    more = asyncio.ensure_future(stream.read(_CHUNK))
    try:
        both: set[asyncio.Future[bytes] | asyncio.Future[int]] = {more, ended}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not more.done():
            await asyncio.wait({more}, timeout=_DRAIN)
        return more.result() if more.done() else b""
    finally:
        more.cancel()


class Child:
    """A running child. Leaving its context stops it by its ladder and waits for its end.

    stdin  where to write, when it was asked for; otherwise the child reads from nothing
    pid    of the real child, not of its guardian
    """

    def __init__(
        self,
        process: _Process,
        control: _Control | None,
        pid: int,
        ladder: Ladder,
        clock: Clock,
    ) -> None:
        self.pid = pid
        self.stdin = process.stdin
        self._process, self._control, self._ladder, self._clock = process, control, ladder, clock
        self._ended: asyncio.Task[int] = asyncio.create_task(self._watch())
        self._tail = bytearray()
        self._errors = asyncio.create_task(self._collect())
        self._lines = Lines(process.stdout, self._ended)

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        pipe_stdin: bool = False,
        guardian: bool = True,
        ladder: Ladder = LADDER,
        clock: Clock | None = None,
        hold: Sequence[int] = (),
    ) -> Child:
        """Start `argv` with exactly `env`, in a session of its own, which no Ctrl-C of the terminal reaches.

        guardian  watch over it from a process that stops it by `ladder` when we are gone, however we died
        hold      descriptors, such as locks, that the guardian keeps open until the child is over

        Raises `Trouble(NO_CLIENT)` when it cannot be started.
        """
        clock = clock or Clock()
        control, theirs = _Control.pair() if guardian else (None, None)
        command = list(argv)
        if theirs is not None:
            rungs = ",".join(f"{int(number)}:{clock.real(seconds):.3f}" for number, seconds in ladder)
            command = [sys.executable, "-I", "-S", _GUARDIAN, str(theirs.fileno()), rungs, *argv]
        try:
            process = await _Process.start(
                command,
                env=dict(env),
                cwd=cwd,
                pipe_stdin=pipe_stdin,
                pass_fds=(theirs.fileno(), *hold) if theirs is not None else tuple(hold),
            )
        except OSError as error:
            if control is not None:
                control.close()
            raise _not_started(argv[0], error) from error
        finally:
            if theirs is not None:
                theirs.close()
        pid = process.pid
        if control is not None:
            try:
                pid = await control.started()
            except OSError as error:
                control.close()
                await process.exited()
                process.close()
                raise _not_started(argv[0], error) from error
            except asyncio.CancelledError:
                control.close()  # the guardian does the rest
                raise
        return cls(process, control, pid, ladder, clock)

    def lines(self) -> Lines:
        """What it prints on standard output, as it comes. To be read to the end, or the child may block on a full pipe."""
        return self._lines

    async def read_all(self, limit: int) -> str:
        """All of its standard output. Raises `Trouble(MALFORMED)` when that is more than `limit` characters."""
        got: list[str] = []
        size = 0
        async for line in self._lines:
            got.append(line)
            size += len(line) + 1
            if size > limit:
                raise Trouble(Cause.MALFORMED, f"the answer is larger than {limit} characters")
        return "\n".join(got)

    @property
    def stderr_tail(self) -> str:
        """The end of what it said on standard error, redacted, on one line."""
        return redact(self.stderr_text, _TAIL)

    @property
    def stderr_text(self) -> str:
        """The same as it came, for a client that parses it. Not for a word: it is not redacted."""
        text = self._tail.decode(errors="replace")
        if len(self._tail) == _TAIL:  # a word cut in two may be a secret without the name that gives it away
            _, _, text = text.partition("\n" if "\n" in text[:-1] else " ")
        return text

    @property
    def running(self) -> bool:
        return not self._ended.done()

    async def wait(self) -> int:
        """Its exit status, negative for a signal. Being cancelled while waiting does not touch it."""
        status = await asyncio.shield(self._ended)
        await asyncio.wait({self._errors}, timeout=_DRAIN)
        return status

    def interrupt(self) -> None:
        """One SIGINT, to it alone."""
        self._send(signal.SIGINT)

    async def stop(self, ladder: Ladder | None = None) -> int:
        """End it: each rung's signal, then its grace, until it is over."""
        for number, seconds in (*(ladder or self._ladder), *AT_ONCE):
            if self._ended.done():
                break
            self._send(number)
            await asyncio.wait({self._ended}, timeout=self._clock.real(seconds))
        return await self.wait()

    async def __aenter__(self) -> Child:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.running:
                await self.stop()
        finally:
            # Cancelled while stopping: the guardian, told by the closed end, goes on with the ladder where we left it.
            if self._control is not None:
                self._control.close()
            self._errors.cancel()
            if self.stdin is not None:
                self.stdin.close()
            if not self.running:
                self._process.close()

    def _send(self, number: signal.Signals) -> None:
        if self._ended.done():
            return
        if self._control is not None:
            self._control.send(number)
            return
        with contextlib.suppress(ProcessLookupError):
            if number is signal.SIGKILL:
                os.killpg(self.pid, number)
            else:
                self._process.send_signal(number)

    async def _watch(self) -> int:
        if self._control is None:
            return await self._process.exited()
        status = await self._control.ended()
        await self._process.exited()
        if status is not None:
            return status
        # The guardian itself was killed. Its word is missing, so the child may well be running: take over from it.
        for number, seconds in (*self._ladder, *AT_ONCE):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._clock.real(seconds) + 0.1):
                    await _gone(self.pid)
                break
        return -signal.SIGKILL

    async def _collect(self) -> None:
        while chunk := await _read(self._process.stderr, self._ended):
            self._tail += chunk
            del self._tail[:-_TAIL]


class _Protocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Tells the end of the process by itself; asyncio's own `wait` also waits for the pipes, which a descendant may hold."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_CHUNK, loop=loop)
        self.exited: asyncio.Future[None] = loop.create_future()

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)
        super().process_exited()


class _Process:
    """A process of asyncio, with its pipes."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Protocol) -> None:
        self._transport, self._protocol = transport, protocol
        assert protocol.stdout is not None and protocol.stderr is not None
        self.stdin, self.stdout, self.stderr = protocol.stdin, protocol.stdout, protocol.stderr
        self.pid = transport.get_pid()

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: dict[str, str],
        cwd: Path | None,
        pipe_stdin: bool,
        pass_fds: tuple[int, ...],
    ) -> _Process:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Protocol(loop),
            *argv,
            stdin=subprocess.PIPE if pipe_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        return cls(transport, protocol)

    async def exited(self) -> int:
        await asyncio.shield(self._protocol.exited)
        return self._transport.get_returncode() or 0

    def send_signal(self, number: signal.Signals) -> None:
        self._transport.send_signal(number)

    def close(self) -> None:
        """Let go of its pipes. Only after its end: the transport kills what it is closed on."""
        self._transport.close()


class _Control:
    """Our end of the guardian's socket pair."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @classmethod
    def pair(cls) -> tuple[_Control, socket.socket]:
        ours, theirs = socket.socketpair()
        return cls(ours), theirs

    async def started(self) -> int:
        """The child's pid. Raises `OSError` when it could not be started."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
        word, number = await self._line()
        if word == "pid":
            return number
        raise OSError(number, os.strerror(number) if number else "its guardian ended early")

    async def ended(self) -> int | None:
        """Its exit status, or None when the guardian ended without telling."""
        word, number = await self._line()
        return number if word == "exit" else None

    def send(self, number: signal.Signals) -> None:
        assert self._writer is not None
        with contextlib.suppress(OSError):
            self._writer.write(bytes([number]))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        else:
            self._socket.close()

    async def _line(self) -> tuple[str, int]:
        assert self._reader is not None
        try:
            word, _, number = (await self._reader.readline()).decode().strip().partition(" ")
        except OSError:
            return "", 0
        return word, int(number or 0)


async def _gone(pid: int) -> None:
    """Return once the process is over. It is not our child any more, so there is nothing to wait on but its pid; and whoever
    inherited it may be slow to reap it, so that a zombie counts as over, where the kernel tells."""
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(pid, 0)
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1] == ["Z"]:
                    return
            await asyncio.sleep(0.02)


def _not_started(program: str, error: OSError) -> Trouble:
    return Trouble(Cause.NO_CLIENT, redact(f"{program} cannot be started: {error.strerror or error}"))
