"""Looks at a teardown that is over: reads only, writes nothing, and says what came back if anything did."""

from __future__ import annotations

from engine.ledger.journal import Journal
from engine.ledger.state import Run, State
from engine.run.runner import LEAST_DEADLINE, Opening, Pace, Runner
from engine.run.session import Session


class _NoRecords:
    """A dry run projects nothing."""

    async def before_call(self, target: str) -> None:
        raise AssertionError("a dry run calls nothing")

    async def before_tidy(self, target: str) -> None:
        return


async def verify(
    session: Session, *, keep: frozenset[str] = frozenset(), kept_is_fine: bool = False
) -> tuple[int, State, Run]:
    """Look at every target of the session's plan, twice where it is gone. Exit code, and the state and run to report from."""
    journal = Journal(None, session.resumes or "verification", session.clock)
    runner = Runner(
        session.plan,
        session.phases,
        session.clock,
        journal,
        _NoRecords(),
        Opening("verify", session.operation_id, session.receipt_id),
        pace=Pace(least=LEAST_DEADLINE),
        keep=keep,
        kept_is_fine=kept_is_fine,
        dry=True,
    )
    try:
        await runner.open()
        code = await runner.run()
    finally:
        await session.clients.aclose()
    return code, journal.state, journal.state.runs[journal.run]
