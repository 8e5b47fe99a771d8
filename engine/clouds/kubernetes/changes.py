"""The calls that change something: evict, delete by exact uid, and put a budget back."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from engine.clock import Clock
from engine.clouds.kubernetes import objects
from engine.clouds.kubernetes.connection import Connection, Json
from engine.clouds.kubernetes.failures import StatusError
from engine.clouds.kubernetes.objects import Budget, Head, mapping, text
from engine.words.intents import Intent
from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

CONFLICT_ATTEMPTS = 3
"""How often a change is tried against an object that others keep changing."""


@dataclass(frozen=True, slots=True)
class EvictResult:
    """What the API server did with an eviction.

    accepted         the pod is being deleted
    already_gone     that very pod is not there any more; another of its name may be
    pdb_blocked      a disruption budget does not allow it now. `retry_after`, in seconds, when the budget is only being counted
    several_budgets  more than one budget covers it: the API server evicts such a pod never
    """

    outcome: Literal["accepted", "already_gone", "pdb_blocked", "several_budgets"]
    message: str = ""
    retry_after: float | None = None


def pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


def budgets_path(namespace: str) -> str:
    return f"/apis/policy/v1/namespaces/{quote(namespace, safe='')}/poddisruptionbudgets"


def budget_path(namespace: str, name: str) -> str:
    return f"{budgets_path(namespace)}/{quote(name, safe='')}"


class Changes:
    """Each raises `Trouble` when it failed. None waits for what it asked for."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection, self._clock = connection, clock

    async def evict(self, intent: Intent, namespace: str, name: str) -> EvictResult:
        what = f"evict {namespace}/{name}"
        if await self._there(intent, pod_path(namespace, name), what) is None:
            return EvictResult("already_gone")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": intent.ref.id}},
        }
        try:
            await self._connection.call("POST", f"{pod_path(namespace, name)}/eviction", what, body=body)
        except StatusError as error:
            if error.by_budget:
                message = error.causes["DisruptionBudget"] or error.message
                return EvictResult("pdb_blocked", redact(message), error.retry_after)
            if error.by_several_budgets:
                return EvictResult("several_budgets", redact(error.message))
            if error.status in (404, 409):
                # A conflict is our precondition, or another change to the pod in the same moment: looked at, not presumed.
                if await self._there(intent, pod_path(namespace, name), what) is None:
                    return EvictResult("already_gone")
                raise Trouble(Cause.CONFLICT, redact(f"{what}: {error.message}"), error.request_id) from error
            raise error.trouble(what) from error
        return EvictResult("accepted")

    async def delete_pod(self, intent: Intent, namespace: str, name: str) -> None:
        what = f"delete pod {namespace}/{name}"
        if await self._there(intent, pod_path(namespace, name), what) is not None:
            await self._delete(intent, pod_path(namespace, name), what, {"uid": intent.ref.id})

    async def delete_budget(self, intent: Intent, namespace: str, name: str) -> None:
        """Deletes it in the very version that was compared, so that no demand made meanwhile is taken away unseen."""
        what = f"delete budget {namespace}/{name}"
        path = budget_path(namespace, name)

        async def attempt() -> None:
            found = await self._there(intent, path, what, lambda body: objects.budget(body).fingerprint)
            if found is not None:
                await self._delete(
                    intent, path, what, {"uid": found.uid, "resourceVersion": found.resource_version}
                )

        await self._against_conflicts(attempt)

    async def restore_budget(self, manifest: Mapping[str, object], namespace: str, name: str) -> None:
        """Makes it as `manifest` says, whatever is there by its name, and looks whether it is so."""
        what = f"restore budget {namespace}/{name}"
        path = budget_path(namespace, name)

        async def attempt() -> None:
            found = await self._budget(path, what)
            if found is not None and found.head.deleting:
                raise Trouble(Cause.CONFLICT, f"{what}: the one that is there is still being deleted")
            if found is None:
                await self._write("POST", budgets_path(namespace), manifest, what)
            elif not fulfils(found, manifest):
                version = {**mapping(manifest, "metadata"), "resourceVersion": found.head.resource_version}
                await self._write("PUT", path, {**manifest, "metadata": version}, what)

        await self._against_conflicts(attempt)
        found = await self._budget(path, what)
        if found is None or found.head.deleting or not fulfils(found, manifest):
            raise Trouble(Cause.CONFLICT, f"{what}: it is not there as it was")

    async def _against_conflicts(self, attempt: Callable[[], Awaitable[None]]) -> None:
        for number in range(CONFLICT_ATTEMPTS):
            try:
                return await attempt()
            except Trouble as trouble:
                if (
                    trouble.cause is not Cause.CONFLICT
                    or isinstance(trouble, Changed)
                    or number == CONFLICT_ATTEMPTS - 1
                ):
                    raise
            await self._clock.sleep(0.25 * 2**number)
        return None

    async def _there(
        self,
        intent: Intent,
        path: str,
        what: str,
        fingerprint: Callable[[Json], str] = lambda body: objects.head(body).fingerprint(),
    ) -> Head | None:
        """The object, if it is still the one with the uid of the intent. Raises `Changed` when it is not as it was seen."""
        body = await self._get(path, what)
        if body is None:
            return None
        found = objects.head(body)
        if found.uid != intent.ref.id:
            return None  # its name went to another
        if intent.expect and fingerprint(body) != intent.expect:
            raise Changed(Cause.CONFLICT, f"{what}: it changed since it was looked at")
        return found

    async def _budget(self, path: str, what: str) -> Budget | None:
        body = await self._get(path, what)
        return None if body is None else objects.budget(body)

    async def _get(self, path: str, what: str) -> Json | None:
        try:
            return (await self._connection.call("GET", path, what)).body
        except StatusError as error:
            if is_missing(error):
                return None
            raise error.trouble(what) from error

    async def _delete(self, intent: Intent, path: str, what: str, preconditions: Mapping[str, str]) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": dict(preconditions)}
        try:
            await self._connection.call("DELETE", path, what, body=body)
        except StatusError as error:
            if is_missing(error):
                return
            if error.status == 409:
                found = await self._get(path, what)
                if found is None or text(found, "metadata", "uid") != intent.ref.id:
                    return
            raise error.trouble(what) from error

    async def _write(self, method: str, path: str, manifest: Json, what: str) -> None:
        try:
            await self._connection.call(method, path, what, body=manifest)
        except StatusError as error:
            if error.status == 404:
                raise Trouble(Cause.CONFLICT, redact(f"{what}: {error.message}"), error.request_id) from error
            raise error.trouble(what) from error


class Changed(Trouble):
    """The thing is not as it was when it was looked at. No further attempt helps."""


def is_missing(error: StatusError) -> bool:
    """A structured NotFound, as opposed to a 404 of something in between that knows no such path."""
    return error.status == 404 and error.reason == "NotFound"


def fulfils(found: Budget, manifest: Mapping[str, object]) -> bool:
    """Whether it demands what the manifest demands. What an API server adds on its own does not count."""
    return all(
        _contains(have, mapping(manifest, *part))
        for have, part in (
            (found.spec, ("spec",)),
            (found.head.labels, ("metadata", "labels")),
            (found.head.annotations, ("metadata", "annotations")),
        )
    ) and (found.selector is None) == (mapping(manifest, "spec").get("selector") is None)


def _contains(have: Mapping[str, object], want: Mapping[str, object]) -> bool:
    return all(
        key in have and json.dumps(have[key], sort_keys=True) == json.dumps(value, sort_keys=True)
        for key, value in want.items()
    )
