"""Keeps the existing CLI's records true to our journal: its receipt, its operation journal and its lease file.

They are on disk before a target's first call and before its local evidence goes; beyond that they follow when the run ends. Many
events are one rewrite: those who ask in the same tick of the loop share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.clock import Clock
from engine.home.atomic import write_private
from engine.home.documents import read_json, write_json
from engine.home.errors import Kind, RecordError
from engine.home.locks import flocked
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

        try:
            edit_receipt(self._roots, self.receipt_id, change)
        except RecordError as error:
            raise OSError(0, str(error.problem)) from error

    def _write_operation(self) -> None:
        run = self._journal.state.runs.get(self._journal.run)
        if run is None or not run.operation_id:
            return
        path = self._roots.operation(run.operation_id) / "journal.json"
        with flocked(
            self._roots.operation_lock(run.operation_id), root=self._roots.operations, kind=Kind.OPERATIONS
        ):
            existing = _existing(path, self._roots, Kind.OPERATIONS)
            new = operations.document(
                existing,
                self._identity,
                self._plan,
                self._journal.state,
                run,
                self._holder.pid,
                self._clock.now()[:19] + "Z",
            )
            write_private(path, write_json(new), kind=Kind.OPERATIONS, root=self._roots.operations)

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
        path = self._roots.lease_folder(self._identity.project_id) / "lease.json"
        new = lease_document(self._identity, fields, self._acquired, released, self._holder)
        write_private(path, write_json(new), kind=Kind.LEASES, root=self._roots.operations)


def _existing(path: Path, roots: Roots, kind: Kind) -> Mapping[str, Any] | None:
    try:
        return read_json(path, roots.operations, kind)
    except RecordError as error:
        raise OSError(0, str(error.problem)) from error
