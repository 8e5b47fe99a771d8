"""Everything that this program asks of a cluster's API server and changes there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

from engine.clock import Clock
from engine.clouds.kubernetes import objects, resources
from engine.clouds.kubernetes.changes import Changes, EvictResult
from engine.clouds.kubernetes.connection import Connection, Json
from engine.clouds.kubernetes.drain import DrainPreview, preview
from engine.clouds.kubernetes.failures import StatusError
from engine.clouds.kubernetes.objects import Budget, Node, Pod, mapping, text
from engine.words.intents import Intent
from engine.words.presence import Cause, Listing, Ref, Resource, Unknown
from engine.words.trouble import Trouble

T = TypeVar("T")

_PAGE = 500
_MOST_PAGES = 2000
_RESTARTS = 2
"""How often a listing is begun anew after its snapshot expired on the server."""

_NODES = ("/api/v1/nodes", "NodeList")
_PODS = ("/api/v1/pods", "PodList")
_BUDGETS = ("/apis/policy/v1/poddisruptionbudgets", "PodDisruptionBudgetList")
_SERVICES = ("/api/v1/services", "ServiceList")
_VOLUMES = ("/api/v1/persistentvolumes", "PersistentVolumeList")


class Kubernetes:
    """The API server of one context of one kubeconfig; a current context or a default host never counts.

    Reads answer with words and raise nothing for what the outside does; changes raise `Trouble`. Making one costs nothing: file,
    credential and client library are loaded at the first call. Belongs to one event loop.
    """

    def __init__(self, path: Path, context: str, clock: Clock, *, environ: Mapping[str, str]) -> None:
        self._clock = clock
        self._connection = Connection(path, context, clock, environ)
        self._changes = Changes(self._connection, clock)
        self._places: dict[Ref, tuple[str, str]] = {}
        """Where each uid that was ever listed has its object: namespace and name. An object never moves."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of connections and threads. A call that is still under way in a thread ends by its own deadline."""
        await self._connection.close()

    # ------------------------------------------------------------------------------------------------------- reads

    async def pods(self, selector: str = "", namespace: str = "") -> Listing:
        """Pods of one namespace, or of all. `selector` is a label selector as the API server takes it, such as `parent=skypilot`."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else _PODS[0]
        return await self._listing(path, _PODS[1], objects.pod, resources.pod, selector)

    async def nodes(self) -> Listing:
        return await self._listing(*_NODES, objects.node, resources.node)

    async def budgets(self) -> Listing:
        """Disruption budgets, kind `pdb`. Their fingerprint covers what they demand."""
        return await self._listing(*_BUDGETS, objects.budget, resources.budget)

    async def services(self) -> Listing:
        """Services of the type LoadBalancer: each may have a load balancer outside the cluster that outlives it."""
        listing = await self._listing(*_SERVICES, objects.service, resources.service)
        wanted = tuple(item for item in listing.items if item.attrs["type"] == "LoadBalancer")
        return Listing(wanted, listing.gap, listing.at, listing.by)

    async def volumes(self) -> Listing:
        """PersistentVolumes: each may have a disk outside the cluster that outlives it."""
        return await self._listing(*_VOLUMES, objects.volume, resources.volume)

    async def drain_preview(self) -> DrainPreview:
        """What a drain of all nodes would meet now."""
        nodes, pods, budgets = await asyncio.gather(
            self._read(*_NODES, objects.node),
            self._read(*_PODS, objects.pod),
            self._read(*_BUDGETS, objects.budget),
        )
        known: tuple[_Read[Node] | _Read[Pod] | _Read[Budget], ...] = (nodes, pods, budgets)
        return preview(
            nodes.items,
            None if pods.gap is not None and not pods.items else pods.items,
            budgets.items,
            next((read.gap for read in known if read.gap is not None), None),
            nodes.at,
        )

    async def reachable(self) -> Unknown | None:
        """None when the API server answers and knows us, else why not. Asks for what anybody logged in may see."""
        try:
            answer = await self._connection.call("GET", "/api", "reach the API server")
        except StatusError as error:
            return error.trouble("reach the API server").unknown
        except Trouble as trouble:
            return trouble.unknown
        if text(answer.body, "kind") != "APIVersions":
            return Unknown(Cause.MALFORMED, "what answers is no Kubernetes API server")
        return None

    # ----------------------------------------------------------------------------------------------------- changes

    async def evict(self, intent: Intent) -> EvictResult:
        """Evict the pod of `intent.ref`, that very one. A refusal by a disruption budget is an answer, not a failure."""
        place = await self._place(intent.ref, resources.POD)
        return await self._changes.evict(intent, *place) if place else EvictResult("already_gone")

    async def delete_pod(self, intent: Intent) -> None:
        """Ask for the deletion of the pod of `intent.ref`, past any budget. Already gone is fine."""
        if place := await self._place(intent.ref, resources.POD):
            await self._changes.delete_pod(intent, *place)

    async def delete_budget(self, intent: Intent) -> None:
        """Delete the budget of `intent.ref`, unless it demands something else than what was seen. Already gone is fine."""
        if place := await self._place(intent.ref, resources.BUDGET):
            await self._changes.delete_budget(intent, *place)

    async def restore_budget(self, intent: Intent, spec: Mapping[str, object]) -> None:
        """Make a budget again as it was, and look that it is. `spec` is the whole manifest, as `Blocker.manifest` and the
        attribute `manifest` of a listed budget have it. `intent.ref` names the one that was deleted.
        """
        metadata = mapping(spec, "metadata")
        namespace, name = text(metadata, "namespace"), text(metadata, "name")
        if not namespace or not name or "spec" not in spec:
            raise Trouble(
                Cause.MALFORMED, f"restore budget {intent.ref.id}: the manifest names no budget or no spec"
            )
        await self._changes.restore_budget(spec, namespace, name)

    async def _place(self, ref: Ref, kind: str) -> tuple[str, str] | None:
        """Namespace and name of the object with that uid, or None when there is none."""
        if ref.kind != kind:
            raise Trouble(Cause.WRONG_SCOPE, f"{ref.kind} {ref.id} is no {kind}")
        if ref in self._places:
            return self._places[ref]
        listing = await (self.pods() if kind == resources.POD else self.budgets())
        if ref not in self._places and listing.gap is not None:
            raise Trouble(listing.gap.cause, listing.gap.detail)
        return self._places.get(ref)

    # ---------------------------------------------------------------------------------------------------- listing

    async def _listing(
        self,
        path: str,
        kind: str,
        decode: Callable[[Json], T],
        word: Callable[[T], Resource],
        selector: str = "",
    ) -> Listing:
        read = await self._read(path, kind, decode, selector)
        words = tuple(word(item) for item in read.items)
        self._places.update(
            {item.ref: (item.attrs["namespace"], item.attrs["name"]) for item in words if item.parent}
        )
        by = f"kubernetes {self._connection.label}" + (f" {read.request_id}" if read.request_id else "")
        return Listing(words, read.gap, read.at, by)

    async def _read(self, path: str, kind: str, decode: Callable[[Json], T], selector: str = "") -> _Read[T]:
        read: _Read[T] = _Read(self._clock.now())
        try:
            for _ in range(_RESTARTS + 1):
                read = _Read(self._clock.now())
                if await self._pages(read, path, kind, decode, selector):
                    return read
            read.gap = Unknown(Cause.UNREACHABLE, f"{kind}: the listing expired again and again")
        except StatusError as error:
            read.gap = error.trouble(kind).unknown
        except Trouble as trouble:
            read.gap = trouble.unknown
        return read

    async def _pages(
        self, read: _Read[T], path: str, kind: str, decode: Callable[[Json], T], selector: str
    ) -> bool:
        """All pages into `read`; False when the server's snapshot expired on the way, so that it must be begun anew."""
        token = ""
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            query = [("limit", str(_PAGE))]
            query += [("labelSelector", selector)] if selector else []
            query += [("continue", token)] if token else []
            try:
                answer = await self._connection.call("GET", path, f"list {path}", query=query)
            except StatusError as error:
                if error.status == 410 and token:
                    return False
                raise
            found = answer.body.get("items")
            if text(answer.body, "kind") != kind or not isinstance(found, list):
                # `null` instead of a list too: some proxies answer so, and it must not count as empty.
                raise Trouble(Cause.MALFORMED, f"list {path}: the answer is no {kind}", answer.request_id)
            if not all(isinstance(item, dict) for item in found):
                raise Trouble(Cause.MALFORMED, f"list {path}: an item is no object", answer.request_id)
            read.items += [decode(item) for item in found]
            read.request_id = answer.request_id
            token = text(answer.body, "metadata", "continue")
            if not token:
                return True
            if token in seen:
                break
            seen.add(token)
        raise Trouble(Cause.MALFORMED, f"list {path}: the pages do not end")


class _Read(Generic[T]):
    """A listing under way. `at`: when it was begun."""

    def __init__(self, at: str) -> None:
        self.items: list[T] = []
        self.gap: Unknown | None = None
        self.at = at
        self.request_id = ""
