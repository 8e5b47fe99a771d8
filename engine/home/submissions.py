"""`workflow-submissions/<project>/<run>.json`: what was asked to run, and the proof that something never was."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine.home.documents import read_json
from engine.home.errors import Fault, Kind, RecordProblem
from engine.home.fields import Fields, Problems
from engine.home.folders import names_in
from engine.home.roots import Roots

SCHEMA = "npa.workflow.submission.v1"
_NEVER = frozenset({"planned", "reserved", "staged", "not_submitted"})
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class Submission:
    """One ledger. `never_launched`: it proves that nothing was ever handed to SkyPilot."""

    path: Path
    project: str
    run_id: str
    launch_state: str
    workflow_name: str
    run_prefix_uri: str
    has_launch: bool
    launch_status: str
    sky_job_id: str
    job_name: str
    never_launched: bool
    updated_at: str


class Audit(StrEnum):
    """What all ledgers of one project together say."""

    ABSENT = "absent"
    NOT_SUBMITTED = "not_submitted"
    LAUNCH_EVIDENCE = "launch_evidence"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Submissions:
    """The ledgers of one project. A ledger that could not be read makes the audit unavailable."""

    ledgers: tuple[Submission, ...] = ()
    problems: tuple[RecordProblem, ...] = ()

    @property
    def audit(self) -> Audit:
        if self.problems:
            return Audit.UNAVAILABLE
        if not self.ledgers:
            return Audit.ABSENT
        proven = all(ledger.never_launched for ledger in self.ledgers)
        return Audit.NOT_SUBMITTED if proven else Audit.LAUNCH_EVIDENCE

    def get(self, run_id: str) -> Submission | None:
        return next((s for s in self.ledgers if s.run_id == run_id), None)


def path_part(text: str) -> str:
    """A project or run as the CLI writes it into a path."""
    return _UNSAFE.sub("-", text)[:96] or "default"


def read_submissions(roots: Roots, projects: Iterable[str]) -> Submissions:
    """The ledgers of the given projects: the aliases and, where the CLI used it, the id. Never raises: it audits."""
    problems = Problems()
    ledgers: list[Submission] = []
    for project in dict.fromkeys(projects):
        folder = roots.submissions / path_part(project)
        with problems.kept():
            for name in names_in(folder, roots.home, Kind.SUBMISSIONS):
                if name.endswith(".json") and not name.startswith("."):
                    with problems.kept():
                        ledgers.append(_ledger(folder / name, roots, project))
    return Submissions(tuple(ledgers), problems())


def _ledger(path: Path, roots: Roots, project: str) -> Submission:
    document = read_json(path, roots.home, Kind.SUBMISSIONS)
    found = Fields({} if document is None else document, kind=Kind.SUBMISSIONS, path=path)
    found.schema("schema_version", SCHEMA)
    run_id = found.needed("run_id")
    if found.text("project") != project:
        raise found.error("project", "differs from the folder that the ledger is in", fault=Fault.CONFLICT)
    if path_part(run_id) != path.stem:
        raise found.error("run_id", "differs from the ledger's file name", fault=Fault.CONFLICT)
    workflow = found.child("workflow")
    # Any launch key ends the proof, whatever it holds: a launch was begun.
    has_launch = "launch" in set(found)
    launch = (
        found.block("launch")
        if isinstance(found.raw("launch"), dict)
        else Fields({}, kind=found.kind, path=path)
    )
    launch_state = found.text("launch_state")
    return Submission(
        path=path,
        project=project,
        run_id=run_id,
        launch_state=launch_state,
        workflow_name=workflow.text("name") if workflow else "",
        run_prefix_uri=workflow.text("run_prefix_uri") if workflow else "",
        has_launch=has_launch,
        launch_status=launch.text("status"),
        sky_job_id=launch.text("sky_job_id", number=True) or launch.text("job_id", number=True),
        job_name=launch.text("job_name"),
        never_launched=not has_launch and (launch_state in _NEVER or workflow is not None),
        updated_at=found.text("updated_at"),
    )
