"""Everything that this program asks of SkyPilot and changes there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from engine.clock import Clock
from engine.clouds.skypilot.failures import STUCK, SkyTrouble
from engine.clouds.skypilot.interpreters import candidates
from engine.clouds.skypilot.isolation import environment, scratch_home
from engine.clouds.skypilot.jobs import Queue, SkyCluster, clusters_of, jobs_of
from engine.clouds.skypilot.process import Answer, Unusable, Worker
from engine.settings import Settings
from engine.words.intents import Intent
from engine.words.presence import Cause, Unknown
from engine.words.redact import redact
from engine.words.trouble import Trouble

READ_SECONDS = 60.0
REFRESH_SECONDS = 120.0
CANCEL_SECONDS = 300.0
DOWN_SECONDS = 900.0
"""Nominal seconds for each kind of operation."""

_LEAST_REAL = 40.0
_NO_CLUSTER = "ClusterDoesNotExist"


class Sky:
    """The operator's SkyPilot: its API server, asked through the `sky` client in a process of its own.

    Reads answer with words and raise nothing for what the outside does; changes raise `Trouble`. A change that succeeded proves
    nothing: SkyPilot answers that before anything is gone, and even when it stays. SkyPilot has neither ids nor idempotency keys:
    `intent.expect` is not compared here, gate and proof are the caller's. Making one costs nothing: the worker is started at the
    first call. Transport failures are tried again by the `sky` client itself. Belongs to one event loop.

    interpreter  a Python, or a `sky` script whose Python is meant; preferred to the one of the settings
    kubeconfig   the only one that SkyPilot is to see, when given
    home         whose `.sky` holds the configuration. It is read, never written
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        interpreter: str = "",
        kubeconfig: Path | None = None,
        home: Path,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._interpreter, self._kubeconfig, self._home = interpreter, kubeconfig, home
        self._worker: Worker | None = None
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop()

    @property
    def worker_pid(self) -> int | None:
        """Process id of the worker, when one runs."""
        return self._worker.pid if self._worker is not None and self._worker.running else None

    # ------------------------------------------------------------------------------------------------------- reads

    async def queue(self) -> Queue:
        """All managed jobs of all users. Never starts a stopped controller."""
        at = self._clock.now()
        try:
            answer = await self._ask("queue", {}, READ_SECONDS, "read the job queue")
        except SkyTrouble as trouble:
            if trouble.controller_gone:
                return Queue((), controller_absent=True, at=at, by=self._by(trouble.request_id))
            return Queue((), trouble.unknown, at=at, by=self._by(trouble.request_id))
        except Trouble as trouble:
            return Queue((), trouble.unknown, at=at, by=self._by())
        jobs, gap = jobs_of(answer.rows, answer.rest.get("total"))
        return Queue(jobs, gap, at=at, by=self._by())

    async def clusters(self) -> tuple[tuple[SkyCluster, ...], Unknown | None]:
        """The clusters in SkyPilot's records, of all users, as they were last looked up; and why some may be missing."""
        try:
            answer = await self._ask("clusters", {}, READ_SECONDS, "read SkyPilot's clusters")
        except Trouble as trouble:
            return (), trouble.unknown
        return clusters_of(answer.rows)

    # ----------------------------------------------------------------------------------------------------- changes

    async def cancel(self, intent: Intent, job_ids: Sequence[int]) -> None:
        """Ask for the cancellation of exactly these jobs, in one request. Jobs that are over or unknown are passed over by
        SkyPilot, and jobs of anybody are cancelled: it checks no owner."""
        ids = list(dict.fromkeys(job_ids))
        if not ids:
            return
        what = f"cancel {'job' if len(ids) == 1 else 'jobs'} {', '.join(map(str, ids[:20]))}"
        try:
            await self._ask("cancel", {"job_ids": ids}, CANCEL_SECONDS, what)
        except SkyTrouble as trouble:
            if not trouble.controller_gone:
                raise

    async def down(self, intent: Intent, cluster_name: str) -> None:
        """Ask for the removal of a cluster. Unlike the command line, this refuses nothing: not a controller with running jobs."""
        await self._down(cluster_name, purge=False)

    async def forget(self, intent: Intent, cluster_name: str) -> None:
        """Let SkyPilot drop its record of a cluster that is proven absent. Otherwise never: purging succeeds whatever is left."""
        try:
            what = f"refresh SkyPilot's record of {cluster_name}"
            answer = await self._ask("refresh", {"cluster_name": cluster_name}, REFRESH_SECONDS, what)
        except SkyTrouble as trouble:
            if trouble.type == _NO_CLUSTER:
                return
            # What it cannot look up, such as in a context that is gone, is just what the purge is for.
            if trouble.cause in (Cause.UNAUTHENTICATED, Cause.NO_CLIENT):
                raise
        else:
            found, gap = clusters_of(answer.rows)
            if gap is None and all(cluster.name != cluster_name for cluster in found):
                return
        await self._down(cluster_name, purge=True)

    async def _down(self, name: str, *, purge: bool) -> None:
        what = f"{'purge' if purge else 'take down'} {name}"
        try:
            await self._ask("down", {"cluster_name": name, "purge": purge}, DOWN_SECONDS, what)
        except SkyTrouble as trouble:
            if trouble.type != _NO_CLUSTER:
                raise

    # ------------------------------------------------------------------------------------------------------ worker

    async def _ask(self, op: str, args: Mapping[str, object], seconds: float, what: str) -> Answer:
        worker = await self._running()
        try:
            return await worker.ask(op, args, max(_LEAST_REAL, self._clock.real(seconds)), redact(what))
        except SkyTrouble as trouble:
            if trouble.type == STUCK and worker is self._worker and worker.idle:
                # A thread of it hangs, perhaps for ever: the next question gets a fresh one.
                self._worker = None
                await worker.stop()
            raise

    async def _running(self) -> Worker:
        async with self._starting:
            if self._worker is not None and not self._worker.running:
                stale, self._worker = self._worker, None
                await stale.stop()
            if self._worker is None:
                self._worker = await self._start()
            return self._worker

    async def _start(self) -> Worker:
        environ = self._settings.environ
        tried: list[str] = []
        for python in candidates((self._interpreter, self._settings.sky_bin), self._home, environ):
            scratch = scratch_home(self._home)
            env = environment(environ, scratch, self._kubeconfig, reuse_token=self._settings.reuse_token)
            try:
                return await Worker.start(python, env, scratch)
            except Unusable as unusable:
                tried.append(f"{python}: {unusable}")
        raise Trouble(
            Cause.NO_CLIENT,
            redact(
                f"no usable SkyPilot ({'; '.join(tried)}): install npa-tui[skypilot], or name the `sky` program that you"
                " use in NPA_SKYPILOT_BIN",
                1000,
            ),
        )

    def _by(self, request_id: str = "") -> str:
        worker = self._worker
        host = (urlsplit(worker.endpoint).hostname or "") if worker else ""
        return " ".join(
            part for part in ("skypilot", worker.version if worker else "", host, request_id) if part
        )
