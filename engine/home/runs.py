"""`workflow-runs/<project>/<workflow>.json`: the run that a workflow is known by, and its last known state."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.home.documents import read_json
from engine.home.errors import Kind, RecordProblem
from engine.home.fields import Fields, Problems
from engine.home.folders import names_in
from engine.home.roots import Roots

SCHEMA = "npa.workflow.first-run.v1"
ENDED = frozenset({"SUCCEEDED", "FAILED", "FAILED_STARTUP", "CANCELLED", "BLOCKED"})
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class Run:
    """One record. `ended`: its end was verified when it was written."""

    path: Path
    run_id: str
    project_identity: str
    project_alias: str
    workflow_identity: str
    last_known_state: str
    last_verification_status: str
    last_used_at: str

    @property
    def ended(self) -> bool:
        return self.last_verification_status == "VERIFIED" and self.last_known_state in ENDED


@dataclass(frozen=True, slots=True)
class Runs:
    """The records of one project; one that could not be read is a problem and hides no other."""

    records: tuple[Run, ...] = ()
    problems: tuple[RecordProblem, ...] = ()


def scope(text: str) -> str:
    """A project or workflow identity as the CLI writes it into a path."""
    slug = _UNSAFE.sub("-", text).strip("-._")[:48]
    return f"{slug}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def read_runs(roots: Roots, project_id: str, aliases: Iterable[str]) -> Runs:
    """The records of a project id, and of aliases from before its id was known. Never raises."""
    problems = Problems()
    records: list[Run] = []
    identities = [project_id, *(f"alias:{alias}" for alias in aliases)]
    for identity in dict.fromkeys(i for i in identities if i):
        folder = roots.runs / scope(identity)
        with problems.kept():
            for name in names_in(folder, roots.config, Kind.RUNS):
                if name.endswith(".json") and not name.startswith("."):
                    with problems.kept():
                        record = _run(folder / name, roots)
                        if record and record.project_identity == identity:
                            records.append(record)
    return Runs(tuple(records), problems())


def _run(path: Path, roots: Roots) -> Run | None:
    document = read_json(path, roots.config, Kind.RUNS)
    if document is None:
        return None
    found = Fields(document, kind=Kind.RUNS, path=path)
    found.schema("schema_version", SCHEMA)
    return Run(
        path,
        found.needed("run_id"),
        found.needed("project_identity"),
        found.text("project_alias"),
        found.text("workflow_identity"),
        found.text("last_known_state"),
        found.text("last_verification_status"),
        found.text("last_used_at"),
    )
