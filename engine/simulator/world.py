"""The world file: what exists, how long things take, what goes wrong. Read with pydantic; unknown keys are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.simulator.faults import Fault
from engine.simulator.kubernetes import KubernetesSpec
from engine.simulator.object_store import BucketSpec
from engine.simulator.skypilot import JobSpec

FOLDER = Path(__file__).parent / "worlds"


class Part(BaseModel):
    """Base of everything in a world."""

    model_config = ConfigDict(extra="forbid")


class Extra(Part):
    """A resource that no record explains, or that only `--delete-project` removes."""

    kind: str = Field(description="a name of `engine/simulator/kinds.py`, such as `disk` or `securityrule`")
    id: str = Field(description="its id at the provider")
    name: str = Field(description="its name")
    parent: str = Field(default="", description="id of its parent; the project when empty")
    labels: dict[str, str] = Field(default={}, description="its labels")
    attrs: dict[str, Any] = Field(
        default={},
        description="`spec` and `status` of its message in protobuf JSON, or the fields of a flat message",
    )


class AgentWorld(Part):
    """One agent VM with its disks, network parts and the operation that made it."""

    name: str = Field(
        default="agent", description="the agent's name in the records; the VM is agent-ALIAS-NAME"
    )
    suffix: str = Field(description="end of all its ids")
    platform: str = Field(default="cpu-e2", description="platform of the VM")
    preset: str = Field(default="4vcpu-16gb", description="preset of the VM")
    data_disk: bool = Field(default=False, description="a second disk that the cloud leaves behind")
    vm_gone: bool = Field(default=False, description="the VM was deleted already; its records still name it")
    instance: str = Field(default="", description="id of the VM, where it does not follow from the suffix")
    static_ip: bool = Field(
        default=True,
        description="its public address is a thing of its own; else it comes and goes with the VM",
    )
    ids_recorded: bool = Field(
        default=True,
        description="the operation journal knows the ids of disk and network, not only their names",
    )


class ClusterWorld(Part):
    """One managed cluster: node groups, node VMs, network, the Terraform module that destroys it, a Kubernetes API."""

    context: str = Field(description="its name, its context and the folder of its records")
    suffix: str = Field(description="end of all its ids")
    controller: bool = Field(
        default=False, description="the SkyPilot jobs controller runs on it, bound to this project"
    )
    cpu_nodes: int = Field(default=1, ge=0, description="nodes of its CPU group; 0: no such group")
    gpu_nodes: int = Field(default=1, ge=0, description="nodes of its GPU group; 0: no such group")
    gpu_platform: str = Field(default="gpu-l40s-a", description="platform of the GPU nodes")
    gpu_preset: str = Field(default="1gpu-16vcpu-64gb", description="preset of the GPU nodes")
    kubernetes: KubernetesSpec = Field(
        default_factory=KubernetesSpec, description="pods, budgets and services beside those of the system"
    )


class StorageWorld(Part):
    """A bucket with its account, key, group, permit and membership, and the setup journal that created them."""

    bucket: str = Field(description="name of the bucket")
    suffix: str = Field(description="end of all its ids")
    contents: BucketSpec | None = Field(
        default=None,
        description="what is in it, beside Terraform states and run manifests; some objects when unset",
    )
    owned: bool = Field(default=True, description="the records prove that the CLI created it")
    bucket_id: str = Field(
        default="", description="id of the bucket, where it does not follow from the suffix"
    )


class RunWorld(Part):
    """One workflow run: its ledgers, its managed job and its manifest in the bucket."""

    run_id: str = Field(description="the run's id, which is its job's name too")
    job: JobSpec | None = Field(
        default=None, description="its managed job; unset: it was planned and never launched"
    )
    manifest: bool = Field(default=False, description="a launched run left its manifest in the bucket")


class ProjectWorld(Part):
    """One project of the cloud, and the alias under which the home knows it."""

    alias: str = Field(description="its name in the home's configuration")
    id: str = Field(description="its id at the provider")
    tenant_id: str = Field(description="id of its tenant")
    region: str = Field(default="eu-north1", description="its region")
    created_here: bool = Field(
        default=True, description="the records prove that the project was created by the CLI"
    )
    agents: list[AgentWorld] = Field(default=[], description="agent VMs")
    clusters: list[ClusterWorld] = Field(default=[], description="managed clusters")
    storage: StorageWorld | None = Field(default=None, description="its bucket and what belongs to it")
    runs: list[RunWorld] = Field(default=[], description="workflow runs")
    registry: bool = Field(
        default=False, description="a registry with two artifacts, which no record explains"
    )
    default_network: bool = Field(
        default=True, description="the network, subnet and groups of every new project"
    )
    extras: list[Extra] = Field(default=[], description="resources beside those that follow from the above")


class Stumble(Part):
    """An operation that fails, a deletion that never ends, or a thing that comes back."""

    id: str = Field(description="id of the thing")
    kind: Literal["operation_fails", "sticks", "comes_back"] = Field(
        description="operation_fails: accepted, then fails; sticks: accepted, never over before the faults end;"
        " comes_back: there again after it was gone"
    )
    times: int = Field(default=1, ge=1, description="how often")
    code: str = Field(default="INTERNAL", description="gRPC name, for operation_fails")
    message: str = Field(default="the operation failed", description="for operation_fails")
    after: float = Field(default=5.0, ge=0, description="nominal seconds until it is back")
    seconds: float = Field(
        default=10.0, ge=0, description="nominal seconds that it stays back; a thing with a new id stays"
    )
    new_id: str = Field(default="", description="comes back with the same name and this id")


class World(Part):
    """A whole world."""

    description: str = Field(description="what it is for, in one line")
    projects: list[ProjectWorld] = Field(
        min_length=1, description="the first one is where a simulation starts"
    )
    seconds: dict[str, float] = Field(
        default={}, description="nominal seconds that a deletion takes, by kind; `default` for the rest"
    )
    list_lag: float = Field(
        default=0.0, ge=0, description="nominal seconds that listings still show what Get no longer finds"
    )
    get_lag: float = Field(
        default=0.0, ge=0, description="nominal seconds that Get still finds what listings no longer show"
    )
    page_size: int = Field(default=100, ge=1, description="most items on a page")
    bucket_delete_needs_empty: bool = Field(
        default=False,
        description="deleting a bucket with contents is refused, unless it is scheduled with a time to live",
    )
    disks_stay_behind: bool = Field(
        default=True, description="a VM's disks stay when it goes, but for those that it manages"
    )
    prices: dict[str, float] = Field(
        default={},
        description="USD an hour: by PLATFORM/PRESET or PLATFORM for VMs, disk_gib and filesystem_gib per GiB",
    )
    faults: list[Fault] = Field(default=[], description="requests that go wrong, and when")
    stumbles: list[Stumble] = Field(default=[], description="deletions that go wrong")
    home: Literal["fresh", "after-partial-destroy"] = Field(
        default="fresh",
        description="fresh: as the deployments left it; after-partial-destroy: a dead destroy's records too",
    )

    @model_validator(mode="after")
    def _nothing_twice(self) -> World:
        """Names that stand for one thing stand for one thing only."""
        clusters = [c.context for p in self.projects for c in p.clusters]
        for what, names in (
            ("alias", [p.alias for p in self.projects]),
            ("project id", [p.id for p in self.projects]),
            ("context", clusters),
            ("bucket", [p.storage.bucket for p in self.projects if p.storage]),
            ("run id", [r.run_id for p in self.projects for r in p.runs]),
            ("controller", ["one" for p in self.projects for c in p.clusters if c.controller]),
        ):
            if twice := {n for n in names if names.count(n) > 1}:
                raise ValueError(f"{what} given twice: {', '.join(sorted(twice))}")
        return self


def load(name: str) -> World:
    """A world by name, or from a file. Raises `ValueError` with one sentence for one that makes no sense."""
    path = FOLDER / f"{name}.yaml" if (FOLDER / f"{name}.yaml").exists() else Path(name)
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in FOLDER.glob("*.yaml")))
        raise ValueError(f"there is no world {name!r}; those that come along are {known}")
    try:
        return World.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first, more = error.errors()[0], error.error_count() - 1
        where = ".".join(str(part) for part in first["loc"]) or "the world"
        rest = f", and {more} more" if more else ""
        raise ValueError(f"{path}: {where}: {first['msg']}{rest}") from None
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {str(error).splitlines()[0]}") from None
