"""The command lines that we print: each works as printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from engine.words.identity import Identity
from engine.words.plans import Target


def selector(identity: Identity) -> list[str]:
    """How a command is aimed at this project: by alias while it is configured, by id after it was forgotten."""
    if identity.forgotten:
        return ["--project", identity.project_id]
    return ["--project", identity.alias or identity.project_id]


def destroy_argv(identity: Identity, keep: Iterable[str] = ()) -> list[str]:
    """The command that goes on with the whole plan, and leaves what was to be left."""
    kept = [word for phase in sorted(keep) for word in ("--keep", phase)]
    return ["npa", "destroy", *selector(identity), "--all", "--yes", *kept]


def destroy(identity: Identity, keep: Iterable[str] = ()) -> str:
    """The same for a shell."""
    return shlex.join(destroy_argv(identity, keep))


def watch(identity: Identity) -> str:
    """The command that follows a run."""
    return shlex.join(["npa", "watch", *selector(identity)])


def for_target(identity: Identity, target: Target) -> list[str]:
    """The single command that does what a phase does to one target; empty where none exists."""
    who, d = selector(identity), target.detail
    match target.phase:
        case "workflows":
            return (
                ["npa", "workflow", "cancel", d.get("run_id", target.id), *who, "--json"]
                if d.get("run_id")
                else []
            )
        case "agents" | "agent_iam":  # an account goes with the agents that it was made for
            name = d.get("agent_name", target.name if target.phase == "agents" else "agent")
            return ["npa", "agent", "destroy", *who, "--name", name, "--yes", "--json"]
        case "controller":
            return [
                "npa", "skypilot", "cleanup-controller", *who, "--project-id", identity.project_id, "--context", d.get("context", ""),
                "--cluster-id", d.get("cluster_id", ""), "--yes", "--json",
            ]  # fmt: skip
        case "clusters":
            return [
                "npa", "cluster", "down", *who, "--project-id", identity.project_id, "--cluster-id", target.id,
                "--context", d.get("context", ""), "--force", "--json",
            ]  # fmt: skip
        case "bucket":
            return [
                "npa", "storage", "bucket", "delete", *who, "--project-id", identity.project_id, "--name", d.get("bucket", target.name),
                "--yes", "--wait", "--json",
            ]  # fmt: skip
        case "storage_iam":
            return ["npa", "storage", "service-account", "delete", *who, "--id", target.id, "--yes", "--json"]
        case "local_cleanup":
            return ["npa", "cleanup", *who, "--yes", "--keep-sky", "--json"]
        case "forget_alias":
            return ["npa", "configure", "--forget-project", identity.alias]
        case "final_audit":
            return ["npa", "cleanup", "--project", identity.project_id, "--full", "--json"]
        case _:
            return []
