"""The scenes of the walkthrough: what is there, what has happened, which keys were pressed, and the size of the window."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from textual.pilot import Pilot

from engine.ledger.journal import read
from engine.words.reasons import Reason, Refusal
from npa_tui.app import Console
from npa_tui.moments import moment
from npa_tui.screens.confirm import ConfirmScreen
from npa_tui.screenshots import world
from npa_tui.screenshots.staged import StagedSource, Still

WIDE = (120, 36)
NARROW = (80, 24)
LARGE = (170, 44)


@dataclass(frozen=True)
class Staging:
    """A console, the source that it reads, and the clock that both go by."""

    app: Console
    source: StagedSource
    clock: Still


@dataclass(frozen=True)
class Scene:
    """`stage` sets the source before the console starts; `keys` are pressed, then `drive` runs."""

    name: str
    title: str
    size: tuple[int, int] = WIDE
    stage: Callable[[StagedSource], None] = field(default=lambda source: None)
    keys: tuple[str, ...] = ()
    then: Callable[[StagedSource], None] | None = None
    """Set on the source after the keys; the dialog that is open looks again."""
    theme: str = "npa-dark"
    ascii: bool = False
    project: str = world.ALIAS
    watched: bool = False
    """The console was open before the run began: it knows what was there."""


def _running(source: StagedSource) -> None:
    script = world.running()
    source.write(script.entries)
    source.run()
    gone = frozenset(p.ref.id for p in world.TARGETS["agents"][0].parts)
    source.there = world.inventory(without=gone)


def _failed(source: StagedSource) -> None:
    script = world.failed()
    source.write(script.entries)
    gone = world.ids_of("agents", "agent_iam", "controller") | frozenset(
        r.ref.id
        for r in world.ROWS_THERE
        if r.phase == "clusters" and "b-0" not in r.name and r.name != "mk8s-eval"
    )
    source.there = world.inventory(without=gone, at=script.time)


def _finished(source: StagedSource) -> None:
    script = world.finished()
    source.write(script.entries)
    source.made = Refusal(Reason.UNKNOWN_ALIAS, "No configuration names ml-sandbox any more.", "npa list")
    everything = frozenset(r.ref.id for r in (*world.ROWS_THERE, world.SCRATCH))
    source.there = world.inventory(without=everything, at=script.time)


def _bucket_next(source: StagedSource) -> None:
    """Everything that the bucket needs is gone."""
    script = world.Script().at(1)
    for phase in ("workflows", "agents", "agent_iam", "controller", "clusters", "registries"):
        script.whole(phase, 12)
    source.write(script.entries)
    source.run()
    gone = world.ids_of("agents", "agent_iam", "controller", "clusters", "registries")
    source.there = world.inventory(without=gone | {world.SCRATCH.ref.id}, at=script.time)


def _controller_next(source: StagedSource) -> None:
    script = world.Script().at(1)
    script.whole("workflows", 18)
    source.write(script.entries)
    source.run()


def _silent(source: StagedSource) -> None:
    source.heard = world.reports()[:3]
    source.there = None


def _denied(source: StagedSource) -> None:
    source.there = world.inventory(failed="compute")


def _nobody(source: StagedSource) -> None:
    source.lines = ()


def _protected(source: StagedSource) -> None:
    source.lines = (replace(world.PROJECTS[0], protected=True), *world.PROJECTS[1:])


def _written_since(source: StagedSource) -> None:
    bucket = world.TARGETS["bucket"][0].parts[0].ref.id
    source.look = lambda plan, phase: world.preview(plan, phase, other=[bucket])


_ALIAS = tuple(c if c.isalnum() else "minus" for c in world.ALIAS)
_TO_BUCKET = ("enter",)
_TO_AGENTS = ("up", "up", "up", "up", "enter")

SCENES: tuple[Scene, ...] = (
    Scene("plan-120x36", "A plan: nothing has happened"),
    Scene("plan-80x24", "The same on a small terminal", NARROW),
    Scene("plan-170x44", "The same on a large one, with ids and ages", LARGE),
    Scene("running-120x36", "One phase runs, one waits for you", WIDE, _running, watched=True),
    Scene("running-80x24", "The same on a small terminal", NARROW, _running, watched=True),
    Scene("inventory-80x24", "The inventory on a small terminal", NARROW, _running, ("3",)),
    Scene("projects-80x24", "The projects on a small terminal", NARROW, _running, ("1",)),
    Scene("filter-120x36", "The inventory, filtered", WIDE, _running, ("slash", *"gpu", "space", *"kind", "colon", *"disk")),
    Scene("receipt-120x36", "The receipt of an open run", WIDE, _running, ("4",), watched=True),
    Scene("receipt-80x24", "The same on a small terminal", NARROW, _running, ("4",), watched=True),
    Scene("log-80x24", "The log on a small terminal", NARROW, _running, ("5",)),
    Scene("confirm-tier1-80x24", "Consent to what can be recreated", NARROW, keys=("x",)),
    Scene("confirm-tier2-120x36", "Consent to what cannot be undone", WIDE, _controller_next, ("down", "down", "down", "enter")),
    Scene("confirm-tier3-120x36", "Consent to what ends data", WIDE, _bucket_next, (*_TO_BUCKET, *_ALIAS)),
    Scene("confirm-tier3-80x24", "A wrong alias", NARROW, _bucket_next, (*_TO_BUCKET, *_ALIAS[:5], "x")),
    Scene("confirm-changed-120x36", "The world moved while the dialog was open", WIDE, _bucket_next, _TO_BUCKET, _written_since),
    Scene("run-120x36", "A phase at work", WIDE, _running, _TO_AGENTS),
    Scene("run-80x24", "The same on a small terminal", NARROW, _running, _TO_AGENTS),
    Scene("failed-120x36", "A phase that did not come to its end", WIDE, _failed, watched=True),
    Scene("failed-80x24", "The same on a small terminal", NARROW, _failed, watched=True),
    Scene("finished-120x36", "Nothing is left", WIDE, _finished, watched=True),
    Scene("finished-80x24", "The same on a small terminal", NARROW, _finished, ("2",)),
    Scene("reading-120x36", "The inventory is being read", WIDE, _silent),
    Scene("reading-80x24", "The same on a small terminal", NARROW, _silent),
    Scene("error-120x36", "A source did not answer", WIDE, _denied),
    Scene("error-80x24", "The same on a small terminal", NARROW, _denied),
    Scene("empty-120x36", "No projects", WIDE, _nobody, project=""),
    Scene("empty-80x24", "The same on a small terminal", NARROW, _nobody, project=""),
    Scene("choose-120x36", "More than one project: a person chooses", WIDE, project=""),
    Scene("protected-120x36", "A protected project", WIDE, _protected),
    Scene("help-120x36", "Keys and signs", WIDE, _running, ("question_mark",)),
    Scene("help-80x24", "The same on a small terminal", NARROW, _running, ("question_mark",)),
    Scene("light-120x36", "The light theme", WIDE, _running, theme="npa-light", watched=True),
    Scene("light-confirm-120x36", "The dialog in the light theme", WIDE, _bucket_next, (*_TO_BUCKET, *_ALIAS), theme="npa-light"),
    Scene("ansi-120x36", "The terminal's own 16 colours", WIDE, _running, theme="npa-ansi", watched=True),
    Scene("ascii-120x36", "Without any character beyond ASCII", WIDE, _running, ascii=True, watched=True),
    Scene("ascii-confirm-120x36", "The dialog without any character beyond ASCII", WIDE, _bucket_next, _TO_BUCKET, ascii=True),
    Scene("too-small-50x12", "A window that is too small", (50, 12), _running),
)  # fmt: skip

BY_NAME = {s.name: s for s in SCENES}

WALKTHROUGH = (
    "choose-120x36", "reading-120x36", "error-120x36", "plan-120x36", "plan-170x44", "confirm-tier1-80x24",
    "confirm-tier2-120x36", "confirm-tier3-120x36", "confirm-changed-120x36", "running-120x36", "running-80x24",
    "run-120x36", "failed-120x36", "receipt-120x36", "finished-120x36", "help-120x36", "light-120x36", "ascii-120x36",
)  # fmt: skip
"""The pictures that are kept beside the documentation, in the order of a teardown."""


@asynccontextmanager
async def played(scene: Scene) -> AsyncIterator[tuple[Pilot[int], Staging]]:
    """The console at the end of a scene, at rest."""
    with tempfile.TemporaryDirectory() as folder:
        staging = staged(scene, Path(folder))
        async with staging.app.run_test(size=scene.size) as pilot:
            await act(scene, pilot, staging)
            yield pilot, staging


def staged(scene: Scene, folder: Path) -> Staging:
    """A console in front of the scene's source; of a watched scene, before anything has happened."""
    source, clock = StagedSource(folder), Still()
    if scene.watched:
        clock.at = _moment(_BEFORE)
        source.there = world.inventory(at=_BEFORE)
    else:
        _set(scene, source, clock)
    app = Console(source, project=scene.project, theme=scene.theme, ascii_only=scene.ascii, moments=clock)
    return Staging(app, source, clock)


def _set(scene: Scene, source: StagedSource, clock: Still) -> None:
    scene.stage(source)
    clock.at = max(_moment(world.NOW), _end(source))


async def act(scene: Scene, pilot: Pilot[int], staging: Staging) -> None:
    """Wait until all is read, press the keys, and wait again."""
    silent = scene.stage is _silent
    await rest(pilot, staging.app, reading=silent)
    if scene.watched:
        _set(scene, staging.source, staging.clock)
        await rest(pilot, staging.app)
        await rest(pilot, staging.app)
        for key in ("2", "home", "home"):
            await pilot.press(key)
        staging.app.main.find_start()
    for key in scene.keys:
        await pilot.press(key)
    await rest(pilot, staging.app, reading=silent)
    if scene.then is not None:
        scene.then(staging.source)
        await look_again(pilot, staging.app)


async def rest(pilot: Pilot[int], app: Console, *, reading: bool = False) -> None:
    """Until everything that was asked for has been read and is shown."""
    for _ in range(200):
        app.pump()
        await pilot.pause()
        looking = [w for w in app.workers if w.group in ("look", "consent") and not w.is_finished]
        read = app.reader.idle or (reading and app.view.reports)
        if read and not looking and (app.view.projects or app.reader.store.projects == ()):
            break
        await pilot.pause(0.005)
    for _ in range(3):
        app.pump()
        await pilot.pause()


async def look_again(pilot: Pilot[int], app: Console) -> None:
    """What the dialog does every few seconds, now."""
    screen = app.screen
    if isinstance(screen, ConfirmScreen):
        screen.look_in_passing()
    await rest(pilot, app)


_BEFORE = "2026-03-04T14:02:00.000Z"


def _end(source: StagedSource) -> datetime:
    """When the journal's last entry was written."""
    entries = [entry for entry, _ in read(source.journal_path(world.PROJECT))]
    return _moment(entries[-1].at if entries else world.NOW)


def _moment(text: str) -> datetime:
    at = moment(text)
    assert at is not None
    return at


def named(names: Iterable[str]) -> tuple[Scene, ...]:
    """The scenes whose names contain one of these; the walkthrough when there is none."""
    wanted = list(names)
    if not wanted:
        return tuple(BY_NAME[name] for name in WALKTHROUGH)
    return tuple(s for s in SCENES if any(w in s.name for w in wanted))
