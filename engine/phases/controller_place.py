"""Where the shared jobs controller lives, and what can be seen there: the cluster at the provider, SkyPilot's pods in it.

The saved context is trusted only after its server was found to be the endpoint of that exact cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from engine.home.config import read_config
from engine.home.controller_owner import ControllerOwner
from engine.home.errors import RecordError, RecordProblem
from engine.home.roots import Roots
from engine.words.presence import Absent, Cause, Listing, Observation, Ref, Resource, Unknown
from engine.words.redact import redact
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.home.records import Records

NODE_LABEL = "mk8s-cluster-id"
"""Label of a node's VM: the id of its cluster."""
CONTROLLER_PREFIX = "sky-jobs-controller-"
SKYPILOT_PODS = "parent=skypilot"
_NAME_LABELS = ("skypilot-cluster-name", "skypilot-cluster", "ray-cluster-name")


class Provider(Protocol):
    """What is asked of the provider."""

    async def get(self, ref: Ref, *, expected_parent: str = "") -> tuple[Observation, Resource | None]: ...

    async def list(self, kind: str, parent: str) -> Listing: ...


class Pods(Protocol):
    """What is asked of a cluster's API server."""

    async def pods(self, selector: str = "", namespace: str = "") -> Listing: ...


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster that a controller is bound to. `kubeconfig`: the saved file, or empty; `name`: the cluster's at the provider."""

    project_id: str
    cluster_id: str
    context: str
    kubeconfig: str = ""
    name: str = ""

    @property
    def detail(self) -> dict[str, str]:
        """As a target keeps it."""
        kept = {
            "controller_project": self.project_id,
            "cluster_id": self.cluster_id,
            "context": self.context,
            "kubeconfig": self.kubeconfig,
            "cluster_name": self.name,
        }
        return {name: value for name, value in kept.items() if value}


def place_of(detail: Mapping[str, str]) -> Place | None:
    """The place that a target kept, or None."""
    if not detail.get("cluster_id") or not detail.get("controller_project"):
        return None
    return Place(
        detail["controller_project"],
        detail["cluster_id"],
        detail.get("context", ""),
        detail.get("kubeconfig", ""),
        detail.get("cluster_name", ""),
    )


def recorded_place(records: Records, owner: ControllerOwner) -> Place:
    """Where the owner's record says that the controller lives."""
    folders = (*records.clusters, *records.unclaimed)
    folder = next((f for f in folders if f.context == owner.context), None)
    saved = records.roots.clusters / owner.context / "kubeconfig"
    kubeconfig = folder.kubeconfig if folder else saved
    name = folder.cluster.provider_name if folder and folder.cluster else ""
    return Place(
        owner.project_id, owner.cluster_id, owner.context, str(kubeconfig or ""), name or owner.cluster_name
    )


def current_owner(roots: Roots) -> ControllerOwner | Unknown | None:
    """Who owns the controller by now; Unknown when the record cannot be read."""
    try:
        config = read_config(roots)
    except RecordError as error:
        return Unknown(Cause.MALFORMED, redact(str(error.problem)))
    if config is None:
        return None
    broken = next((p for p in config.problems if owner_problem(p)), None)
    if broken is not None:
        return Unknown(Cause.MALFORMED, redact(str(broken)))
    return config.controller_owner


def owner_problem(problem: RecordProblem) -> bool:
    """Whether a problem of the configuration leaves open who owns the controller."""
    return problem.field in ("", "skypilot", "projects") or "controller_owner" in problem.field


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a place.

    cluster       what the provider said of the exact cluster; `resource` is given when it is there
    nodes         VMs that carry the label of a cluster that is gone
    pods          SkyPilot's pods, when all could be listed
    gap           why nothing can be concluded, or None
    """

    cluster: Observation
    resource: Resource | None = None
    nodes: tuple[Resource, ...] = ()
    pods: tuple[Resource, ...] = ()
    gap: Unknown | None = None
    at: str = ""
    by: str = ""

    @property
    def cluster_gone(self) -> bool:
        """The exact cluster is absent, and so is every VM with its label."""
        return self.gap is None and isinstance(self.cluster.presence, Absent) and not self.nodes

    @property
    def controllers(self) -> tuple[Resource, ...]:
        """The controller's own pods."""
        return tuple(p for p in self.pods if controller_of(p))

    @property
    def workers(self) -> tuple[Resource, ...]:
        """SkyPilot's other pods: what jobs run in."""
        return tuple(p for p in self.pods if not controller_of(p))

    @property
    def empty(self) -> bool:
        """Neither a controller nor a job can be running there."""
        return self.cluster_gone or (self.gap is None and self.resource is not None and not self.pods)


def controller_of(pod: Resource) -> str:
    """The controller that a pod belongs to, by its labels; empty for any other pod."""
    for label in _NAME_LABELS:
        if pod.labels.get(label, "").startswith(CONTROLLER_PREFIX):
            return pod.labels[label]
    return ""


class PlaceReader:
    """Looks at places. `kubernetes`: (kubeconfig, context) -> its API server."""

    def __init__(self, provider: Provider, kubernetes: Callable[[Path, str], Pods]) -> None:
        self._provider = provider
        self._kubernetes = kubernetes

    async def see(self, place: Place) -> Seen:
        """The cluster first, by its id; then, in the context that is proven to be it, SkyPilot's pods."""
        cluster, resource = await self._provider.get(
            Ref("cluster", place.cluster_id), expected_parent=place.project_id
        )
        if isinstance(cluster.presence, Unknown):
            return Seen(cluster, gap=cluster.presence, at=cluster.at, by=cluster.by)
        if resource is None:
            return await self._without_cluster(place, cluster)
        if wrong := context_problem(resource, place.kubeconfig, place.context):
            return Seen(cluster, resource, gap=wrong, at=cluster.at, by=cluster.by)
        listing = await self._kubernetes(Path(place.kubeconfig), place.context).pods(SKYPILOT_PODS)
        return Seen(
            cluster, resource, pods=listing.items, gap=listing.gap, at=listing.at, by=listing.by or cluster.by
        )

    async def _without_cluster(self, place: Place, cluster: Observation) -> Seen:
        listing = await self._provider.list("instance", place.project_id)
        nodes = tuple(i for i in listing.items if i.labels.get(NODE_LABEL) == place.cluster_id)
        return Seen(
            cluster,
            nodes=nodes,
            gap=listing.gap,
            at=listing.at or cluster.at,
            by=f"cluster absent: {cluster.by}",
        )


def context_problem(cluster: Resource, kubeconfig: str, context: str) -> Unknown | None:
    """Why the saved context cannot be taken for this cluster; None when its server and CA are the cluster's own."""
    from engine.clouds.kubernetes import read_kubeconfig

    if not kubeconfig:
        return Unknown(Cause.NO_CLIENT, f"no kubeconfig is saved for context {context}")
    try:
        saved = read_kubeconfig(Path(kubeconfig), context)
    except Trouble as trouble:
        return trouble.unknown
    return endpoint_problem(cluster, saved.server, saved.ca_fingerprint, context)


def endpoint_problem(cluster: Resource, server: str, ca_fingerprint: str, context: str) -> Unknown | None:
    """The same, from what the kubeconfig says: WRONG_SCOPE when it leads elsewhere, UNREACHABLE when there is nothing to compare."""
    endpoints = [cluster.attrs.get(name, "") for name in ("endpoint", "private_endpoint")]
    known = {_authority(url) for url in endpoints if url}
    if not known:
        return Unknown(Cause.UNREACHABLE, f"the provider names no endpoint of {cluster.ref.id}")
    if _authority(server) not in known:
        return Unknown(
            Cause.WRONG_SCOPE,
            f"context {context} leads to {_authority(server)}, but {cluster.ref.id} is at {' or '.join(sorted(known))}",
        )
    provided = cluster.attrs.get("ca_fingerprint", "")
    if provided and ca_fingerprint and provided != ca_fingerprint:
        return Unknown(
            Cause.WRONG_SCOPE, f"context {context} trusts another certificate than that of {cluster.ref.id}"
        )
    return None


def _authority(url: str) -> str:
    """Host and port of a URL; 443 when it names none."""
    parts = urlsplit(url if "://" in url else f"https://{url}")
    try:
        return f"{parts.hostname or ''}:{parts.port or 443}"
    except ValueError:
        return url
