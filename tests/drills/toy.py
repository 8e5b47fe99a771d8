"""A cloud in a file, which outlives a SIGKILL of its client, and phases over it of the shape that the real ones have."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.clock import Clock
from engine.ledger.events import Intended
from engine.ledger.journal import Journal
from engine.phases.shape import Cleared, Hand, Step
from engine.run.runner import Opening, Pace, Runner
from engine.words.consent import Consent, Tier
from engine.words.identity import Identity
from engine.words.intents import Intent
from engine.words.plans import Evidence, Ownership, Part, PhasePlan, Plan, Target
from engine.words.presence import (
    Absent,
    Cause,
    Observation,
    Present,
    Proof,
    Ref,
    Sight,
    Unknown,
    presence_of,
)
from engine.words.reasons import Reason, Refusal
from engine.words.trouble import Trouble

SCALE = 0.002
OURS = Ownership(Evidence.CREATE_RESPONSE, "operations/op", "resources[0]")


class Cloud:
    """Things with a creation stamp; deletion takes a few looks; every change is logged with whether its thing was there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls = 0

    @contextmanager
    def world(self) -> Iterator[dict[str, Any]]:
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            world = json.loads(self.path.read_text())
            yield world
            tmp = self.path.with_suffix(".tmp")
            tmp.write_text(json.dumps(world))
            tmp.rename(self.path)

    def read(self) -> dict[str, Any]:
        with self.world() as world:
            return dict(world)

    async def look(self, ref: Ref) -> Observation:
        await asyncio.sleep(0)
        with self.world() as w:
            if cause := w["deaf"].get(ref.id):
                return Observation(ref, Unknown(Cause(cause)), "t", "toy")
            thing = w["things"].get(ref.id)
            leaving = bool(thing and thing["leaving"])
            if thing and leaving:
                thing["leaving"] -= 1
                if not thing["leaving"]:
                    del w["things"][ref.id]
            if not thing:
                return Observation(ref, Absent(), "t", "toy")
            return Observation(ref, Present(thing["made"], "active", leaving and not w["lag"]), "t", "toy")

    async def _change(self, verb: str, intent: Intent, edit: Any) -> None:
        await asyncio.sleep(0.001)
        with self.world() as w:
            if cause := w["refuse"].get(intent.ref.id):
                raise Trouble(Cause(cause), f"{verb} {intent.ref.id}")
            if intent.key not in w["keys"]:  # the same idempotency key replays its answer
                w["log"].append([verb, intent.ref.id, intent.ref.id in w["things"]])
                w["keys"].append(intent.key)
                edit(w)
        self.calls += 1
        if os.environ.get("CRASH") == f"call:{self.calls}":
            os.kill(os.getpid(), signal.SIGKILL)

    async def delete(self, intent: Intent) -> None:
        def edit(w: dict[str, Any]) -> None:
            thing = w["things"].get(intent.ref.id)
            if thing and (not intent.expect or thing["made"] == intent.expect) and not thing["leaving"]:
                thing["leaving"] = 2

        await self._change("delete", intent, edit)

    async def lift(self, intent: Intent) -> None:
        await self._change("lift", intent, lambda w: w["budgets"].update({intent.ref.id: False}))

    async def restore(self, intent: Intent) -> None:
        await self._change("restore", intent, lambda w: w["budgets"].update({intent.ref.id: True}))


@dataclass
class Things:
    """Agents and buckets: parts go in their order, each when those before it are gone."""

    name: str
    cloud: Cloud
    tier: Tier = Tier.NOT_UNDOABLE
    found: tuple[Part, ...] = ()
    tidied: list[str] = field(default_factory=list)

    def plan(self, records: object) -> PhasePlan:
        raise NotImplementedError

    async def look(self, target: Target) -> Sight:
        return tuple([await self.cloud.look(p.ref) for p in target.parts])

    async def guard(self, target: Target, sight: Sight) -> Cleared[Sight] | Refusal:
        if bad := next((p for p in target.parts if not p.owned), None):
            return Refusal(Reason.NOT_OWNED, f"no creation record for {bad.ref.id}", "npa storage reconcile")
        return Cleared(sight, self.tier, found=self.found)

    async def act(self, target: Target, cleared: Cleared[Sight], hand: Hand) -> None:
        await hand.steps(
            [
                Step("delete", o.ref, self.cloud.delete)
                for o in cleared.facts
                if isinstance(o.presence, Present) and not o.presence.leaving and not hand.asked(o.ref)
            ]
        )

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        assert len(proof) == 2 * len(target.parts) or self.found
        self.tidied.append(target.key)
        (self.cloud.path.parent / f"{target.key.replace('/', '-')}.record").unlink(missing_ok=True)

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError


class Clusters(Things):
    """Lifts a budget before it deletes, and gives it back when the cluster stays."""

    async def act(self, target: Target, cleared: Cleared[Sight], hand: Hand) -> None:
        await hand.step("lift", target.parts[0].ref, self.cloud.lift, undo={"spec": "minAvailable: 1"})
        await super().act(target, cleared, hand)

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        await hand.step("restore", debt.ref, self.cloud.restore)


class InOrder(Things):
    """The second part can only be asked for once the first is gone."""

    async def act(self, target: Target, cleared: Cleared[Sight], hand: Hand) -> None:
        for part in target.parts:
            seen = presence_of(cleared.facts, part.ref)
            if isinstance(seen, Present):
                if not seen.leaving and not hand.asked(part.ref):
                    await hand.step("delete", part.ref, self.cloud.delete)
                return


class Projector:
    """Writes nothing, or refuses like a full disk."""

    def __init__(self, full: bool = False) -> None:
        self.full = full
        self.calls: list[str] = []

    async def before_call(self, target: str) -> None:
        self.calls.append(f"call {target}")
        if self.full:
            raise OSError(28, "No space left on device")

    async def before_tidy(self, target: str) -> None:
        self.calls.append(f"tidy {target}")


def target(phase: str, *ids: str, owned: Ownership = OURS) -> Target:
    return Target(f"{phase}/{ids[0]}", ids[0], tuple(Part(Ref("thing", i), i, owned) for i in ids))


def plan(bucket_owned: Ownership = OURS) -> Plan:
    return Plan(
        Identity("project-e00toy", "toy"),
        (
            PhasePlan("agents", tuple(target("agents", f"vm-{n}", f"disk-{n}") for n in (1, 2))),
            PhasePlan("clusters", (target("clusters", "mk8s-1"), target("clusters", "mk8s-2"))),
            PhasePlan("bucket", (target("bucket", "bkt-1", owned=bucket_owned),)),
        ),
    )


def seed(root: Path, lag: bool = False) -> Cloud:
    cloud = Cloud(root / "cloud.json")
    things = {p.ref.id: {"made": f"{p.ref.id}@1", "leaving": 0} for _, t in plan().targets() for p in t.parts}
    world = {
        "things": things,
        "log": [],
        "keys": [],
        "deaf": {},
        "refuse": {},
        "lag": lag,
        "budgets": {"mk8s-1": True, "mk8s-2": True},
    }
    cloud.path.write_text(json.dumps(world))
    for _, t in plan().targets():
        (root / f"{t.key.replace('/', '-')}.record").touch()
    return cloud


def phases(cloud: Cloud) -> Mapping[str, Things]:
    return {
        "agents": InOrder("agents", cloud),
        "clusters": Clusters("clusters", cloud, Tier.DATA_DIES),
        "bucket": Things("bucket", cloud, Tier.DATA_DIES),
    }


def consent(p: Plan, *names: str, tier: int = 3) -> Consent:
    return Consent(p.digest, names or tuple(x.phase for x in p.phases), tier, "drill")


def runner(root: Path, cloud: Cloud, run: str, *, crash: str = "", **kwargs: Any) -> Runner:
    clock = Clock(SCALE)

    def probe(seq: int) -> None:
        if crash == f"entry:{seq}":
            os.kill(os.getpid(), signal.SIGKILL)

    journal = Journal(root / "journal.jsonl", run, clock, probe)
    resumed = journal.state.resumable("destroy")
    if resumed:
        journal.run = resumed.id
    p = resumed.plan if resumed else kwargs.pop("plan", plan())
    kwargs.setdefault("pace", Pace(spacing=2.0, grace=20.0, blind=40.0))
    return Runner(
        p,
        kwargs.pop("phases", phases(cloud)),
        clock,
        journal,
        kwargs.pop("projector", Projector()),
        Opening("destroy"),
        **kwargs,
    )


async def destroy(root: Path, cloud: Cloud, run: str, crash: str = "") -> int:
    r = runner(root, cloud, run, crash=crash)
    await r.open()
    await r.consent(consent(r.plan))
    return await r.run()


def disk_full_from(number: int) -> None:
    """From the given write of the program on, the first being 1, there is no space left; half of that write still fits."""
    real, count = os.write, 0

    def write(fd: int, data: Any) -> int:
        nonlocal count
        count += 1
        if count < number:
            return real(fd, data)
        if count == number and len(data) > 1:
            return real(fd, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.write = write


if __name__ == "__main__":
    where = Path(sys.argv[1])
    crash_at = os.environ.get("CRASH", "")
    if crash_at.startswith("full:"):
        disk_full_from(int(crash_at.removeprefix("full:")))
    sys.exit(asyncio.run(destroy(where, Cloud(where / "cloud.json"), f"run-{os.getpid()}", crash_at)))
