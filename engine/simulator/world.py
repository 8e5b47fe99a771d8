"""The world file: what exists, how long things take, what goes wrong. Read with pydantic; unknown keys are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from engine.simulator.faults import Fault
from engine.simulator.object_store import BucketSpec
from engine.simulator.skypilot import JobSpec

FOLDER = Path(__file__).parent / "worlds"


class Part(BaseModel):
    """Base of everything in a world."""

    model_config = ConfigDict(extra="forbid")


class Extra(Part):
    """A resource that no record explains, or that only `--delete-project` removes."""

    kind: str = Field(description="kind, as in `engine/simulator/messages.py`")
    id: str
    name: str
    parent: str = Field(default="", description="id of its parent; the project when empty")
    labels: dict[str, str] = {}
    attrs: dict[str, Any] = Field(default={}, description="what the kind's message is made from")


class AgentWorld(Part):
    """One agent VM with its disks, network parts and the operation that made it."""

    name: str = "agent"
    suffix: str = Field(description="end of all its ids")
    platform: str = "cpu-e2"
    preset: str = "4vcpu-16gb"
    data_disk: bool = Field(default=False, description="a second disk that the cloud leaves behind")
    vm_gone: bool = Field(default=False, description="the VM was deleted already; its records still name it")
    instance: str = Field(default="", description="id of the VM, where it does not follow from the suffix")
    ids_recorded: bool = Field(
        default=True,
        description="the operation journal knows the ids of disk and network, not only their names",
    )


class ClusterWorld(Part):
    """One managed cluster: node groups, node VMs, network, the Terraform module that destroys it, a Kubernetes API."""

    context: str
    suffix: str
    controller: bool = Field(
        default=False, description="the SkyPilot jobs controller runs on it, bound to this project"
    )
    cpu_nodes: int = 1
    gpu_nodes: int = 1
    gpu_platform: str = "gpu-l40s-a"
    gpu_preset: str = "1gpu-16vcpu-64gb"
    kubernetes: dict[str, Any] = Field(
        default={}, description="more pods, budgets and services: a KubernetesSpec"
    )


class StorageWorld(Part):
    """A bucket with its account, key, group, permit and membership, and the setup journal that created them."""

    bucket: str
    suffix: str
    contents: BucketSpec | None = None
    owned: bool = True
    bucket_id: str = ""


class RunWorld(Part):
    """One workflow run: its ledger, and its managed job unless it was never launched."""

    run_id: str
    job: JobSpec | None = None


class ProjectWorld(Part):
    alias: str
    id: str
    tenant_id: str
    region: str = "eu-north1"
    created_here: bool = Field(
        default=True, description="the records prove that the project was created by the CLI"
    )
    agents: list[AgentWorld] = []
    clusters: list[ClusterWorld] = []
    storage: StorageWorld | None = None
    runs: list[RunWorld] = []
    registry: bool = False
    default_network: bool = True
    extras: list[Extra] = []


class Stumble(Part):
    """An operation that fails, a deletion that never ends, or a thing that comes back."""

    id: str
    kind: Literal["operation_fails", "sticks", "comes_back"]
    times: int = Field(default=1, description="how often, for operation_fails and comes_back")
    code: str = "INTERNAL"
    message: str = "the operation failed"
    after: float = Field(default=5.0, description="nominal seconds until it is back")
    seconds: float = Field(default=10.0, description="nominal seconds that it stays back")


class World(Part):
    """A whole world."""

    description: str
    projects: list[ProjectWorld]
    seconds: dict[str, float] = Field(
        default={}, description="nominal seconds that a deletion takes, by kind; `default` for the rest"
    )
    list_lag: float = Field(
        default=0.0, description="nominal seconds that listings still show what Get no longer finds"
    )
    page_size: int = Field(default=100, description="most items on a page")
    bucket_needs_empty: bool = Field(default=False, description="deleting a bucket with contents is refused")
    prices: dict[str, float] = Field(default={}, description="USD an hour, by platform, or by kind")
    faults: list[Fault] = []
    stumbles: list[Stumble] = []
    home: Literal["fresh", "after-partial-destroy"] = "fresh"


def load(name: str) -> World:
    """A world by name, or from a file. Raises `ValueError` with one sentence for one that makes no sense."""
    path = FOLDER / f"{name}.yaml" if (FOLDER / f"{name}.yaml").exists() else Path(name)
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in FOLDER.glob("*.yaml")))
        raise ValueError(f"there is no world {name!r}; those that come along are {known}")
    try:
        return World.model_validate(yaml.safe_load(path.read_text()))
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
