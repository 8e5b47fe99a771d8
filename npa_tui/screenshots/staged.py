"""A source whose answers are set: the console cannot tell it from the engine, and nothing outside is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from engine.inventory.model import Inventory, SourceReport
from engine.ledger.events import Entry, encode
from engine.run.faces import Account, ProjectLine, RunnerInfo
from engine.run.preview import PhasePreview
from engine.words.plans import Plan
from engine.words.presence import Unknown
from engine.words.reasons import Refusal
from npa_tui.moments import Moments
from npa_tui.screenshots import world


class Still(Moments):
    """A clock that stands until it is moved."""

    def __init__(self, at: str = world.NOW) -> None:
        self.at = datetime.fromisoformat(at).astimezone(UTC)
        self.seconds = 1000.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.seconds


class StagedSource:
    """Every answer is an attribute that may be replaced while the console runs. `folder` holds journal and inbox."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: tuple[ProjectLine, ...] = world.PROJECTS
        self.made: Plan | Refusal = world.PLAN
        self.there: Inventory | Exception | None = world.inventory()
        self.heard: tuple[SourceReport, ...] = ()
        self.look: Callable[[Plan, str], PhasePreview] = world.preview
        self.account: Account | Unknown = world.ACCOUNT
        self.runner: RunnerInfo | None = None
        self.started: list[Plan] = []
        self.start_answer: str | Refusal = world.RUN

    def write(self, entries: list[Entry]) -> None:
        """Put these entries into the journal, in place of what is there."""
        data = b"".join(encode(e) + b"\n" for e in entries)
        self.journal_path(world.PROJECT).write_bytes(data)

    def run(self, *, alive: bool = True) -> None:
        """Whether the run's process is there."""
        self.runner = (
            RunnerInfo(4711, "2026-03-04T14:02:11Z", "npa destroy", world.RUN, "workstation")
            if alive
            else None
        )

    # -- npa_tui.source.Source ------------------------------------------------------------------------------------------

    def projects(self) -> tuple[ProjectLine, ...]:
        return self.lines

    def plan(self, project: str, *, delete_project: bool = False) -> Plan | Refusal:
        return self.made

    def journal_path(self, project_id: str) -> Path:
        return self.folder / f"{project_id}.jsonl"

    def inbox(self, project_id: str) -> Path:
        return self.folder / "requests"

    def receipt_path(self, project_id: str) -> Path | None:
        return Path("/home/lena/.npa/teardown-receipts/ml-sandbox-35ca.json") if self._journal() else None

    def runner_alive(self, project_id: str) -> RunnerInfo | None:
        return self.runner if project_id == world.PROJECT else None

    async def inventory(self, project: str, on_source: Callable[[SourceReport], None]) -> Inventory:
        there = self.there
        for report in self.heard if there is None or isinstance(there, Exception) else there.sources:
            on_source(report)
        while there is None:  # a source that does not answer: until somebody stops the reading
            await asyncio.sleep(0.01)
            there = self.there
        if isinstance(there, Exception):
            raise there
        return there

    async def preview(self, plan: Plan, phase: str) -> PhasePreview:
        return self.look(plan, phase)

    async def whoami(self) -> Account | Unknown:
        return self.account

    def start(self, plan: Plan, *, delete_project: bool) -> str | Refusal:
        self.started.append(plan)
        return self.start_answer

    def _journal(self) -> bool:
        return self.journal_path(world.PROJECT).exists()
