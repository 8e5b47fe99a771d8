"""The phase itself: look, read for the guard, ask in order, tidy behind the proof."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine.home.config import read_config
from engine.home.errors import Kind
from engine.home.removal import remove_tree
from engine.home.roots import Roots
from engine.home.writers import drop_agent
from engine.ledger.events import Intended
from engine.phases.agents.deciding import Facts, decide, led_to, network_of
from engine.phases.agents.planning import TRACES, plan_agents
from engine.phases.agents.preserved import preserved_ids
from engine.phases.agents.traces import TraceReader
from engine.phases.parts import Deletes, Looks, Reads, ask, blind, read_all, standing, unproven
from engine.phases.shape import Cleared, Hand
from engine.words.plans import PhasePlan, Target
from engine.words.presence import Listing, Observation, Proof, Ref, Resource, Sight, Unknown
from engine.words.reasons import Refusal

if TYPE_CHECKING:
    from engine.home.records import Records


class Provider(Looks, Reads, Deletes, Protocol):
    """What this phase asks of the provider."""

    async def list(self, kind: str, parent: str) -> Listing: ...


class Agents:
    """Built with the roots and the provider. One target per deployment, keyed by its VM, or by its operation where it has none."""

    name = "agents"

    def __init__(self, roots: Roots, provider: Provider) -> None:
        self._roots = roots
        self._provider = provider
        self._traces = TraceReader(provider)

    def plan(self, records: Records) -> PhasePlan:
        return plan_agents(records)

    async def look(self, target: Target) -> Sight:
        return tuple(await asyncio.gather(*(self._see(target, part.ref) for part in target.parts)))

    async def guard(self, target: Target, sight: Sight) -> Cleared[Facts] | Refusal:
        there = standing(sight)
        if unproven(target, there):
            return decide(Facts(target, there))
        reading = _Reading(self._provider)
        await reading.read(ref for ref in there if ref.kind != TRACES)
        labelled: tuple[Resource, ...] = ()
        namesakes: tuple[Resource, ...] = ()
        for part in target.parts:
            if part.ref.kind == TRACES:
                traces = await self._traces.read(target, part.ref.id)
                labelled, namesakes = traces.labelled, traces.namesakes
                if traces.gap:
                    reading.gaps.append(blind("what the operation labelled", traces.gap))
        reading.keep(*labelled, *namesakes)
        machines = [r for r in reading.resources.values() if r.ref.kind == "instance"]
        await reading.read(ref for vm in machines for ref in led_to(vm))
        subnets = [r for r in reading.resources.values() if r.ref.kind == "subnet"]
        await reading.read(network_of(s) for s in subnets if s.attrs.get("network_id"))
        recorded = {*there, *(r.ref for r in (*labelled, *namesakes))}
        await reading.list_groups(r.id for r in recorded if r.kind == "network" and r in reading.resources)
        preserved = preserved_ids(self._roots, target.detail.get("operation_id", ""))
        return decide(
            Facts(target, there, reading.resources, labelled, namesakes, preserved, tuple(reading.gaps))
        )

    async def act(self, target: Target, cleared: Cleared[Facts], hand: Hand) -> None:
        facts = cleared.facts
        seen = {ref: r.presence for ref, r in facts.resources.items()}
        await ask(hand, self._provider, facts.askable(), seen)

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        detail = target.detail
        alias, agent = detail.get("agent_alias", ""), detail.get("agent_name", "")
        if not detail.get("local") or not _is_name(alias) or not _is_name(agent):
            return
        if not self._drop_record(target, alias, agent):
            return
        for base in (self._roots.agents, self._roots.workbenches):
            remove_tree(base / alias / agent, root=self._roots.home, kind=Kind.AGENTS)
            _remove_if_empty(base / alias)

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError("nothing is taken away for a while here")

    async def _see(self, target: Target, ref: Ref) -> Observation:
        if ref.kind != TRACES:
            return await self._provider.look(ref)
        return (await self._traces.read(target, ref.id)).observation(ref)

    def _drop_record(self, target: Target, alias: str, agent: str) -> bool:
        """Drop the agent's record. False when that name means another VM or another project by now: nothing local is this one's then."""
        config = read_config(self._roots)
        stanza = config.stanza(alias) if config else None
        if stanza is None:
            return True
        if stanza.project_id and stanza.project_id != target.detail["project_id"]:
            return False
        record = next((a for a in stanza.agents if a.name == agent), None)
        if record is None:
            return True
        if record.instance_id and all(p.ref != Ref("instance", record.instance_id) for p in target.parts):
            return False
        drop_agent(self._roots, alias, agent)
        return True


class _Reading:
    """Things read by their ids, each once, and what could not be seen."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.resources: dict[Ref, Resource] = {}
        self.gaps: list[str] = []

    def keep(self, *resources: Resource) -> None:
        for resource in resources:
            self.resources.setdefault(resource.ref, resource)

    async def read(self, refs: Iterable[Ref]) -> None:
        new = [ref for ref in refs if ref.id and ref not in self.resources]
        found, unseen = await read_all(self._provider, new)
        self.resources |= found
        self.gaps += [blind(o.ref.id, o.presence) for o in unseen if isinstance(o.presence, Unknown)]

    async def list_groups(self, networks: Iterable[str]) -> None:
        """The security groups of these networks: a default one goes with its network."""
        for network in sorted(set(networks)):
            listing = await self._provider.list("security_group", network)
            if listing.gap:
                self.gaps.append(blind(f"security groups of {network}", listing.gap))
            await self.read(group.ref for group in listing.items)


def _is_name(text: str) -> bool:
    """Whether this names a folder, and nothing above or below it."""
    return text not in ("", ".", "..") and "/" not in text and "\0" not in text


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # something of another agent is in it, or it was never there
