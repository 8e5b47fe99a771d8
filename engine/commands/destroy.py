"""`npa destroy --project A --all`: without --yes a plan; with it, the run."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys

from engine.commands.following import follower
from engine.commands.output import Output
from engine.run.report import identity_document, plan_document, run_document
from engine.run.selection import Selection
from engine.run.session import Session, open_session
from engine.words import commandlines
from engine.words.phases import PHASES
from engine.words.reasons import Reason, Refusal, Refused
from engine.words.redact import visible


def add_arguments(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> None:
    parser.add_argument(
        "--project",
        default="",
        metavar="ALIAS|ID",
        help="the project; may be left out when only one is configured",
    )
    parser.add_argument("--all", action="store_true", help="required: says that the whole project is meant")
    parser.add_argument(
        "--yes",
        "-y",
        action="store_true",
        help="carry the plan out; without it the plan is shown and nothing happens",
    )
    parser.add_argument("--plan", default="", metavar="DIGEST", help="run exactly this plan or refuse")
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="PHASE",
        help="leave a phase, and what needs it; may be repeated",
    )
    parser.add_argument("--allow-kept", action="store_true", help="exit 0 although something was kept")
    parser.add_argument(
        "--new-plan", action="store_true", help="give up an unfinished run's recorded plan and make a new one"
    )
    parser.add_argument(
        "--live", action="store_true", help="look at the cloud as well; the plan says what each target is now"
    )
    parser.add_argument(
        "--deadline", type=float, metavar="SECONDS", help="end at the next safe point after so long"
    )
    parser.add_argument(
        "--detach",
        action="store_true",
        help="print the run's id and let it go on by itself; `npa watch` follows it",
    )
    parser.add_argument(
        "--abandon-operation",
        action="append",
        default=[],
        metavar="ID",
        help="give up a crashed operation that holds the project",
    )
    parser.add_argument("--reason", default="", help="why; required with --abandon-operation, and recorded")
    parser.add_argument("--project-id", default="", help="exact project id")
    parser.add_argument("--tenant-id", default="", help="exact tenant id")
    parser.add_argument("--non-interactive", action="store_true", help="never ask anything")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--events", action="store_true", help="JSON lines as things happen")
    # How the console and --detach start a runner.
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--handshake-fd", type=int, default=-1, help=argparse.SUPPRESS)


def run(args: argparse.Namespace, output: Output) -> int:
    if args.handshake_fd >= 0:
        from engine.run.detached import shake

        try:
            return _run(args, output)
        except Refused as refused:
            shake(args.handshake_fd, refused.refusal)
            raise
    return _run(args, output)


def _run(args: argparse.Namespace, output: Output) -> int:
    _check(args)
    session = _open(args)
    _note_labels(session, output)
    if not args.yes and not args.serve:
        return _verified(session, args, output) if args.live else _plan(session, args, output)
    if args.plan and args.plan != session.plan.digest:
        from engine.run.execution import changed_plan

        raise Refused(changed_plan(session, args.plan, session.plan.digest))
    if session.finished and not args.new_plan and not args.detach:
        code = _verified(session, args, output, quiet_unless_clean=True)
        if code == 0:
            return 0
        session = _open(args)  # clients belong to the loop that they were used in
    if args.detach:
        return _detach(args, session, output)
    return _execute(session, args, output)


def _open(args: argparse.Namespace) -> Session:
    return open_session(Selection(args.project, "", args.project_id, args.tenant_id), new_plan=args.new_plan)


def _check(args: argparse.Namespace) -> None:
    if not args.all:
        raise Refused(
            Refusal(
                Reason.USAGE, "say --all: the whole project is meant", "npa destroy --project ALIAS --all"
            )
        )
    unknown = [k for k in args.keep if k not in PHASES]
    if unknown:
        raise Refused(
            Refusal(
                Reason.USAGE,
                f"--keep {unknown[0]}: there is no such phase; they are {', '.join(PHASES)}",
                "npa destroy --help",
            )
        )
    if "final_audit" in args.keep:
        raise Refused(
            Refusal(
                Reason.USAGE,
                "--keep final_audit: without it nothing tells what is left",
                "npa destroy --help",
            )
        )
    if args.deadline is not None and not 0 < args.deadline < float("inf"):
        raise Refused(
            Refusal(
                Reason.USAGE,
                f"--deadline {args.deadline:g}: a positive number of seconds",
                "npa destroy --help",
            )
        )
    if args.abandon_operation and not args.reason:
        raise Refused(
            Refusal(Reason.USAGE, "--abandon-operation needs --reason: it is recorded", "npa destroy --help")
        )


def _note_labels(session: Session, output: Output) -> None:
    aliases = session.index.aliases_of(session.identity.project_id)
    if len(aliases) > 1:
        output.note(
            f"{session.identity.project_id} has several aliases: {', '.join(aliases)}; all of them mean this project"
        )


def _plan(session: Session, args: argparse.Namespace, output: Output) -> int:
    from engine.run.preflight import protected_as

    plan, keep = session.plan, frozenset(args.keep)
    held = bool(protected_as(session))
    if output.mode != "text":
        document = plan_document(plan, kept=keep)
        document["protected"] = held
        document["resumes"] = session.resumes
        document["operation_id"] = session.operation_id
        document["problems"] = [str(p) for p in session.records.problems]
        output.document(document)
        return 0
    who = session.identity
    output.line(
        f"Plan {plan.digest} for {visible(who.alias or who.project_id)} ({who.project_id}, {who.tenant_id}, {who.region})"
    )
    if session.resumes:
        output.line(f"This resumes {session.resumes}.")
    for number, phase in enumerate(plan.phases, 1):
        kept = "  kept" if phase.phase in keep else ""
        output.line(f"\n{number:02} {PHASES[phase.phase].label}{kept}")
        for target in phase.targets:
            output.line(f"   {visible(target.name)}")
            for part in target.parts:
                proof = (
                    f"{part.owned.record} {part.owned.field}"
                    if part.owned
                    else "NOT PROVEN OURS: will be held"
                )
                output.line(f"     {part.ref.kind.replace('_', ' '):16} {part.ref.id:34} {visible(proof)}")
        if not phase.targets:
            output.line("   nothing to do" if not phase.unread else "")
        for unread in phase.unread:
            output.line(f"   could not be read: {visible(unread)}")
    if held:
        output.line("\nThe project is protected: every phase is held, and nothing of it is run.")
        return 0
    output.line("\nNothing was changed. To carry out exactly this plan:")
    output.line(f"  {commandlines.destroy(who, keep)} --plan {plan.digest}")
    return 0


def _verified(
    session: Session, args: argparse.Namespace, output: Output, *, quiet_unless_clean: bool = False
) -> int:
    """Look, change nothing, write nothing."""
    from engine.run.verify import verify

    code, state, ran = asyncio.run(verify(session, keep=frozenset(args.keep), kept_is_fine=args.allow_kept))
    if code == 0 or not quiet_unless_clean:
        document = run_document(session.plan, state, ran, exit_code=code, journal=str(session.journal_path))
        document["operation_id"], document["receipt_id"] = session.operation_id, session.receipt_id
        output.document(document)
        for phase in document["phases"]:
            for target in phase["targets"]:
                output.line(
                    f"{phase['phase_number']:02} {target['name']}: {target['result']} {target['message']}".rstrip()
                )
        output.line("Everything is verified; nothing was changed." if code == 0 else "Nothing was changed.")
    return code


def _detach(args: argparse.Namespace, session: Session, output: Output) -> int:
    from engine.run import preflight
    from engine.run.detached import start

    rest = [
        "destroy",
        "--project",
        session.identity.project_id,
        "--all",
        "--yes",
        "--plan",
        args.plan or session.plan.digest,
    ]
    for keep in args.keep:
        rest += ["--keep", keep]
    rest += ["--allow-kept"] if args.allow_kept else []
    rest += ["--new-plan"] if args.new_plan else []
    rest += ["--deadline", str(args.deadline)] if args.deadline else []
    for id in args.abandon_operation:
        rest += ["--abandon-operation", id, "--reason", args.reason]
    preflight.unprotected(session)
    answer = start(rest, os.environ, session.roots.ours / "logs" / f"{session.operation_id}.log")
    if isinstance(answer, Refusal):
        raise Refused(answer)
    watch = commandlines.watch(session.identity)
    output.document(
        {
            **identity_document(session.identity),
            "result": "detached",
            "run_id": answer,
            "operation_id": session.operation_id,
            "next_command": watch,
            "mutated": False,
            "exit_code": 0,
        }
    )
    output.line(answer)
    output.note(f"It goes on by itself; {watch} follows it.")
    return 0


def _execute(session: Session, args: argparse.Namespace, output: Output) -> int:
    from engine.inventory.left import left_document, left_line
    from engine.ledger.journal import Unwritable
    from engine.run.detached import shake
    from engine.run.execution import Terms, execute

    def opened(run: str) -> None:
        if args.handshake_fd >= 0:
            shake(args.handshake_fd, run)

    detached = args.handshake_fd >= 0
    terms = Terms(
        argv=tuple(sys.argv),
        by=f"{getpass.getuser()} {'console' if args.serve else '--yes'}",
        yes=args.yes,
        digest=args.plan,
        keep=frozenset(args.keep),
        kept_is_fine=args.allow_kept,
        deadline=args.deadline,
        new_plan=args.new_plan,
        abandon=frozenset(args.abandon_operation),
        abandon_reason=args.reason,
        survive_hangup=detached,
        patience=0.0 if session.settings.non_interactive or args.non_interactive else 600.0,
    )
    output.identity = identity_document(session.identity)
    try:
        with follower(output) as seen:
            ran = asyncio.run(execute(session, terms, on_entry=seen.entry, on_open=opened))
    except BaseException as ended:
        # However it ends, what was changed is not denied: the state is the journal's, also where the file lags behind it.
        newest = session.live.state.newest
        output.mutated = newest is not None and newest.acted
        if isinstance(ended, Unwritable):
            raise Refused(
                Refusal(
                    Reason.NO_RECEIPT,
                    f"{ended.filename} could not be written ({ended.strerror}); nothing further was begun, and what was in flight is in the journal",
                    commandlines.destroy(session.identity),
                )
            ) from ended
        raise
    document = run_document(
        ran.plan,
        ran.state,
        ran.run,
        exit_code=ran.exit_code,
        journal=str(session.journal_path),
        receipt=ran.receipt,
    )
    document["still_costing"] = left_document(ran.left)
    output.document(document)
    _closing_words(document, output)
    if ran.left is not None:
        output.line(left_line(ran.left))
    return ran.exit_code


def _closing_words(document: dict[str, object], output: Output) -> None:
    phases = document["phases"]
    assert isinstance(phases, list)
    output.line()
    for p in phases:
        blocked = f", blocked by {', '.join(p['blocked_by'])}" if p["blocked_by"] else ""
        output.line(f"{p['phase_number']:02} {p['label']:24}{p['status']}{blocked}")
        for error in p["errors"]:
            output.line(f"   {visible(error)}")
    deleted = document["deleted"]
    assert isinstance(deleted, list)
    output.line(f"\n{len(deleted)} gone and checked. Receipt: {document['receipt_path'] or 'none'}")
    if document["exit_code"] != 0:
        commands = {" ".join(c) for p in phases for c in p["recovery_commands"]}
        output.line("To go on:" if commands else "")
        for command in sorted(commands):
            output.line(f"  {command}")
