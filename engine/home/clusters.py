"""`clusters/<context>/`: the clusters that the CLI saved, and what says who may destroy each of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from engine.home.documents import read_json
from engine.home.errors import Kind, RecordProblem
from engine.home.fields import Fields, Problems
from engine.home.folders import link_problem, names_in, read_file
from engine.home.roots import Roots


class ManagedBy(StrEnum):
    """Who destroys it: the values of `managed_by` that the CLI knows."""

    TERRAFORM = "npa cluster terraform"
    SHARED_BACKEND = "npa cluster shared-mk8s-backend"
    FLEET = "npa fleet"
    API = "npa cluster"


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """`cluster.json`."""

    name: str
    cluster_id: str
    project_id: str
    region: str
    node_count: int
    node_platform: str
    node_preset: str
    k8s_version: str
    created_at: str
    last_seen_state: str = "UNKNOWN"
    last_seen_at: str = ""
    node_group_id: str = ""
    subnet_id: str = ""
    endpoint: str = ""
    kubeconfig_path: str = ""
    provider_name: str = ""


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """`metadata.json`. `backend` holds its `backend…` fields, `fleet` and `project_key`, as text."""

    managed_by: str
    backend: tuple[tuple[str, str], ...] = ()

    @property
    def manager(self) -> ManagedBy | None:
        """None for a manager that nobody here knows: such a cluster is not taken down by us."""
        return ManagedBy(self.managed_by) if self.managed_by in set(ManagedBy) else None

    def get(self, name: str) -> str:
        return dict(self.backend).get(name, "")


@dataclass(frozen=True, slots=True)
class TerraformInventory:
    """`terraform-lifecycle.json`, written right before an apply: its existence is evidence that something may exist."""

    context: str
    terraform_dir: str
    status: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """Everything in one folder. A part that is absent is None; a part that could not be read is a problem.

    state_files   Terraform states in the module folder that the inventory names
    """

    context: str
    path: Path
    cluster: ClusterRecord | None = None
    metadata: ClusterMetadata | None = None
    inventory: TerraformInventory | None = None
    kubeconfig: Path | None = None
    node_groups: tuple[str, ...] = ()
    state_files: tuple[Path, ...] = ()
    problems: tuple[RecordProblem, ...] = ()

    @property
    def project_id(self) -> str:
        """The project that the folder itself names, or an empty string."""
        if self.cluster:
            return self.cluster.project_id
        return self.metadata.get("backend_project_id") if self.metadata else ""

    @property
    def evidence(self) -> tuple[str, ...]:
        """What says that there may be something to destroy. A bare `.terraform` folder is none."""
        found = [
            ("terraform-lifecycle.json", self.inventory),
            ("cluster.json", self.cluster),
            ("kubeconfig", self.kubeconfig),
            ("terraform state", self.state_files),
        ]
        return tuple(name for name, there in found if there)


@dataclass(frozen=True, slots=True)
class Clusters:
    """Every folder. One malformed file is one problem and hides nothing else."""

    folders: tuple[ClusterFolder, ...] = ()
    problems: tuple[RecordProblem, ...] = ()


def read_clusters(roots: Roots) -> Clusters:
    """All cluster folders; raises nothing that concerns one of them, `RecordError` when they cannot be listed."""
    root = roots.clusters
    problems = Problems()
    folders: list[ClusterFolder] = []
    for context in names_in(root, roots.config, Kind.CLUSTERS):
        path = root / context
        if not path.is_dir() and not path.is_symlink():
            continue
        with problems.kept():
            if path.is_symlink():
                raise link_problem(path, Kind.CLUSTERS)
            folder = _folder(context, path, roots)
            folders.append(folder)
            problems.add(*folder.problems)
    return Clusters(tuple(folders), problems())


def _folder(context: str, path: Path, roots: Roots) -> ClusterFolder:
    names = names_in(path, roots.config, Kind.CLUSTERS)
    problems = Problems()
    folder = ClusterFolder(context, path)

    def fields(name: str) -> Fields | None:
        document = read_json(path / name, roots.config, Kind.CLUSTERS)
        return None if document is None else Fields(document, kind=Kind.CLUSTERS, path=path / name)

    with problems.kept():
        if (found := fields("cluster.json")) is not None:
            folder = replace(folder, cluster=_cluster(found))
    with problems.kept():
        if (found := fields("metadata.json")) is not None:
            folder = replace(folder, metadata=_metadata(found))
    with problems.kept():
        if (found := fields("terraform-lifecycle.json")) is not None:
            inventory = _inventory(found)
            folder = replace(folder, inventory=inventory, state_files=state_files(inventory.terraform_dir))
    with problems.kept():
        if "kubeconfig" in names:
            # Read only to learn that it is a regular file of ours: a cluster is not reached through a link.
            read_file(path / "kubeconfig", roots.config, Kind.CLUSTERS)
            folder = replace(folder, kubeconfig=path / "kubeconfig")
    with problems.kept():
        groups = names_in(path / "node-groups", roots.config, Kind.CLUSTERS)
        folder = replace(
            folder, node_groups=tuple(n.removesuffix(".json") for n in groups if n.endswith(".json"))
        )
    return replace(folder, problems=problems())


def _cluster(found: Fields) -> ClusterRecord:
    if "node_count" not in found:
        raise found.error("node_count", "is missing")
    found = found.scoped(found.needed("project_id"))
    return ClusterRecord(
        name=found.needed("name"),
        cluster_id=found.needed("cluster_id"),
        project_id=found.needed("project_id"),
        region=found.needed("region"),
        node_count=found.whole("node_count"),
        node_platform=found.needed("node_platform"),
        node_preset=found.needed("node_preset"),
        k8s_version=found.needed("k8s_version"),
        created_at=found.needed("created_at"),
        last_seen_state=found.text("last_seen_state") or "UNKNOWN",
        last_seen_at=found.text("last_seen_at"),
        node_group_id=found.text("node_group_id"),
        subnet_id=found.text("subnet_id"),
        endpoint=found.text("endpoint"),
        kubeconfig_path=found.text("kubeconfig_path"),
        provider_name=found.text("provider_name"),
    )


def _metadata(found: Fields) -> ClusterMetadata:
    names = [n for n in found if n.startswith("backend") or n in ("fleet", "project_key")]
    return ClusterMetadata(found.text("managed_by"), tuple((n, found.text(n, number=True)) for n in names))


def _inventory(found: Fields) -> TerraformInventory:
    found.schema("version", 1)
    found.schema("kind", "cluster-terraform-inventory")
    return TerraformInventory(
        found.text("context"), found.text("terraform_dir"), found.text("status"), found.text("updated_at")
    )


def state_files(terraform_dir: str) -> tuple[Path, ...]:
    """Terraform states in a module folder: `*.tfstate` in it, and anything below its `.tfstate.d`. Empty for no folder."""
    module = Path(terraform_dir)
    if not terraform_dir or not module.is_absolute() or not module.is_dir():
        return ()
    found = {path for path in module.glob("*.tfstate") if path.is_file()}
    for folder, _, names in os.walk(module / ".tfstate.d"):
        found |= {Path(folder) / name for name in names if name.endswith(".tfstate")}
    return tuple(sorted(found))
