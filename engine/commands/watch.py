"""`npa watch` follows a project's run from its journal; `npa stop` asks its runner to stop at a safe point."""

from __future__ import annotations

import argparse
import getpass
import time

from engine.commands.following import follower
from engine.commands.output import Output
from engine.home.leases import read_lease
from engine.ledger.journal import Tail
from engine.ledger.state import State
from engine.run.report import identity_document, run_document
from engine.run.requests import Request, ask
from engine.run.selection import Selection
from engine.run.session import Session, open_session
from engine.words import commandlines
from engine.words.reasons import Reason, Refusal, Refused

EVERY = 0.2
"""Seconds between two looks at the journal."""


def add_arguments(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> None:
    parser.add_argument("--project", default="", metavar="ALIAS|ID", help="the project")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    if words == ("watch",):
        parser.add_argument("--events", action="store_true", help="JSON lines as things happen")


def run(args: argparse.Namespace, output: Output) -> int:
    session = open_session(Selection(args.project))
    return _stop(session, output) if args.words == ("stop",) else _watch(session, output)


def _watch(session: Session, output: Output) -> int:
    tail = Tail(session.journal_path)
    with follower(output) as seen:
        while True:
            state = State()
            for entry in tail.poll():
                state = tail.state
                seen.entry(entry, state)
            newest = tail.state.newest
            if newest is None:
                raise Refused(
                    Refusal(
                        Reason.UNKNOWN_ID,
                        f"no run of {session.identity.project_id} was ever started here",
                        "npa destroy --help",
                    )
                )
            if not newest.running or not _alive(session):
                break
            time.sleep(EVERY)
    code = newest.exit if newest.exit is not None else 2
    output.document(
        run_document(newest.plan, tail.state, newest, exit_code=code, journal=str(session.journal_path))
    )
    if newest.running:
        output.note("its runner is gone without a word; the same destroy command resumes it")
    return code


def _alive(session: Session) -> bool:
    lease = read_lease(session.roots, session.identity.project_id)
    return lease is not None and not lease.released and lease.holder_alive


def _stop(session: Session, output: Output) -> int:
    newest = session.state.newest
    if newest is None or not newest.running or not _alive(session):
        raise Refused(
            Refusal(
                Reason.UNKNOWN_ID,
                f"nothing runs for {session.identity.project_id}",
                "npa watch --project " + session.identity.project_id,
            )
        )
    ask(session.inbox, Request("stop", newest.id, getpass.getuser()))
    watch = commandlines.watch(session.identity)
    output.document(
        {
            **identity_document(session.identity),
            "result": "asked_to_stop",
            "run_id": newest.id,
            "next_command": watch,
            "mutated": False,
            "exit_code": 0,
        }
    )
    output.line(f"{newest.id} was asked to stop at a safe point; {watch} shows it end")
    return 0
