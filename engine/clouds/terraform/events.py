"""What Terraform says while it runs, from its `-json` output (the `ui` messages, version 1)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from engine.clouds.terraform.failures import Diagnostic
from engine.words.redact import redact

Step = Literal[
    "planned", "counted", "started", "progress", "done", "failed", "provisioning", "waiting", "notice"
]

_STEPS: dict[str, Step] = {
    "planned_change": "planned",
    "change_summary": "counted",
    "apply_start": "started",
    "apply_progress": "progress",
    "apply_complete": "done",
    "apply_errored": "failed",
    "provision_start": "provisioning",
    "provision_errored": "failed",
}
# `provision_progress` and `outputs` are missing on purpose: what a provisioner prints and what a module puts out may be secret.


@dataclass(frozen=True, slots=True)
class TerraformEvent:
    """One thing that happened, for a progress line.

    address  of the resource, or empty
    text     a sentence, redacted
    elapsed  seconds, since the resource was started or, for `waiting`, since the run was
    removes  for `counted`: how many resources the plan removes, or how many were removed
    """

    step: Step
    address: str
    text: str
    elapsed: float = 0.0
    removes: int = 0


@dataclass(frozen=True, slots=True)
class Said:
    """One line of output: an event to show, a complaint to judge by, or neither. `operation` is set on a summary."""

    event: TerraformEvent | None = None
    complaint: Diagnostic | None = None
    operation: str = ""


def parse(line: str) -> Said | None:
    """What a line says, or None when it is no message of Terraform."""
    try:
        message: object = json.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        return None
    kind: str = message["type"]
    if kind == "diagnostic":
        return _diagnostic(_table(message, "diagnostic"))
    if kind not in _STEPS:
        return Said()
    holder = _table(message, "change") if kind == "planned_change" else _table(message, "hook")
    address = _text(_table(holder, "resource"), "addr")
    changes = _table(message, "changes")
    event = TerraformEvent(
        _STEPS[kind],
        redact(address, 200),
        redact(_text(message, "@message")[:1000], 300),
        elapsed=_number(holder, "elapsed_seconds"),
        removes=int(_number(changes, "remove")),
    )
    return Said(event, operation=_text(changes, "operation"))


def _diagnostic(d: dict[str, object]) -> Said:
    summary, detail, address = _text(d, "summary"), _text(d, "detail"), _text(d, "address")
    if "provisioner" in summary:
        # Its detail quotes the command and all that it printed; of that only the outcome is for other eyes.
        outcome = re.search(r"exit status \d+|signal: \w+", detail)
        detail = outcome[0] if outcome else ""
    complaint = Diagnostic(_text(d, "severity"), summary, detail, address)
    text = redact(f"{complaint.severity}: {summary}", 300)
    return Said(TerraformEvent("notice", redact(address, 200), text), complaint)


def _table(of: dict[str, object], key: str) -> dict[str, object]:
    value = of.get(key)
    return value if isinstance(value, dict) else {}


def _text(of: dict[str, object], key: str) -> str:
    value = of.get(key)
    return value if isinstance(value, str) else ""


def _number(of: dict[str, object], key: str) -> float:
    value = of.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
