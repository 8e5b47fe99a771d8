"""The only reader of stdin. A question is asked of a person at a terminal or not at all."""

from __future__ import annotations

import os
import select
import sys

from engine.commands.output import Output
from engine.words.reasons import Reason, Refusal, Refused

SECONDS = 60.0


def can_ask(*, non_interactive: bool, output: Output) -> bool:
    """Whether there is somebody to ask: a terminal on both ends, no `--json`, no CI."""
    if non_interactive or output.mode != "text":
        return False
    try:
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    except ValueError:  # closed
        return False


def confirm(question: str, output: Output, *, seconds: float = SECONDS) -> None:
    """Ask y/N on stderr. Raises `Refused` unless the answer is yes; silence for `seconds` is no."""
    output_line = f"{question} [y/N] "
    sys.stderr.write(output_line)
    sys.stderr.flush()
    fd = sys.stdin.fileno()
    ready, _, _ = select.select([fd], [], [], seconds)
    answer = os.read(fd, 256).decode(errors="replace").strip().lower() if ready else ""
    if not ready:
        output.note("")
    if answer not in ("y", "yes"):
        why = "nobody answered" if not ready else "declined"
        raise Refused(Refusal(Reason.DECLINED, f"{why}; nothing was changed", ""))


def required(command: str, flag: str = "--yes") -> Refusal:
    """The refusal of a command that needs consent and has nobody to ask."""
    return Refusal(
        Reason.CONFIRMATION_REQUIRED,
        f"this changes the cloud and there is no terminal to ask at; give {flag} to go on. Nothing was changed",
        f"{command} {flag}",
    )
