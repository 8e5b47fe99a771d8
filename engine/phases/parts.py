"""The parts of one target: which of them may be asked to go now, and the asking itself."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from engine.phases.shape import Hand, Step
from engine.words.intents import Intent
from engine.words.plans import Part, Target
from engine.words.presence import Absent, Observation, Present, Ref, Resource, Sight, Unknown
from engine.words.reasons import Reason, Refusal

Order = Mapping[str, frozenset[str]]
"""Kind -> kinds of the same target that must be gone before it is asked for. A kind that is not in it goes with another one."""


class Reads(Protocol):
    """Reading one thing by its id."""

    async def get(self, ref: Ref, *, expected_parent: str = "") -> tuple[Observation, Resource | None]: ...


class Looks(Protocol):
    """Whether one thing is there."""

    async def look(self, ref: Ref, parent: str = "") -> Observation: ...


class Deletes(Protocol):
    """Asking for one deletion."""

    async def delete(self, intent: Intent) -> None: ...


async def look_all(provider: Looks, refs: Iterable[Ref]) -> Sight:
    """One honest answer for each, side by side."""
    return tuple(await asyncio.gather(*(provider.look(ref) for ref in refs)))


def standing(sight: Sight) -> dict[Ref, Present]:
    """What a look saw there."""
    return {o.ref: o.presence for o in sight if isinstance(o.presence, Present)}


def free(there: Mapping[Ref, Present], order: Order) -> tuple[Ref, ...]:
    """What may be asked to go: it is not leaving yet, and nothing that must go before it is there."""
    kinds = frozenset(ref.kind for ref in there)
    return tuple(
        ref
        for ref, seen in there.items()
        if ref.kind in order and not seen.leaving and not order[ref.kind] & kinds
    )


async def ask(hand: Hand, provider: Deletes, refs: Iterable[Ref], there: Mapping[Ref, Present]) -> None:
    """Ask for deletions side by side, each once. What has just been found has no fingerprint in the last look: it has one here."""
    await hand.steps(
        [Step("delete", ref, _deletion(provider, there[ref])) for ref in refs if not hand.asked(ref)]
    )


def _deletion(provider: Deletes, seen: Present) -> Callable[[Intent], Awaitable[object]]:
    async def delete(intent: Intent) -> None:
        await provider.delete(intent if intent.expect else replace(intent, expect=seen.fingerprint))

    return delete


async def read_all(
    provider: Reads, refs: Iterable[Ref]
) -> tuple[dict[Ref, Resource], tuple[Observation, ...]]:
    """What is there of these, and the looks that saw nothing: neither there nor gone."""
    answers = await asyncio.gather(*(provider.get(ref) for ref in dict.fromkeys(refs)))
    found = {resource.ref: resource for _, resource in answers if resource is not None}
    return found, tuple(o for o, _ in answers if isinstance(o.presence, Unknown))


async def still_there(provider: Reads, listed: Iterable[Resource]) -> tuple[Resource, ...]:
    """Listings lag: what of this is not gone by its own id. What cannot be seen counts as listed."""
    rows = tuple(listed)
    answers = await asyncio.gather(*(provider.get(row.ref) for row in rows))
    return tuple(
        now or row
        for row, (seen, now) in zip(rows, answers, strict=True)
        if not isinstance(seen.presence, Absent)
    )


def unproven(target: Target, there: Mapping[Ref, Present]) -> tuple[Part, ...]:
    """Parts that are there and that no record proves to be ours."""
    return tuple(part for part in target.parts if not part.owned and part.ref in there)


def no_proof(parts: Iterable[Part], next_command: str) -> Refusal:
    """The refusal of what nobody can show to be ours."""
    named = ", ".join(f"{part.name} ({part.ref.id})" if part.name else part.ref.id for part in parts)
    return Refusal(
        Reason.NOT_OWNED,
        f"no record of its creation proves {named} ours: a saved name or id is no proof",
        next_command,
    )


def cannot_see(why: str, next_command: str) -> Refusal:
    return Refusal(
        Reason.CANNOT_SEE, f"nothing was changed, because not all could be seen: {why}", next_command
    )


def blind(what: str, gap: Unknown) -> str:
    """A gap in words."""
    return f"{what}: {gap.cause}{f': {gap.detail}' if gap.detail else ''}"


def selector(target: Target) -> list[str]:
    """How a printed command is aimed at the target's project. `detail` has `alias` and `project_id`."""
    return ["--project", target.detail.get("alias") or target.detail["project_id"]]


def command(*words: str) -> str:
    return shlex.join(words)


def going_on(target: Target) -> str:
    """The command that tries the whole plan again."""
    return command("npa", "destroy", *selector(target), "--all", "--yes")


def without_phase(target: Target) -> str:
    """The command that goes on and leaves this target's phase, and what needs it, as it is."""
    return command("npa", "destroy", *selector(target), "--all", "--keep", target.phase, "--yes")
