"""One phase at work: its head with bar and counts, and its targets."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text

from npa_tui.phases import PhaseView, next_to_confirm
from npa_tui.render.ink import Ink, lines
from npa_tui.render.numbers import elapsed
from npa_tui.stands import SETTLED, Stand
from npa_tui.state import View
from npa_tui.wording import nouns

_COUNTS = (
    (Stand.DONE, "gone and checked"),
    (Stand.RUNNING, "deleting"),
    (Stand.FAILED, "failed"),
    (Stand.HELD, "held"),
)


def run_head(phase: PhaseView, view: View, ink: Ink, width: int) -> Text:
    time = elapsed(phase.began, phase.ended, view.now)
    left = Text.assemble(
        ink.sign(phase.stand), " ", (f"{phase.number:02} ", ink.faint), (phase.row.label, ink.strong)
    )
    first = ink.fit(left, Text(time or "not begun", style=ink.strong), width)
    count = Text(f"{phase.settled} of {nouns(phase.total, phase.row.noun)}", style=ink("st-run", bold=True))
    bar = ink.bar(phase.settled, phase.total, max(10, width - count.cell_len - 3))
    second = Text.assemble(bar, "   ", count)
    tally = [
        Text(f"{ink.glyphs.of(s)} {_tally(phase, s)} {words}", style=_colour(phase, s, ink))
        for s, words in _COUNTS
    ]
    if view.run and (view.run.flying or view.run.retries) and width > 80:
        calls = f"{nouns(view.run.flying, 'call')} in flight"
        again = f", {view.run.retries} asked again" if view.run.retries else ""
        tally.append(Text(calls + again, style=ink.muted))
    rows = [first, second, Text("    " if width > 80 else "   ").join(tally)]
    return lines([first, Text(""), *rows[1:]] if width > 90 else rows)


def _tally(phase: PhaseView, stand: Stand) -> int:
    if stand is Stand.DONE:
        return sum(s.stand in SETTLED for s in phase.steps)
    same = {Stand.FAILED: (Stand.FAILED, Stand.UNKNOWN)}.get(stand, (stand,))
    return sum(s.stand in same for s in phase.steps)


def _colour(phase: PhaseView, stand: Stand, ink: Ink) -> Style:
    return ink.stand(stand) if _tally(phase, stand) else ink.muted


def run_steps(phase: PhaseView, view: View, ink: Ink, width: int, *, one_line: bool) -> Text:
    """The targets: with two lines each there is room for what happens to them, with one it stands beside the name."""
    rows: list[Text] = []
    for step in phase.steps:
        time = Text(elapsed(step.began, step.ended, view.now), style=ink.muted)
        name = Text.assemble(
            ink.sign(step.stand), " ", (step.name, ink("foreground", bold=step.stand is Stand.RUNNING))
        )
        note = Text(step.note, style=ink.muted)
        if one_line:
            name = ink.short(name, 22)
            rows.append(ink.fit(Text.assemble(name, " " * (23 - name.cell_len), note), time, width))
        else:
            rows.append(ink.fit(name, time, width))
            if step.note:
                rows.append(ink.short(Text.assemble("  ", note), width))
    following = next_to_confirm(view.phases)
    if following and not one_line:
        label = f" {following.number:02} {following.row.label}"
        rows += [
            Text(""),
            Text("Next", style=ink.muted),
            Text.assemble(ink.sign(following.stand), (label, ink.text)),
            Text("  waits for your confirmation", style=ink.muted),
        ]
    return lines(rows) if rows else Text("Nothing of this phase is in the plan.", style=ink.muted)
