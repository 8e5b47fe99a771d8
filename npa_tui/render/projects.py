"""Two lines per project: what it is called and costs, and what one should know before aiming at it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from engine.run.faces import ProjectLine
from npa_tui.render.ink import Ink, lines
from npa_tui.render.numbers import money
from npa_tui.wording import nouns


def project_rows(
    project: ProjectLine, spends: Mapping[str, tuple[float, int]], aimed: bool, ink: Ink, width: int
) -> Text:
    spend, hazards = spends.get(project.key, (None, 0))
    name = Text.assemble(
        (f"{ink.glyphs.unblocked} " if aimed else "  ", ink.key),
        (project.alias or project.project_id, ink("foreground", bold=aimed)),
    )
    price = Text(money(spend), style=ink.text if spend is not None else ink.muted)
    return lines([ink.fit(name, price, width), _facts(project, hazards, ink, width)])


def _facts(project: ProjectLine, hazards: int, ink: Ink, width: int) -> Text:
    """What is to be known, the most important first; short of room, nouns and then whole parts go."""
    full = _parts(project, hazards, ink, short=False)
    row = _row(full, ink)
    if row.cell_len > width:
        row = _row(_parts(project, hazards, ink, short=True), ink)
    return ink.short(row, width)


def _row(parts: list[Text], ink: Ink) -> Text:
    return Text.assemble("  ", Text(f" {ink.glyphs.dot} ", style=ink.faint).join(parts))


def _parts(project: ProjectLine, hazards: int, ink: Ink, *, short: bool) -> list[Text]:
    parts = []
    if project.protected:
        parts.append(Text("= protected", style=ink("st-held")))
    if hazards:
        parts.append(Text(f"! {hazards}" if short else f"! {nouns(hazards, 'hazard')}", style=ink("st-ask")))
    if project.unresolved:
        words = f"{project.unresolved} open" if short else f"{project.unresolved} unproven"
        parts.append(Text(words, style=ink("st-ask")))
    if project.problem:
        parts.append(Text(project.problem, style=ink("st-fail")))
    elif project.forgotten:
        parts.append(Text("forgotten", style=ink.muted))
    elif project.region and not (short and parts):
        parts.append(Text(project.region, style=ink.muted))
    return parts
