"""Whether a bucket may go: pure, from what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.home.storage_keys import StorageKeys
from engine.phases.bucket.amounts import count, size
from engine.phases.parts import cannot_see, command, going_on, no_proof, selector, unproven, without_phase
from engine.phases.shape import Cleared
from engine.words.plans import Target
from engine.words.presence import Present, Ref, Resource
from engine.words.reasons import Reason, Refusal


@dataclass(frozen=True, slots=True)
class Dependent:
    """An agent or cluster whose Terraform state lies in the bucket and that is not proven gone. `command` removes it."""

    what: str
    command: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What the guard read.

    there       the bucket as it is now
    bucket      the same, with its counters; None when it is gone
    claims      other projects whose records name it, each with the record
    dependents  what would lose its Terraform state
    keys        what opens it, best first
    tombstone   what is known of its storage account, for the marker that outlives the keys; empty when no record names one
    aliases     stanzas of the project: each takes the marker
    gaps        what could not be seen, in words
    """

    target: Target
    there: Mapping[Ref, Present]
    bucket: Resource | None = None
    claims: tuple[str, ...] = ()
    dependents: tuple[Dependent, ...] = ()
    keys: tuple[StorageKeys, ...] = ()
    tombstone: Mapping[str, object] | None = None
    aliases: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


def decide(facts: Facts) -> Cleared[Facts] | Refusal:
    """A bucket goes when it is proven ours, is the recorded one, is this project's alone, and nothing needs what is in it."""
    target = facts.target
    name = target.detail["bucket"]
    if missing := unproven(target, facts.there):
        return no_proof(
            missing,
            command(
                "npa", "storage", "bucket", "delete", *selector(target), "--adopted-bucket", name, "--yes"
            ),
        )
    if facts.gaps:
        return cannot_see("; ".join(facts.gaps), going_on(target))
    if facts.claims:
        return Refusal(
            Reason.SHARED,
            f"{name} is also another project's: {'; '.join(facts.claims)}",
            without_phase(target),
        )
    if facts.dependents:
        named = ", ".join(d.what for d in facts.dependents)
        return Refusal(
            Reason.EVIDENCE_NEEDED,
            f"{name} holds the Terraform state of what is not gone: {named}",
            facts.dependents[0].command,
        )
    if facts.bucket is None:
        return Cleared(facts)
    if wrong := _differs(facts.bucket, target):
        return Refusal(Reason.WRONG_IDENTITY, wrong, without_phase(target))
    return Cleared(facts, touches=_touches(facts.bucket, facts.keys))


def _differs(bucket: Resource, target: Target) -> str:
    name, project = target.detail["bucket"], target.detail["project_id"]
    if bucket.name != name:
        return f"{bucket.ref.id} is called {bucket.name!r}, and was recorded as {name!r}"
    if bucket.parent != project:
        return f"{bucket.ref.id} lies in {bucket.parent}, not in {project}"
    return ""


def _touches(bucket: Resource, keys: tuple[StorageKeys, ...]) -> tuple[str, ...]:
    lines = [contents(bucket)]
    if not keys:
        lines.append("! no saved key opens it: if the provider wants it empty, it must be emptied by hand")
    return tuple(lines)


def contents(bucket: Resource) -> str:
    """What is in a bucket by the provider's counters, which lag: `1.9 M objects, 3.2 TiB`."""
    objects, versions = bucket.attrs.get("objects", ""), bucket.attrs.get("versions", "")
    if not objects.isdigit():
        return "! the provider does not say what is in it: all of it goes"
    said = [count(int(objects), "object")]
    if versions.isdigit() and int(versions):
        said.append(count(int(versions), "older version"))
    if (stored := bucket.attrs.get("bytes", "")).isdigit():
        said.append(size(int(stored)))
    return ", ".join(said)
