"""Everything slow that the console reads, in one thread with one loop. The screen never waits for it: it looks at the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.inventory.model import Inventory, SourceReport
from engine.run.faces import Account, ProjectLine, RunnerInfo
from engine.words.plans import Plan
from engine.words.reasons import Refusal
from engine.words.redact import redact

if TYPE_CHECKING:
    from engine.run.preview import PhasePreview
    from npa_tui.source import Source

T = TypeVar("T")

WATCH = 1.0
"""Seconds between two looks at the lease of the project that is aimed at."""


@dataclass(frozen=True, slots=True)
class Store:
    """What has been read, as one value that is replaced and never changed.

    aimed    the project that plan, inventory and reports are of
    first    its first complete inventory since the console was aimed at it
    halted   somebody stopped the reading before its end
    runner   who holds the lease of the project that is watched
    checked  the project whose lease was looked at: before that, nobody knows whether a run is alive
    problem  what went wrong while reading, when it was no provider's answer
    """

    projects: tuple[ProjectLine, ...] | None = None
    account: Account | None = None
    aimed: str = ""
    plan: Plan | Refusal | None = None
    inventory: Inventory | None = None
    first: Inventory | None = None
    reports: tuple[SourceReport, ...] = ()
    reading: bool = False
    halted: bool = False
    problem: str = ""
    spends: dict[str, tuple[float, int]] = field(default_factory=dict)
    runner: RunnerInfo | None = None
    receipt: Path | None = None
    checked: str = ""


class Reader:
    """Started once. Its methods are called from the screen's thread and return at once; only the reader's thread writes the store."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="reader", daemon=True)
        self._reading: asyncio.Task[None] | None = None
        self._introduction: asyncio.Task[None] | None = None
        self._watched = ""
        self._checking: Future[None] | None = None
        self._pending: set[Future[None]] = set()
        self.store = Store()

    def start(self) -> None:
        self._thread.start()
        self._spawn(self._list())
        asyncio.run_coroutine_threadsafe(self._watch(), self._loop)

    def stop(self) -> None:
        """End the thread; what is being read is given up."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=2.0)

    @property
    def idle(self) -> bool:
        """Whether everything that was asked for has been read."""
        self._pending = {f for f in self._pending if not f.done()}
        introduced = self._introduction is None or self._introduction.done()
        return not self._pending and not self.store.reading and introduced

    # -- what the screen asks for ---------------------------------------------------------------------------------------

    def aim(self, project: str, *, delete_project: bool) -> None:
        """Read plan and inventory of another project; what is read of the present one is given up."""
        self._spawn(self._aim(project, delete_project))

    def replan(self, *, delete_project: bool) -> None:
        """Make the plan anew from the records."""
        self._spawn(self._replan(delete_project))

    def read_again(self) -> None:
        """Read the projects and the inventory again, unless the inventory is being read."""
        self._spawn(self._read_again())

    def halt(self) -> None:
        """Stop reading the inventory."""
        self._spawn(self._halt())

    def watch(self, project_id: str) -> None:
        """Whose lease is looked at from now on."""
        self._watched = project_id
        self.check_runner(anew=True)

    def check_runner(self, *, anew: bool = False) -> Future[None]:
        """Look at the lease and at the receipt now, and not only when their second has come."""
        if anew or self._checking is None or self._checking.done():
            self._checking = asyncio.run_coroutine_threadsafe(self._check(), self._loop)
            self._pending.add(self._checking)
        return self._checking

    def runner(self, project_id: str) -> Future[RunnerInfo | None]:
        """Who holds a project's lease at this moment."""
        work = asyncio.to_thread(self._source.runner_alive, project_id)
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def preview(self, plan: Plan, phase: str) -> Future[PhasePreview]:
        return asyncio.run_coroutine_threadsafe(_awaited(self._source.preview(plan, phase)), self._loop)

    def start_runner(self, plan: Plan, *, delete_project: bool) -> Future[str | Refusal]:
        """Start the runner in a thread of its own: the handshake takes some seconds."""
        work = asyncio.to_thread(self._source.start, plan, delete_project=delete_project)
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # -- the reader's own thread ----------------------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        self._pending.add(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _put(self, **changed: object) -> None:
        self.store = replace(self.store, **changed)  # type: ignore[arg-type]

    async def _list(self) -> None:
        self._list_projects()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH)
            await self._check()

    async def _check(self) -> None:
        project_id = self._watched
        if not project_id:
            return
        runner = self._guarded(lambda: self._source.runner_alive(project_id))
        receipt = self.store.receipt
        if receipt is None or runner != self.store.runner:
            receipt = self._guarded(lambda: self._source.receipt_path(project_id))
        store = self.store
        if project_id == self._watched and (runner, receipt, project_id) != (
            store.runner,
            store.receipt,
            store.checked,
        ):
            self._put(runner=runner, receipt=receipt, checked=project_id)

    async def _introduce(self) -> None:
        """Who we are. Asked once there is a project, whose login it is."""
        account = await self._told(self._source.whoami())
        if isinstance(account, Account) and account.id:
            self._put(account=account)

    def _list_projects(self) -> None:
        found = self._guarded(self._source.projects)
        self._put(projects=found if found is not None else self.store.projects or ())

    async def _aim(self, project: str, delete_project: bool) -> None:
        await self._give_up()
        self._put(
            aimed=project, plan=None, inventory=None, first=None, reports=(), halted=False, problem="", reading=True,
            runner=None, receipt=None, checked="",
        )  # fmt: skip
        await self._replan(delete_project)
        if self.store.account is None:
            self._introduction = self._loop.create_task(self._introduce())
        self._begin_reading()

    async def _replan(self, delete_project: bool) -> None:
        project = self.store.aimed
        plan = self._guarded(lambda: self._source.plan(project, delete_project=delete_project))
        if project == self.store.aimed and plan is not None:
            self._put(plan=plan)

    async def _read_again(self) -> None:
        self._list_projects()
        if self._reading is not None and not self._reading.done():
            return
        if self.store.aimed:
            self._begin_reading()

    def _begin_reading(self) -> None:
        self._put(reading=True, halted=False, problem="", reports=())
        self._reading = self._loop.create_task(self._read(self.store.aimed))

    async def _read(self, project: str) -> None:
        def heard(report: SourceReport) -> None:
            self._put(reports=(*self.store.reports, report))

        try:
            inventory = await self._source.inventory(project, heard)
        except asyncio.CancelledError:
            self._put(reading=False)
            raise
        except Exception as bug:  # shown in the plan's place: the console must outlive what it cannot read
            self._put(reading=False, problem=_said(bug))
            return
        first = self.store.first or (inventory if inventory.complete else None)
        spends = dict(self.store.spends)
        if inventory.complete:
            spends[project] = (inventory.per_day, len(inventory.hazards))
        self._put(reading=False, inventory=inventory, first=first, reports=inventory.sources, spends=spends)

    async def _halt(self) -> None:
        if self.store.reading:
            await self._give_up()
            self._put(reading=False, halted=self.store.inventory is None)

    async def _give_up(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _told(self, work: Awaitable[T]) -> T | None:
        try:
            return await work
        except Exception as bug:
            self._put(problem=_said(bug))
            return None

    def _guarded(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Exception as bug:
            self._put(problem=_said(bug))
            return None


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def _said(bug: BaseException) -> str:
    return redact(f"{type(bug).__name__}: {bug}")
