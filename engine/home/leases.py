"""`operations/.projects/<hash>/lease.json`: which operation a project belongs to, as far as the file explains it.

The right to change a project is the lock beside the file, not the file. A holder that is gone and did not finish is explained and
left to the operator's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.home.documents import read_json
from engine.home.errors import Fault, Kind
from engine.home.fields import Fields
from engine.home.operations import TERMINAL, Operations
from engine.home.processes import alive
from engine.home.roots import Roots

SCHEMA = "npa.project.lifecycle-lease.v1"


@dataclass(frozen=True, slots=True)
class Lease:
    """The last holder. `holder_alive`: a process with that id runs on this machine now; `released`: it said that it left."""

    path: Path
    project_identity: str
    project_id: str
    project_alias: str
    operation_id: str
    command: str
    resource_type: str
    phase: str
    lifecycle: str
    owner_pid: int
    owner_host: str
    holder_alive: bool
    acquired_at: str
    released_at: str
    resume_argv: tuple[str, ...]
    destroy_argv: tuple[str, ...]

    @property
    def released(self) -> bool:
        return bool(self.released_at)

    def blocks(self, operations: Operations) -> bool:
        """Whether the CLI would refuse any other operation on this project: the named one has not ended.

        Its journal decides; where there is none, the phase in the lease does.
        """
        if not self.operation_id:
            return False
        journal = operations.get(self.operation_id)
        return not journal.terminal if journal else self.phase not in TERMINAL


def read_lease(roots: Roots, project: str) -> Lease | None:
    """The lease of a project id (or of an alias, where the CLI knew no id); None when there is none. Raises `RecordError`."""
    path = roots.lease_folder(project) / "lease.json"
    document = read_json(path, roots.operations, Kind.LEASES)
    return None if document is None else parse_lease(document, path, project)


def parse_lease(document: Mapping[str, object], path: Path, project: str) -> Lease:
    """The lease in a document, which must be that of `project`. Raises `RecordError`."""
    found = Fields(document, kind=Kind.LEASES, path=path)
    found = found.scoped(found.text("project_id"))
    found.schema("schema_version", SCHEMA)
    identity = found.needed("project_identity")
    if identity != project:
        raise found.error("project_identity", "names another project than its folder", fault=Fault.CONFLICT)
    pid = found.whole("owner_pid")
    commands = found.block("recovery_commands")
    return Lease(
        path=path,
        project_identity=identity,
        project_id=found.text("project_id"),
        project_alias=found.text("project_alias"),
        operation_id=found.text("operation_id"),
        command=found.text("command"),
        resource_type=found.text("resource_type"),
        phase=found.text("phase"),
        lifecycle=found.text("lifecycle"),
        owner_pid=pid,
        owner_host=found.text("owner_host"),
        holder_alive=alive(pid),
        acquired_at=found.text("acquired_at"),
        released_at=found.text("released_at"),
        resume_argv=commands.texts("resume_argv"),
        destroy_argv=commands.texts("destroy_argv"),
    )
