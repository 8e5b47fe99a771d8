"""`config.yaml`: the projects of this machine, and the owner of its SkyPilot controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from engine.home.controller_owner import ControllerOwner, read_owner
from engine.home.documents import read_yaml
from engine.home.errors import Fault, Kind, RecordProblem
from engine.home.fields import Fields, Problems
from engine.home.marker import Marker, read_marker
from engine.home.roots import Roots
from engine.home.storage_keys import StorageKeys, read_keys

_STANZA_STORAGE = ("object-storage", "object_storage", "storage")
FLAT_ALIAS = "default"
"""The name that the CLI gives to the project of a flat configuration from before there were aliases."""


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """One agent of a stanza. `field` is where it stands; all ids may be empty after an interrupted deploy."""

    field: str
    name: str
    project_id: str = ""
    tenant_id: str = ""
    region: str = ""
    instance_id: str = ""
    service_account_id: str = ""
    public_ip: str = ""
    agent_url: str = ""
    auth_secret_path: str = ""
    setup_state: str = ""


@dataclass(frozen=True, slots=True)
class WorkbenchRecord:
    """One workbench: no phase removes it, it is shown and holds forgetting."""

    field: str
    name: str
    project_id: str = ""
    runtime: str = ""
    workbench_type: str = ""
    instance_id: str = ""
    app_status: str = ""
    endpoint: str = ""
    tenant_id: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class KubernetesRecord:
    """Which cluster a project's runs go to."""

    field: str
    cluster_name: str = ""
    context: str = ""
    kubeconfig: str = ""


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """One stanza. `flat`: made up from a configuration without stanzas."""

    field: str
    alias: str
    project_id: str = ""
    tenant_id: str = ""
    region: str = ""
    terraform_state: StorageKeys | None = None
    storage: tuple[StorageKeys, ...] = ()
    agents: tuple[AgentRecord, ...] = ()
    workbenches: tuple[WorkbenchRecord, ...] = ()
    kubernetes: KubernetesRecord | None = None
    marker: Marker | None = None
    flat: bool = False

    @property
    def buckets(self) -> tuple[StorageKeys, ...]:
        """Every block of the stanza that names a bucket."""
        blocks = ((self.terraform_state,) if self.terraform_state else ()) + self.storage
        return tuple(b for b in blocks if b.bucket)


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file. `problems` are parts that could not be read; what could be is still here."""

    path: Path
    projects: tuple[ProjectRecord, ...] = ()
    default_project: str = ""
    controller_owner: ControllerOwner | None = None
    sky_bin: str = ""
    global_config_path: str = ""
    isolated_config_dir: str = ""
    flat: ProjectRecord | None = None
    problems: tuple[RecordProblem, ...] = ()

    def stanza(self, alias: str) -> ProjectRecord | None:
        return next((p for p in self.projects if p.alias == alias), None)

    def of(self, project_id: str) -> tuple[ProjectRecord, ...]:
        """Every stanza of one project: several aliases may name it."""
        return tuple(p for p in self.projects if p.project_id == project_id)


def read_config(roots: Roots) -> Config | None:
    """The configuration; None when there is none. Raises `RecordError` when the file as a whole cannot be used."""
    document = read_yaml(roots.config_yaml, roots.config, Kind.CONFIG, own_link=True)
    return None if document is None else parse_config(document, roots.config_yaml)


def parse_config(document: Mapping[str, object], path: Path) -> Config:
    """The configuration in a document. Raises `RecordError` only when it is no mapping of named parts."""
    root = Fields(document, kind=Kind.CONFIG, path=path)
    problems = Problems()
    projects: list[ProjectRecord] = []
    owners: list[ControllerOwner] = []
    for alias, _ in root.children("projects"):
        with problems.kept():
            stanza = root.entry("projects", alias)
            with problems.kept():
                stanza = stanza.scoped(stanza.text("project_id"))
            projects.append(_project(alias, stanza, problems))
            with problems.kept():
                if owner := read_owner(stanza, legacy=True):
                    owners.append(owner)
    default = sky_bin = global_config = isolated = ""
    with problems.kept():
        default = root.text("default_project")
    owner = None
    with problems.kept():
        sky = root.block("skypilot")
        with problems.kept():
            sky_bin, global_config = sky.text("sky_bin"), sky.text("global_config_path")
            isolated = sky.text("isolated_config_dir")
        owner = read_owner(sky, legacy=False)
        if owner is None and owners:
            owner = _sole_legacy(root, owners)
    return Config(
        path,
        tuple(projects),
        default,
        owner,
        sky_bin,
        global_config,
        isolated,
        _flat(root, problems),
        problems(),
    )


def _project(alias: str, stanza: Fields, problems: Problems) -> ProjectRecord:
    record = ProjectRecord(stanza.where, alias, project_id=stanza.scope)
    with problems.kept():
        record = replace(record, tenant_id=stanza.text("tenant_id"), region=stanza.text("region"))
    with problems.kept():
        record = replace(record, terraform_state=read_keys(stanza.child("terraform_state")))
    for name in _STANZA_STORAGE:
        with problems.kept():
            if keys := read_keys(stanza.child(name)):
                record = replace(record, storage=(*record.storage, keys))
    with problems.kept():
        record = replace(record, marker=read_marker(stanza))
    with problems.kept():
        if (found := stanza.child("kubernetes")) is not None:
            record = replace(record, kubernetes=_kubernetes(found))
    with problems.kept():
        for name, _ in stanza.children("agents"):
            with problems.kept():
                agent = _agent(name, stanza.entry("agents", name), stanza.scope)
                record = replace(record, agents=(*record.agents, agent))
    with problems.kept():
        for name, _ in stanza.children("workbenches"):
            with problems.kept():
                bench = _workbench(name, stanza.entry("workbenches", name), stanza.scope)
                record = replace(record, workbenches=(*record.workbenches, bench))
    return record


def _agent(name: str, found: Fields, project_id: str) -> AgentRecord:
    own = found.text("project_id")
    if own and project_id and own != project_id:
        raise found.error("project_id", "differs from the project_id of its stanza", fault=Fault.CONFLICT)
    return AgentRecord(
        found.where,
        name,
        own or project_id,
        found.text("tenant_id"),
        found.text("region"),
        found.text("instance_id"),
        found.text("service_account_id"),
        found.text("public_ip"),
        found.text("agent_url"),
        found.text("auth_secret_path"),
        found.text("setup_state"),
    )


def _workbench(name: str, found: Fields, project_id: str) -> WorkbenchRecord:
    environment = found.block("environment")
    return WorkbenchRecord(
        found.where,
        name,
        found.text("project_id") or environment.text("project_id") or project_id,
        found.text("runtime"),
        found.text("workbench_type"),
        found.text("instance_id"),
        found.text("app_status"),
        found.text("endpoint"),
        found.text("tenant_id") or environment.text("tenant_id"),
        found.text("region") or environment.text("region"),
    )


def _kubernetes(found: Fields) -> KubernetesRecord:
    return KubernetesRecord(
        found.where, found.text("cluster_name"), found.text("context"), found.text("kubeconfig")
    )


def _sole_legacy(root: Fields, owners: list[ControllerOwner]) -> ControllerOwner:
    if len({owner.same for owner in owners}) > 1:
        raise root.error(
            "projects",
            f"name two different owners of one controller: {' and '.join(o.field for o in owners)}",
            fault=Fault.CONFLICT,
            remedy="remove the controller_owner that is wrong; the controller is not touched until then",
        )
    return owners[0]


def _flat(root: Fields, problems: Problems) -> ProjectRecord | None:
    """The project of the flat forms, `workbenches` and `workbench`, where there is no stanza that could be meant."""
    benches: list[WorkbenchRecord] = []
    with problems.kept():
        for name, _ in root.children("workbenches"):
            with problems.kept():
                benches.append(_workbench(name, root.entry("workbenches", name), ""))
    with problems.kept():
        if single := root.child("workbench"):
            benches.append(_workbench("workbench", single, ""))
    if not benches:
        return None
    ids = {b.project_id for b in benches if b.project_id}
    if len(ids) > 1:
        with problems.kept():
            raise root.error(
                "workbenches", f"name {len(ids)} different projects without an alias", fault=Fault.CONFLICT
            )
    project_id = next(iter(ids)) if len(ids) == 1 else ""
    return ProjectRecord(
        "workbenches",
        FLAT_ALIAS,
        project_id,
        next((b.tenant_id for b in benches if b.tenant_id), ""),
        next((b.region for b in benches if b.region), ""),
        workbenches=tuple(benches),
        flat=True,
    )
