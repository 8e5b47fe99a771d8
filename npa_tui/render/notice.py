"""What stands where the plan would be: nothing yet, reading, or what went wrong. Always: what is so, what is safe, what to press."""

from __future__ import annotations

from rich.text import Text

from npa_tui.render.ink import Ink, hang, lines
from npa_tui.stands import Stand
from npa_tui.state import Scene, View
from npa_tui.wording import nouns

_MOST = 8
"""Sources listed one by one; those that failed come first."""


def notice(view: View, ink: Ink, width: int) -> Text:
    match view.scene:
        case Scene.READING:
            return _reading(view, ink)
        case Scene.ERROR:
            return _error(view, ink, width)
        case Scene.EMPTY:
            return _empty(ink, width)
        case Scene.CHOOSE:
            return _choose(ink, width)
        case Scene.READY:
            return Text("")


def keys(ink: Ink, *pairs: tuple[str, str]) -> Text:
    """`r read again   5 log`."""
    return Text("   ").join(Text.assemble((k, ink.key), (f" {what}", ink.muted)) for k, what in pairs)


def _reading(view: View, ink: Ink) -> Text:
    rows = [
        Text("Reading the live inventory", style=ink.strong),
        Text("Nothing is changed while reading.", style=ink.muted),
        Text(""),
    ]
    wide = max((len(r.name) for r in view.reports), default=0) + 2
    for report in sorted(view.reports, key=lambda r: r.ok)[:_MOST]:
        stand, words = (Stand.DONE, f"{report.count} found") if report.ok else (Stand.FAILED, report.cause)
        rows.append(
            Text.assemble(ink.sign(stand), " ", (f"{report.name:<{wide}}", ink.text), (words, ink.muted))
        )
    if len(view.reports) > _MOST:
        rows.append(Text(f"  and {len(view.reports) - _MOST} more", style=ink.muted))
    rows.append(Text.assemble(ink.sign(Stand.RUNNING), (" waiting for the others", ink.muted)))
    rows += [Text(""), Text(f"{nouns(len(view.reports), 'source')} answered", style=ink.muted), Text("")]
    return lines([*rows, keys(ink, ("esc", "stop reading"))])


def _error(view: View, ink: Ink, width: int) -> Text:
    title, why, rest = _what_happened(view)
    rows = [
        Text.assemble(ink.sign(Stand.FAILED), " ", (title, ink.strong)),
        Text(""),
        *(hang(Text(w, style=ink.text), width, 0) for w in why),
        Text(""),
        hang(Text(rest, style=ink.muted), width, 0),
        Text(""),
    ]
    if view.refusal and view.refusal.next_command:
        rows += [
            Text.assemble(("Command  ", ink.muted), (view.refusal.next_command, ink.text)),
            Text(""),
        ]
    offers = [("r", "read again"), ("y", "copy details")]
    return lines([*rows, keys(ink, *offers, *([("5", "open log")] if view.run else []))])


def _what_happened(view: View) -> tuple[str, list[str], str]:
    """A title, what was said, and what was changed."""
    if view.refusal is not None:
        return "There is no plan for this project", [view.refusal.sentence], "Nothing was changed."
    if view.halted:
        return (
            "Reading was stopped",
            ["You stopped it before every source had answered."],
            "Nothing was changed.",
        )
    failed = view.failed_sources
    if failed:
        title = f"{' and '.join(f.name for f in failed[:3])} could not be read"
        why = [f"{f.name}: {f.detail or 'no details'} ({f.cause})" for f in failed]
        read = len(view.reports) - len(failed)
        rest = (
            f"Nothing was changed. {read} of {nouns(len(view.reports), 'source')} {'was' if read == 1 else 'were'} read, but no phase is"
            " offered on half an inventory."
        )
        return title[0].upper() + title[1:], why, rest
    return "The project could not be read", [view.problem or "No reason was given."], "Nothing was changed."


def details(view: View) -> str:
    """The error as it is copied."""
    title, why, rest = _what_happened(view)
    return "\n".join([title, *why, rest])


def _empty(ink: Ink, width: int) -> Text:
    words = (
        "The console acts only on projects that this machine's npa configuration or a teardown receipt names by their id. It"
        " never searches the tenant by itself."
    )
    return lines(
        [
            Text("No projects yet", style=ink.strong),
            Text(""),
            hang(Text(words, style=ink.muted), width, 0),
            Text(""),
            Text.assemble(("r     ", ink.key), ("look at the configuration again", ink.text)),
            Text.assemble(("?     ", ink.key), ("keys and signs", ink.text)),
            Text.assemble(("ctrl+q", ink.key), (" leave", ink.text)),
        ]
    )


def _choose(ink: Ink, width: int) -> Text:
    words = "There is more than one, and the console does not guess. Looking at a project changes nothing."
    return lines(
        [
            Text("Which project?", style=ink.strong),
            Text(""),
            hang(Text(words, style=ink.muted), width, 0),
            Text(""),
            Text.assemble(("j k  ", ink.key), (" move", ink.text)),
            Text.assemble(("enter", ink.key), (" aim at the highlighted project", ink.text)),
        ]
    )
