"""The confirmation dialog, part by part, always in the same order. Identities and what goes are wrapped, never cut."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from engine.words.consent import Tier
from npa_tui.question import Question, Thing, verdict
from npa_tui.render.ink import Ink, hang, lines
from npa_tui.render.numbers import clock_of
from npa_tui.stands import Stand
from npa_tui.state import View

NAME = 20
"""Cells that the names have at least, so that short lists look alike."""


def head(question: Question, ink: Ink, width: int) -> Text:
    words, colour = (
        ("CANNOT BE UNDONE", "st-fail")
        if question.tier > Tier.RECREATABLE
        else ("CAN BE RECREATED", "st-ask")
    )
    left = Text.assemble(
        (f"{question.number:02} ", ink.muted),
        (question.row.label, ink.strong),
        (f"   {question.size}", ink.text),
    )
    return ink.fit(left, Text.assemble(ink.badge(words, colour)), width)


def identities(question: Question, view: View, changed: bool, ink: Ink, width: int) -> Text:
    who, account = question.preview.plan.identity, view.account
    tenant = account.tenant if account and account.tenant != who.tenant_id else ""
    pairs = [
        ("Project", Text.assemble((f"{who.alias}  " if who.alias else "", ink.strong), (who.project_id, ink.text))),
        (
            "Tenant",
            Text.assemble(
                (f"{tenant}  " if tenant else "", ink.text), (who.tenant_id or "n/a", ink.text), ("   Region ", ink.muted),
                (who.region or "n/a", ink.text),
            ),
        ),
        (
            "Account",
            Text(f"{account.name}  {account.id}", style=ink.text) if account else Text("n/a", style=ink("st-ask")),
        ),
        (
            "Plan",
            Text.assemble(
                (question.preview.plan.digest, ink.text),
                (f"  looked at {clock_of(question.preview.at)}Z, ", ink.muted),
                ("inventory changed since", ink("st-fail", bold=True)) if changed else ("unchanged since", ink.muted),
            ),
        ),
    ]  # fmt: skip
    return ink.fields(pairs, 9, width)


def title(question: Question) -> str:
    """The heading over the list."""
    done = {"Cancel": "cancelled", "Forget": "forgotten", "Clean": "removed"}.get(
        question.row.verb, "deleted"
    )
    more = len(question.things)
    return f"Will be {done}" + (f", {more} in all   pgup pgdn" if more > 8 else "")


def things(question: Question, ink: Ink, width: int) -> Text:
    """Every item: name, immutable id, state, kind. Side by side where all of them fit, else with the id under the name."""
    found = question.things
    if not found:
        return Text(
            "nothing: no part of it is there any more" if question.gone else "nothing", style=ink.muted
        )
    name, id_, state, kind = (max(NAME, _widest(_label(t) for t in found)), _widest(_id(t) for t in found),
                              _widest(t.state for t in found), _widest(t.kind for t in found))  # fmt: skip
    if name + id_ + state + kind + 4 <= width:
        return lines(
            Text.assemble(
                (f"{_label(t):<{name}} ", ink.text), (f"{_id(t):<{id_}}  ", ink.muted), (f"{t.state:<{state}} ", ink.text),
                (t.kind, ink.muted),
            )
            for t in found
        )  # fmt: skip
    return lines(row for t in found for row in _stacked(t, state, kind, ink, width))


def _label(thing: Thing) -> str:
    return ("  " if thing.within else "") + thing.name


def _id(thing: Thing) -> str:
    """The id, unless the name says the same: a path is its own id."""
    return "" if thing.id == thing.name else thing.id


def _widest(texts: Iterable[str]) -> int:
    return max((len(t) for t in texts), default=0)


def _stacked(thing: Thing, state: int, kind: int, ink: Ink, width: int) -> list[Text]:
    """Name with state and kind, and below them the id; what is too long for that wraps."""
    indent = 2 if thing.within else 0
    name = Text(_label(thing), style=ink.text)
    rest = Text.assemble((f"{thing.state:<{state}} ", ink.text), (f"{thing.kind:<{kind}}", ink.muted))
    if name.cell_len + 2 + rest.cell_len <= width:
        rows = [Text.assemble(name, " " * (width - name.cell_len - rest.cell_len), rest)]
    else:
        rows = [hang(name, width, indent), Text.assemble(" " * (indent + 2), rest)]
    below = Text.assemble(" " * (indent + 2), (_id(thing), ink.muted))
    return [*rows, hang(below, width, indent + 2)] if _id(thing) else rows


def touches(question: Question, view: View, changed: tuple[str, ...], ink: Ink, width: int) -> Text:
    """What else this affects; warnings first. When the world has moved, what moved and nothing else."""
    if changed:
        rows = [Text.assemble(("! ", ink("st-fail", bold=True)), (f"{c}.", ink.text)) for c in changed]
        rows.append(Text.assemble("  ", ("Press r to look again.", ink.strong)))
        return lines(hang(r, width, 2) for r in rows)
    warn, dot = ("! ", ink("st-ask", bold=True)), (f"{ink.glyphs.dot} ", ink.muted)
    rows = []
    for line in question.preview.touches:
        loud = line.startswith("!")
        rows.append(Text.assemble(warn if loud else dot, (line.lstrip("! "), ink.text)))
    for target in question.refused:
        assert target.refusal is not None
        words = f"{target.target.name} stays: {target.refusal.sentence}"
        rows.append(Text.assemble(ink.sign(Stand.HELD), " ", (words, ink.text)))
        if target.refusal.next_command:
            rows.append(Text.assemble("  ", (target.refusal.next_command, ink.muted)))
    for target in question.gone:
        words = f"{target.target.name} is gone already; its absence is checked once more"
        rows.append(Text.assemble(dot, (words, ink.text)))
    phase = view.phase(question.preview.phase)
    for n in phase.unblocks if phase else ():
        other = view.numbered(n)
        if other is not None and other.stand is not Stand.NOTHING:
            rows.append(Text.assemble(dot, (f"unblocks {n:02} {other.row.label}", ink.text)))
    if not rows:
        rows.append(Text.assemble(dot, ("nothing else", ink.text)))
    return lines(hang(r, width, 2) for r in rows)


def question_line(question: Question, ink: Ink) -> Text:
    if not question.askable:
        return Text("Every part of this phase is held: there is nothing to agree to.", style=ink.muted)
    if question.tier is Tier.RECREATABLE:
        return Text.assemble(
            ("Press ", ink.muted), ("y", ink.strong), (" to go on, ", ink.muted), ("esc", ink.strong),
            (" to keep everything", ink.muted),
        )  # fmt: skip
    return Text.assemble(
        ("Type ", ink.muted), (question.wanted_words, ink.strong), (" to allow it", ink.muted)
    )


def match(question: Question, typed: str, locked: str, ink: Ink, width: int) -> Text:
    """The verdict beside the field."""
    if locked:
        return Text(f"locked: {locked}", style=ink("st-fail"))
    if question.tier is Tier.RECREATABLE:
        return Text("")
    words = verdict(question, typed)
    match words:
        case "matches":
            hint = "   enter goes to the button" if width > 38 else ""
            return Text.assemble(
                ink.sign(Stand.DONE), (" matches", ink("st-done", bold=True)), (hint, ink.muted)
            )
        case "does not match":
            return Text.assemble(ink.sign(Stand.FAILED), (" does not match", ink("st-fail", bold=True)))
        case _:
            return Text(words, style=ink.muted)
