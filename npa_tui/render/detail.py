"""What the highlighted phase, or the highlighted resource, is in full. Nothing that matters is cut here."""

from __future__ import annotations

from datetime import datetime

from rich.text import Text

from engine.words.consent import Tier
from npa_tui.items import Item
from npa_tui.phases import PhaseView
from npa_tui.render.glyphs import SIGNS
from npa_tui.render.ink import Ink, joined, lines
from npa_tui.render.numbers import money, since
from npa_tui.stands import Stand
from npa_tui.state import View
from npa_tui.wording import nouns

_QUESTION = {
    Tier.READS: "nothing, it only reads",
    Tier.RECREATABLE: "press y",
    Tier.NOT_UNDOABLE: "type the number of resources",
    Tier.DATA_DIES: "type the project alias",
}


def undoing(tier: int) -> tuple[str, str]:
    """Whether it can be made good again, and the colour of that."""
    if tier == Tier.READS:
        return "reads only", "muted"
    return ("can be recreated", "st-ask") if tier == Tier.RECREATABLE else ("cannot be undone", "st-fail")


def phase_detail(phase: PhaseView, view: View, ink: Ink, width: int) -> Text:
    words, colour = undoing(phase.row.tier)
    head = ink.fit(
        Text(f"{phase.number:02} {phase.row.label}", style=ink.strong), Text(words, style=ink(colour)), width
    )
    pairs = [("Needs", _needs(phase, view, ink)), ("Unblocks", Text(_unblocks(phase), style=ink.text))]
    if phase.row.tier is not Tier.READS:
        pairs.append((_verb(phase), Text(deletes(phase), style=ink.text)))
        if phase.stand in (Stand.CONFIRM, Stand.WAITS, Stand.FAILED, Stand.UNKNOWN):
            pairs.append(("Confirm", Text(_QUESTION[phase.row.tier], style=ink.text)))
    if phase.note:
        pairs.append(("Note", Text(phase.note, style=ink.text)))
    if phase.why:
        pairs.append(("Held by" if phase.stand is Stand.HELD else "Why", Text(phase.why, style=ink.text)))
    if advice := _next(phase, ink):
        pairs.append(("Next", advice))
    return lines([head, ink.fields(pairs, 9, width)])


def _needs(phase: PhaseView, view: View, ink: Ink) -> Text:
    named = [n for number in phase.needs if (n := view.numbered(number))]
    if not named:
        return Text("nothing", style=ink.text)
    if len(named) > 2:
        parts = [Text.assemble((f"{n.number:02} ", ink.text), ink.sign(n.stand)) for n in named]
        return joined(parts, Text(", ", style=ink.muted))
    parts = [
        Text.assemble(
            (f"{n.number:02} {n.row.label} ", ink.text),
            ink.sign(n.stand),
            (f" {SIGNS[n.stand].word}", ink.stand(n.stand)),
        )
        for n in named
    ]
    return lines(parts)


def _unblocks(phase: PhaseView) -> str:
    return ", ".join(f"{n:02}" for n in phase.unblocks) or "nothing"


def _verb(phase: PhaseView) -> str:
    return {"Cancel": "Cancels", "Forget": "Forgets", "Clean": "Cleans"}.get(phase.row.verb, "Deletes")


def deletes(phase: PhaseView) -> str:
    """What goes, by count and name."""
    if not phase.targets:
        return "nothing, no record names anything here"
    parts = sum(len(t.parts) for t in phase.targets)
    names = ", ".join(t.name or t.id for t in phase.targets[:4])
    more = f" and {len(phase.targets) - 4} more" if len(phase.targets) > 4 else ""
    with_parts = f", {parts} resources in all" if parts > len(phase.targets) else ""
    return f"{nouns(phase.total, phase.row.noun)}{with_parts}: {names}{more}"


def _next(phase: PhaseView, ink: Ink) -> Text | None:
    match phase.stand:
        case Stand.FAILED | Stand.UNKNOWN:
            words = (
                f" tries the {phase.left} that {'is' if phase.left == 1 else 'are'} left"
                if phase.left
                else " tries again"
            )
            return Text.assemble(("enter", ink.key), (words, ink.text))
        case Stand.LEFTOVERS | Stand.HELD if phase.next:
            return Text(phase.next, style=ink.text)
        case Stand.RUNNING:
            return Text.assemble(("enter", ink.key), (" watch it", ink.text))
        case _:
            return None


def item_detail(item: Item, view: View, ink: Ink, width: int) -> Text:
    row = item.row
    kind = row.ref.kind.replace("_", " ")
    head = ink.fit(
        Text.assemble((row.name or row.ref.id, ink.strong), (f"  {kind}", ink.muted)),
        Text.assemble(("y", ink.key), (" copy id", ink.muted)),
        width,
    )
    goes, colour = _goes(item, view)
    pairs = [
        ("Id", Text(row.ref.id, style=ink.text)),
        ("Goes", Text(goes, style=ink(colour))),
        ("State", Text(_state(item, view.now), style=ink.text)),
    ]
    if row.owned:
        pairs.append(("Record", Text(f"{row.owned.record} {row.owned.field}".strip(), style=ink.text)))
    elif row.phase:
        pairs.append(("Record", Text("none proves that it is ours: it is not deleted", style=ink("st-ask"))))
    if row.note:
        pairs.append(("Note", Text(row.note, style=ink.text)))
    return lines([head, ink.fields(pairs, 9, width)])


def _goes(item: Item, view: View) -> tuple[str, str]:
    phase = view.numbered(item.goes)
    if phase is None:
        last = view.phase("delete_project")
        return (
            f"in no phase: must be gone before {last.number:02}" if last else "stays, it is in no phase"
        ), "st-ask"
    label = f"{phase.number:02} {phase.row.label}"
    match item.stand:
        case Stand.RUNNING:
            return f"now, {label}", "st-run"
        case Stand.FAILED:
            return f"did not go in {label}", "st-fail"
        case Stand.HELD:
            return f"held in {label}", "st-held"
        case Stand.UNKNOWN:
            return f"not known, {label}", "st-ask"
        case _:
            return f"with {label}", "foreground"


def _state(item: Item, now: datetime) -> str:
    row = item.row
    old = since(row.created_at, now)
    day = None if row.per_hour is None else row.per_hour * 24.0
    price = "price n/a" if day is None else f"{money(day)} a day" if day >= 0.005 else "free"
    return ", ".join(
        p for p in (row.state.replace("_", " ").lower() or "there", f"{old} old" if old else "", price) if p
    )
