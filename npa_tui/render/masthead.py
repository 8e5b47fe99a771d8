"""The two rows that never go away: what this is, and what exactly it is aimed at."""

from __future__ import annotations

from rich.text import Text

from npa_tui.badge import Mode
from npa_tui.render.ink import Ink, joined, lines
from npa_tui.render.numbers import age, clock, elapsed, money, spend
from npa_tui.state import Scene, View
from npa_tui.wording import nouns

NARROW = 100

_BADGE = {Mode.PLAN: "st-run", Mode.LIVE: "st-ask", Mode.STOPPED: "st-fail", Mode.DONE: "st-done"}


def masthead(view: View, ink: Ink, width: int) -> Text:
    """Two rows. Parts are dropped whole when the room is short; the project's id is the last to go and never cut."""
    return lines([_who(view, ink, width), _what(view, ink, width)])


def _who(view: View, ink: Ink, width: int) -> Text:
    narrow = width < NARROW
    dot = f" {ink.glyphs.dot} "
    tenant = view.account.tenant if view.account and view.account.tenant else _tenant(view)
    region = (view.identity.region if view.identity else "") or (view.line.region if view.line else "")
    name = view.account.name if view.account and not narrow else ""
    about = dot.join(p for p in (tenant, region, name) if p)
    left = Text.assemble((" npa teardown ", ink.strong), (f"  {about}" if about else "", ink.muted))
    badge = ink.badge(str(view.mode), _BADGE[view.mode])
    time = (f"  {clock(view.now)} ", ink.muted)
    whole = Text.assemble(badge, ("" if narrow else f"  {view.sentence} ", ink.muted), time)
    if left.cell_len + whole.cell_len + 1 > width:
        room = max(0, width - Text.assemble(badge, time).cell_len - left.cell_len - 4)
        said = ink.short(Text(view.sentence, style=ink.muted), room) if room > 12 else Text("")
        whole = Text.assemble(badge, "  " if said else "", said, " " if said else "", time)
    return ink.fit(left, whole, width)


def _tenant(view: View) -> str:
    return (view.identity.tenant_id if view.identity else "") or (view.line.tenant_id if view.line else "")


def _what(view: View, ink: Ink, width: int) -> Text:
    identity = aimed_at(view)
    if identity is None:
        return ink.fit(Text(" no project selected", style=ink.muted), Text(""), width)
    alias, project_id = identity
    left = Text.assemble((f" {alias} " if alias else " ", ink.strong))
    if view.protected:
        left.append_text(Text.assemble(ink.badge("PROTECTED", "st-fail")))
    left.append(f" {project_id}", ink.muted)
    parts = _parts(view, ink, width < NARROW)
    while parts and sum(p.cell_len + 3 for p in parts) + left.cell_len > width - 1:
        parts.pop()
    right = Text.assemble(joined(parts, "   "), " ") if parts else Text("")
    row = Text.assemble(left, " " * max(1, width - left.cell_len - right.cell_len), right)
    row.truncate(max(width, left.cell_len), overflow="crop")
    return row


def aimed_at(view: View) -> tuple[str, str] | None:
    """Alias and project id of what the console is aimed at."""
    if view.identity:
        return view.identity.alias, view.identity.project_id
    return (view.line.alias, view.line.project_id) if view.line else None


def _parts(view: View, ink: Ink, narrow: bool) -> list[Text]:
    """What else there is to say, the most important first."""
    if view.scene in (Scene.EMPTY, Scene.CHOOSE):
        return []
    if view.scene is Scene.READING:
        return [Text("reading inventory", style=ink("st-ask"))]
    if view.scene is Scene.ERROR:
        return [Text("inventory not available", style=ink("st-ask"))]
    run = view.run
    if view.mode is Mode.DONE and run is not None:
        before = f"{money(view.spend_before)} to " if view.spend_before is not None else ""
        return [
            Text(f"{before}{spend(view)} a day", style=ink.strong),
            Text(f"plan {view.digest[:8]}", style=ink.muted),
            Text(f"took {elapsed(run.started, run.ended, view.now)}", style=ink.muted),
        ]
    parts = [Text("spend n/a" if view.spend is None else f"{spend(view)}/day", style=ink.strong)]
    hazards = len(view.inventory.hazards) if view.inventory else 0
    if hazards:
        parts.append(Text(f"! {nouns(hazards, 'hazard')}", style=ink("st-ask")))
    if narrow:
        return parts
    if view.inventory is not None:
        parts.append(Text(nouns(len(view.items), "resource"), style=ink.muted))
        read = view.age
        words = (
            "reading inventory" if view.reading else f"inventory {age(read)} old" if read is not None else ""
        )
        parts.append(Text(words, style=ink("st-ask") if view.old or view.reading else ink.muted))
    elif view.reading:
        parts.append(Text("reading inventory", style=ink("st-ask")))
    elif view.failed_sources or view.problem:
        parts.append(Text("inventory not available", style=ink("st-ask")))
    parts.append(Text(f"plan {view.digest[:8]}", style=ink.muted))
    return [p for p in parts if p]
