"""What may be written into the journal, and how a line of it looks."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from engine.words.consent import Consent
from engine.words.outcomes import Outcome, Status
from engine.words.plans import Part, Plan
from engine.words.presence import Observation, Ref

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 1


@dataclass(frozen=True, slots=True)
class Opened:
    """A run begins. `command` is `destroy` or the single command that it is."""

    plan: Plan
    command: str
    operation_id: str
    receipt_id: str
    argv: tuple[str, ...] = ()
    program: str = ""
    type: Literal["opened"] = "opened"


@dataclass(frozen=True, slots=True)
class Consented:
    consent: Consent
    type: Literal["consented"] = "consented"


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody asked the runner for something through a request file, and what the runner answered."""

    what: Literal["consent", "keep", "pause", "resume", "stop"]
    by: str
    accepted: bool
    detail: str = ""
    type: Literal["asked"] = "asked"


@dataclass(frozen=True, slots=True)
class Intended:
    """On disk before the call that it announces. `undo` says how to give back what the call takes away."""

    target: str
    verb: str
    ref: Ref
    expect: str
    attempt: int
    undo: Mapping[str, str] = field(default_factory=dict)
    type: Literal["intended"] = "intended"


@dataclass(frozen=True, slots=True)
class Resulted:
    """What became of the call that entry number `intent` announced. `lost`: no answer came, it may have happened."""

    intent: int
    ok: bool
    cause: str = ""
    detail: str = ""
    request_id: str = ""
    lost: bool = False
    type: Literal["resulted"] = "resulted"


@dataclass(frozen=True, slots=True)
class Noted:
    """Something worth telling: a phase began, progress, a wait, a thing that appeared or that stays by choice."""

    subject: str
    what: str
    detail: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    type: Literal["noted"] = "noted"


@dataclass(frozen=True, slots=True)
class Proven:
    """Two sights of the target gone. On disk, and in the receipt, before anything local goes."""

    target: str
    proof: tuple[Observation, ...]
    type: Literal["proven"] = "proven"


@dataclass(frozen=True, slots=True)
class Undone:
    """What intent number `intent` took away has been given back."""

    intent: int
    type: Literal["undone"] = "undone"


@dataclass(frozen=True, slots=True)
class Settled:
    phase: str
    outcome: Outcome
    type: Literal["settled"] = "settled"


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    phase: str
    status: Status
    blocked_by: tuple[str, ...] = ()
    type: Literal["phase_ended"] = "phase_ended"


@dataclass(frozen=True, slots=True)
class Closed:
    """The runner went away. Unless `final`, the run stays open: the next one resumes its plan, unwidened."""

    exit: int
    final: bool
    detail: str = ""
    type: Literal["closed"] = "closed"


Event = (
    Opened | Consented | Asked | Intended | Resulted | Noted | Proven | Undone | Settled | PhaseEnded | Closed
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. `prev` is the link of the line before it; `run` names the run that wrote it."""

    v: int
    seq: int
    at: str
    run: str
    prev: str
    event: Event


def encode(entry: Entry) -> bytes:
    """The line, without its newline."""
    return json.dumps(asdict(entry), separators=(",", ":"), ensure_ascii=False).encode()


def decode(line: bytes) -> Entry:
    """The entry on a line. Raises `ValueError` for anything that is not one."""
    doc = json.loads(line)
    try:
        return Entry(
            v=int(doc["v"]),
            seq=int(doc["seq"]),
            at=str(doc["at"]),
            run=str(doc["run"]),
            prev=str(doc["prev"]),
            event=_adapter(doc["event"]["type"]).validate_python(doc["event"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a journal line: {error}") from error


_EVENTS: dict[str, type[Event]] = {
    "opened": Opened,
    "consented": Consented,
    "asked": Asked,
    "intended": Intended,
    "resulted": Resulted,
    "noted": Noted,
    "proven": Proven,
    "undone": Undone,
    "settled": Settled,
    "phase_ended": PhaseEnded,
    "closed": Closed,
}


@functools.cache
def _adapter(tag: str) -> TypeAdapter[Event]:
    from pydantic import TypeAdapter  # only where a journal is there to be read

    return TypeAdapter(_EVENTS[tag])
