"""Applications of the simulator on loopback, in a loop of their own, so that blocking clients can be tested against them."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web

T = TypeVar("T")


@dataclass(frozen=True)
class Site:
    """`at` is the base URL; `run` does something on the server's loop."""

    at: str
    loop: asyncio.AbstractEventLoop

    def run(self, act: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(on_loop(), self.loop).result(5)


@contextmanager
def serving(*apps: web.Application, tls: ssl.SSLContext | None = None) -> Iterator[list[Site]]:
    """The applications, each on a port of its own, until the block is left."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start(app: web.Application) -> tuple[web.AppRunner, int]:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        return runner, int(runner.addresses[0][1])

    started = [asyncio.run_coroutine_threadsafe(start(app), loop).result(5) for app in apps]
    scheme = "https" if tls else "http"
    try:
        yield [Site(f"{scheme}://127.0.0.1:{port}", loop) for _, port in started]
    finally:
        for runner, _ in started:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
