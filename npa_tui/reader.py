"""Everything slow that the console reads, in one thread with one loop. The screen never waits for it: it looks at the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TypeVar

from engine.inventory.model import Inventory, SourceReport
from engine.run.faces import Account, ProjectLine
from engine.run.preview import PhasePreview
from engine.words.plans import Plan
from engine.words.reasons import Refusal
from engine.words.redact import redact
from npa_tui.source import Source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Store:
    """What has been read, as one value that is replaced and never changed.

    aimed    the project that plan, inventory and reports are of
    first    its first complete inventory since the console was aimed at it
    halted   somebody stopped the reading before its end
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


class Reader:
    """Started once. Its methods are called from the screen's thread and return at once; only the reader's thread writes the store."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="reader", daemon=True)
        self._reading: asyncio.Task[None] | None = None
        self._pending: set[Future[None]] = set()
        self.store = Store()

    def start(self) -> None:
        self._thread.start()
        self._spawn(self._look_around())

    def stop(self) -> None:
        """End the thread; what is being read is given up."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=2.0)

    @property
    def idle(self) -> bool:
        """Whether everything that was asked for has been read."""
        self._pending = {f for f in self._pending if not f.done()}
        return not self._pending and not self.store.reading

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

    async def _look_around(self) -> None:
        """Who the projects are, and who we are. Neither stops the other."""
        self._list_projects()
        account = await self._told(self._source.whoami())
        self._put(account=account if isinstance(account, Account) else None)

    def _list_projects(self) -> None:
        found = self._guarded(self._source.projects)
        self._put(projects=found if found is not None else self.store.projects or ())

    async def _aim(self, project: str, delete_project: bool) -> None:
        await self._give_up()
        self._put(
            aimed=project, plan=None, inventory=None, first=None, reports=(), halted=False, problem="", reading=True
        )  # fmt: skip
        await self._replan(delete_project)
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
