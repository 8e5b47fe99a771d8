"""Builds the phases over a session's clients. The only place that names every phase's module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.home.records import Records
from engine.ledger.state import State
from engine.phases.final_audit import FinalAudit
from engine.phases.forget_alias import ForgetAlias
from engine.phases.local_cleanup import LocalCleanup
from engine.phases.shape import Phase
from engine.run.clients import Clients


def build_phases(records: Records, clients: Clients, state: Callable[[], State]) -> Mapping[str, Phase[Any]]:
    """Every phase by its name. Building makes no client and asks nobody."""
    roots, clock, nebius = records.roots, clients.clock, clients.nebius
    built: list[Phase[Any]] = [
        LocalCleanup(roots, clock, state),
        ForgetAlias(roots, nebius, clock),
        FinalAudit(nebius),
    ]
    return {phase.name: phase for phase in built}
