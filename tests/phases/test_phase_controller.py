"""Phase controller: one owner, the exact cluster, a drained queue; proven by pods; leaks are deleted by uid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cluster_cloud import (
    ALIAS,
    CLUSTER,
    CONTEXT,
    OTHER,
    OTHER_ALIAS,
    PROJECT,
    ROW,
    SERVER,
    Cloud,
    Home,
    World,
    job,
    only,
    pod,
    thing,
)

from engine.clouds.skypilot import Queue, SkyCluster
from engine.home.controller_owner import ControllerOwner
from engine.phases.controller import Facts, decide, presence_of_controller, rows_at
from engine.phases.controller_place import Place, Seen, endpoint_problem
from engine.words.outcomes import Verdict
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part
from engine.words.presence import Absent, Cause, Observation, Present, Ref, Unknown
from engine.words.reasons import Reason, Refusal

DOWN = Unknown(Cause.UNREACHABLE, "no server")
PLACE = Place(PROJECT, CLUSTER, CONTEXT, "/x/kubeconfig", CONTEXT)
OWNER = ControllerOwner("skypilot.controller_owner", ALIAS, PROJECT, CLUSTER, CONTEXT)
RESOURCE = thing("cluster", CLUSTER, name=CONTEXT)
THERE = Observation(RESOURCE.ref, RESOURCE.presence, "t", "nebius")
GONE = Observation(RESOURCE.ref, Absent(), "t", "nebius")
PART = Part(
    Ref("controller", CLUSTER), "jobs-controller", Ownership(Evidence.ATTESTATION, "config.yaml", "x")
)
FACTS = Facts(
    part=PART,
    project_id=PROJECT,
    place=PLACE,
    owner=OWNER,
    seen=Seen(THERE, RESOURCE, pods=(pod("head", "u1"),)),
    queue=Queue(()),
    mine=(),
    others=(),
    rows=(ROW,),
    rows_gap=None,
    command="npa skypilot cleanup-controller",
)
LEAK = replace(FACTS, rows=(), queue=Queue((), controller_absent=True))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (FACTS, None),
        (replace(FACTS, part=replace(PART, owned=NOT_PROVEN)), Reason.NOT_OWNED),
        (replace(FACTS, owner=None), Reason.NOT_OWNED),
        (replace(FACTS, owner=Unknown(Cause.MALFORMED, "two owners")), Reason.RECORD_UNREADABLE),
        (replace(FACTS, owner=replace(OWNER, project_id=OTHER, project_alias=OTHER_ALIAS)), Reason.SHARED),
        (replace(FACTS, owner=replace(OWNER, cluster_id="mk8scluster-e00new")), Reason.SHARED),
        (replace(FACTS, owner=replace(OWNER, project_alias="renamed")), None),
        (replace(FACTS, seen=replace(FACTS.seen, gap=DOWN)), Reason.CANNOT_SEE),
        (replace(FACTS, place=replace(PLACE, name="another")), Reason.WRONG_IDENTITY),
        (replace(FACTS, queue=Queue((), DOWN)), Reason.CANNOT_SEE),
        (replace(FACTS, mine=("job 7 r1 (RUNNING)",)), Reason.NOT_DRAINED),
        (replace(FACTS, others=("job 4 v1 (RUNNING) of user alice, project vision",)), Reason.FOREIGN_JOBS),
        (replace(FACTS, rows_gap=DOWN), Reason.CANNOT_SEE),
        (replace(FACTS, rows=()), Reason.SHARED),
        (LEAK, None),
        (
            replace(LEAK, seen=replace(FACTS.seen, pods=(pod("head", "u1"), pod("worker", "u2", "")))),
            Reason.NOT_DRAINED,
        ),
    ],
)
def test_decide(facts: Facts, reason: Reason | None) -> None:
    decided = decide(facts)
    assert (decided.reason if isinstance(decided, Refusal) else None) is reason
    if isinstance(decided, Refusal):
        assert decided.sentence
        assert decided.next_command


def test_a_refusal_names_the_jobs_users_and_projects() -> None:
    refusal = decide(replace(FACTS, others=("job 4 v1 (RUNNING) of user alice, project vision",)))
    assert isinstance(refusal, Refusal)
    assert "alice" in refusal.sentence
    assert "vision" in refusal.sentence


def test_what_goes_is_named_by_uid() -> None:
    through_sky, leak = decide(FACTS), decide(LEAK)
    assert not isinstance(through_sky, Refusal)
    assert not isinstance(leak, Refusal)
    assert (through_sky.facts.rows, through_sky.facts.pods) == ((ROW,), ())
    assert [p.ref for p in through_sky.found] == [Ref("pod", "u1")]
    assert (leak.facts.rows, leak.facts.pods) == ((), (Ref("pod", "u1"),))
    assert leak.touches[0].startswith("!")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Seen(GONE), Absent()),
        (Seen(GONE, gap=DOWN), DOWN),
        (Seen(THERE, RESOURCE), Absent()),
        (Seen(THERE, RESOURCE, gap=DOWN), DOWN),
        (Seen(THERE, RESOURCE, pods=(pod("worker", "u2", ""),)), Absent()),
        (Seen(THERE, RESOURCE, pods=(pod("x", "u", "another-cluster"),)), Absent()),
    ],
)
def test_it_is_gone_when_its_cluster_is_or_no_pod_of_it_is_there(seen: Seen, expected: object) -> None:
    assert presence_of_controller(CLUSTER, seen) == expected


def test_a_terminating_pod_is_present_and_leaving() -> None:
    pods = (pod("head", "u1", leaving=True), pod("standby", "u2"))
    both = presence_of_controller(CLUSTER, Seen(THERE, RESOURCE, pods=pods))
    last = presence_of_controller(CLUSTER, Seen(THERE, RESOURCE, pods=pods[:1]))
    assert isinstance(both, Present)
    assert isinstance(last, Present)
    assert (both.leaving, last.leaving) == (False, True)
    assert both.fingerprint == last.fingerprint


def test_vms_of_a_cluster_that_is_gone_are_waited_for() -> None:
    seen = presence_of_controller(CLUSTER, Seen(GONE, nodes=(thing("instance", "vm"),)))
    assert isinstance(seen, Present)
    assert seen.leaving


@pytest.mark.parametrize(
    ("context", "found"),
    [("x", True), ("k8s/x", True), ("kubernetes/x", True), ("x-old", False), ("", False), ("xx", False)],
)
def test_a_row_is_of_exactly_this_context(context: str, found: bool) -> None:
    rows = (SkyCluster(ROW, "UP", context, "Kubernetes", ROW, ""), SkyCluster("train", "UP", "x", "", "", ""))
    assert rows_at(rows, "x") == ((ROW,) if found else ())


@pytest.mark.parametrize(
    ("endpoint", "server", "cause"),
    [
        ("https://203.0.113.5:443", "https://203.0.113.5", None),
        ("203.0.113.5", "https://203.0.113.5:443", None),
        ("https://203.0.113.5:443", "https://203.0.113.6", Cause.WRONG_SCOPE),
        ("https://127.0.0.1:4001", "https://127.0.0.1:4002", Cause.WRONG_SCOPE),
        ("", "https://203.0.113.5", Cause.UNREACHABLE),
    ],
)
def test_a_context_counts_only_with_the_clusters_own_server(
    endpoint: str, server: str, cause: Cause | None
) -> None:
    problem = endpoint_problem(thing("cluster", CLUSTER, endpoint=endpoint), server, "", CONTEXT)
    assert (problem.cause if problem else None) is cause


def test_a_context_with_another_certificate_is_another_cluster() -> None:
    cluster = thing("cluster", CLUSTER, endpoint=SERVER, ca_fingerprint="aa")
    assert endpoint_problem(cluster, SERVER, "aa", CONTEXT) is None
    assert endpoint_problem(cluster, SERVER, "", CONTEXT) is None
    assert endpoint_problem(cluster, SERVER, "bb", CONTEXT) is not None


# ---------------------------------------------------------------------------------------------------------- through the runner


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, Home(tmp_path), Cloud.with_cluster())
    made.home.owner()
    made.home.cluster()
    made.sky.cluster.listed = [pod("head", "u1")]
    return made


def test_only_the_owner_has_a_target(world: World) -> None:
    target = only(world.controller().plan(world.home.records()))
    assert target.key == f"controller/{CLUSTER}"
    assert target.parts[0].owned.field == "skypilot.controller_owner"
    assert target.detail["kubeconfig"].endswith(f"clusters/{CONTEXT}/kubeconfig")
    world.home.owner(OTHER, OTHER_ALIAS)
    assert world.controller().plan(world.home.records()).targets == ()
    world.home.config["skypilot"] = {"controller_owner": {"project_id": PROJECT}}
    plan = world.controller().plan(world.home.records())
    assert plan.targets == ()
    assert plan.unread


async def test_it_goes_through_skypilot_and_the_owner_is_cleared_after_the_proof(world: World) -> None:
    assert await world.run("controller") == 0
    assert world.sky.log == [f"down {ROW}"]
    assert world.owner() is None
    parts = {o.ref for o in world.state.proofs[f"controller/{CLUSTER}"]}
    assert parts == {Ref("controller", CLUSTER), Ref("pod", "u1")}
    assert await world.run("controller", plan=next(iter(world.state.runs.values())).plan) == 0
    assert world.sky.log == [f"down {ROW}"], "a second run changes nothing"


async def test_pods_that_skypilot_forgot_are_deleted_by_uid(world: World) -> None:
    world.sky.cluster.stuck = True
    assert await world.run("controller") == 0
    assert world.sky.log == [f"down {ROW}"]
    assert world.sky.cluster.log == ["delete pod u1"]
    assert world.owner() is None


async def test_a_record_without_pods_is_forgotten_after_the_proof(world: World) -> None:
    world.sky.cluster.listed = []
    assert await world.run("controller") == 0
    assert world.sky.log == [f"forget {ROW}"]
    assert world.owner() is None


async def test_a_record_of_another_context_is_left_alone(world: World) -> None:
    world.sky.cluster.listed, world.sky.context = [], f"{CONTEXT}-old"
    assert await world.run("controller") == 0
    assert world.sky.log == []


@pytest.mark.parametrize("cause", [Cause.DENIED, Cause.UNREACHABLE, Cause.TIMED_OUT, Cause.MALFORMED])
async def test_pods_that_cannot_be_listed_keep_everything(world: World, cause: Cause) -> None:
    world.sky.cluster.gap = Unknown(cause, "no")
    assert await world.run("controller") == 2
    assert world.outcomes[f"controller/{CLUSTER}"].verdict is Verdict.UNKNOWN
    assert world.sky.log == []
    assert isinstance(world.owner(), ControllerOwner)


async def test_a_cluster_that_is_gone_needs_no_kubernetes(world: World) -> None:
    world.cloud.things.clear()
    world.sky.cluster.gap = DOWN
    world.home.roots.clusters.joinpath(CONTEXT, "kubeconfig").unlink()
    assert await world.run("controller") == 0
    assert world.owner() is None


async def test_a_provider_that_refuses_proves_no_absence(world: World) -> None:
    world.cloud.deaf["cluster"] = Cause.DENIED
    world.sky.cluster.listed = []
    assert await world.run("controller") == 2
    assert isinstance(world.owner(), ControllerOwner)
    assert world.sky.log == []


async def test_a_kubeconfig_of_another_cluster_is_not_asked(world: World) -> None:
    world.home.cluster(server="https://198.51.100.7")
    world.sky.cluster.listed = []
    assert await world.run("controller") == 2
    assert isinstance(world.owner(), ControllerOwner)
    assert "198.51.100.7" in world.outcomes[f"controller/{CLUSTER}"].detail


async def test_live_jobs_hold_it_whoevers_they_are(world: World) -> None:
    world.home.run("v1", 4, OTHER_ALIAS)
    world.sky.jobs = [job(4, "v1", user="alice")]
    assert await world.run("controller") == 2
    got = world.outcomes[f"controller/{CLUSTER}"]
    assert (got.verdict, got.reason) == (Verdict.HELD, Reason.FOREIGN_JOBS)
    assert "alice" in got.detail
    assert world.sky.log == []


async def test_a_rebind_after_the_plan_is_respected(world: World) -> None:
    plan = world.plan("controller")
    world.home.owner(OTHER, OTHER_ALIAS)
    world.home.records()
    assert await world.run("controller", plan=plan) == 2
    assert world.outcomes[f"controller/{CLUSTER}"].reason is Reason.SHARED
    assert world.sky.log == []


async def test_skypilot_that_cannot_be_read_afterwards_leaves_its_record_as_residue(world: World) -> None:
    world.sky.cluster.listed, world.sky.gap = [], DOWN
    assert await world.run("controller") == 2
    got = world.outcomes[f"controller/{CLUSTER}"]
    assert got.verdict is Verdict.DONE
    assert "record could not be read" in got.residue
    assert isinstance(world.owner(), ControllerOwner)


async def test_without_skypilot_there_is_no_record_to_converge(world: World) -> None:
    world.sky.cluster.listed, world.sky.gap = [], Unknown(Cause.NO_CLIENT, "not installed")
    assert await world.run("controller") == 0
    assert world.owner() is None


async def test_workflows_then_controller(world: World) -> None:
    world.home.run("r1", 7)
    world.sky.jobs = [job(7, "r1")]
    assert await world.run("workflows", "controller") == 0
    assert world.sky.log == ["cancel 7", f"down {ROW}"]


async def test_a_dry_run_changes_nothing(world: World) -> None:
    world.home.run("r1", 7)
    assert await world.run("workflows", "controller", dry=True) == 0
    assert world.sky.log == []
    assert isinstance(world.owner(), ControllerOwner)
