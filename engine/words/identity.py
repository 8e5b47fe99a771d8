"""Who a plan is aimed at: immutable ids first, the alias only as a label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Identity:
    """One project. `sources` says for each field where its value came from (`explicit`, `receipt:ID`, `configuration`)."""

    project_id: str
    alias: str = ""
    tenant_id: str = ""
    region: str = ""
    source: str = "live_configuration"
    sources: Mapping[str, str] = field(default_factory=dict)
    receipt_id: str = ""
    forgotten: bool = False
    """The alias is no longer in the configuration; a receipt names the project."""

    @property
    def label(self) -> str:
        """What a person types to mean this project: the alias, else the last six characters of the id."""
        return self.alias or self.project_id[-6:]


CONFLICT_FIELDS = (
    "project_alias", "project_id", "tenant_id", "parent_id", "account_id", "region", "profile", "context",
    "kubeconfig_path", "cluster_id", "cluster_name", "agent_name", "instance_id", "operation_id",
    "service_account_id", "run_id", "workflow_s3_uri", "sky_job_id", "controller_context",
)  # fmt: skip
"""Fields for which two different values from two sources are refused before any call."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Selectors after merging, and where each came from. `conflicts`: (field, {source: value})."""

    values: Mapping[str, str]
    sources: Mapping[str, str]
    conflicts: tuple[tuple[str, Mapping[str, str]], ...] = ()

    @property
    def source(self) -> str:
        """The strongest source that gave anything."""
        for name in self.sources.values():
            if name == "explicit_exact_arguments":
                return name
        return next(iter(self.sources.values()), "unavailable")


def merge(*ranked: tuple[str, Mapping[str, str]]) -> Merged:
    """Merge (source, values) pairs, strongest first. The order fills gaps only; an overlap that differs is a conflict."""
    values: dict[str, str] = {}
    sources: dict[str, str] = {}
    clash: dict[str, dict[str, str]] = {}
    for source, given in ranked:
        for name, value in given.items():
            if not value:
                continue
            if name not in values:
                values[name], sources[name] = value, source
            elif values[name] != value and name in CONFLICT_FIELDS:
                clash.setdefault(name, {sources[name]: values[name]})[source] = value
    return Merged(values, sources, tuple(clash.items()))
