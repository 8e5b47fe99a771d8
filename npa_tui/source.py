"""What the console asks of the engine. It reads through this and changes nothing through it, except by starting a runner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from engine.inventory.model import Inventory, SourceReport
from engine.run.faces import Account, ProjectLine, RunnerInfo
from engine.run.preview import PhasePreview
from engine.words.plans import Plan
from engine.words.presence import Unknown
from engine.words.reasons import Refusal


class Source(Protocol):
    """The engine's side of the console. A `project` is an alias or a project id.

    The plain methods read local records only and are cheap. The coroutines are awaited on the reader's loop. `start` may block
    for some seconds: call it in a thread.
    """

    def projects(self) -> tuple[ProjectLine, ...]: ...

    def plan(self, project: str, *, delete_project: bool = False) -> Plan | Refusal: ...

    def journal_path(self, project_id: str) -> Path:
        """The project's journal, whether or not it exists."""
        ...

    def inbox(self, project_id: str) -> Path:
        """Where the project's runner looks for requests."""
        ...

    def receipt_path(self, project_id: str) -> Path | None: ...

    def runner_alive(self, project_id: str) -> RunnerInfo | None:
        """Who holds the project's lease now; None when nobody does."""
        ...

    async def inventory(self, project: str, on_source: Callable[[SourceReport], None]) -> Inventory: ...

    async def preview(self, plan: Plan, phase: str) -> PhasePreview: ...

    async def whoami(self) -> Account | Unknown: ...

    def start(self, plan: Plan, *, delete_project: bool) -> str | Refusal:
        """Start the detached runner, or let it resume: its run id, or why it did not start."""
        ...
