"""Shows a run as it goes: a live tree on a terminal, one plain line per event elsewhere, JSON lines under `--events`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from engine.commands.output import Output
from engine.ledger.events import Entry
from engine.ledger.state import Run, State
from engine.run.narration import Line, narrate
from engine.words.outcomes import Status, Verdict
from engine.words.phases import PHASES
from engine.words.plans import PhasePlan
from engine.words.redact import visible

if TYPE_CHECKING:
    from rich.console import RenderableType


class Follower(Protocol):
    """Takes entries as they come, each with the state after it."""

    def entry(self, entry: Entry, state: State) -> None: ...


@contextmanager
def follower(output: Output) -> Iterator[Follower]:
    """The follower that fits the output."""
    if output.is_terminal:
        with _LiveTree() as tree:
            yield tree
    else:
        yield _Lines(output)


class _Lines:
    def __init__(self, output: Output) -> None:
        self._output = output

    def entry(self, entry: Entry, state: State) -> None:
        if self._output.mode == "events":
            self._output.event(event_document(entry))
        elif line := narrate(entry, state):
            self._output.line(text(line))


def event_document(entry: Entry) -> dict[str, Any]:
    """A journal entry as one JSON line of `--events`."""
    event = asdict(entry.event)
    return {"seq": entry.seq, "at": entry.at, "run": entry.run, **event}


def text(line: Line) -> str:
    """`HH:MM:SS  level  subject: message`."""
    return f"{line.at[11:19]}  {line.level:<4}  {line.subject}: {line.message}"


_GLYPH = {
    Status.COMPLETED: ("✓", "green"),
    Status.DEGRADED: ("◇", "yellow"),
    Status.PARTIAL: ("✗", "red"),
    Status.REFUSED: ("‖", "magenta"),
    Status.BLOCKED: ("·", "bright_black"),
    Status.CANCELLED: ("?", "yellow"),
    Status.PLANNED: ("○", ""),
    Status.KEPT: ("‖", "magenta"),
}


class _LiveTree:
    """Rich redraws the tree at most ten times a second; the log scrolls above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False, markup=False, soft_wrap=True)
        self._live = Live(
            console=self._console, refresh_per_second=10, transient=False, get_renderable=self._render
        )
        self._state: State | None = None
        self._run = ""

    def __enter__(self) -> _LiveTree:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def entry(self, entry: Entry, state: State) -> None:
        self._state, self._run = state, entry.run
        line = narrate(entry, state)
        if line and line.level in ("warn", "fail"):
            self._console.print(text(line))

    def _render(self) -> RenderableType:
        from rich.text import Text

        out = Text()
        run = self._state.runs.get(self._run) if self._state else None
        if run is not None:
            for row in tree_rows(run):
                out.append(row[0] + "\n", style=row[1])
        return out


def tree_rows(run: Run) -> list[tuple[str, str]]:
    """The plan as text rows with a style each."""
    rows: list[tuple[str, str]] = []
    for number, phase in enumerate(run.plan.phases, 1):
        ended = run.phases.get(phase.phase)
        began = phase.phase in run.began
        glyph, style = _GLYPH[ended.status] if ended else ("●", "cyan") if began else ("·", "bright_black")
        rows.append((f" {glyph} {number:02} {PHASES[phase.phase].label:<24}{_word(run, phase)}", style))
        if began and not ended:
            rows += [
                (f"      {visible(t.name)}", "bright_black")
                for t in phase.targets
                if t.key not in run.outcomes
            ]
    return rows


def _word(run: Run, phase: PhasePlan) -> str:
    ended = run.phases.get(phase.phase)
    done = sum(1 for t in phase.targets if (o := run.outcomes.get(t.key)) and o.verdict is Verdict.DONE)
    if ended is None:
        return f"{done}/{len(phase.targets)}" if phase.phase in run.began else ""
    if ended.status is Status.BLOCKED:
        return "blocked by " + ", ".join(f"{run.plan.number(b):02}" for b in ended.blocked_by)
    if ended.status is Status.COMPLETED:
        return "done" if phase.targets else "nothing to do"
    return f"{done}/{len(phase.targets)} {str(ended.status).replace('_', ' ')}"
