"""`operations/<id>/journal.json`: what the CLI created, in which operation, and what it can prove of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as defaulted
from pathlib import Path, PurePosixPath

from engine.home.documents import read_json
from engine.home.errors import Fault, Kind, RecordProblem
from engine.home.fields import Fields, Problems
from engine.home.folders import link_problem, names_in, read_file
from engine.home.processes import alive
from engine.home.roots import Roots

SCHEMA = "npa.provisioning.operation.v2"
TERMINAL = frozenset({"committed", "rolled-back", "destroyed"})
PHASES = (
    "prepared",
    "mutating",
    "resource-created",
    "state-durable",
    "committed",
    "recovery-required",
    "rolling-back",
    "rollback-incomplete",
    "rolled-back",
    "destroyed",
)
OWNERSHIPS = ("created_by_this_operation", "adopted", "pre_existing")


@dataclass(frozen=True, slots=True)
class OperationResource:
    """One resource of a journal. `provider_id` is empty for one that the operation could not name.

    field   its place in the journal, for a proof
    """

    field: str
    resource_type: str
    provider_id: str
    requested_name: str
    project_id: str
    ownership: str
    ownership_source: str
    labels: Mapping[str, str] = defaulted(default_factory=dict)
    creation_window_start: str = ""
    creation_window_end: str = ""
    generation: int = 1

    @property
    def created(self) -> bool:
        return self.ownership == "created_by_this_operation"


@dataclass(frozen=True, slots=True)
class StateCopy:
    """A Terraform state that was preserved beside the journal. Its content is checked by `read_state_copy`."""

    path: str
    sha256: str
    size_bytes: int
    operation_id: str
    backend: Mapping[str, str]
    preserved_at: str


@dataclass(frozen=True, slots=True)
class Journal:
    """One operation.

    interrupted   it says `running` and its process is gone; found by looking, the file stays as it is
    """

    path: Path
    operation_id: str
    command: str
    project_alias: str
    project_id: str
    tenant_id: str
    region: str
    resource_type: str
    requested_name: str
    ownership_source: str
    phase: str
    lifecycle: str
    result: str
    created_at: str
    updated_at: str
    owner_pid: int
    interrupted: bool
    resume_count: int
    backend: Mapping[str, str]
    resources: tuple[OperationResource, ...]
    state_copies: tuple[StateCopy, ...]
    resume_argv: tuple[str, ...]
    destroy_argv: tuple[str, ...]
    preflight_phases: tuple[str, ...]
    """Names of the recorded phases of an `npa destroy`: a retry replays these and no others."""
    rollback_completed: bool
    last_error_type: str

    @property
    def terminal(self) -> bool:
        return self.phase in TERMINAL

    @property
    def status(self) -> str:
        """Its lifecycle as it really is."""
        return "interrupted" if self.interrupted else self.lifecycle

    @property
    def record(self) -> str:
        """How a proof names this record."""
        return f"operations/{self.operation_id}/journal.json"


@dataclass(frozen=True, slots=True)
class Operations:
    """All journals, by operation id; one that could not be read is a problem and hides no other."""

    journals: tuple[Journal, ...] = ()
    problems: tuple[RecordProblem, ...] = ()

    def get(self, operation_id: str) -> Journal | None:
        return next((j for j in self.journals if j.operation_id == operation_id), None)


def read_operations(roots: Roots) -> Operations:
    """Every journal. Raises `RecordError` when they cannot be listed."""
    problems = Problems()
    journals: list[Journal] = []
    for name in names_in(roots.operations, roots.operations, Kind.OPERATIONS):
        path = roots.operations / name
        if name.startswith(".") or (not path.is_dir() and not path.is_symlink()):
            continue
        with problems.kept():
            if path.is_symlink():
                raise link_problem(path, Kind.OPERATIONS)
            journal = read_journal(roots, name)
            if journal is not None:
                journals.append(journal)
    return Operations(tuple(journals), problems())


def read_journal(roots: Roots, operation_id: str) -> Journal | None:
    """One journal; None when there is none: a folder with only its lock is a start that never came further."""
    path = roots.operation(operation_id) / "journal.json"
    document = read_json(path, roots.operations, Kind.OPERATIONS)
    if document is None:
        return None
    return parse_journal(document, path, operation_id)


def parse_journal(document: Mapping[str, object], path: Path, operation_id: str) -> Journal:
    """A journal, of version 2 or 1. Raises `RecordError`."""
    root = Fields(document, kind=Kind.OPERATIONS, path=path)
    root = root.scoped(root.text("project_id"))
    root.schema("schema_version", SCHEMA, 1, "1")
    if root.text("operation_id", operation_id) != operation_id:
        raise root.error(
            "operation_id", "differs from the folder that the journal is in", fault=Fault.CONFLICT
        )
    phase = root.needed("phase")
    if phase not in PHASES:
        raise root.error("phase", "is not a phase that this program knows", fault=Fault.UNSUPPORTED)
    lifecycle, pid = root.text("lifecycle"), root.whole("owner_pid")
    if "resources" not in root:
        raise root.error("resources", "is missing")
    commands = root.block("recovery_commands")
    return Journal(
        path=path,
        operation_id=operation_id,
        command=root.text("command"),
        project_alias=root.text("project_alias"),
        project_id=root.text("project_id"),
        tenant_id=root.text("tenant_id"),
        region=root.text("region"),
        resource_type=root.text("resource_type"),
        requested_name=root.text("requested_name"),
        ownership_source=root.text("ownership_source"),
        phase=phase,
        lifecycle=lifecycle,
        result=root.text("result"),
        created_at=root.text("created_at"),
        updated_at=root.text("updated_at"),
        owner_pid=pid,
        interrupted=lifecycle == "running" and not alive(pid),
        resume_count=root.whole("resume_count"),
        backend=_texts(root.block("backend")),
        resources=tuple(_resource(item) for item in root.items("resources")),
        state_copies=tuple(_state_copy(item) for item in root.items("local_state_copies")),
        resume_argv=commands.texts("resume_argv"),
        destroy_argv=commands.texts("destroy_argv"),
        preflight_phases=tuple(
            item.text("phase") for item in root.block("preflight_plan").block("topology").items("phases")
        ),
        rollback_completed=root.block("rollback").flag("completed"),
        last_error_type=root.text("last_error_type"),
    )


def _resource(found: Fields) -> OperationResource:
    ownership = found.text("ownership")
    # An empty one is no claim at all, so it proves nothing and hurts nothing.
    if ownership and ownership not in OWNERSHIPS:
        raise found.error("ownership", "is not one that this program knows", fault=Fault.UNSUPPORTED)
    return OperationResource(
        field=found.where,
        resource_type=found.needed("resource_type"),
        provider_id=found.text("provider_id"),
        requested_name=found.text("requested_name"),
        project_id=found.text("project_id"),
        ownership=ownership,
        ownership_source=found.text("ownership_source"),
        labels=_texts(found.block("labels")),
        creation_window_start=found.text("creation_window_start"),
        creation_window_end=found.text("creation_window_end"),
        generation=found.whole("generation", 1),
    )


def _state_copy(found: Fields) -> StateCopy:
    return StateCopy(
        path=found.needed("path"),
        sha256=found.needed("sha256"),
        size_bytes=found.whole("size_bytes", -1),
        operation_id=found.text("operation_id"),
        backend=_texts(found.block("backend_identity")),
        preserved_at=found.text("preserved_at"),
    )


def _texts(found: Fields) -> dict[str, str]:
    """The plain text values of a mapping; nested ones are no identity."""
    return {name: value for name in found if isinstance(value := found.raw(name), str)}


def read_state_copy(roots: Roots, journal: Journal, copy: StateCopy) -> bytes:
    """The bytes of a preserved Terraform state, once place, owner, backend, size and hash are all as the journal says.

    Raises `RecordError`; a missing copy is one as well, since the journal promises it.
    """
    where = Fields({}, kind=Kind.OPERATIONS, path=journal.path, where=f"local_state_copies[{copy.path}]")
    where = where.scoped(journal.project_id)
    remedy = "adopt nothing from it; destroy by exact ids, or resume: " + " ".join(journal.resume_argv)
    relative = PurePosixPath(copy.path)
    if relative.is_absolute() or ".." in relative.parts:
        raise where.error("path", "leads out of the operation's folder", fault=Fault.REFUSED, remedy=remedy)
    if copy.operation_id != journal.operation_id:
        raise where.error("operation_id", "names another operation", fault=Fault.CONFLICT, remedy=remedy)
    for name, value in copy.backend.items():
        expected = journal.backend.get("state_key" if name == "key" else name, "")
        if expected and value and expected != value:
            raise where.error(
                f"backend_identity.{name}",
                "differs from the journal's backend",
                fault=Fault.CONFLICT,
                remedy=remedy,
            )
    data = read_file(journal.path.parent / relative, roots.operations, Kind.OPERATIONS)
    if data is None:
        raise where.error("path", "is missing on disk", fault=Fault.CONFLICT, remedy=remedy)
    if copy.size_bytes not in (-1, len(data)):
        raise where.error("size_bytes", "differs from the file's size", fault=Fault.CONFLICT, remedy=remedy)
    if hashlib.sha256(data).hexdigest() != copy.sha256.lower():
        raise where.error("sha256", "differs from the file's hash", fault=Fault.CONFLICT, remedy=remedy)
    return data


@dataclass(frozen=True, slots=True)
class CreationProof:
    """The record which proves that the CLI created a project. `record` and `field` say where it stands."""

    record: str
    field: str
    project_id: str
    tenant_id: str
    region: str


def creation_proof(journals: Iterable[Journal], project_id: str, tenant_id: str) -> CreationProof | None:
    """The one creation record of a project; None when there is none, or more than one, or it names another tenant.

    The alias does not matter. Without a tenant id nothing is proven.
    """
    if not project_id or not tenant_id:
        return None
    found = [
        CreationProof(
            journal.record, row.field, project_id, tenant_id, row.labels.get("region", journal.region)
        )
        for journal in journals
        if journal.tenant_id == tenant_id
        for row in journal.resources
        if row.resource_type == "nebius_project"
        and row.provider_id == row.project_id == project_id
        and row.created
        and row.ownership_source == "provider-create-response"
        and row.labels.get("tenant_id") == tenant_id
    ]
    return found[0] if len(found) == 1 else None
