"""The runner's laws, on a toy cloud: proof, order, consent, debts, stopping, faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import toy

from engine.ledger.events import Noted, PhaseEnded, Proven
from engine.ledger.journal import Unwritable, load, read
from engine.run.runner import Pace, Runner
from engine.words.consent import Consent, Tier
from engine.words.outcomes import Outcome, Status, Verdict
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part, PhasePlan, Plan
from engine.words.presence import Cause, Ref, Unknown
from engine.words.reasons import Reason, Refused


def edit(cloud: toy.Cloud, change: Callable[[dict[str, Any]], None]) -> None:
    with cloud.world() as world:
        change(world)


async def run(r: Runner, *phases: str, tier: int = 3, consents: list[Consent] | None = None) -> int:
    await r.open()
    for given in consents if consents is not None else [toy.consent(r.plan, *phases, tier=tier)]:
        await r.consent(given)
    return await r.run()


def outcomes(root: Path) -> dict[str, Outcome]:
    return load(root / "journal.jsonl").outcomes


def statuses(root: Path) -> dict[str, Status]:
    newest = load(root / "journal.jsonl").newest
    assert newest is not None
    return {name: ended.status for name, ended in newest.phases.items()}


async def test_all_goes_and_is_proven_by_two_sights(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    assert await run(toy.runner(tmp_path, cloud, "r")) == 0
    state = load(tmp_path / "journal.jsonl")
    assert set(state.proofs) == {t.key for _, t in toy.plan().targets()}
    assert all(len(proof) % 2 == 0 for proof in state.proofs.values())
    assert state.newest is not None
    assert not state.newest.open


async def test_a_second_run_of_a_finished_plan_changes_nothing(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    assert await run(toy.runner(tmp_path, cloud, "r1")) == 0
    before = cloud.read()["log"]
    assert await run(toy.runner(tmp_path, cloud, "r2")) == 0
    assert cloud.read()["log"] == before
    assert all(o.verdict is Verdict.DONE for o in outcomes(tmp_path).values())


@pytest.mark.parametrize("cause", [c for c in Cause if c is not Cause.UNAUTHENTICATED])
async def test_what_cannot_be_seen_is_never_absent_and_never_touched(tmp_path: Path, cause: Cause) -> None:
    cloud = toy.seed(tmp_path)
    edit(cloud, lambda w: w["deaf"].update({"vm-1": cause}))
    assert await run(toy.runner(tmp_path, cloud, "r")) == 2
    got = outcomes(tmp_path)
    assert got["agents/vm-1"].verdict is Verdict.UNKNOWN
    assert got["agents/vm-2"].verdict is Verdict.DONE, "an independent target goes on"
    assert statuses(tmp_path)["bucket"] is Status.BLOCKED
    assert not any(name in ("vm-1", "disk-1", "bkt-1") for _, name, _ in cloud.read()["log"])
    assert "agents/vm-1" not in load(tmp_path / "journal.jsonl").proofs


async def test_blocked_phases_name_what_blocks_them_and_converge_later(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    edit(cloud, lambda w: w["deaf"].update({"mk8s-1": "denied"}))
    assert await run(toy.runner(tmp_path, cloud, "r1")) == 2
    newest = load(tmp_path / "journal.jsonl").newest
    assert newest is not None
    assert newest.phases["bucket"].blocked_by == ("clusters",)
    assert newest.open
    edit(cloud, lambda w: w["deaf"].clear())
    assert await run(toy.runner(tmp_path, cloud, "r2")) == 0
    assert list(load(tmp_path / "journal.jsonl").runs) == ["r1"], "the retry resumes the recorded run"


async def test_a_refused_change_is_asked_again_and_then_left_with_its_reason(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    edit(cloud, lambda w: w["refuse"].update({"bkt-1": "conflict"}))
    assert await run(toy.runner(tmp_path, cloud, "r")) == 2
    got = outcomes(tmp_path)["bucket/bkt-1"]
    assert (got.verdict, got.reason) == (Verdict.LEFT, Reason.REFUSED_BY_PROVIDER)
    assert "conflict" in got.detail


async def test_an_error_with_the_thing_gone_is_done(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)

    class Lying(toy.Cloud):
        async def delete(self, intent: Any) -> None:
            await super().delete(intent)
            if intent.ref.id == "bkt-1":
                raise toy.Trouble(Cause.TIMED_OUT, "no answer")

    assert await run(toy.runner(tmp_path, Lying(cloud.path), "r")) == 0
    assert outcomes(tmp_path)["bucket/bkt-1"].verdict is Verdict.DONE
    keys = [k for k in cloud.read()["keys"] if "bkt-1" in k]
    assert len(keys) == 1, "a repeat after a lost answer carries the same key"


async def test_a_success_with_the_thing_there_is_asked_again_with_a_new_key(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    asked: list[str] = []

    class Deaf(toy.Cloud):
        async def delete(self, intent: Any) -> None:
            if intent.ref.id == "bkt-1":
                asked.append(intent.key)
                if len(asked) == 1:
                    return  # accepted, and nothing happens
            await super().delete(intent)

    assert await run(toy.runner(tmp_path, Deaf(cloud.path), "r")) == 0
    assert len(asked) == 2
    assert len(set(asked)) == 2


async def test_without_proof_of_ownership_a_target_is_held(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    assert await run(toy.runner(tmp_path, cloud, "r", plan=toy.plan(NOT_PROVEN))) == 2
    got = outcomes(tmp_path)["bucket/bkt-1"]
    assert (got.verdict, got.reason, got.next_command) == (
        Verdict.HELD,
        Reason.NOT_OWNED,
        "npa storage reconcile",
    )
    assert statuses(tmp_path)["bucket"] is Status.REFUSED
    assert "bkt-1" in cloud.read()["things"]


async def test_consent_to_another_plan_is_refused(tmp_path: Path) -> None:
    r = toy.runner(tmp_path, toy.seed(tmp_path), "r")
    await r.open()
    with pytest.raises(Refused) as caught:
        await r.consent(Consent("0" * 16, ("agents",), 3, "x"))
    assert caught.value.refusal.reason is Reason.PLAN_CHANGED


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({}, Reason.NOT_SHOWN),
        ({"bkt-1": "another@2"}, Reason.CHANGED_SINCE_SHOWN),
        ({"bkt-1": "bkt-1@1"}, None),
    ],
)
async def test_consent_covers_what_was_seen_as_it_was_seen(
    tmp_path: Path, seen: dict[str, str], reason: Reason | None
) -> None:
    cloud = toy.seed(tmp_path)
    r = toy.runner(tmp_path, cloud, "r")
    shown = Consent(r.plan.digest, ("bucket",), 3, "console", seen)
    await run(r, consents=[toy.consent(r.plan, "agents", "clusters"), shown])
    got = outcomes(tmp_path)["bucket/bkt-1"]
    assert got.reason is reason
    assert got.verdict is (Verdict.HELD if reason else Verdict.DONE)


async def test_a_greater_risk_than_was_agreed_to_is_held(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    await run(toy.runner(tmp_path, cloud, "r"), tier=Tier.NOT_UNDOABLE)
    got = outcomes(tmp_path)
    assert got["agents/vm-1"].verdict is Verdict.DONE
    assert got["clusters/mk8s-1"].reason is Reason.RISK_ROSE
    assert cloud.read()["budgets"] == {"mk8s-1": True, "mk8s-2": True}


async def test_what_was_taken_away_is_given_back_when_the_target_stays(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)

    class Refusing(toy.Cloud):
        async def delete(self, intent: Any) -> None:
            if intent.ref.id == "mk8s-1":
                raise toy.Trouble(Cause.DENIED, "no")
            await super().delete(intent)

    assert await run(toy.runner(tmp_path, Refusing(cloud.path), "r")) == 2
    assert cloud.read()["budgets"] == {"mk8s-1": True, "mk8s-2": False}
    assert load(tmp_path / "journal.jsonl").debts == {}


async def test_no_receipt_no_call(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    assert await run(toy.runner(tmp_path, cloud, "r", projector=toy.Projector(full=True))) == 2
    assert cloud.read()["log"] == []
    assert outcomes(tmp_path)["agents/vm-1"].reason is Reason.NO_RECEIPT


async def test_a_journal_that_cannot_be_written_ends_the_run_before_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = toy.seed(tmp_path)
    r = toy.runner(tmp_path, cloud, "r")
    await r.open()
    await r.consent(toy.consent(r.plan))

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fdatasync", full)
    with pytest.raises(Unwritable):
        await r.run()
    assert cloud.read()["log"] == []


async def test_a_bug_in_one_target_is_its_own(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)

    class Buggy(toy.InOrder):
        async def guard(self, target: Any, sight: Any) -> Any:
            if target.id == "vm-1":
                raise ZeroDivisionError("oops")
            return await super().guard(target, sight)

    phases = {**toy.phases(cloud), "agents": Buggy("agents", cloud)}
    assert await run(toy.runner(tmp_path, cloud, "r", phases=phases)) == 70
    got = outcomes(tmp_path)
    assert (got["agents/vm-1"].verdict, got["agents/vm-1"].reason) == (Verdict.UNKNOWN, Reason.INTERNAL)
    assert got["agents/vm-2"].verdict is Verdict.DONE


async def test_a_stop_lets_calls_in_flight_finish_and_starts_no_more(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    r = toy.runner(tmp_path, cloud, "r")

    class Slow(toy.Cloud):
        async def delete(self, intent: Any) -> None:
            r.gate.close("asked to stop")
            await asyncio.sleep(0.05)
            await super().delete(intent)

    r._phases = toy.phases(Slow(cloud.path))  # type: ignore[assignment]
    assert await run(r) == 130
    state = load(tmp_path / "journal.jsonl")
    assert state.unanswered == {}, "every call that began has its answer"
    assert state.newest is not None
    assert state.newest.open
    assert {o.verdict for o in state.outcomes.values()} == {Verdict.STOPPED}
    assert await run(toy.runner(tmp_path, cloud, "again")) == 0


async def test_kept_phases_and_what_needs_them_stay(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    assert await run(toy.runner(tmp_path, cloud, "r", keep=frozenset({"clusters"}))) == 2
    assert statuses(tmp_path) == {"agents": Status.COMPLETED, "clusters": Status.KEPT, "bucket": Status.KEPT}
    again = toy.runner(tmp_path, cloud, "r2", keep=frozenset({"clusters"}), kept_is_fine=True)
    assert await run(again) == 0
    assert "mk8s-1" in cloud.read()["things"]


async def test_a_phase_waits_for_its_own_consent(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    r = toy.runner(tmp_path, cloud, "r")
    await r.open()
    await r.consent(toy.consent(r.plan, "agents"))
    running = asyncio.ensure_future(r.run())
    async with asyncio.timeout(5):
        # The file is watched; what is on it reaches the phases that wait a moment later.
        while "agents" not in statuses(tmp_path) or r.busy():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert r.waiting() == ["clusters"]
    assert "mk8s-1" in cloud.read()["things"]
    await r.consent(toy.consent(r.plan, "clusters"))
    await r.consent(toy.consent(r.plan, "bucket"))
    assert await running == 0


async def test_a_dry_run_looks_and_guards_and_changes_nothing(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    r = toy.runner(tmp_path, cloud, "r", dry=True)
    r._journal = type(r._journal)(None, "dry", r._clock)
    await r.open()
    assert await r.run() == 0
    assert {o.verdict for o in r._journal.state.outcomes.values()} == {Verdict.READY}
    assert cloud.read()["log"] == []
    assert not (tmp_path / "journal.jsonl").read_bytes()


async def test_parts_found_live_go_and_are_proven_with_their_target(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    stray = Part(Ref("thing", "stray"), "stray", Ownership(Evidence.PART_OF, "agents/vm-1", "attached"))
    edit(cloud, lambda w: w["things"].update({"stray": {"made": "stray@1", "leaving": 0}}))

    class Finds(toy.Things):
        async def guard(self, target: Any, sight: Any) -> Any:
            cleared = await super().guard(target, sight)
            return replace(cleared, found=(stray,)) if target.id == "bkt-1" else cleared

    phases = {**toy.phases(cloud), "bucket": Finds("bucket", cloud, Tier.DATA_DIES, found=(stray,))}
    assert await run(toy.runner(tmp_path, cloud, "r", phases=phases)) == 0
    assert "stray" not in cloud.read()["things"]
    assert {o.ref.id for o in load(tmp_path / "journal.jsonl").proofs["bucket/bkt-1"]} == {"bkt-1", "stray"}


async def test_a_record_that_could_not_be_read_rules_out_completed(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    base = toy.plan()
    plan = Plan(
        base.identity,
        tuple(replace(p, unread=("credentials.yaml",)) if p.phase == "bucket" else p for p in base.phases),
    )
    assert await run(toy.runner(tmp_path, cloud, "r", plan=plan)) == 2
    assert statuses(tmp_path)["bucket"] is Status.PARTIAL


async def test_a_dead_login_pauses_the_whole_run_until_there_is_a_new_one(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    edit(cloud, lambda w: w["deaf"].update({"vm-1": "unauthenticated", "mk8s-1": "unauthenticated"}))
    asked = 0

    async def login() -> Unknown | None:
        nonlocal asked
        asked += 1
        if asked < 3:
            return Unknown(Cause.UNAUTHENTICATED, "token expired")
        edit(cloud, lambda w: w["deaf"].clear())
        return None

    assert await run(toy.runner(tmp_path, cloud, "r", login=login)) == 0
    newest = [e.event for e, _ in read(tmp_path / "journal.jsonl")]
    said = [e.what for e in newest if isinstance(e, Noted) and e.subject == "run"]
    assert said == ["paused", "unpaused"]


async def test_a_login_that_stays_dead_ends_the_run_with_nothing_changed_after(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    names = ["vm-1", "vm-2", "mk8s-1", "mk8s-2", "bkt-1"]
    edit(cloud, lambda w: w["deaf"].update(dict.fromkeys(names, "unauthenticated")))

    async def login() -> Unknown | None:
        return Unknown(Cause.UNAUTHENTICATED, "token expired")

    r = toy.runner(tmp_path, cloud, "r", login=login, pace=Pace(patience=20.0))
    assert await run(r) == 2
    assert cloud.read()["log"] == []
    assert {o.reason for o in outcomes(tmp_path).values()} == {Reason.NEEDS_LOGIN}


async def test_one_source_that_refuses_us_does_not_pause_the_others(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    edit(cloud, lambda w: w["deaf"].update({"vm-1": "unauthenticated"}))

    async def login() -> Unknown | None:
        return None

    assert await run(toy.runner(tmp_path, cloud, "r", login=login)) == 2
    got = outcomes(tmp_path)
    assert got["agents/vm-1"].verdict is Verdict.UNKNOWN
    assert got["clusters/mk8s-1"].verdict is Verdict.DONE


async def test_phase_ended_is_on_disk_before_a_dependant_begins(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    await run(toy.runner(tmp_path, cloud, "r"))
    order = [e.event for e, _ in read(tmp_path / "journal.jsonl")]
    began = next(
        i
        for i, e in enumerate(order)
        if isinstance(e, Noted) and (e.subject, e.what) == ("bucket", "phase_began")
    )
    ended = {e.phase: i for i, e in enumerate(order) if isinstance(e, PhaseEnded)}
    assert ended["agents"] < began
    assert ended["clusters"] < began
    assert all(i < ended["bucket"] for i, e in enumerate(order) if isinstance(e, Proven))


async def test_phases_without_targets_need_nobody(tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    base = toy.plan()
    empty = Plan(base.identity, (PhasePlan("agents"), PhasePlan("clusters"), PhasePlan("bucket")))
    r = toy.runner(tmp_path, cloud, "r", plan=empty)
    await r.open()
    assert await r.run() == 0
