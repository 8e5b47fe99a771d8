"""The badge and its sentence: what the whole console is doing."""

from __future__ import annotations

from enum import StrEnum

from engine.ledger.state import Run
from engine.run.faces import RunnerInfo
from npa_tui.phases import PhaseView
from npa_tui.stands import FINISHED, Stand


class Mode(StrEnum):
    """The badge: what the whole console is doing."""

    PLAN = "PLAN"
    LIVE = "LIVE"
    STOPPED = "STOPPED"
    DONE = "DONE"


PLANNED = (Mode.PLAN, "nothing changes until you confirm a phase")


def badge(
    run: Run | None, runner: RunnerInfo | None, alive: bool, paused: str, phases: tuple[PhaseView, ...]
) -> tuple[Mode, str]:
    """`alive`: the run's own process is there; another `runner` may hold the project in its place."""
    if alive:
        return Mode.LIVE, _live(paused, phases)
    if runner is not None:
        return Mode.LIVE, f"{runner.command or 'another program'} holds the project, pid {runner.pid}"
    if run is None:
        return PLANNED
    by_stand = {s: [p for p in phases if p.stand is s] for s in Stand}
    for stand, words in ((Stand.FAILED, "failed"), (Stand.UNKNOWN, "is not known")):
        if by_stand[stand]:
            return Mode.STOPPED, f"{_these(by_stand[stand])} {words}, nothing is running"
    if not run.open and all(p.stand in FINISHED for p in phases):
        return Mode.DONE, "nothing is left, receipt complete"
    open_ = [p for p in phases if p.stand in (Stand.CONFIRM, Stand.READY)]
    if not open_ and by_stand[Stand.WAITS] and by_stand[Stand.HELD]:
        verb = "is" if len(by_stand[Stand.HELD]) == 1 else "are"
        return Mode.STOPPED, f"{_these(by_stand[Stand.HELD])} {verb} held, nothing is running"
    if not open_:
        held = len(by_stand[Stand.HELD])
        left = len(by_stand[Stand.LEFTOVERS])
        parts = [f"{held} held" if held else "", f"{left} with leftovers" if left else ""]
        return Mode.DONE, ", ".join(p for p in parts if p) or "nothing is left to do"
    if not run.acted and not run.consents:
        return PLANNED
    waiting = by_stand[Stand.CONFIRM]
    return Mode.STOPPED, f"{_wait(waiting)}, nothing is running" if waiting else "nothing is running"


def _live(paused: str, phases: tuple[PhaseView, ...]) -> str:
    running = [p for p in phases if p.stand is Stand.RUNNING]
    waiting = [p for p in phases if p.stand is Stand.CONFIRM]
    parts = []
    if paused:
        parts.append(paused)
    elif running:
        parts.append(f"{_these(running)} {'is' if len(running) == 1 else 'are'} running")
    if waiting:
        parts.append(_wait(waiting))
    return ", ".join(parts) or "the runner is at work"


def _wait(phases: list[PhaseView]) -> str:
    return f"{_these(phases)} {'waits' if len(phases) == 1 else 'wait'} for you"


def _these(phases: list[PhaseView]) -> str:
    numbers = [f"{p.number:02}" for p in phases]
    if len(numbers) > 3:
        return f"{len(numbers)} phases"
    return numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} and {numbers[-1]}"
