"""The last line of a run: it sums what is present, and says what it could not see or price."""

from __future__ import annotations

import pytest

from engine.inventory.left import left_document, left_line
from engine.inventory.model import Inventory, Row, SourceReport
from engine.words.presence import Ref

SEEN = SourceReport("Instances", 1, "2026-12-01T02:00:00Z")
BLIND = SourceReport("Buckets", 0, "2026-12-01T02:00:00Z", "denied", "no")


def row(name: str, per_hour: float | None) -> Row:
    return Row(Ref("instance", f"computeinstance-{name}"), name, "running", per_hour=per_hour)


def left(*rows: Row, sources: tuple[SourceReport, ...] = (SEEN,), gap: str = "") -> Inventory:
    return Inventory("project-e00x", rows, sources, "2026-12-01T02:00:00Z", prices_gap=gap)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (left(), "Nothing that costs is left."),
        (left(row("a", 0.0)), "Nothing that costs is left."),
        (left(row("a", 1.5)), "Still costing $1.50 an hour (estimate): 1 thing."),
        (
            left(row("a", 1.5), row("b", 0.25), row("c", 0.0)),
            "Still costing $1.75 an hour (estimate): 2 things.",
        ),
        (
            left(row("a", None)),
            "Nothing of a known price is left; still there, at a price that is not known: instance a.",
        ),
        (left(sources=(BLIND,)), "Nothing that costs was seen; could not be seen: Buckets."),
        (
            left(row("a", 2.0), sources=(SEEN, BLIND)),
            "Still costing $2.00 an hour (estimate): 1 thing; could not be seen: Buckets.",
        ),
        (
            left(gap="unreachable: no answer"),
            "Nothing that costs is left; prices could not be asked (unreachable: no answer).",
        ),
    ],
)
def test_the_last_line_says_what_is_present_and_what_is_not_known(found: Inventory, line: str) -> None:
    assert left_line(found) == line


def test_the_document_sums_what_it_lists_and_is_complete_only_when_all_was_seen() -> None:
    document = left_document(left(row("a", 1.5), row("b", None), row("c", 0.0), sources=(SEEN, BLIND)))
    assert document is not None
    assert document["per_hour"] == sum(r["per_hour"] or 0 for r in document["resources"])
    assert {r["name"] for r in document["resources"]} == {"a", "b"}
    assert (document["complete"], document["not_seen"], document["unpriced"]) == (
        False,
        ["Buckets: denied"],
        1,
    )
    assert left_document(None) is None
