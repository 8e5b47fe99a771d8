"""What can be wrong with a record on disk, in words that show nothing of its contents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine.words.redact import visible


class Kind(StrEnum):
    """Which kind of record. A phase asks `Records.problems_of(kind)` for what it could not read."""

    CONFIG = "config"
    CREDENTIALS = "credentials"
    CLUSTERS = "clusters"
    OPERATIONS = "operations"
    LEASES = "leases"
    SUBMISSIONS = "submissions"
    RUNS = "runs"
    AGENTS = "agents"
    RECEIPTS = "receipts"
    RESIDUE = "residue"


class Fault(StrEnum):
    """Why a record could not be used. None of these is absence."""

    UNREADABLE = "unreadable"
    """The operating system did not hand it out."""
    MALFORMED = "malformed"
    """It was read and does not have the shape that its kind has."""
    UNSUPPORTED = "unsupported"
    """Its schema version is one that this program does not know."""
    REFUSED = "refused"
    """It is a link, not a regular file, or owned by somebody else: reading or replacing it could be a trap."""
    CONFLICT = "conflict"
    """Two records, or a record and a request, contradict each other."""


@dataclass(frozen=True, slots=True)
class RecordProblem:
    """One record that could not be used.

    path     the file or folder
    field    dotted name of the field in it, empty for the whole file
    problem  what is wrong, never file contents
    remedy   what the operator can do
    scope    the project id that the record certainly belongs to, empty when that is not known
    """

    path: Path
    field: str
    problem: str
    remedy: str
    kind: Kind
    fault: Fault = Fault.MALFORMED
    scope: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: {self.field}" if self.field else str(self.path)
        return visible(f"{where}: {self.problem}; {self.remedy}")


class RecordError(Exception):
    """Raised by the strict readers and by the writers that refuse."""

    def __init__(self, problem: RecordProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def repair_remedy(path: Path) -> str:
    return (
        f"repair {path} by hand or restore it from a backup; nothing that depends on it is touched until then"
    )
