"""Whether a cluster may be taken down, and how: a table over what was read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from engine.home.clusters import ManagedBy
from engine.home.controller_owner import ControllerOwner
from engine.phases.clusters.finding import Found
from engine.phases.clusters.modules import Module, residual_problem
from engine.phases.clusters.planning import CLUSTER, NO_METADATA
from engine.phases.controller_place import Seen
from engine.phases.jobs import JobQueue, shortened
from engine.phases.shape import Cleared
from engine.words.plans import Target
from engine.words.presence import Absent, Cause, Present, Ref, Resource, Sight, Unknown, presence_of
from engine.words.reasons import Reason, Refusal

HANDLED_BY: Mapping[str, str] = {
    ManagedBy.SHARED_BACKEND: "npa cluster down",
    ManagedBy.FLEET: "npa fleet destroy",
    ManagedBy.API: "npa cluster destroy",
}
"""The existing CLI's command for each other manager."""

PREDECESSORS: Mapping[str, tuple[str, ...]] = {
    CLUSTER: (),
    "disk": (CLUSTER, "node_group", "instance"),
    "service_account": (CLUSTER, "node_group", "instance"),
    "subnet": (CLUSTER, "node_group", "instance"),
    "network": (CLUSTER, "subnet"),
}
"""Kinds that are asked for by id -> kinds that must be gone before. What is not here goes with something else."""


class Way(StrEnum):
    """How it goes."""

    TERRAFORM = "terraform"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read before a change.

    resource       the cluster at the provider; None when it is gone
    wrong_context  the saved context leads elsewhere, or cannot be compared; None when it is the cluster's own
    owner          who owns the jobs controller; `queue`, `mine`, `others`, `seen`: read only when it lives on this cluster
    outside        what may outlive the cluster: load balancers and volumes, a line each; `outside_gap`: why some may be missing
    """

    target: Target
    sight: Sight
    resource: Resource | None
    module: Module
    found: Found = field(default_factory=Found)
    wrong_context: Unknown | None = None
    owner: ControllerOwner | Unknown | None = None
    seen: Seen | None = None
    queue: JobQueue | None = None
    mine: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    outside_gap: Unknown | None = None

    @property
    def cluster_id(self) -> str:
        return next((p.ref.id for p in self.target.parts if p.ref.kind == CLUSTER), "")

    @property
    def cluster_there(self) -> bool:
        return isinstance(presence_of(self.sight, Ref(CLUSTER, self.cluster_id)), Present)

    @property
    def command(self) -> str:
        d = self.target.detail
        return f"npa cluster down --project {d.get('project', '')} --cluster-id {self.cluster_id} --context {d.get('context', '')}"


@dataclass(frozen=True, slots=True)
class Going:
    """What `act` needs. `orphans`: disks that go with nothing."""

    way: Way
    sight: Sight
    module: Module
    orphans: frozenset[Ref] = frozenset()


def decide(facts: Facts) -> Cleared[Going] | Refusal:
    """Every check before the first change; children of a protected thing are not touched either."""
    no = _manager(facts) or _ownership(facts) or _identity(facts) or _controller(facts) or _contents(facts)
    if no is not None:
        return no
    way = way_of(facts)
    if isinstance(way, Refusal):
        return way
    return Cleared(
        Going(way, facts.sight, facts.module, facts.found.orphans),
        touches=tuple(_touches(facts)),
        found=facts.found.parts,
    )


def _manager(facts: Facts) -> Refusal | None:
    manager = facts.target.detail.get("managed_by", "")
    if manager in ("", ManagedBy.TERRAFORM):
        return None
    context = facts.target.detail.get("context", "")
    if manager == NO_METADATA:
        return Refusal(
            Reason.NOT_OWNED,
            f"clusters/{context}/metadata.json does not say who made this cluster",
            facts.command,
        )
    command = HANDLED_BY.get(manager, "")
    if not command:
        return Refusal(
            Reason.NOT_OWNED,
            f"{context} is managed by {manager!r}, which this program does not know",
            facts.command,
        )
    return Refusal(
        Reason.NOT_OWNED,
        f"{context} is managed by {manager!r}: `{command}` of the existing CLI takes it down",
        command,
    )


def _ownership(facts: Facts) -> Refusal | None:
    bare = next((p for p in facts.target.parts if not p.owned), None)
    if bare is None:
        return None
    return Refusal(
        Reason.NOT_OWNED,
        f"no create response proves that {bare.ref.kind} {bare.ref.id} was made by the CLI",
        facts.command,
    )


def _identity(facts: Facts) -> Refusal | None:
    resource, expected = facts.resource, facts.target.detail.get("cluster_name", "")
    if resource is None:
        return None
    if expected and resource.name != expected:
        return Refusal(
            Reason.WRONG_IDENTITY,
            f"{resource.ref.id} is called {resource.name} at the provider, but {expected} in its record",
            facts.command,
        )
    wrong = facts.wrong_context
    if wrong is not None and wrong.cause is Cause.WRONG_SCOPE:
        return Refusal(Reason.WRONG_IDENTITY, wrong.detail, facts.command)
    return None


def _controller(facts: Facts) -> Refusal | None:
    """A controller of somebody else is not taken along, and neither are jobs that still run under our own."""
    owner = facts.owner
    if not facts.cluster_there:
        return None
    if isinstance(owner, Unknown):
        return Refusal(
            Reason.RECORD_UNREADABLE,
            f"who owns the jobs controller cannot be read: {owner.detail}",
            facts.command,
        )
    if owner is None or owner.cluster_id != facts.cluster_id:
        return None
    clean = f"npa skypilot cleanup-controller --project {owner.project_alias} --yes"
    if owner.project_id != facts.target.detail.get("project_id"):
        return Refusal(
            Reason.SHARED,
            f"the jobs controller of project {owner.project_alias} ({owner.project_id}) lives on this cluster",
            clean,
        )
    if facts.seen is not None and facts.seen.empty:
        return None
    if facts.queue is not None and facts.queue.gap is not None:
        gap = facts.queue.gap
        return Refusal(
            Reason.CANNOT_SEE,
            f"whether the controller on it is drained cannot be seen: {gap.cause}: {gap.detail}",
            clean,
        )
    if facts.others:
        return Refusal(
            Reason.FOREIGN_JOBS,
            f"others use the controller on it: {'; '.join(shortened(facts.others))}",
            "sky jobs queue --all",
        )
    if facts.mine:
        return Refusal(Reason.NOT_DRAINED, f"jobs are not over: {'; '.join(shortened(facts.mine))}", clean)
    return None


def _contents(facts: Facts) -> Refusal | None:
    if facts.found.gap is not None:
        gap = facts.found.gap
        return Refusal(
            Reason.CANNOT_SEE,
            f"its VMs and disks cannot all be listed: {gap.cause}: {gap.detail}",
            facts.command,
        )
    protected = [f"{r.ref.kind} {r.ref.id}" for r in facts.found.protected]
    state = facts.module.state
    if state is not None and not isinstance(state, Unknown):
        protected += [r.address for r in state.resources if r.attrs.get("deletion_protection") == "true"]
    if protected:
        return Refusal(
            Reason.PROTECTED,
            f"protected from deletion: {', '.join(shortened(protected))}; nothing of the cluster is touched",
            "take the protection off at the provider, if it is no longer meant",
        )
    return None


def way_of(facts: Facts) -> Way | Refusal:
    """Terraform where a state holds exactly this cluster, or nothing but its proven remains; else the recorded ids.

    A journal's create responses are good for deletion by id; a saved record alone is good only together with its Terraform state.
    """
    module, recorded = facts.module, bool(facts.target.detail.get("operation_id"))
    state = module.state
    if isinstance(module.facts, Unknown):
        return Refusal(Reason.RECORD_UNREADABLE, module.facts.detail, facts.command)
    if isinstance(state, Unknown):
        return Refusal(Reason.RECORD_UNREADABLE, state.detail, facts.command)
    if module.facts is not None and module.facts.pins_iam_token:
        return Refusal(
            Reason.PREFLIGHT_FAILED,
            f"the tfvars in {module.path} set iam_token: it would outlive the login",
            f"remove iam_token from the tfvars in {module.path}",
        )
    if not module.there:
        why = (
            f"there is no Terraform module in {module.path}"
            if module.path
            else "no Terraform module is known"
        )
        return Way.PROVIDER if recorded else _no_state(facts, why)
    if state is None:
        remote = facts.target.detail.get("backend") != "local-state"
        if remote and facts.cluster_there:
            return (
                Way.TERRAFORM
            )  # its state is looked at, and held against the id, before anything is destroyed
        return Way.PROVIDER if recorded else _no_state(facts, f"there is no Terraform state in {module.path}")
    ids = set(state.cluster_ids)
    if ids - {facts.cluster_id}:
        return Refusal(
            Reason.NOT_OWNED,
            f"the Terraform state in {module.path} holds {', '.join(sorted(ids))}, not only {facts.cluster_id or 'this'}",
            facts.command,
        )
    if ids:
        return Way.TERRAFORM
    problem = residual_problem(state, facts.target.detail["project_id"], facts.cluster_id)
    if not facts.cluster_there and not problem:
        return Way.TERRAFORM
    return (
        Way.PROVIDER
        if recorded
        else _no_state(facts, problem or "the Terraform state no longer holds the cluster")
    )


def _no_state(facts: Facts, why: str) -> Refusal:
    return Refusal(
        Reason.NOT_OWNED,
        f"{why}, and no operation journal holds a create response of {facts.cluster_id or 'it'}: nothing is deleted on a"
        " saved record alone",
        facts.command,
    )


def _touches(facts: Facts) -> Iterable[str]:
    found = facts.found
    yield from shortened(
        f"! disk {d.ref.id} {d.name} at node {d.attrs.get('attached_to', '')} stays: nothing proves that it is the cluster's"
        for d in found.attached
    )
    yield from shortened(
        f"! VM {v.name} ({v.ref.id}) is in the subnet and no node: the network stays while it does"
        for v in found.strangers
    )
    for line in shortened(facts.outside):
        yield f"! {line}"
    if facts.outside_gap is not None:
        gap = facts.outside_gap
        yield f"! load balancers and volumes could not be listed: {gap.cause}: {gap.detail}"
    if found.nodes:
        gpu = sum(1 for n in found.nodes if n.attrs.get("gpu"))
        yield f"{len(found.groups)} node groups with {len(found.nodes)} VMs ({gpu} with GPUs) and {len(found.disks)} disks go with it"


def due(target: Target, going: Going) -> tuple[Ref, ...]:
    """Which parts may be asked to go now, by id: there, not leaving, and all that must go before is gone."""
    seen = {o.ref: o.presence for o in going.sight}
    standing = {p.ref.kind for p in target.parts if not isinstance(seen.get(p.ref), Absent)}

    def ready(ref: Ref) -> bool:
        now = seen.get(ref)
        if not isinstance(now, Present) or now.leaving or ref.kind not in PREDECESSORS:
            return False
        if ref.kind == "disk" and ref not in going.orphans:
            return False
        return not standing & set(PREDECESSORS[ref.kind])

    return tuple(p.ref for p in target.parts if ready(p.ref))
