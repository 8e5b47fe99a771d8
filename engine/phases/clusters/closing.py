"""Ends a cluster operation that was never finished, once everything that it made is proven gone: nobody has to resume it."""

from __future__ import annotations

from collections.abc import Collection

from engine.home.documents import Document
from engine.home.operation_writes import edit_journal
from engine.home.operations import TERMINAL
from engine.home.roots import Roots


def close_operation(roots: Roots, operation_id: str, gone: Collection[str], now: str) -> bool:
    """Mark its journal `destroyed`. False when it has ended already, or made something that is not among `gone`.

    gone   provider ids that are proven absent
    now    RFC 3339
    Raises `RecordError` and `OSError` as `edit_journal` does.
    """
    at = now[:19] + "Z"

    def change(document: Document | None) -> Document | None:
        if document is None or document.get("phase") in TERMINAL:
            return None
        resources = document.get("resources")
        rows = [r for r in resources if isinstance(r, dict)] if isinstance(resources, list) else []
        made = [r for r in rows if r.get("ownership") == "created_by_this_operation"]
        # What goes with its cluster was not recorded by id in every version.
        if any(
            r.get("provider_id") not in gone and r.get("resource_type") not in _ALONG
            for r in made
            if r.get("provider_id")
        ):
            return None
        events = document.get("events")
        return {
            **document,
            "phase": "destroyed",
            "lifecycle": "succeeded",
            "result": "destroyed",
            "updated_at": at,
            "events": [
                *(events if isinstance(events, list) else []),
                {"phase": "destroyed", "recorded_at": at},
            ],
        }

    return edit_journal(roots, operation_id, change)


_ALONG = frozenset({"managed_kubernetes_node_group", "terraform_cluster_stack"})
