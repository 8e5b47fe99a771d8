"""Log lines as rows: time, a level of four letters, subject, message."""

from __future__ import annotations

from rich.text import Text

from engine.run.narration import Line
from npa_tui.render.ink import Ink, hang, wrap
from npa_tui.render.numbers import clock_of

_COLOUR = {
    "info": "muted",
    "call": "st-run",
    "wait": "muted",
    "done": "st-done",
    "warn": "st-ask",
    "fail": "st-fail",
}
_TIME = 10
WITH_SUBJECT = 70
ROOMY = 84


def log_rows(line: Line, words: tuple[str, ...], ink: Ink, width: int) -> list[Text]:
    """One line as one or more rows: long ones wrap under their message."""
    head = Text.assemble(
        (f"{clock_of(line.at)}  ", ink.faint),
        (f"{line.level:<6}", ink(_COLOUR[line.level], bold=line.level in ("warn", "fail"))),
    )
    message = Text(line.message, style=ink.text)
    if width >= WITH_SUBJECT:
        room = 24 if width >= ROOMY else 18
        subject = ink.short(Text(line.subject, style=ink.muted), room)
        head = Text.assemble(head, subject, " " * (room + 1 - subject.cell_len))
    else:
        message = Text.assemble((f"{line.subject} ", ink.muted), message)
    for word in words:
        _mark(message, word, ink)
    if width < WITH_SUBJECT:
        return list(hang(Text.assemble(head, message), width, _TIME).split("\n"))
    rows = wrap(message, width - head.cell_len)
    return [Text.assemble(head if i == 0 else " " * head.cell_len, row) for i, row in enumerate(rows)]


def _mark(text: Text, word: str, ink: Ink) -> None:
    at = text.plain.lower().find(word)
    while word and at >= 0:
        text.stylize(ink("st-ask", underline=True), at, at + len(word))
        at = text.plain.lower().find(word, at + len(word))


def found(line: Line, words: tuple[str, ...]) -> bool:
    """Whether every word is somewhere in the line."""
    text = f"{line.level} {line.subject} {line.message}".lower()
    return all(w in text for w in words)


def plain(line: Line) -> str:
    """The line as it is copied."""
    return f"{line.at} {line.level} {line.subject}: {line.message}"
