"""The existing CLI's v2 receipt as a projection of our journal: deleted, it comes back the same; other writers' events stay.

Every event that we made carries `action.journal` = "RUN:SEQ"; they form one block that is made anew each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from engine.ledger.events import Entry, Intended, PhaseEnded, Proven, Settled
from engine.ledger.state import State
from engine.words.identity import Identity
from engine.words.outcomes import Status
from engine.words.plans import Plan, Target
from engine.words.vocabulary import DESTROY_PHASE, DESTROY_STATE, RECEIPT_PHASE, terminal_state

SCHEMA = "npa.teardown.receipt.v2"

Document = dict[str, Any]


def is_ours(event: Mapping[str, Any]) -> bool:
    """Whether an event of a receipt was made from our journal."""
    action = event.get("action")
    return isinstance(action, Mapping) and isinstance(action.get("journal"), str)


def events(identity: Identity, entries: Iterable[Entry], plan: Plan | None) -> Iterator[Document]:
    """Our block: for each target its first intent of a run, its proof and how it was settled; for each phase how it ended."""
    started: set[tuple[str, str]] = set()
    state = State()
    for entry in entries:
        state.apply(entry)
        newest = state.runs.get(entry.run)
        here = newest.plan if newest else plan
        match entry.event:
            case Intended(target=key) if (entry.run, key) not in started:
                started.add((entry.run, key))
                yield _event(identity, entry, here, key, "in_progress", {})
            case Proven(target=key, proof=proof):
                seen = [{"id": o.ref.id, "kind": o.ref.kind, "at": o.at, "by": o.by} for o in proof]
                yield _event(
                    identity,
                    entry,
                    here,
                    key,
                    "remote_absent_local_pending",
                    {"verified_absent": True, "absent": seen},
                )
            case Settled(phase=phase, outcome=o):
                verification = {"residue": o.residue} if o.residue else {}
                errors = [o.detail] if o.detail else []
                yield _event(identity, entry, here, o.target, terminal_state(phase, o), verification, errors)
            case PhaseEnded(phase=phase, status=status) if status is not Status.BLOCKED:
                yield {
                    "phase": DESTROY_PHASE[phase],
                    "resource": identity.alias or identity.project_id,
                    "project_alias": identity.alias,
                    "project_id": identity.project_id,
                    "context": "",
                    "precheck": {},
                    "action": {"kind": "phase_ended", "journal": f"{entry.run}:{entry.seq}"},
                    "verification": {},
                    "terminal_state": DESTROY_STATE[status],
                    "errors": [],
                    "recorded_at": _seconds(entry.at),
                    "identity": {},
                }
            case _:
                pass


def _event(
    identity: Identity,
    entry: Entry,
    plan: Plan | None,
    key: str,
    terminal: str,
    verification: Document,
    errors: list[str] | None = None,
) -> Document:
    phase, _, id = key.partition("/")
    target = plan.target(key) if plan else None
    return {
        "phase": RECEIPT_PHASE.get(phase, phase),
        "resource": id,
        "project_alias": identity.alias,
        "project_id": identity.project_id,
        "context": target.detail.get("context", "") if target else "",
        "precheck": {"owned_by": _owners(target)} if target else {},
        "action": {"kind": entry.event.type, "journal": f"{entry.run}:{entry.seq}"},
        "verification": verification,
        "terminal_state": terminal,
        "errors": errors or [],
        "recorded_at": _seconds(entry.at),
        "identity": {},
    }


def _owners(target: Target) -> list[Document]:
    return [
        {"id": p.ref.id, "evidence": str(p.owned.evidence), "record": p.owned.record, "field": p.owned.field}
        for p in target.parts
    ]


def _seconds(at: str) -> str:
    """The CLI's receipts have a resolution of one second."""
    return at[:19] + "Z" if len(at) > 19 else at


def merged(
    existing: Mapping[str, Any] | None,
    receipt_id: str,
    identity: Identity,
    ours: Iterable[Document],
    root: Mapping[str, Any],
) -> Document:
    """The whole document: their events untouched and first, ours as one block. `root` fills gaps of the identity block."""
    ours = list(ours)
    theirs = [e for e in (existing or {}).get("events", ()) if not is_ours(e)]
    stamps = [e["recorded_at"] for e in (*theirs, *ours) if isinstance(e.get("recorded_at"), str)]
    base: Document = dict(existing or {})
    base.update(
        {
            "schema_version": SCHEMA,
            "receipt_id": receipt_id,
            "created_at": base.get("created_at") or (min(stamps) if stamps else ""),
            "updated_at": max(stamps) if stamps else base.get("updated_at", ""),
            "project_alias": base.get("project_alias") or identity.alias,
            "project_id": base.get("project_id") or identity.project_id,
            "identity": _filled(base.get("identity") or {}, root),
            "events": theirs + ours,
        }
    )
    return base


_KEYS = {
    "agents": "instance_id",
    "clusters": "cluster_id",
    "workflows": "run_id",
    "generations": "service_account_id",
}


def _filled(known: Mapping[str, Any], root: Mapping[str, Any]) -> Document:
    """What is recorded stays; what is missing is added. Scalars of an identity are immutable; collections grow by their ids."""
    out = dict(known)
    for name, value in root.items():
        if isinstance(value, Mapping):
            out[name] = _filled(out.get(name) or {}, value)
        elif isinstance(value, list):
            key = _KEYS.get(name, "")
            there = list(out.get(name) or [])
            ids = {row.get(key) for row in there if isinstance(row, Mapping)}
            out[name] = there + [row for row in value if row.get(key) not in ids]
        elif not out.get(name):
            out[name] = value
    return out
