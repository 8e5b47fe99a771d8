"""What is still there, and still costs, when a run has ended: its last line."""

from __future__ import annotations

from typing import Any

from engine.inventory.model import Inventory
from engine.words.redact import visible

MOST_NAMED = 5


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def left_document(left: Inventory | None) -> dict[str, Any] | None:
    """`still_costing` of a run's document; None when nobody looked (an interrupted run)."""
    if left is None:
        return None
    costly = [row for row in left.rows if row.per_hour is None or row.per_hour > 0]
    return {
        "per_hour": round(left.per_hour, 4),
        "currency": "USD",
        "estimate": True,
        "complete": left.complete and not left.prices_gap,
        "unpriced": left.unpriced,
        "not_seen": [f"{source.name}: {source.cause}" for source in left.sources if not source.ok],
        "resources": [
            {
                "kind": row.ref.kind,
                "id": row.ref.id,
                "name": row.name,
                "state": row.state,
                "phase": row.phase,
                "per_hour": row.per_hour,
            }
            for row in costly
        ],
        "at": left.at,
    }


def left_line(left: Inventory) -> str:
    """The last line of a run. It sums what is present; what could not be seen or priced is said, never left out."""
    priced = [row for row in left.rows if row.per_hour]
    unpriced = [f"{row.ref.kind} {row.name or row.ref.id}" for row in left.rows if row.per_hour is None]
    blind = [source.name for source in left.sources if not source.ok]
    if priced:
        line = f"Still costing ${left.per_hour:,.2f} an hour (estimate): {count(len(priced), 'thing')}"
    elif unpriced:
        line = "Nothing of a known price is left"
    elif blind:
        line = "Nothing that costs was seen"
    else:
        line = "Nothing that costs is left"
    if unpriced:
        named = ", ".join(unpriced[:MOST_NAMED])
        more = f" and {len(unpriced) - MOST_NAMED} more" if len(unpriced) > MOST_NAMED else ""
        line += f"; still there, at a price that is not known: {visible(named)}{more}"
    if left.prices_gap and not left.unpriced:
        line += f"; prices could not be asked ({left.prices_gap})"
    if blind:
        line += f"; could not be seen: {', '.join(blind)}"
    return line + "."
