"""What a face needs to know beside plan, state and inventory: the projects, the account, the runner."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProjectLine:
    """One project that a local record names.

    protected    shown, never torn down
    forgotten    the configuration no longer names it, a receipt does
    unresolved   how many things an earlier teardown left unproven
    problem      why its records cannot be used, in a few words; empty when they can
    """

    alias: str
    project_id: str
    region: str = ""
    tenant_id: str = ""
    protected: bool = False
    forgotten: bool = False
    unresolved: int = 0
    problem: str = ""

    @property
    def key(self) -> str:
        """What names it towards the engine: the alias while there is one, else the id."""
        return self.alias or self.project_id


@dataclass(frozen=True, slots=True)
class Account:
    """Who acts. `tenant` is the tenant's name; `expires_at` is when the login ends, RFC 3339, or empty."""

    name: str
    id: str
    tenant: str = ""
    profile: str = ""
    expires_at: str = ""


@dataclass(frozen=True, slots=True)
class RunnerInfo:
    """Who holds the project's lease. `since` is RFC 3339; `run` is empty when the holder writes no journal of ours."""

    pid: int
    since: str
    command: str
    run: str = ""
    host: str = ""
