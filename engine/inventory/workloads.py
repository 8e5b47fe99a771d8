"""What runs inside a project's clusters, as sources of the inventory: jobs of the shared queue, pods, load balancer services, volumes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine.home.clusters import ClusterFolder
from engine.phases.controller_place import endpoint_problem
from engine.phases.jobs import Claims, Job, JobQueue, attribute
from engine.words.presence import Absent, Listing, Observation, Present, Ref, Resource, Unknown
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.inventory.gather import Reader

WORKLOADS = ("job", "pod", "volume")
"""Kinds that cost nothing by themselves: their nodes and disks do, and are listed too."""

SYSTEM = ("kube-system", "kube-node-lease", "kube-public")
"""Namespaces of the cluster itself: they go with it and are nobody's work."""


class Provider(Protocol):
    async def get(self, ref: Ref, *, expected_parent: str = "") -> tuple[Observation, Resource | None]: ...


class Queues(Protocol):
    async def queue(self) -> JobQueue: ...


class Api(Protocol):
    async def pods(self, selector: str = "", namespace: str = "") -> Listing: ...

    async def services(self) -> Listing: ...

    async def volumes(self) -> Listing: ...


def jobs_reader(sky: Callable[[], Queues], claims: Callable[[], Claims]) -> Reader:
    """This project's managed jobs that are not over, and those that nobody of this machine can be told to own."""

    async def read() -> Listing:
        queue = await sky().queue()
        whose = attribute(queue.jobs, await asyncio.to_thread(claims))
        items = [_job(job, run) for run, jobs in whose.own.items() for job in jobs]
        items += [_job(job, "") for job in whose.nobodys]
        return Listing(tuple(items), queue.gap, queue.at, queue.by)

    return read


def _job(job: Job, run: str) -> Resource:
    return Resource(
        Ref("job", str(job.id)),
        job.name,
        run,
        Present(job.name, job.status, leaving=job.leaving),
        attrs={"managed_by": run, "user": job.user},
    )


def cluster_readers(
    provider: Provider,
    kubernetes: Callable[[Path, str], Api],
    project_id: str,
    folders: Iterable[ClusterFolder],
) -> dict[str, Reader]:
    """One reader per recorded cluster whose kubeconfig is on disk."""
    return {
        f"Workloads of {folder.context}": _workloads(provider, kubernetes, project_id, folder)
        for folder in folders
        if folder.kubeconfig is not None and folder.cluster is not None and folder.cluster.cluster_id
    }


def _workloads(
    provider: Provider, kubernetes: Callable[[Path, str], Api], project_id: str, folder: ClusterFolder
) -> Reader:
    async def read() -> Listing:
        from engine.clouds.kubernetes import read_kubeconfig

        assert folder.cluster is not None
        assert folder.kubeconfig is not None
        id = folder.cluster.cluster_id
        seen, cluster = await provider.get(Ref("cluster", id), expected_parent=project_id)
        if isinstance(seen.presence, Absent):
            return Listing((), at=seen.at, by=seen.by)
        if cluster is None:
            gap = seen.presence if isinstance(seen.presence, Unknown) else None
            return Listing((), gap, seen.at, seen.by)
        try:
            saved = await asyncio.to_thread(read_kubeconfig, folder.kubeconfig, folder.context)
        except Trouble as trouble:
            return Listing((), trouble.unknown, seen.at, seen.by)
        # A context that points somewhere else would show another cluster's work as this project's.
        if wrong := endpoint_problem(cluster, saved.server, saved.ca_fingerprint, folder.context):
            return Listing((), wrong, seen.at, seen.by)
        api = kubernetes(folder.kubeconfig, folder.context)
        listings = await asyncio.gather(api.pods(), api.services(), api.volumes())
        items = tuple(
            _of_cluster(item, id)
            for listing in listings
            for item in listing.items
            if item.attrs.get("namespace") not in SYSTEM
        )
        gap = next((listing.gap for listing in listings if listing.gap), None)
        return Listing(items, gap, listings[0].at, listings[0].by)

    return read


def _of_cluster(item: Resource, cluster: str) -> Resource:
    return Resource(
        item.ref,
        item.name,
        cluster,
        item.presence,
        item.created_at,
        item.labels,
        {**item.attrs, "cluster": cluster},
    )
