"""The tree of stages and phases, one row at a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from rich.text import Text

from engine.words.phases import STAGES
from npa_tui.phases import PhaseView, Step
from npa_tui.render.glyphs import SIGNS
from npa_tui.render.ink import Ink
from npa_tui.render.numbers import elapsed
from npa_tui.stands import FINISHED, Stand

NAME = 22
"""Cells of the longest phase name: names are never cut where there is room for this."""


def stages(phases: Iterable[PhaseView]) -> dict[str, list[PhaseView]]:
    """The phases by stage; stages in the order in which they come to their end."""
    by_stage: dict[str, list[PhaseView]] = {s: [] for s in STAGES}
    for phase in phases:
        by_stage[phase.row.stage].append(phase)
    full = {s: ps for s, ps in by_stage.items() if ps}
    return dict(sorted(full.items(), key=lambda item: item[1][-1].number))


def stage_row(stage: str, phases: list[PhaseView], unfolded: bool, ink: Ink, width: int) -> Text:
    done = sum(p.stand in FINISHED for p in phases)
    over = done == len(phases)
    fold = ink.glyphs.unfolded if unfolded else ink.glyphs.folded
    left = Text.assemble((f"{fold} ", ink.muted), (stage, ink("muted" if over else "foreground", bold=True)))
    right = Text(f"{done} of {len(phases)}", style=ink.muted)
    if over:
        right = Text.assemble(ink.sign(Stand.DONE), " ", right)
    return ink.fit(left, right, width)


def phase_row(
    phase: PhaseView, relation: str, ink: Ink, width: int, now: datetime, *, cursor: bool = False
) -> Text:
    """Glyph, relation mark, number and name; right-aligned the progress, or what it waits for.

    `relation` is `needed` or `unblocked` as seen from the highlighted phase, or empty.
    """
    mark = {"needed": ink.glyphs.needed, "unblocked": ink.glyphs.unblocked}.get(relation, " ")
    quiet = phase.stand in (Stand.WAITS, Stand.NOTHING)
    loud = phase.stand in (Stand.RUNNING, Stand.CONFIRM, Stand.FAILED)
    # Faint text is too weak on the cursor's tint.
    weak = ink.muted if cursor else ink.faint
    left = Text.assemble(
        ink.sign(phase.stand),
        (mark, ink.key),
        (f"{phase.number:02} ", weak),
        (phase.row.label, ink("muted") if quiet and not cursor else ink("foreground", bold=loud)),
    )
    room = width - left.cell_len - 1
    return ink.fit(left, _progress(phase, ink, room, now, weak), width)


def _progress(phase: PhaseView, ink: Ink, room: int, now: datetime, weak: object) -> Text:
    time = elapsed(phase.began, phase.ended, now)
    took = (f"  {time:>4}" if time else "", ink.muted)
    match phase.stand:
        case Stand.RUNNING:
            return _running(phase, ink, room, time)
        case Stand.WAITS if phase.blocked:
            return Text(f"blocked by {_numbers(phase.blocked, 3)}", style=ink("st-fail"))
        case Stand.WAITS:
            words = f"after {_numbers(phase.after, 3)}" if phase.after else "waits"
            return Text(words, style=ink.muted if weak is ink.muted else ink.faint)
        case Stand.CONFIRM:
            long = room > 34
            return Text.assemble(
                ("needs your confirmation" if long else "confirm", ink.stand(phase.stand, bold=True)),
                ("  enter" if long else "", ink.muted),
            )
        case Stand.READY:
            words = "asked" if phase.note else "ready"
            return Text(words, style=ink.text)
        case Stand.FAILED:
            return _dropping(
                room,
                Text.assemble(
                    (f"{phase.settled}/{phase.total} ", ink.muted), ("failed", ink("st-fail", bold=True))
                ),
                Text.assemble(took),
            )
        case Stand.HELD:
            words = (
                f"{phase.held} {'block' if phase.held[:2] != '1 ' else 'blocks'} it"
                if _blocks(phase, room)
                else phase.held or "held"
            )
            return Text(words, style=ink("st-held"))
        case Stand.UNKNOWN:
            return Text("outcome not known" if room > 17 else "not known", style=ink("st-ask", bold=True))
        case Stand.DONE:
            return _dropping(room, Text("done", style=ink.muted), Text.assemble(took))
        case Stand.LEFTOVERS:
            return _dropping(room, Text("leftovers", style=ink("st-ask", bold=True)), Text.assemble(took))
        case Stand.NOTHING:
            return Text(SIGNS[Stand.NOTHING].word, style=ink.muted if weak is ink.muted else ink.faint)


def _blocks(phase: PhaseView, room: int) -> bool:
    return room > 34 and phase.held[:1].isdigit() and phase.name == "delete_project"


def _dropping(room: int, words: Text, rest: Text) -> Text:
    """The rest only where there is room for it."""
    return Text.assemble(words, rest) if words.cell_len + rest.cell_len <= room else words


def _running(phase: PhaseView, ink: Ink, room: int, time: str) -> Text:
    """Bar, count and time: the bar shrinks first, then the time goes."""
    count = Text(f"{phase.settled}/{phase.total}", style=ink("st-run", bold=True))
    took = Text(f"  {time:>4}", style=ink.muted)
    for bar, shown in ((12, took), (6, took), (6, Text("")), (0, Text(""))):
        gap = " " if bar else ""
        if bar + len(gap) + count.cell_len + shown.cell_len <= room:
            return Text.assemble(ink.bar(phase.settled, phase.total, bar), gap, count, shown)
    return count


def _numbers(numbers: tuple[int, ...], most: int) -> str:
    shown = [f"{n:02}" for n in numbers[:most]]
    return ", ".join(shown) + (f" +{len(numbers) - most}" if len(numbers) > most else "")


def step_row(step: Step, ink: Ink, width: int) -> Text:
    """An unfinished target of a running phase."""
    left = Text.assemble(ink.sign(step.stand), " ", (step.name, ink.muted))
    room = width - left.cell_len - 2
    note = ink.short(Text(step.note, style=ink.muted), max(8, room)) if step.note else Text("")
    return ink.fit(left, note, width)
