"""The Terraform module of a cluster as it lies on this machine: read without running anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.words.presence import Cause, Unknown
from engine.words.redact import redact
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.clouds.terraform import ModuleFacts, StateView

STATE_FILE = "terraform.tfstate"

PROJECT_SCOPED = frozenset({
    "nebius_compute_v1_filesystem", "nebius_compute_v1_gpu_cluster", "nebius_applications_v1alpha1_k8s_release",
    "nebius_iam_v1_service_account", "nebius_storage_v1_bucket", "nebius_vpc_v1_network", "nebius_vpc_v1_subnet",
})  # fmt: skip
CLUSTER_SCOPED = frozenset({"nebius_mk8s_v1_node_group"})
BY_ACCOUNT = frozenset({"nebius_iam_v2_access_key", "nebius_iam_v1_group_membership"})
_RELEASE = "nebius_applications_v1alpha1_k8s_release"
_ACCOUNT = "nebius_iam_v1_service_account"


@dataclass(frozen=True, slots=True)
class Module:
    """A module folder.

    facts   what the module says of itself; None when there is none in the folder, Unknown when it cannot be understood
    state   its local state; None when there is no file, which a module with a remote backend never has
    """

    path: str
    facts: ModuleFacts | Unknown | None = None
    state: StateView | Unknown | None = None

    @property
    def there(self) -> bool:
        return self.facts is not None


def read_module(path: str) -> Module:
    """What is in the folder now. Raises nothing for what is on disk."""
    from engine.clouds.terraform import module_facts
    from engine.clouds.terraform.state import parse_state

    folder = Path(path)
    if not path or not folder.is_absolute() or not any(folder.glob("*.tf")):
        return Module(path)
    state: StateView | Unknown | None
    try:
        state = parse_state((folder / STATE_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        state = None
    except Trouble as trouble:
        state = trouble.unknown
    except (OSError, ValueError) as error:
        state = Unknown(Cause.MALFORMED, redact(f"{folder / STATE_FILE} cannot be read: {error}"))
    return Module(path, module_facts(folder), state)


def residual_problem(state: StateView, project_id: str, cluster_id: str) -> str:
    """Why a state without its cluster must not be destroyed as this cluster's remains; empty when all in it is.

    Everything in it has to carry ids that tie it to the project, to the cluster, or to an account in the same state.
    """
    if not state.exists:
        return "there is no state"
    if not state.resources:
        return "the state holds nothing"
    accounts = {r.id for r in state.resources if r.type == _ACCOUNT and r.id}
    for r in state.resources:
        if r.type in CLUSTER_SCOPED:
            fits = r.attrs.get("parent_id") == cluster_id
        elif r.type in BY_ACCOUNT:
            fits = bool({r.attrs.get("service_account_id"), r.attrs.get("member_id")} & accounts)
        elif r.type in PROJECT_SCOPED:
            fits = r.attrs.get("parent_id") == project_id
            fits = fits and (r.type != _RELEASE or r.attrs.get("cluster_id") == cluster_id)
        elif r.type.startswith("nebius_"):
            return f"{r.address} is of a type that is not known to belong to a cluster"
        else:
            continue
        if not fits or not r.id:
            return f"{r.address} ({r.id or 'without id'}) is not tied to {cluster_id} in {project_id}"
    return ""
