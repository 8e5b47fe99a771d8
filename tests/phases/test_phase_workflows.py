"""Phase workflows: which jobs are a run's, what proves that it is over, and that nobody else's job is ever touched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import cluster_cloud as cc
import pytest
from cluster_cloud import ALIAS, OTHER_ALIAS, PROJECT, Cloud, Home, Sky, World, job, pod, thing
from hypothesis import given
from hypothesis import strategies as st

from engine.clouds.skypilot import Job, Queue
from engine.home.records import gather
from engine.home.roots import roots
from engine.home.runs import scope
from engine.phases.controller_place import Seen
from engine.phases.jobs import Claim, Claims, Match, attribute, match
from engine.phases.workflows import (
    Facts,
    Reading,
    decide,
    presence_of_queue,
    presence_of_run,
    reading,
)
from engine.words.outcomes import Verdict
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part
from engine.words.presence import Absent, Cause, Observation, Present, Ref, Unknown
from engine.words.reasons import Reason, Refusal

OURS = Ownership(Evidence.CREATE_RESPONSE, "workflow-submissions/demo/r1.json", "launch.sky_job_id")
DOWN = Unknown(Cause.UNREACHABLE, "no server")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, Home(tmp_path), Cloud.with_cluster())


# -------------------------------------------------------------------------------------------------------------- matching

R1 = Claim("r1", ALIAS, (7,), "r1")


@pytest.mark.parametrize(
    ("claim", "there", "expected"),
    [
        (R1, job(7, "r1"), Match.SAME),
        (R1, job(8, "r1"), Match.SAME),
        (R1, job(7, "another"), Match.CONTRADICTED),
        (R1, job(8, "another"), Match.NONE),
        (R1, job(8, "r1-suffix"), Match.NONE),
        (Claim("r1", ALIAS, (7,)), job(7, "another"), Match.SAME),
        (Claim("r1", ALIAS, (), "job-of-r1"), job(3, "job-of-r1"), Match.SAME),
        (Claim("a_b.c", ALIAS), job(3, "a_b.c"), Match.SAME),
        (Claim("r1", ALIAS, never_launched=True), job(7, "r1"), Match.NONE),
        (
            Claim("r1", ALIAS),
            Job(5, 0, "group", "RUNNING", False, "u", "w", "", task_names=("r1",)),
            Match.SAME,
        ),
    ],
)
def test_a_job_is_a_runs_by_id_or_exact_name(claim: Claim, there: Job, expected: Match) -> None:
    assert match(claim, there) is expected


def test_live_jobs_are_sorted_by_whose_they_are() -> None:
    claims = Claims(own=(R1, Claim("r2", ALIAS, (9,), "r2")), others=(Claim("v1", OTHER_ALIAS, (4,), "v1"),))
    jobs = [
        job(7, "r1"), job(8, "r1", "PENDING"), job(9, "stolen"), job(4, "v1", user="alice"), job(5, "x", user="eve"),
        job(6, "r1", "SUCCEEDED"),
    ]  # fmt: skip
    found = attribute(jobs, claims)
    assert {run: [j.id for j in some] for run, some in found.own.items()} == {"r1": [7, 8]}
    assert [(project, j.id) for project, j in found.foreign] == [(OTHER_ALIAS, 4)]
    assert [j.id for j in found.nobodys] == [9, 5]
    assert list(found.unclear) == ["r2"]
    assert found.of_others[0] == "job 4 v1 (RUNNING) of user alice, project vision"
    assert "user eve" in found.of_others[2]


def test_a_job_that_two_projects_claim_is_nobodys_to_cancel() -> None:
    claims = Claims(own=(R1,), others=(Claim("r1", OTHER_ALIAS, (7,), "r1"),))
    found = attribute([job(7, "r1")], claims)
    assert not found.own
    assert OTHER_ALIAS in found.unclear["r1"]


@given(
    st.lists(
        st.builds(
            job,
            st.integers(1, 12),
            st.sampled_from(["r1", "r2", "v1", "x"]),
            st.sampled_from(["RUNNING", "BRAND_NEW_STATUS", "SUCCEEDED", "CANCELLING"]),
        )
    )
)
def test_no_job_is_both_ours_and_anothers_and_none_that_is_over_counts(jobs: list[Job]) -> None:
    claims = Claims((R1, Claim("r2", ALIAS)), (Claim("v1", OTHER_ALIAS, (7,), "v1"),))
    found = attribute(jobs, claims)
    own = {id(j) for some in found.own.values() for j in some}
    assert not own & {id(j) for _, j in found.foreign} | own & {id(j) for j in found.nobodys}
    counted = own | {id(j) for _, j in found.foreign} | {id(j) for j in found.nobodys}
    assert counted <= {id(j) for j in jobs if not j.terminal}


# --------------------------------------------------------------------------------------------------------------- evidence

CLUSTER_GONE = Seen(
    Observation(Ref("cluster", "c"), Absent(), "t", "nebius"), at="t", by="cluster absent: nebius"
)
RESOURCE = thing("cluster", "c")
THERE = Observation(Ref("cluster", "c"), RESOURCE.presence, "t", "nebius")


@pytest.mark.parametrize(
    ("queue", "seen", "expected"),
    [
        (Queue((job(7, "r1"),)), None, "present"),
        (Queue((job(7, "r1", "SUCCEEDED"),)), None, "absent"),
        (Queue((job(7, "r1", "SOME_NEW_WORD"),)), None, "present"),
        (Queue((), controller_absent=True), None, "absent"),
        (Queue((), DOWN), None, "unknown"),
        (Queue((job(8, "x"),), DOWN), None, "unknown"),
        (Queue((), DOWN), CLUSTER_GONE, "absent"),
        (
            Queue((), DOWN),
            Seen(CLUSTER_GONE.cluster, nodes=(thing("instance", "vm"),), at="t", by="b"),
            "unknown",
        ),
        (Queue((), DOWN), Seen(CLUSTER_GONE.cluster, gap=DOWN), "unknown"),
        (Queue((), DOWN), Seen(THERE, RESOURCE), "absent"),
        (Queue((), DOWN), Seen(THERE, RESOURCE, pods=(pod("p", "u"),)), "unknown"),
        (Queue((), DOWN), Seen(THERE, RESOURCE, gap=Unknown(Cause.DENIED, "no")), "unknown"),
        (Queue((job(7, "renamed"),)), None, "unknown"),
        (Queue((job(7, "renamed", "CANCELLED"),)), None, "absent"),
    ],
)
def test_what_proves_that_a_run_is_over(queue: Queue, seen: Seen | None, expected: str) -> None:
    assert presence_of_run("r1", reading(queue, seen, Claims((R1,)))).type == expected


def test_the_queue_is_gone_when_no_live_job_of_the_project_is_left_over() -> None:
    claims = Claims((R1, Claim("later", ALIAS)), (Claim("v1", OTHER_ALIAS),))
    read = reading(Queue((job(7, "r1"), job(9, "v1"), job(10, "nobody"))), None, claims)
    assert presence_of_queue(PROJECT, frozenset({"r1"}), read) == Absent()
    read = reading(Queue((job(7, "r1"), job(11, "later"))), None, claims)
    assert presence_of_queue(PROJECT, frozenset({"r1"}), read) == Present(PROJECT, "job 11 RUNNING")


def test_the_fingerprint_of_a_run_survives_its_jobs_progress() -> None:
    two = presence_of_run("r1", reading(Queue((job(7, "r1"), job(8, "r1", "PENDING"))), None, Claims((R1,))))
    one = presence_of_run("r1", reading(Queue((job(8, "r1", "CANCELLING"),)), None, Claims((R1,))))
    assert isinstance(two, Present)
    assert isinstance(one, Present)
    assert two.fingerprint == one.fingerprint
    assert (two.state, two.leaving) == ("job 7 RUNNING, job 8 PENDING", False)
    assert one.leaving


PART = Part(Ref("run", "r1"), "r1", OURS)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (
            Facts(Part(Ref("run", "r1"), "r1", NOT_PROVEN), (job(7, "r1"),), None, "", (), "x"),
            Reason.NOT_OWNED,
        ),
        (Facts(PART, (), DOWN, "", (), "x"), Reason.CANNOT_SEE),
        (Facts(PART, (), None, "two projects claim it", (), "x"), Reason.UNVERIFIED),
        (Facts(PART, (job(7, "r1"),), None, "", (), "x"), None),
    ],
)
def test_decide(facts: Facts, reason: Reason | None) -> None:
    decided = decide(facts)
    assert (decided.reason if isinstance(decided, Refusal) else None) is reason
    if isinstance(decided, Refusal):
        assert decided.sentence
        assert decided.next_command


def test_jobs_that_are_leaving_are_not_asked_again_and_others_are_named() -> None:
    facts = Facts(
        PART, (job(9, "r1"), job(7, "r1"), job(8, "r1", "CANCELLING")), None, "", ("job 4 of user alice",), ""
    )
    cleared = decide(facts)
    assert not isinstance(cleared, Refusal)
    assert cleared.facts.job_ids == (7, 9)
    assert cleared.touches == ("! job 4 of user alice: not touched",)


def test_nothing_is_concluded_from_an_empty_reading_with_a_gap() -> None:
    assert presence_of_run("r1", Reading(gap=DOWN)) is DOWN
    assert presence_of_queue(PROJECT, frozenset(), Reading(gap=DOWN)) is DOWN


# --------------------------------------------------------------------------------------------------------------- planning


def test_a_target_for_each_ledger_and_one_for_the_queue(world: World) -> None:
    world.home.run("r1", 7)
    world.home.run("never")
    world.home.run("v1", 4, OTHER_ALIAS)
    world.home.owner()
    plan = world.workflows().plan(world.home.records())
    assert [t.key for t in plan.targets] == ["workflows/never", "workflows/r1", "workflows/queue"]
    never, r1, queue = plan.targets
    assert never.detail["launched"] == "never"
    assert (r1.detail["launched"], r1.detail["sky_job_id"]) == ("yes", "7")
    assert r1.parts[0].owned.record == "workflow-submissions/demo/r1.json"
    assert queue.parts[0].ref == Ref("job_queue", PROJECT)
    assert queue.detail["cluster_id"] == cc.CLUSTER
    assert plan.unread == ()


def test_without_launches_and_controller_there_is_no_queue_to_ask(world: World) -> None:
    assert world.workflows().plan(world.home.records()).targets == ()
    world.home.run("never")
    assert [t.key for t in world.workflows().plan(world.home.records()).targets] == ["workflows/never"]


def test_a_run_record_without_a_ledger_counts_unless_its_end_was_verified(world: World) -> None:
    def record(workflow: str, run: str, state: str, status: str) -> None:
        folder = world.home.roots.runs / scope(PROJECT)
        world.home.json(
            folder / f"{workflow}.json",
            {"schema_version": "npa.workflow.first-run.v1", "run_id": run, "project_identity": PROJECT, "project_alias": ALIAS,
             "workflow_identity": workflow, "last_known_state": state, "last_verification_status": status},
        )  # fmt: skip

    record("a", "open", "UNKNOWN", "UNVERIFIED")
    record("b", "over", "SUCCEEDED", "VERIFIED")
    plan = world.workflows().plan(world.home.records())
    assert [t.key for t in plan.targets] == ["workflows/open", "workflows/queue"]


def test_a_broken_ledger_rules_out_completed(world: World) -> None:
    world.home.run("r1", 7)
    world.home.write(world.home.roots.submissions / ALIAS / "bad.json", "{")
    plan = world.workflows().plan(world.home.records())
    assert any("bad.json" in p for p in plan.unread)


# ---------------------------------------------------------------------------------------------------------------- running


async def test_runs_are_cancelled_by_their_ids_and_nobody_elses(world: World) -> None:
    world.home.run("r1", 7)
    world.home.run("r2", 9)
    world.home.run("never")
    world.home.run("v1", 4, OTHER_ALIAS)
    world.home.owner()
    world.sky.jobs = [
        job(7, "r1"),
        job(8, "r1", "PENDING"),
        job(9, "r2", "SUCCEEDED"),
        job(4, "v1"),
        job(5, "x"),
    ]
    assert await world.run("workflows") == 0
    assert world.sky.log == ["cancel 7 8"]
    assert {k: o.acted for k, o in world.outcomes.items()} == {
        "workflows/r1": True, "workflows/r2": False, "workflows/never": False, "workflows/queue": False,
    }  # fmt: skip
    assert [j.status for j in world.sky.jobs if j.id in (4, 5)] == ["RUNNING", "RUNNING"]


async def test_a_cancel_without_effect_is_repeated(world: World) -> None:
    world.home.run("r1", 7)
    world.sky.jobs, world.sky.deaf_cancels = [job(7, "r1")], 1
    assert await world.run("workflows") == 0
    assert world.sky.log == ["cancel 7", "cancel 7"]


async def test_a_run_that_appears_after_the_plan_is_cancelled_through_the_queue(world: World) -> None:
    world.home.run("r1", 7)
    plan = world.plan("workflows")
    world.home.run("later", 12)
    world.sky.jobs = [job(12, "later")]
    assert await world.run("workflows", plan=plan) == 0
    assert world.sky.log == ["cancel 12"]
    assert world.outcomes["workflows/queue"].acted


async def test_never_launched_runs_ask_nobody(world: World) -> None:
    world.home.run("never")
    assert await world.run("workflows") == 0
    assert world.sky.reads == 0
    proof = world.state.proofs["workflows/never"]
    assert {o.by for o in proof} == {"submission ledger workflow-submissions/demo/never.json"}
    world.home.roots.submissions.joinpath(ALIAS, "never.json").unlink()
    assert await world.run("workflows", plan=next(iter(world.state.runs.values())).plan) == 0


async def test_a_reserved_run_that_is_launched_after_the_plan_is_looked_for_in_the_queue(
    world: World,
) -> None:
    world.home.run("r1")
    plan = world.plan("workflows")
    world.home.run("r1", 7)
    world.sky.jobs = [job(7, "r1")]
    assert await world.run("workflows", plan=plan) == 0
    assert world.sky.log == ["cancel 7"]


@pytest.mark.parametrize("cause", [Cause.UNREACHABLE, Cause.NO_CLIENT, Cause.MALFORMED, Cause.DENIED])
async def test_a_queue_that_cannot_be_read_proves_nothing(world: World, cause: Cause) -> None:
    world.home.run("r1", 7)
    world.home.owner()
    world.home.cluster()
    world.sky.gap = Unknown(cause, "no")
    world.sky.cluster.listed = [pod("controller", "u1")]
    assert await world.run("workflows") == 2
    assert world.outcomes["workflows/r1"].verdict is Verdict.UNKNOWN
    assert world.sky.log == []


async def test_without_its_cluster_no_queue_can_hold_a_job(world: World) -> None:
    world.home.run("r1", 7)
    world.home.owner()
    world.sky.gap = DOWN
    world.cloud.things.clear()
    assert await world.run("workflows") == 0
    assert {o.by for o in world.state.proofs["workflows/r1"]} == {"cluster absent: cloud"}


async def test_a_stuck_controller_without_any_pod_holds_no_job(world: World) -> None:
    world.home.run("r1", 7)
    world.home.owner()
    world.home.cluster()
    world.sky.gap = Unknown(Cause.UNREACHABLE, "the controller is INIT")
    assert await world.run("workflows") == 0
    assert "no pod of SkyPilot" in world.state.proofs["workflows/r1"][0].by


async def test_many_runs_share_their_reads(world: World) -> None:
    for n in range(60):
        world.home.run(f"run-{n:02}", n)
    assert await world.run("workflows") == 0
    assert world.sky.reads < 10, "two sights of sixty runs and of the queue"


def test_a_recorded_state_plans_as_it_should(states: Path, tmp_path: Path) -> None:
    subprocess.run([str(states / "materialize"), "full", str(tmp_path)], check=True, capture_output=True)
    records = gather(roots({"HOME": str(tmp_path)}), "project-e00demo", "demo")
    world = World(tmp_path, Home(tmp_path), Cloud(), Sky())
    plan = world.workflows().plan(records)
    launched = {t.key: t.detail.get("launched") for t in plan.targets}
    assert launched == {
        "workflows/paidf-20261201-aaaaaa": "never",
        "workflows/paidf-20261201-bbbbbb": "yes",
        "workflows/queue": None,
    }
