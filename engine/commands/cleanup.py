"""`npa cleanup`: what remains, from this machine's records, and the exact runbook for it. Reads only; calls nobody."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from typing import Any

from engine.commands.output import SCHEMA, Output
from engine.home.project_index import load_project_index
from engine.home.receipt_fold import ResourceState, fold, unresolved
from engine.home.receipts import Receipt, read_receipts
from engine.home.residue import tree_bytes
from engine.home.roots import Roots, roots
from engine.run.selection import Selection
from engine.run.session import Session, open_session
from engine.settings import read as read_settings
from engine.words import commandlines
from engine.words.outcomes import Verdict
from engine.words.phases import PHASES
from engine.words.plans import PhasePlan, Target
from engine.words.reasons import Reason, Refusal, Refused
from engine.words.redact import visible
from engine.words.vocabulary import RECEIPT_PHASE

Document = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> None:
    parser.add_argument(
        "--project", default="", metavar="ALIAS|ID", help="one project; without it, every configured one"
    )
    parser.add_argument("--list-receipts", action="store_true", help="list the teardown receipts instead")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(args: argparse.Namespace, output: Output) -> int:
    r = roots(read_settings().environ)
    if args.list_receipts:
        return _list(r, args.project, output)
    return _report(r, args.project, output)


# -- the report ---------------------------------------------------------------------------------------------------------


def _report(r: Roots, project: str, output: Output) -> int:
    index = load_project_index(r)
    names = [project] if project else sorted(index.configured)
    sections: list[Document] = []
    for name in names:
        try:
            sections.append(_section(open_session(Selection(name))))
        except Refused as refused:
            if project:
                raise
            sections.append(
                {
                    "project": name,
                    "problem": refused.refusal.sentence,
                    "phases": [],
                    "verification_unresolved": True,
                }
            )
    if not sections and index.problems:
        raise Refused(Refusal(Reason.RECORD_UNREADABLE, "; ".join(str(p) for p in index.problems), ""))
    problems = [str(p) for p in index.problems]
    document = _document(sections, problems, project)
    output.document(document)
    _print(document, output)
    return 0


def _section(session: Session) -> Document:
    states = session.records.receipt_states
    rows: list[Document] = []
    for phase in session.plan.phases:
        rows += _rows(session, phase, states)
    for number, row in enumerate(rows, 1):
        row["phase"] = number
    residue = [
        {
            "path": str(i.path),
            "class": str(i.kind),
            "own": i.own,
            "obstacle": i.obstacle,
            "bytes": tree_bytes(i.path),
        }
        for i in session.records.residue
    ]
    open_receipts = unresolved(states.values())
    return {
        "project": session.identity.alias,
        "project_id": session.identity.project_id,
        "plan_digest": session.plan.digest,
        "phases": rows,
        "runbook": [
            row["recommended_npa_command"]
            for row in rows
            if row["operator_action_required"] and row["recommended_npa_command"]
        ],
        "next_command": commandlines.destroy(session.identity),
        "retained_local_residue": residue,
        "operational_residue_present": any(i["own"] for i in residue),
        "audit_receipts": [x.receipt_id for x in session.records.receipts],
        "unresolved_receipt_states": [f"{s.phase}:{s.resource}={s.state}" for s in open_receipts],
        "verification_unresolved": bool(open_receipts) or bool(session.records.problems),
        "problems": [str(p) for p in session.records.problems],
    }


def _rows(
    session: Session, phase: PhasePlan, states: Mapping[tuple[str, str], ResourceState]
) -> list[Document]:
    if phase.phase == "final_audit":
        return []
    return [_row(session, phase, t, states) for t in phase.targets]


def _row(
    session: Session, phase: PhasePlan, target: Target, states: Mapping[tuple[str, str], ResourceState]
) -> Document:
    outcome = session.state.outcomes.get(target.key)
    receipt = states.get((RECEIPT_PHASE[phase.phase], target.id))
    proven = target.key in session.state.proofs
    if proven:
        observed = f"proven_gone@{session.state.proofs[target.key][-1].at}"
    elif outcome is not None:
        observed = f"journal:{outcome.verdict}"
    elif receipt is not None:
        observed = f"receipt:{receipt.state}@{receipt.recorded_at}"
    else:
        observed = "recorded_not_checked"
    done = proven or (outcome is not None and outcome.verdict is Verdict.DONE)
    owned = all(p.owned for p in target.parts)
    command = commandlines.for_target(session.identity, target)
    return {
        "resource": f"{PHASES[phase.phase].noun} {target.name}",
        "ids": [p.ref.id for p in target.parts],
        "destroy_phase": phase.phase,
        "observed_state": observed,
        "recommended_npa_command": "" if done else shlex.join(command),
        "safety_status": "verified_noop" if done else "ready" if owned else "held_until_ownership_is_proven",
        "ownership_status": "proven" if owned else "not_proven",
        "operator_action_required": not done,
        "operator_action_remains": not done,
    }


def _document(sections: list[Document], problems: list[str], project: str) -> Document:
    residue = [x for s in sections for x in s.get("retained_local_residue", [])]
    unresolved_ = any(s["verification_unresolved"] for s in sections) or bool(problems)
    receipts = sorted({x for s in sections for x in s.get("audit_receipts", [])})
    remains = any(row["operator_action_remains"] for s in sections for row in s["phases"])
    clean = not remains and not unresolved_ and not any(i["own"] for i in residue)
    return {
        "schema_version": SCHEMA,
        "result": "fully_clean" if clean else "cleanup_planned",
        "local_state": "residue_present" if any(i["own"] for i in residue) else "fully_cleaned",
        "operational_residue_present": any(i["own"] for i in residue),
        "residue_present": any(i["own"] for i in residue),
        "verification_unresolved": unresolved_,
        "managed_job_queue_state": "not_checked",
        "managed_job_queue_detail": "a report from local records asks nobody; `npa destroy --all --live` looks",
        "nonterminal_job_ids": [],
        "iam_state": "not_checked",
        "iam_verification_required": False,
        "iam_detail": "",
        "project_retained": False,
        "cleanup_failed": False,
        "removed_bytes": 0,
        "mutated": False,
        "project": project,
        "projects": sections,
        "phases": sections[0]["phases"] if len(sections) == 1 else [],
        "retained_audit_receipts": len(receipts),
        "audit_receipts_retained": bool(receipts),
        "audit_receipts_are_operational_residue": False,
        "preserved_shared_runtime": any(not i["own"] for i in residue),
        "retained_local_residue": residue,
        "problems": problems,
        "exit_code": 0,
    }


def _print(document: Document, output: Output) -> None:
    for section in document["projects"]:
        output.line(
            visible(f"{section['project'] or section.get('project_id', '')}  {section.get('project_id', '')}")
        )
        if section.get("problem"):
            output.line(f"  {visible(section['problem'])}")
        for row in section["phases"]:
            end = "verified no-op" if not row["operator_action_remains"] else "operator action remains"
            output.line(f"  {row['phase']:2}. {visible(row['resource'])}: {row['observed_state']}; {end}")
            if row["recommended_npa_command"]:
                output.line(f"      {row['recommended_npa_command']}")
        for item in section.get("retained_local_residue", []):
            shared = "" if item["own"] else " (shared: stays)"
            output.line(f"   -  {item['path']}{shared}{': ' + item['obstacle'] if item['obstacle'] else ''}")
        for problem in section.get("problems", []):
            output.line(f"   !  {problem}")
        if section.get("next_command"):
            output.line(f"  All of it, in order: {section['next_command']}")
        output.line()
    if not document["projects"]:
        output.line("No project is configured on this machine.")
    for problem in document["problems"]:
        output.line(f"! {problem}")


# -- receipts -----------------------------------------------------------------------------------------------------------


def _list(r: Roots, project: str, output: Output) -> int:
    """Newest first. One that cannot be read is listed as such and hides no other."""
    found = read_receipts(r)
    id = ""
    if project:
        index = load_project_index(r)
        ids = (project,) if project in index.known_ids else index.ids_of(project)
        if not ids:
            raise Refused(
                Refusal(
                    Reason.UNKNOWN_ALIAS,
                    f"no project is called {project!r} here",
                    "npa cleanup --list-receipts",
                )
            )
        id = ids[0]
    rows = [_receipt(x) for x in found.receipts if not id or id in x.project_ids]
    rows.sort(key=lambda row: str(row["updated_at"]), reverse=True)
    if not project:
        rows += [
            {
                "receipt_id": p.path.stem,
                "path": str(p.path),
                "schema_version": "unreadable",
                "operational_status": "unresolved",
                "unresolved_actions": ["inspect unreadable receipt"],
                "problem": str(p),
                "audit_only": True,
                "updated_at": "",
            }
            for p in found.problems
        ]
    output.document(
        {
            "schema_version": SCHEMA,
            "result": "receipts_listed",
            "retention": "receipts are kept until they are pruned explicitly",
            "receipts": rows,
            "mutated": False,
            "exit_code": 0,
        }
    )
    for row in rows:
        open_ones = ", ".join(row["unresolved_actions"])
        output.line(
            visible(f"{row['receipt_id']}  {row['updated_at']}  {row['operational_status']}  {open_ones}")
        )
    if not rows:
        output.line("No teardown receipts.")
    return 0


def _receipt(receipt: Receipt) -> Document:
    states = fold(receipt.events)
    open_ones = unresolved(states.values())
    return {
        "receipt_id": receipt.receipt_id,
        "path": str(receipt.path),
        "schema_version": receipt.schema_version,
        "project_id": receipt.project_id,
        "project_alias": receipt.project_alias,
        "created_at": receipt.created_at,
        "updated_at": receipt.updated_at,
        "subject": {"project_ids": sorted(receipt.project_ids), "project_aliases": sorted(receipt.aliases)},
        "operational_status": "unresolved" if open_ones else "terminal",
        "unresolved_actions": [f"{s.phase}:{s.resource}" for s in open_ones],
        "states": [
            {"phase": s.phase, "resource": s.resource, "state": s.state, "recorded_at": s.recorded_at}
            for s in states.values()
        ],
        "events": len(receipt.events),
        "audit_only": True,
    }
