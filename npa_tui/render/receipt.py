"""The receipt: identities, what of the plan is gone, what is held and left, and the same as a Markdown document."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from npa_tui.badge import Mode
from npa_tui.phases import PhaseView
from npa_tui.render.ink import Ink, hang, lines
from npa_tui.render.numbers import day_and_clock, elapsed, money, spend
from npa_tui.stands import Stand
from npa_tui.state import View


@dataclass(frozen=True, slots=True)
class ReceiptRow:
    """One phase in the receipt's table, in targets."""

    number: int
    label: str
    stand: Stand
    planned: int
    gone: int
    held: int
    left: int


def receipt_rows(phases: tuple[PhaseView, ...]) -> tuple[ReceiptRow, ...]:
    """The table of plan, gone, held, left; phases that have nothing to do are not in it."""
    rows = []
    for p in phases:
        held = sum(s.stand is Stand.HELD for s in p.steps)
        if p.total or p.stand is not Stand.NOTHING:
            rows.append(
                ReceiptRow(
                    p.number, p.row.label, p.stand, p.total, p.settled, held, p.total - p.settled - held
                )
            )
    return tuple(rows)


_ELSEWHERE = ("Alias", "Region", "Run")
"""In the masthead, or of interest to machines: the document has them, the pane has no room for them."""


def receipt(view: View, ink: Ink, width: int) -> Text:
    """The receipt pane. Whatever may be long is wrapped."""
    if view.identity is None:
        return Text("No project, no receipt.", style=ink.muted)
    rows = receipt_rows(view.phases)
    out = [ink.fit(Text(_title(view), style=ink.strong), _verdict(view, ink), width), Text("")]
    pairs = [
        (name, Text(value, style=ink.text)) for name, value in identities(view) if name not in _ELSEWHERE
    ]
    out += [ink.fields(pairs, 10, width), Text("")]
    out += [
        ink.fit(Text("  phase", style=ink.muted), Text("plan gone held left", style=ink.muted), width),
        Text(ink.glyphs.rule * width, style=ink("line")),
    ]
    out += [_row(r, ink, width) for r in rows]
    out += [Text(ink.glyphs.rule * width, style=ink("line")), *_sums(view, rows, ink, width), Text("")]
    if view.run is None:
        out.append(
            hang(Text("The receipt begins with the first phase that you confirm.", style=ink.muted), width, 0)
        )
        return lines(out)
    out.append(Text("Written to disk before and after every step:", style=ink.muted))
    out.append(hang(Text(view.receipt or view.journal, style=ink.text), width, 0))
    out += [
        Text(""),
        Text.assemble(
            ("y", ink.key), (" copy path   ", ink.muted), ("w", ink.key), (" write Markdown now", ink.muted)
        ),
    ]
    return lines(out)


def identities(view: View) -> list[tuple[str, str]]:
    """Who and what, as the receipt and its document say it."""
    assert view.identity is not None
    run, who = view.run, view.identity
    account = f"{view.account.name} ({view.account.id})" if view.account else "n/a"
    pairs = [
        ("Project", who.project_id),
        ("Alias", who.alias or "none"),
        ("Tenant", who.tenant_id or "n/a"),
        ("Region", who.region or "n/a"),
        ("Plan", view.digest),
        ("Operator", ", ".join(run.operators) if run and run.operators else account),
    ]
    if run is not None:
        pairs.append(("Started", day_and_clock(run.started)))
        if run.ended:
            pairs.append(
                ("Ended", f"{day_and_clock(run.ended)}, took {elapsed(run.started, run.ended, view.now)}")
            )
        pairs.append(("Run", run.id))
    return pairs


def _title(view: View) -> str:
    return "Receipt" if view.run is None or view.run.closed else "Receipt in progress"


def complete(view: View) -> bool:
    """Whether everything of the plan was proven: only then it may be called so."""
    return view.mode is Mode.DONE and view.run is not None and view.run.closed


def _verdict(view: View, ink: Ink) -> Text:
    if complete(view):
        return Text.assemble(ink.sign(Stand.DONE), (" complete, verified", ink("st-done", bold=True)))
    if view.run is None:
        return Text("not begun", style=ink.muted)
    last = view.phase("final_audit")
    return Text(f"open until phase {last.number:02}" if last else "open", style=ink("st-ask"))


def _row(row: ReceiptRow, ink: Ink, width: int) -> Text:
    left = Text.assemble(ink.sign(row.stand), " ", (f"{row.number:02} ", ink.faint), (row.label, ink.text))
    right = Text.assemble((f"{row.planned:>4}{row.gone:>5}", ink.text))
    right.append(f"{row.held or ink.glyphs.dot:>5}", ink("st-held") if row.held else ink.faint)
    right.append(f"{row.left or ink.glyphs.dot:>5}", ink.text if row.left else ink.faint)
    return ink.fit(left, right, width)


def _sums(view: View, rows: tuple[ReceiptRow, ...], ink: Ink, width: int) -> list[Text]:
    before, now = view.spend_before, spend(view)
    costs = Text.assemble((now, ink.strong), ("" if view.spend is None else " now", ink.muted))
    if before is not None and view.spend is not None:
        costs = Text.assemble(
            (money(before), ink.text), ("  to  ", ink.muted), (now, ink.strong),
            ("" if complete(view) else "  so far", ink.muted),
        )  # fmt: skip
    planned, gone, held = (sum(getattr(r, f) for r in rows) for f in ("planned", "gone", "held"))
    counts = Text.assemble(
        (f"{gone} of {planned}", ink.text), (f"  {held} held" if held else "", ink("st-held"))
    )
    return [
        ink.fit(Text("Spend a day", style=ink.muted), costs, width),
        ink.fit(Text("Gone and checked", style=ink.muted), counts, width),
    ]


def markdown(view: View) -> str:
    """The receipt as a document of its own. Says of each phase what the journal proves, and nothing more."""
    assert view.identity is not None
    out = [f"# Teardown receipt: {view.identity.label}", ""]
    out += [f"* {name}: `{value}`" for name, value in identities(view)]
    out += ["", "| phase | state | plan | gone | held | left |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    out += [
        f"| {r.number:02} {r.label} | {r.stand} | {r.planned} | {r.gone} | {r.held} | {r.left} |"
        for r in receipt_rows(view.phases)
    ]
    out += ["", f"Spend a day now: {spend(view)}. Spend a day before: {money(view.spend_before)}."]
    for phase in view.phases:
        for step in phase.steps:
            out.append(
                f"* {phase.number:02} `{step.key}` {step.name}: {step.stand}{', ' + step.note if step.note else ''}"
            )
    out += ["", "Complete, verified." if complete(view) else "Not complete."]
    out += [
        f"Journal: `{view.journal}`" if view.journal else "",
        f"Receipt: `{view.receipt}`" if view.receipt else "",
    ]
    return "\n".join(out).rstrip() + "\n"
