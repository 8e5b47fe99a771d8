"""Carries out a session's plan in this process: lease, journal, records of the existing CLI, requests, signals, the run."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine import __version__
from engine.ledger.events import Closed, Entry, Noted
from engine.ledger.journal import Altered, Journal
from engine.ledger.lease import held
from engine.ledger.projector import RecordProjector
from engine.ledger.state import Run, State
from engine.run import preflight
from engine.run.attend import attend
from engine.run.planner import relabelled
from engine.run.runner import LEAST_DEADLINE, Login, Opening, Pace, Runner
from engine.run.session import Session
from engine.words.consent import Consent
from engine.words.plans import Plan
from engine.words.presence import Unknown
from engine.words.reasons import Reason, Refusal, Refused
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.inventory.model import Inventory

OnEntry = Callable[[Entry, State], None]

LOOK_AROUND, LEAST_LOOK = 60.0, 10.0
"""Nominal seconds that the last look, for what still costs, may take; and real seconds that it always may: waits shrink in a rehearsal, work does not."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a run is to go.

    consents       tier and phases agreed to at the start (`--yes`); without, the runner waits for requests
    digest         the plan that was shown; another one is refused
    keep           phases to leave as they are, with what needs them
    deadline       nominal seconds after which the run ends at the next safe point
    abandon        ids of crashed operations that are given up for this teardown, and why
    survive_hangup a closed terminal does not end it
    """

    argv: tuple[str, ...]
    by: str
    yes: bool = False
    digest: str = ""
    keep: frozenset[str] = frozenset()
    kept_is_fine: bool = False
    deadline: float | None = None
    new_plan: bool = False
    abandon: frozenset[str] = frozenset()
    abandon_reason: str = ""
    survive_hangup: bool = False
    patience: float = 600.0


@dataclass(slots=True)
class Ran:
    """What came of it."""

    exit_code: int
    plan: Plan
    state: State
    run: Run
    receipt: str = ""
    left: Inventory | None = None
    """What was still there when the run had ended; None when nobody looked."""


async def execute(
    session: Session,
    terms: Terms,
    *,
    on_entry: OnEntry | None = None,
    on_open: Callable[[str], None] | None = None,
) -> Ran:
    """Run the session's plan to its end, or as far as it may go. `on_open` is called with the run's id once it is durable.

    Raises `Refused` before anything was changed, `Unwritable` when the journal could no longer be kept.
    """
    if terms.digest and terms.digest != session.plan.digest:
        raise Refused(changed_plan(session, terms.digest, session.plan.digest))
    preflight.unprotected(session)
    await preflight.local(session)
    await preflight.login(session)
    with held(session.roots, session.identity, session.records.operations, terms.abandon):
        return await _run(session, terms, on_entry, on_open)


def changed_plan(session: Session, wanted: str, now: str) -> Refusal:
    """Only what was shown is run."""
    name = session.identity.alias or session.identity.project_id
    return Refusal(
        Reason.PLAN_CHANGED,
        f"plan {wanted} is asked for, but the plan is {now} now; nothing was changed",
        shlex.join(["npa", "destroy", "--project", name, "--all"]),
    )


async def _run(
    session: Session, terms: Terms, on_entry: OnEntry | None, on_open: Callable[[str], None] | None
) -> Ran:
    journal = _open_journal(session)
    try:
        resumed = None if terms.new_plan else journal.state.resumable("destroy")
        plan = relabelled(resumed.plan, session.identity) if resumed else session.plan
        if plan.digest != session.plan.digest:  # somebody began another run between our reading and our lock
            raise Refused(changed_plan(session, session.plan.digest, plan.digest))
        if resumed:
            journal.run = resumed.id
        elif terms.new_plan and (old := journal.state.resumable("destroy")):
            journal.run, fresh = old.id, journal.run
            await journal.append(Closed(2, final=True, detail=f"superseded by {fresh}"))
            journal.run = fresh
        if on_entry:
            journal.listeners.append(lambda entry: on_entry(entry, journal.state))
        projector = RecordProjector(
            session.roots,
            session.identity,
            plan,
            journal,
            session.clock,
            (resumed.receipt_id if resumed else "") or session.receipt_id,
        )
        runner = Runner(
            plan,
            session.phases,
            session.clock,
            journal,
            projector,
            Opening(
                "destroy", session.operation_id, projector.receipt_id, terms.argv, f"npa-tui {__version__}"
            ),
            login=_login(session),
            pace=Pace(patience=terms.patience, least=LEAST_DEADLINE),
            keep=terms.keep,
            kept_is_fine=terms.kept_is_fine,
        )
        session.watch(journal)
        return await _drive(session, terms, journal, projector, runner, on_open)
    finally:
        journal.close()
        await session.clients.aclose()


async def _drive(
    session: Session,
    terms: Terms,
    journal: Journal,
    projector: RecordProjector,
    runner: Runner,
    on_open: Callable[[str], None] | None,
) -> Ran:
    await runner.open()
    for id in sorted(terms.abandon):
        await journal.append(Noted("run", "abandoned", f"operation {id}: {terms.abandon_reason}"))
    projector.open()
    if on_open:
        on_open(journal.run)
    if terms.yes:
        everything = tuple(p.phase for p in runner.plan.phases)
        await runner.consent(Consent(runner.plan.digest, everything, 3, terms.by))
    ear = asyncio.ensure_future(attend(runner, journal, session.inbox, session.clock))
    alarm = (
        asyncio.ensure_future(_deadline(session, runner, terms.deadline))
        if terms.deadline is not None
        else None
    )
    try:
        with _signals(runner, journal, hangup_ends=not terms.survive_hangup):
            code = await runner.run()
    finally:
        for task in (ear, alarm):
            if task:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
    with suppress(OSError):  # the journal has it all; the projections come back at the next start
        projector.close()
    run = journal.state.runs[journal.run]
    receipt = str(projector.receipt) if projector.receipt.exists() else ""
    left = None if code == 130 else await look_around(session, runner.plan)
    return Ran(code, runner.plan, journal.state, run, receipt, left)


async def look_around(session: Session, plan: Plan) -> Inventory | None:
    """What the provider shows of the project now. None when it takes too long to be worth the wait."""
    from engine.inventory.gather import gather

    with suppress(TimeoutError):
        return await asyncio.wait_for(
            gather(session.clients.nebius, session.identity.project_id, plan, session.clock),
            max(LOOK_AROUND * session.clock.scale, LEAST_LOOK),
        )
    return None


def _open_journal(session: Session) -> Journal:
    run = f"run-{session.clock.utc():%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
    try:
        return Journal(session.journal_path, run, session.clock)
    except Altered as altered:
        raise Refused(
            Refusal(Reason.JOURNAL_ALTERED, str(altered), f"restore {altered.path} from a backup")
        ) from altered
    except OSError as error:
        raise Refused(
            Refusal(
                Reason.NOT_WRITABLE,
                f"the journal {session.journal_path} cannot be opened: {error.strerror}; nothing was called",
                "",
            )
        ) from error


def _login(session: Session) -> Login:
    async def ask() -> Unknown | None:
        try:
            await session.clients.nebius.whoami()
        except Trouble as trouble:
            return trouble.unknown
        return None

    return ask


async def _deadline(session: Session, runner: Runner, seconds: float) -> None:
    await session.clock.sleep(seconds)
    runner.gate.close(f"the deadline of {seconds:g} s came")


@contextmanager
def _signals(runner: Runner, journal: Journal, *, hangup_ends: bool) -> Iterator[None]:
    """The first Ctrl-C stops at a safe point, the second names what is in flight, the third ends the process at once."""
    loop = asyncio.get_running_loop()
    presses = 0

    def pressed() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            runner.gate.close("interrupted")
            _tell(
                "stopping: calls in flight finish, nothing new is started. Once more shows them, a third time ends at once"
            )
        elif presses == 2:
            flying = [f"{i.verb} {i.ref.id}" for i in journal.state.unanswered.values()]
            _tell("in flight: " + (", ".join(flying) or "nothing; closing the journal"))
        else:
            os._exit(130)

    handled = [signal.SIGINT, signal.SIGTERM]
    if hangup_ends:
        handled.append(signal.SIGHUP)
    else:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in handled:
        loop.add_signal_handler(number, pressed)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _tell(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
