"""One running worker: questions out, answers in, many at once; killed when it does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.clock import Clock
from engine.clouds.child import AT_ONCE, Child, Ladder
from engine.clouds.skypilot.failures import of_error
from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

START_SECONDS = 60.0
"""Real seconds for the import of `sky`, on a cold disk."""
GRACE_SECONDS = 5.0
"""Real seconds beyond the time of an operation before the worker counts as stuck."""

_WORKER = str(Path(__file__).with_name("worker.py"))
_LADDER: Ladder = ((signal.SIGINT, 2.0),)

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """`rows`: the things that were asked for; `rest`: what else the answer holds."""

    rows: tuple[Row, ...]
    rest: Mapping[str, object]


@dataclass(slots=True)
class _Open:
    answer: asyncio.Future[Answer]
    rows: list[Row] = field(default_factory=list)


class Unusable(Exception):
    """This interpreter has no SkyPilot that could be used."""


class Worker:
    """Belongs to one event loop."""

    def __init__(self, child: Child, scratch: Path) -> None:
        self.version = ""
        self.endpoint = ""
        self._child, self._scratch = child, scratch
        self._numbers = itertools.count(1)
        self._open: dict[int, _Open] = {}
        self._hello: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hello.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._ended: Trouble | None = None
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, python: str, env: Mapping[str, str], scratch: Path) -> Worker:
        """Start it and wait until it has imported `sky`. Raises `Unusable`; the scratch folder is gone then."""
        try:
            # The ladder is in real seconds: it is for a process, and no rehearsal makes that faster.
            child = await Child.start(
                [python, _WORKER], env=env, cwd=scratch, pipe_stdin=True, ladder=_LADDER, clock=Clock()
            )
        except Trouble as trouble:
            shutil.rmtree(scratch, ignore_errors=True)
            raise Unusable(trouble.detail) from trouble
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        worker = cls(child, scratch)
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(worker._hello)
        except TimeoutError as error:
            await worker.stop()
            raise Unusable(f"{python} did not import SkyPilot within {START_SECONDS:g} s") from error
        except BaseException:
            await worker.stop()
            raise
        return worker

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._ended is None and self._child.running

    @property
    def idle(self) -> bool:
        return not self._open

    async def ask(self, op: str, args: Mapping[str, object], seconds: float, what: str) -> Answer:
        """One operation, which may take so many real seconds. Raises `Trouble`; kills the worker when it gives no answer."""
        if self._ended is not None:
            raise self._ended
        number = next(self._numbers)
        waiting = _Open(asyncio.get_running_loop().create_future())
        self._open[number] = waiting
        question = {"id": number, "op": op, "args": dict(args), "seconds": seconds}
        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                assert self._child.stdin is not None
                self._child.stdin.write(f"{json.dumps(question)}\n".encode())
                with contextlib.suppress(OSError):  # it ended: the reader tells how
                    await self._child.stdin.drain()
                return await waiting.answer
        except _Failed as failed:
            raise of_error(failed.error, what) from None
        except TimeoutError as error:
            await self._kill(Trouble(Cause.TIMED_OUT, "the SkyPilot client was stuck and was stopped"))
            raise Trouble(Cause.TIMED_OUT, f"{what}: the SkyPilot client gave no answer") from error
        finally:
            del self._open[number]

    async def stop(self) -> None:
        """End it: the end of its input suffices, unless it is stuck."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await self._child.wait()
        await self._kill(Trouble(Cause.UNREACHABLE, "the SkyPilot client was stopped"))

    async def _kill(self, why: Trouble) -> None:
        self._end(why)
        await self._child.stop(AT_ONCE)
        async with self._child:
            self._reading.cancel()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _end(self, why: Trouble) -> None:
        self._ended = self._ended or why
        if not self._hello.done():
            self._hello.set_exception(Unusable(why.detail))
        for waiting in self._open.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(self._ended)

    async def _read(self) -> None:
        async for line in self._child.lines():
            try:
                message: object = json.loads(line)
            except (ValueError, RecursionError):
                continue  # something else wrote to its output before that was moved away
            if isinstance(message, dict):
                self._take(message)
        status = await self._child.wait()
        said = self._child.stderr_tail[-300:]
        self._end(
            Trouble(Cause.UNREACHABLE, redact(f"the SkyPilot client ended with status {status}: {said}"))
        )

    def _take(self, message: Mapping[str, object]) -> None:
        if not self._hello.done():
            if isinstance(hello := message.get("hello"), dict):
                self.version = redact(str(hello.get("version") or ""))
                self.endpoint = redact(str(hello.get("endpoint") or ""))
                self._hello.set_result(None)
            elif isinstance(unusable := message.get("unusable"), dict):
                self._hello.set_exception(Unusable(redact(str(unusable.get("message") or ""))))
            return
        number = message.get("id")
        waiting = self._open.get(number) if isinstance(number, int) else None
        if waiting is None or waiting.answer.done():
            return  # nobody waits any more
        if isinstance(rows := message.get("rows"), list):
            waiting.rows += [row for row in rows if isinstance(row, dict)]
        elif isinstance(error := message.get("error"), dict):
            waiting.answer.set_exception(_Failed(error))
        elif isinstance(rest := message.get("done"), dict):
            waiting.answer.set_result(Answer(tuple(waiting.rows), rest))


class _Failed(Exception):
    def __init__(self, error: Mapping[str, object]) -> None:
        super().__init__(str(error.get("type")))
        self.error = error
