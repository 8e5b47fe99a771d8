"""A source for tests: what the walkthrough's scenes use, with what was asked of it kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from engine.ledger.events import Consented, Entry
from engine.run.preview import PhasePreview
from engine.run.requests import Request, waiting
from engine.words.plans import Plan
from npa_tui.app import Console
from npa_tui.screenshots import world
from npa_tui.screenshots.scenes import rest
from npa_tui.screenshots.staged import StagedSource, Still


class FakeSource(StagedSource):
    """Remembers each look, and reads the inbox as a runner would."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.looks: list[tuple[str, str]] = []
        self.blocked = False

    async def preview(self, plan: Plan, phase: str) -> PhasePreview:
        self.looks.append((plan.digest, phase))
        while self.blocked:  # noqa: ASYNC110 - set from the thread of the test
            await asyncio.sleep(0.01)
        return self.look(plan, phase)

    def requests(self) -> list[Request]:
        """What the console has asked for and nobody has read."""
        return [r for _, r in waiting(self.inbox(world.PROJECT)) if r is not None]

    def answer(self, script: world.Script) -> None:
        """Take every consent out of the inbox, as a runner does: into the journal first, then the file goes."""
        for path, request in list(waiting(self.inbox(world.PROJECT))):
            if request is not None and request.consent is not None:
                script.add(Consented(request.consent))
                self.write(script.entries)
            path.unlink()


class Session:
    """A console under test: its pilot, its source and its clock."""

    def __init__(self, pilot: Pilot[int], app: Console, source: FakeSource, clock: Still) -> None:
        self.pilot, self.app, self.source, self.clock = pilot, app, source, clock

    async def settle(self) -> None:
        await rest(self.pilot, self.app)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.settle()

    async def wait(self, seconds: float) -> None:
        """Let the console's clock go on."""
        self.clock.seconds += seconds
        await self.settle()

    def text(self) -> str:
        """What is on the screen, as text."""
        width, height = self.app.size
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text[:width] for strip in strips[:height])


@asynccontextmanager
async def session(
    folder: Path,
    stage: Callable[[FakeSource], None] = lambda source: None,
    *,
    size: tuple[int, int] = (120, 36),
    project: str = world.ALIAS,
    entries: list[Entry] | None = None,
    reading: bool = False,
) -> AsyncIterator[Session]:
    """A console that has read everything, or, `reading`, what there is to read. `entries`: the journal it finds."""
    source, clock = FakeSource(folder), Still()
    if entries is not None:
        source.write(entries)
    stage(source)
    app = Console(source, project=project, moments=clock)
    async with app.run_test(size=size) as pilot:
        made = Session(pilot, app, source, clock)
        await rest(pilot, app, reading=reading)
        yield made
