"""The table of phases: name, label, tier, edges with their reasons, deadline. A new phase is one row here and one module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.words.consent import Tier


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One phase.

    needs     phase -> why; these must have converged before this one starts
    after     phase -> why; these must have ended, however
    deadline  nominal seconds for one target, from its first look to its proof
    """

    name: str
    label: str
    verb: str
    stage: str
    tier: Tier
    deadline: float
    needs: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    with_project: bool = False
    noun: str = "resource"


_CLOUD = (
    "workflows",
    "agents",
    "agent_iam",
    "controller",
    "clusters",
    "registries",
    "bucket",
    "storage_iam",
    "network",
)
_ALL_CLOUD = (*_CLOUD, "delete_project")
_STATE = "its Terraform state is in the bucket"

ROWS: tuple[PhaseRow, ...] = (
    PhaseRow("workflows", "Cancel workflow runs", "Cancel", "Work", Tier.RECREATABLE, 900, noun="run"),
    PhaseRow("agents", "Destroy agent VMs", "Destroy", "Work", Tier.NOT_UNDOABLE, 1800, noun="agent"),
    PhaseRow(
        "agent_iam",
        "Remove agent access",
        "Remove",
        "Work",
        Tier.NOT_UNDOABLE,
        600,
        needs={"agents": "a running agent uses this account"},
        noun="account",
    ),
    PhaseRow(
        "controller",
        "Remove Sky controller",
        "Remove",
        "Clusters",
        Tier.NOT_UNDOABLE,
        1500,
        needs={"workflows": "its queue must be drained first"},
        noun="controller",
    ),
    PhaseRow(
        "clusters",
        "Take down clusters",
        "Take down",
        "Clusters",
        Tier.DATA_DIES,
        7200,
        needs={"workflows": "runs use its nodes", "controller": "the controller lives on it"},
        noun="cluster",
    ),
    PhaseRow(
        "registries",
        "Delete registries",
        "Delete",
        "Project",
        Tier.DATA_DIES,
        900,
        needs={
            "workflows": "runs pull from it",
            "agents": "agents pull from it",
            "clusters": "nodes pull from it",
        },
        with_project=True,
        noun="registry",
    ),
    PhaseRow(
        "bucket",
        "Delete bucket",
        "Delete",
        "Storage",
        Tier.DATA_DIES,
        3600,
        needs={
            "workflows": "runs write to it",
            "agents": _STATE,
            "controller": "its logs are in it",
            "clusters": _STATE,
        },
        noun="bucket",
    ),
    PhaseRow(
        "storage_iam",
        "Delete storage access",
        "Delete",
        "Storage",
        Tier.NOT_UNDOABLE,
        600,
        needs={"bucket": "its keys may be needed to empty the bucket"},
        noun="account",
    ),
    PhaseRow(
        "network",
        "Delete network",
        "Delete",
        "Project",
        Tier.NOT_UNDOABLE,
        900,
        needs={"agents": "their VMs are attached to it", "clusters": "their nodes are attached to it"},
        with_project=True,
        noun="network",
    ),
    PhaseRow(
        "delete_project",
        "Delete project",
        "Delete",
        "Project",
        Tier.DATA_DIES,
        600,
        needs=dict.fromkeys(_CLOUD, "the project must be empty"),
        with_project=True,
        noun="project",
    ),
    PhaseRow(
        "local_cleanup",
        "Clean local caches",
        "Clean",
        "This machine",
        Tier.RECREATABLE,
        300,
        after=dict.fromkeys(_ALL_CLOUD, "its records are still evidence"),
        noun="record",
    ),
    PhaseRow(
        "forget_alias",
        "Forget alias",
        "Forget",
        "This machine",
        Tier.RECREATABLE,
        120,
        needs={
            **dict.fromkeys(_ALL_CLOUD, "its ids would be lost"),
            "local_cleanup": "what it cleans is found through the alias",
        },
        noun="alias",
    ),
    PhaseRow(
        "final_audit",
        "Final audit",
        "Audit",
        "Proof",
        Tier.READS,
        600,
        after=dict.fromkeys(
            (*_ALL_CLOUD, "local_cleanup", "forget_alias"), "it looks at what all others left"
        ),
        noun="check",
    ),
)

PHASES: dict[str, PhaseRow] = {row.name: row for row in ROWS}
STAGES: tuple[str, ...] = tuple(dict.fromkeys(row.stage for row in ROWS))


def needs(name: str, among: Iterable[str]) -> dict[str, str]:
    """The needs of a phase that are part of a plan."""
    here = set(among)
    return {k: v for k, v in PHASES[name].needs.items() if k in here}


def after(name: str, among: Iterable[str]) -> dict[str, str]:
    """The phases of a plan that must have ended before this one."""
    here = set(among)
    return {k: v for k, v in PHASES[name].after.items() if k in here}


def unblocks(name: str, among: Iterable[str]) -> tuple[str, ...]:
    """The phases of a plan that need this one."""
    return tuple(other for other in among if name in PHASES[other].needs)
