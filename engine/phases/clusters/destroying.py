"""One Terraform destroy of a cluster's module: the state is held against the id once more, right before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from engine.clock import Clock
from engine.phases.clusters.modules import Module, residual_problem
from engine.phases.shape import Hand
from engine.words.intents import Intent
from engine.words.plans import Target
from engine.words.presence import Cause, Unknown
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.clouds.terraform import StateView, TerraformEvent

QUIET_SECONDS = 10.0
PLACEHOLDER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA no-key"
"""A destroy makes no node, but the module demands a key."""


class Run(Protocol):
    """What is asked of Terraform, inside its context."""

    async def __aenter__(self) -> Run: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def init(self) -> None: ...

    async def state(self) -> StateView: ...

    async def destroy(
        self,
        intent: Intent,
        progress: Callable[[TerraformEvent], None],
        *,
        variables: Mapping[str, str],
        recovery_dir: Path,
    ) -> None: ...


Terraform = Callable[[Path, str], Awaitable[Run]]
"""(module folder, context) -> Terraform there."""


class Progress:
    """Notes what Terraform says: each change of a resource, and signs of life at most once per resource in 10 s."""

    def __init__(self, hand: Hand, clock: Clock) -> None:
        self._hand, self._clock = hand, clock
        self._last: dict[str, float] = {}
        self._notes: list[asyncio.Task[None]] = []

    def __call__(self, event: TerraformEvent) -> None:
        now = time.monotonic()
        if event.step not in ("started", "done", "failed", "counted", "notice"):
            quiet = self._clock.real(QUIET_SECONDS)
            if now - self._last.get(event.address, -quiet) < quiet:
                return
        self._last[event.address] = now
        data = {"step": event.step, "address": event.address, "elapsed": f"{event.elapsed:g}"}
        self._notes.append(asyncio.ensure_future(self._hand.note("progress", event.text, data)))

    async def written(self) -> None:
        """Until all is noted. Raises the first failure to note."""
        await asyncio.gather(*self._notes)


def variables(target: Target, module: Module) -> dict[str, str]:
    """What the module's variables are when neither its tfvars nor the environment say so."""
    detail = target.detail
    known = {
        "parent_id": detail.get("project_id", ""),
        "tenant_id": detail.get("tenant_id", ""),
        "region": detail.get("region", ""),
        "cluster_name": detail.get("cluster_name", "") or detail.get("context", ""),
        "ssh_public_key": PLACEHOLDER_KEY,
    }
    facts = module.facts
    declared = None if facts is None or isinstance(facts, Unknown) else set(facts.variables)
    return {n: v for n, v in known.items() if v and (declared is None or n in declared)}


async def destroy(
    terraform: Terraform,
    intent: Intent,
    target: Target,
    module: Module,
    cluster_id: str,
    recovery_dir: Path,
    progress: Progress,
) -> None:
    """Initialise, look at the state, destroy. Raises `Trouble`; what was destroyed by then stays destroyed."""
    run = await terraform(Path(module.path), target.detail.get("context", ""))
    async with run:
        await run.init()
        state = await run.state()
        if wrong := state_problem(state, target.detail["project_id"], cluster_id):
            raise Trouble(Cause.CONFLICT, f"nothing was destroyed: {wrong}")
        try:
            await run.destroy(
                intent, progress, variables=variables(target, module), recovery_dir=recovery_dir
            )
        finally:
            await progress.written()


def state_problem(state: StateView, project_id: str, cluster_id: str) -> str:
    """Why a state must not be destroyed for this cluster; empty when it holds exactly it, or its proven remains."""
    if state.cluster_ids == (cluster_id,) and cluster_id:
        return ""
    if state.cluster_ids:
        return f"the state holds {', '.join(state.cluster_ids)}, not {cluster_id or 'only remains'}"
    return residual_problem(state, project_id, cluster_id)
