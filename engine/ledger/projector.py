"""Keeps the existing CLI's records true to our journal: its receipt, its operation journal and its lease file.

They are on disk before a target's first call and before its local evidence goes; beyond that they follow when the run ends. Many
events are one rewrite: those who ask in the same tick of the loop share it.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.clock import Clock
from engine.home.errors import RecordError
from engine.home.operation_writes import edit_journal, write_lease
from engine.home.receipt_rules import sanitize_event
from engine.home.receipts import edit_receipt, receipt_path
from engine.home.roots import Roots
from engine.ledger import operations, receipts
from engine.ledger.journal import Journal
from engine.ledger.lease import lease_document, me
from engine.ledger.receipt_identity import receipt_identity
from engine.words.identity import Identity
from engine.words.plans import Plan


class RecordProjector:
    """One run's projector. Every write raises `OSError`; a record that another program left unusable does too, named."""

    def __init__(
        self, roots: Roots, identity: Identity, plan: Plan, journal: Journal, clock: Clock, receipt_id: str
    ) -> None:
        self.receipt_id = receipt_id
        self._roots = roots
        self._identity = identity
        self._plan = plan
        self._journal = journal
        self._clock = clock
        self._called: set[str] = set()
        self._tidied: set[str] = set()
        self._pending: asyncio.Future[None] | None = None
        self._acquired = clock.now()
        self._holder = me()

    @property
    def receipt(self) -> Path:
        return receipt_path(self._roots, self.receipt_id)

    async def before_call(self, target: str) -> None:
        if target not in self._called:
            await self._shared_rewrite()
            self._called.add(target)

    async def before_tidy(self, target: str) -> None:
        if target not in self._tidied:
            await self._shared_rewrite()
            self._tidied.add(target)

    async def _shared_rewrite(self) -> None:
        loop = asyncio.get_running_loop()
        if self._pending is None:
            self._pending = loop.create_future()
            self._pending.add_done_callback(lambda f: f.exception())
            loop.call_soon(self._rewrite_pending)
        await asyncio.shield(self._pending)

    def _rewrite_pending(self) -> None:
        pending, self._pending = self._pending, None
        assert pending is not None
        try:
            self.write_receipt()
        except OSError as error:
            pending.set_exception(error)
        else:
            pending.set_result(None)

    def open(self) -> None:
        """The operation and the lease say that this process has the project."""
        self._write_operation()
        self._write_lease(released="")

    def close(self) -> None:
        """Everything follows the journal's end."""
        run = self._journal.state.runs.get(self._journal.run)
        if run is not None and (run.acted or self.receipt.exists()):
            self.write_receipt()
        self._write_operation()
        self._write_lease(released=self._clock.now()[:19] + "Z")

    def write_receipt(self) -> None:
        """Make our block of the receipt anew."""
        ours = [sanitize_event(e) for e in receipts.events(self._identity, self._journal.entries, self._plan)]
        root = receipt_identity(self._identity, self._plan)

        def change(before: dict[str, Any] | None) -> dict[str, Any]:
            return receipts.merged(before, self.receipt_id, self._identity, ours, root)

        _as_os_error(lambda: edit_receipt(self._roots, self.receipt_id, change))

    def _write_operation(self) -> None:
        run = self._journal.state.runs.get(self._journal.run)
        if run is None or not run.operation_id:
            return

        def change(existing: dict[str, object] | None) -> dict[str, object]:
            now, pid = self._clock.now()[:19] + "Z", self._holder.pid
            return operations.document(existing, self._identity, self._plan, run, pid, now)

        _as_os_error(lambda: edit_journal(self._roots, run.operation_id, change))

    def _write_lease(self, released: str) -> None:
        run = self._journal.state.runs.get(self._journal.run)
        if run is None:
            return
        phase, lifecycle, _ = operations.phase_of(run)
        fields = {
            "operation_id": run.operation_id,
            "command": operations.COMMAND,
            "phase": phase,
            "lifecycle": lifecycle,
        }
        new = lease_document(self._identity, fields, self._acquired, released, self._holder)
        _as_os_error(lambda: write_lease(self._roots, new))


def _as_os_error(write: Callable[[], object]) -> None:
    """A record that another program left unusable stops us as a full disk does: nothing is called without its receipt."""
    try:
        write()
    except RecordError as error:
        raise OSError(errno.EINVAL, str(error.problem)) from error
