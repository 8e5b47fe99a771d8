"""Phase clusters: what is planned and why it is ours, what holds it, Terraform or ids, the order, and what is tidied."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cluster_cloud import (
    ACCOUNT,
    ALIAS,
    CLUSTER,
    CONTEXT,
    DISK,
    GROUP,
    NETWORK,
    NODE,
    OTHER,
    OTHER_ALIAS,
    PROJECT,
    SUBNET,
    Cloud,
    Home,
    World,
    job,
    only,
    pod,
    row,
    state,
    state_block,
    thing,
)

from engine.clouds.skypilot import Queue
from engine.clouds.terraform import Kind, ModuleFacts, StateResource, StateView, TerraformTrouble
from engine.home.controller_owner import ControllerOwner
from engine.phases.clusters.decision import Facts, Going, Way, decide, due, way_of
from engine.phases.clusters.finding import Found, sort_out
from engine.phases.clusters.modules import Module, read_module, residual_problem
from engine.phases.controller_place import Seen
from engine.words.identity import Identity
from engine.words.outcomes import Verdict
from engine.words.phases import PHASES
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part, Plan, Target
from engine.words.presence import Absent, Cause, Observation, Present, Ref, Resource, Unknown
from engine.words.reasons import Reason, Refusal
from engine.words.trouble import Trouble

KEY = f"clusters/{CLUSTER}"
OURS = Ownership(Evidence.CREATE_RESPONSE, "operations/cluster-demo-0001/journal.json", "resources[0]")
DOWN = Unknown(Cause.UNREACHABLE, "no server")


def target(*refs: tuple[str, str], owned: Ownership = OURS, **detail: str) -> Target:
    parts = tuple(Part(Ref(*r), r[1], owned) for r in refs or ((("cluster", CLUSTER)),))
    known = {"project": ALIAS, "project_id": PROJECT, "context": CONTEXT, "operation_id": "cluster-demo-0001"}
    return Target(KEY, CONTEXT, parts, {**known, "backend": "local-state", **detail})


def sight(*there: str, leaving: Sequence[str] = (), gone: Sequence[str] = ()) -> tuple[Observation, ...]:
    kinds = {
        CLUSTER: "cluster",
        NETWORK: "network",
        SUBNET: "subnet",
        ACCOUNT: "service_account",
        NODE: "instance",
        DISK: "disk",
        GROUP: "node_group",
    }
    seen = [Observation(Ref(kinds[i], i), Present(i, "RUNNING"), "t", "x") for i in there]
    seen += [Observation(Ref(kinds[i], i), Present(i, "DELETING", leaving=True), "t", "x") for i in leaving]
    return (*seen, *(Observation(Ref(kinds[i], i), Absent(), "t", "x") for i in gone))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, Home(tmp_path), Cloud.with_cluster())


# --------------------------------------------------------------------------------------------------------------- planning


def test_a_saved_cluster_and_its_operation_are_one_target(world: World) -> None:
    world.home.cluster()
    world.home.journal()
    found = only(world.clusters().plan(world.home.records()))
    assert found.key == KEY
    assert [p.ref for p in found.parts] == [
        Ref("cluster", CLUSTER),
        Ref("network", NETWORK),
        Ref("subnet", SUBNET),
        Ref("service_account", ACCOUNT),
    ]
    assert all(
        p.owned.evidence is Evidence.CREATE_RESPONSE and p.owned.record.startswith("operations/")
        for p in found.parts
    )
    assert found.detail["operation_id"] == "cluster-demo-0001"
    assert found.detail["terraform_dir"] == str(world.home.module)
    assert found.detail["managed_by"] == "npa cluster terraform"


def test_a_saved_cluster_alone_is_proven_by_its_terraform_record(world: World) -> None:
    world.home.cluster()
    found = only(world.clusters().plan(world.home.records()))
    assert [(p.ref.id, p.owned.record) for p in found.parts] == [
        (CLUSTER, f"clusters/{CONTEXT}/cluster.json")
    ]
    assert "operation_id" not in found.detail


@pytest.mark.parametrize("managed_by", ["npa fleet", "npa cluster", "something new", None])
def test_other_managers_prove_nothing_but_are_planned(world: World, managed_by: str | None) -> None:
    world.home.cluster(managed_by=managed_by)
    found = only(world.clusters().plan(world.home.records()))
    assert not found.parts[0].owned


def test_what_an_operation_found_already_there_is_not_ours(world: World) -> None:
    world.home.cluster()
    world.home.journal(
        row("managed_kubernetes_cluster", CLUSTER, "pre_existing"), row("network", NETWORK, "adopted")
    )
    found = only(world.clusters().plan(world.home.records()))
    assert [(p.ref.id, bool(p.owned)) for p in found.parts] == [(CLUSTER, False)]


@pytest.mark.parametrize(
    ("phase", "more", "targets"),
    [
        ("committed", {}, 1),
        ("recovery-required", {}, 1),
        ("rollback-incomplete", {}, 1),
        ("destroyed", {}, 0),
        ("rolled-back", {"rollback": {"completed": True}}, 0),
        ("rolled-back", {"rollback": {"completed": False}}, 1),
    ],
)
def test_operations_that_were_undone_are_no_targets(
    world: World, phase: str, more: dict[str, Any], targets: int
) -> None:
    world.home.journal(phase=phase, **more)
    assert len(world.clusters().plan(world.home.records()).targets) == targets


def test_an_operation_that_died_before_its_cluster_is_still_a_target(world: World) -> None:
    world.home.journal(row("network", NETWORK), row("subnet", SUBNET), phase="recovery-required")
    found = only(world.clusters().plan(world.home.records()))
    assert found.key == f"clusters/{NETWORK}"
    assert [p.ref.id for p in found.parts] == [NETWORK, SUBNET]


def test_what_was_created_and_has_no_recorded_id_rules_out_completed(world: World) -> None:
    world.home.journal(
        row("managed_kubernetes_cluster", CLUSTER), row("subnet", ""), backend={"kind": "local-state"}
    )
    plan = world.clusters().plan(world.home.records())
    assert any("subnet" in line and "resources[1]" in line for line in plan.unread)


def test_an_apply_that_left_no_id_rules_out_completed(world: World) -> None:
    world.home.config["projects"][ALIAS]["kubernetes"] = {"context": CONTEXT}
    inventory = {
        "version": 1,
        "kind": "cluster-terraform-inventory",
        "context": CONTEXT,
        "terraform_dir": "/nowhere",
    }
    world.home.json(world.home.roots.clusters / CONTEXT / "terraform-lifecycle.json", inventory)
    plan = world.clusters().plan(world.home.records())
    assert plan.targets == ()
    assert any("terraform-lifecycle.json" in line for line in plan.unread)


def test_two_generations_of_one_operation_are_two_targets(world: World) -> None:
    world.home.journal(
        row("managed_kubernetes_cluster", "mk8scluster-e00old"),
        row("managed_kubernetes_cluster", CLUSTER),
        row("network", NETWORK),
    )
    targets = world.clusters().plan(world.home.records()).targets
    assert {t.id: [p.ref.id for p in t.parts] for t in targets} == {
        "mk8scluster-e00old": ["mk8scluster-e00old"],
        CLUSTER: [CLUSTER, NETWORK],
    }


# --------------------------------------------------------------------------------------------------------------- deciding

FACTS = ModuleFacts((), False, "", "", False, ())
MODULE = Module("/module", FACTS, state(CLUSTER))
RESOURCE = thing("cluster", CLUSTER, name=CONTEXT)
READ = Facts(target(), sight(CLUSTER), RESOURCE, MODULE)
OWNER = ControllerOwner("skypilot.controller_owner", ALIAS, PROJECT, CLUSTER, CONTEXT)
ON_IT = Seen(
    Observation(RESOURCE.ref, RESOURCE.presence, "t", "n"), RESOURCE, pods=(pod("controller", "u1"),)
)
OWNED = replace(READ, owner=OWNER, seen=ON_IT, queue=Queue(()))
LOCKED = thing("disk", DISK, forbid_deletion="1")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (READ, None),
        (replace(READ, target=target(managed_by="npa cluster terraform")), None),
        (replace(READ, target=target(managed_by="npa fleet")), Reason.NOT_OWNED),
        (replace(READ, target=target(managed_by="npa cluster shared-mk8s-backend")), Reason.NOT_OWNED),
        (replace(READ, target=target(managed_by="npa cluster")), Reason.NOT_OWNED),
        (replace(READ, target=target(managed_by="missing")), Reason.NOT_OWNED),
        (replace(READ, target=target(managed_by="somebody")), Reason.NOT_OWNED),
        (replace(READ, target=target(owned=NOT_PROVEN)), Reason.NOT_OWNED),
        (replace(READ, target=target(cluster_name="other")), Reason.WRONG_IDENTITY),
        (replace(READ, target=target(cluster_name=CONTEXT)), None),
        (replace(READ, wrong_context=Unknown(Cause.WRONG_SCOPE, "another host")), Reason.WRONG_IDENTITY),
        (replace(READ, wrong_context=Unknown(Cause.UNREACHABLE, "no endpoint")), None),
        (replace(READ, owner=replace(OWNER, project_id=OTHER, project_alias=OTHER_ALIAS)), Reason.SHARED),
        (replace(READ, owner=replace(OWNER, project_id=OTHER, cluster_id="mk8scluster-e00other")), None),
        (replace(READ, owner=Unknown(Cause.MALFORMED, "broken")), Reason.RECORD_UNREADABLE),
        (OWNED, None),
        (replace(OWNED, queue=Queue((), DOWN)), Reason.CANNOT_SEE),
        (replace(OWNED, mine=("job 7",)), Reason.NOT_DRAINED),
        (replace(OWNED, others=("job 4 of alice",)), Reason.FOREIGN_JOBS),
        (replace(OWNED, seen=replace(ON_IT, pods=()), queue=Queue((), DOWN)), None),
        (replace(READ, found=Found(gap=DOWN)), Reason.CANNOT_SEE),
        (
            replace(
                READ, found=Found(disks=(LOCKED,), owned={LOCKED.ref: Ownership(Evidence.PART_OF, "x", "y")})
            ),
            Reason.PROTECTED,
        ),
        (
            replace(
                READ,
                module=replace(
                    MODULE,
                    state=state(
                        CLUSTER,
                        resources=[
                            StateResource("d.x", "nebius_x", "x", "d", {"deletion_protection": "true"})
                        ],
                    ),
                ),
            ),
            Reason.PROTECTED,
        ),
    ],
)
def test_decide(facts: Facts, reason: Reason | None) -> None:
    decided = decide(facts)
    assert (decided.reason if isinstance(decided, Refusal) else None) is reason
    if isinstance(decided, Refusal):
        assert decided.sentence
        assert decided.next_command


def test_the_command_that_handles_another_manager_is_named() -> None:
    refusal = decide(replace(READ, target=target(managed_by="npa fleet")))
    assert isinstance(refusal, Refusal)
    assert refusal.next_command == "npa fleet destroy"


SAVED_ONLY = target(operation_id="", backend="")
REMAINS = state(
    resources=[
        StateResource("g.cpu", "nebius_mk8s_v1_node_group", "cpu", "g-1", {"parent_id": CLUSTER}),
    ]
)
FOREIGN = state(resources=[StateResource("n.x", "nebius_vpc_v1_network", "x", "n-1", {"parent_id": OTHER})])


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (READ, Way.TERRAFORM),
        (replace(READ, target=SAVED_ONLY), Way.TERRAFORM),
        (replace(READ, module=replace(MODULE, state=state("mk8scluster-e00b"))), Reason.NOT_OWNED),
        (replace(READ, module=replace(MODULE, state=state(CLUSTER, "mk8scluster-e00b"))), Reason.NOT_OWNED),
        (replace(READ, module=replace(MODULE, state=state())), Way.PROVIDER),
        (replace(READ, module=replace(MODULE, state=state()), target=SAVED_ONLY), Reason.NOT_OWNED),
        (replace(READ, module=replace(MODULE, state=None)), Way.PROVIDER),
        (replace(READ, module=replace(MODULE, state=None), target=SAVED_ONLY), Way.TERRAFORM),
        (replace(READ, module=replace(MODULE, state=None), target=target(backend="")), Way.TERRAFORM),
        (
            replace(
                READ,
                module=replace(MODULE, state=None),
                target=SAVED_ONLY,
                sight=sight(NETWORK, gone=[CLUSTER]),
            ),
            Reason.NOT_OWNED,
        ),
        (
            replace(READ, module=replace(MODULE, state=Unknown(Cause.MALFORMED, "not JSON"))),
            Reason.RECORD_UNREADABLE,
        ),
        (
            replace(READ, module=replace(MODULE, facts=Unknown(Cause.MALFORMED, "no HCL"))),
            Reason.RECORD_UNREADABLE,
        ),
        (
            replace(READ, module=replace(MODULE, facts=replace(FACTS, pins_iam_token=True))),
            Reason.PREFLIGHT_FAILED,
        ),
        (replace(READ, module=Module("/gone")), Way.PROVIDER),
        (replace(READ, module=Module(""), target=SAVED_ONLY), Reason.NOT_OWNED),
        (
            replace(
                READ,
                module=replace(MODULE, state=REMAINS),
                target=SAVED_ONLY,
                sight=sight(NETWORK, gone=[CLUSTER]),
            ),
            Way.TERRAFORM,
        ),
        (replace(READ, module=replace(MODULE, state=REMAINS), target=SAVED_ONLY), Reason.NOT_OWNED),
        (
            replace(READ, module=replace(MODULE, state=FOREIGN), sight=sight(NETWORK, gone=[CLUSTER])),
            Way.PROVIDER,
        ),
        (
            replace(
                READ,
                module=replace(MODULE, state=FOREIGN),
                target=SAVED_ONLY,
                sight=sight(NETWORK, gone=[CLUSTER]),
            ),
            Reason.NOT_OWNED,
        ),
    ],
)
def test_terraform_or_ids(facts: Facts, expected: Way | Reason) -> None:
    way = way_of(facts)
    assert (way.reason if isinstance(way, Refusal) else way) is expected


def resource(kind: str, id: str = "x-1", **attrs: str) -> StateResource:
    return StateResource(f"{kind}.x", kind, "x", id, attrs)


@pytest.mark.parametrize(
    ("resources", "accepted"),
    [
        ([resource("nebius_vpc_v1_network", parent_id=PROJECT)], True),
        ([resource("nebius_vpc_v1_network", parent_id=OTHER)], False),
        ([resource("nebius_vpc_v1_network")], False),
        ([resource("nebius_vpc_v1_network", "", parent_id=PROJECT)], False),
        ([resource("nebius_mk8s_v1_node_group", parent_id=CLUSTER)], True),
        ([resource("nebius_mk8s_v1_node_group", parent_id="mk8scluster-e00b")], False),
        (
            [resource("nebius_applications_v1alpha1_k8s_release", parent_id=PROJECT, cluster_id=CLUSTER)],
            True,
        ),
        ([resource("nebius_applications_v1alpha1_k8s_release", parent_id=PROJECT, cluster_id="b")], False),
        ([resource("nebius_brand_new_v1_thing", parent_id=PROJECT)], False),
        ([resource("nebius_iam_v2_access_key", service_account_id="sa-1")], False),
        (
            [
                resource("nebius_iam_v1_service_account", "sa-1", parent_id=PROJECT),
                resource("nebius_iam_v2_access_key", service_account_id="sa-1"),
                resource("nebius_iam_v1_group_membership", member_id="sa-1"),
            ],
            True,
        ),
        ([resource("random_id")], True),
        ([], False),
    ],
)
def test_remains_are_destroyed_only_when_all_of_them_are_tied_to_the_cluster(
    resources: list[StateResource], accepted: bool
) -> None:
    assert (residual_problem(state(resources=resources), PROJECT, CLUSTER) == "") is accepted


def test_a_module_is_read_without_running_anything(world: World) -> None:
    assert not read_module("").there
    assert not read_module(str(world.home.module)).there
    world.home.lay_module(
        CLUSTER, resources=[state_block("nebius_vpc_v1_network", "n", NETWORK, parent_id=PROJECT)]
    )
    module = read_module(str(world.home.module))
    assert isinstance(module.facts, ModuleFacts)
    assert isinstance(module.state, StateView)
    assert module.state.cluster_ids == (CLUSTER,)
    assert [(r.id, r.attrs) for r in module.state.resources] == [
        (CLUSTER, {}),
        (NETWORK, {"parent_id": PROJECT}),
    ]
    world.home.module.joinpath("terraform.tfstate").write_text("{}")
    assert isinstance(read_module(str(world.home.module)).state, Unknown)
    world.home.module.joinpath("terraform.tfstate").unlink()
    assert read_module(str(world.home.module)).state is None


# ---------------------------------------------------------------------------------------------------------------- finding


def found_of(*things: Resource, parts: Target | None = None) -> Found:
    def of(kind: str) -> list[Resource]:
        return [r for r in things if r.ref.kind == kind]

    whole = parts or target(("cluster", CLUSTER), ("subnet", SUBNET), ("network", NETWORK))
    below = of("security_group") + of("route_table")
    return sort_out(whole, CLUSTER, of("instance"), of("disk"), of("node_group"), below, None)


NODE_VM = thing("instance", NODE, label=CLUSTER, subnets=SUBNET)


def test_only_what_is_proven_to_be_the_clusters_goes_with_it() -> None:
    found = found_of(
        NODE_VM,
        thing("instance", "foreign", subnets="vpcsubnet-e00other"),
        thing("instance", "guest", subnets=f"vpcsubnet-x {SUBNET}"),
        thing("instance", "other-node", label="mk8scluster-e00other"),
        thing("disk", "boot", managed_by=NODE, attached_to=NODE),
        thing("disk", "labelled", label=CLUSTER),
        thing("disk", "volume", attached_to=NODE),
        thing("disk", "unrelated"),
        thing("node_group", GROUP, CLUSTER),
        thing("security_group", "sg-default", network_id=NETWORK, default="1"),
        thing("security_group", "sg-of-somebody", network_id=NETWORK),
    )
    assert [p.ref.id for p in found.parts] == [GROUP, NODE, "boot", "labelled", "sg-default"]
    assert all(p.owned.evidence is Evidence.PART_OF for p in found.parts)
    assert [d.ref.id for d in found.attached] == ["volume"]
    assert [v.ref.id for v in found.strangers] == ["guest"]
    assert found.orphans == {Ref("disk", "labelled")}


def test_a_disk_that_outlives_its_node_is_still_the_clusters() -> None:
    known = target(("cluster", CLUSTER), ("disk", "boot"))
    found = found_of(
        thing("disk", "boot", managed_by=NODE), thing("disk", "unrelated", managed_by="vm"), parts=known
    )
    assert [p.ref.id for p in found.parts] == ["boot"]
    assert found.orphans == {Ref("disk", "boot")}


WHOLE = target(
    ("cluster", CLUSTER), ("network", NETWORK), ("subnet", SUBNET), ("service_account", ACCOUNT), ("instance", NODE), ("disk", DISK),
    ("node_group", GROUP),
)  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "orphans", "expected"),
    [
        (sight(CLUSTER, NETWORK, SUBNET, ACCOUNT, NODE, DISK, GROUP), (), [CLUSTER]),
        (sight(NETWORK, SUBNET, ACCOUNT, NODE, DISK, GROUP, leaving=[CLUSTER]), (), []),
        (sight(NETWORK, SUBNET, ACCOUNT, NODE, DISK, gone=[CLUSTER, GROUP]), (), []),
        (sight(NETWORK, SUBNET, ACCOUNT, DISK, gone=[CLUSTER, GROUP, NODE]), (), [SUBNET, ACCOUNT]),
        (sight(NETWORK, SUBNET, ACCOUNT, DISK, gone=[CLUSTER, GROUP, NODE]), (DISK,), [SUBNET, ACCOUNT, DISK]),
        (sight(NETWORK, ACCOUNT, leaving=[SUBNET], gone=[CLUSTER, GROUP, NODE, DISK]), (), [ACCOUNT]),
        (sight(NETWORK, gone=[CLUSTER, GROUP, NODE, DISK, SUBNET, ACCOUNT]), (), [NETWORK]),
        (sight(NETWORK, SUBNET, ACCOUNT, gone=[CLUSTER, GROUP]), (), []),
    ],
)  # fmt: skip
def test_parts_are_asked_for_when_all_before_them_are_gone(
    seen: tuple[Observation, ...], orphans: tuple[str, ...], expected: list[str]
) -> None:
    going = Going(Way.PROVIDER, seen, MODULE, frozenset(Ref("disk", d) for d in orphans))
    assert [ref.id for ref in due(WHOLE, going)] == expected


# ---------------------------------------------------------------------------------------------------------- through the runner


def terraform_of(world: World) -> Any:
    return world.terraform


async def test_terraform_destroys_what_its_state_holds(world: World) -> None:
    world.home.cluster()
    world.home.journal()
    world.home.owner()
    world.home.lay_module(CLUSTER)
    assert await world.run("clusters") == 0
    terraform = terraform_of(world)
    assert terraform.log == [f"open cluster {CONTEXT}", "init", f"destroy {CLUSTER}", "close"]
    assert terraform.variables == {"parent_id": PROJECT}
    assert world.cloud.log == []
    assert not (world.home.roots.clusters / CONTEXT).exists()
    assert world.owner() is None
    proven = {o.ref.id for o in world.state.proofs[KEY]}
    assert {CLUSTER, NETWORK, SUBNET, ACCOUNT, GROUP, NODE, DISK} <= proven
    progress = [
        line
        for line in (world.root / "journal-1.jsonl").read_text().splitlines()
        if '"progress"' in line and '"noted"' in line
    ]
    assert 1 <= len(progress) <= 5, "signs of life are thinned out, the end is not"


async def test_without_a_state_the_recorded_ids_go_in_order(world: World) -> None:
    world.home.journal()
    world.cloud.things["sg"] = thing("security_group", "sg", network_id=NETWORK, default="1")
    assert await world.run("clusters") == 0
    assert world.cloud.log[0] == f"delete {CLUSTER}"
    assert world.cloud.log[-1] == f"delete {NETWORK}"
    assert set(world.cloud.log[1:3]) == {f"delete {SUBNET}", f"delete {ACCOUNT}"}
    assert len(world.cloud.log) == 4
    assert world.cloud.things == {}
    assert terraform_of(world).log == []


async def test_what_terraform_leaves_goes_by_its_recorded_id(world: World) -> None:
    world.home.cluster()
    world.home.journal()
    world.home.lay_module(CLUSTER)
    terraform = terraform_of(world)
    terraform.leaves = (SUBNET, NETWORK)

    class ThenEmpty(type(terraform)):  # type: ignore[misc]
        async def destroy(self, *args: Any, **kwargs: Any) -> None:
            await super().destroy(*args, **kwargs)
            world.home.lay_module()

    terraform.__class__ = ThenEmpty
    assert await world.run("clusters") == 0
    assert world.cloud.log == [f"delete {SUBNET}", f"delete {NETWORK}"]


async def test_a_failed_destroy_keeps_the_record_and_says_why(world: World) -> None:
    world.home.cluster()
    world.home.journal()
    world.home.lay_module(CLUSTER)
    trouble = TerraformTrouble(Kind.STATE_LOCKED, Cause.CONFLICT, "the state is locked by ops@host")
    terraform_of(world).trouble = trouble
    assert await world.run("clusters") == 2
    got = world.outcomes[KEY]
    assert (got.verdict, got.reason) == (Verdict.LEFT, Reason.REFUSED_BY_PROVIDER)
    assert "ops@host" in got.detail
    assert world.cloud.log == []
    assert (world.home.roots.clusters / CONTEXT / "cluster.json").exists()


async def test_a_destroy_that_succeeds_with_the_cluster_there_is_not_believed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.home.cluster()
    world.home.lay_module(CLUSTER)
    terraform_of(world).leaves = (CLUSTER, SUBNET, ACCOUNT, NETWORK)
    monkeypatch.setitem(PHASES, "clusters", replace(PHASES["clusters"], deadline=120.0))
    assert await world.run("clusters") == 2
    assert world.outcomes[KEY].verdict is Verdict.LEFT
    assert (world.home.roots.clusters / CONTEXT / "cluster.json").exists()


async def test_a_state_that_changed_under_us_destroys_nothing(world: World) -> None:
    world.home.cluster()
    world.home.lay_module(CLUSTER)
    terraform_of(world).view = state("mk8scluster-e00b")
    assert await world.run("clusters") == 2
    assert not any(line.startswith("destroy") for line in terraform_of(world).log)
    assert "mk8scluster-e00b" in world.outcomes[KEY].detail


async def test_a_cluster_that_is_gone_needs_nothing_but_the_look(world: World) -> None:
    world.home.cluster()
    world.home.journal()
    world.home.lay_module(CLUSTER)
    world.cloud.things.clear()
    assert await world.run("clusters") == 0
    assert not world.outcomes[KEY].acted
    assert (world.cloud.log, terraform_of(world).log) == ([], [])
    assert not (world.home.roots.clusters / CONTEXT).exists()
    assert await world.run("clusters") == 0, "the operation still names it: absence is verified again"


@pytest.mark.parametrize("what", ["cluster", "instance", CLUSTER, SUBNET])
@pytest.mark.parametrize("cause", [Cause.DENIED, Cause.UNREACHABLE, Cause.MALFORMED])
async def test_what_cannot_be_seen_is_neither_touched_nor_tidied(
    world: World, what: str, cause: Cause
) -> None:
    world.home.cluster()
    world.home.journal()
    world.cloud.deaf[what] = cause
    assert await world.run("clusters") == 2
    assert world.cloud.log == []
    assert (world.home.roots.clusters / CONTEXT / "cluster.json").exists()


async def test_a_cluster_is_not_gone_while_its_vms_cannot_be_listed(world: World) -> None:
    world.home.cluster()
    world.cloud.things.clear()
    world.cloud.deaf["instance"] = Cause.DENIED
    assert await world.run("clusters") == 2
    assert world.outcomes[KEY].verdict is Verdict.UNKNOWN
    assert (world.home.roots.clusters / CONTEXT / "cluster.json").exists()


async def test_how_an_earlier_deletion_failed_is_told(world: World) -> None:
    world.home.journal()
    world.cloud.failed[CLUSTER] = Trouble(Cause.CONFLICT, "the host did not answer")
    assert await world.run("clusters") == 0
    assert "the host did not answer" in (world.root / "journal-1.jsonl").read_text()


async def test_vms_without_their_cluster_are_no_absence(world: World) -> None:
    world.home.journal()
    world.cloud.things = {NODE: thing("instance", NODE, label=CLUSTER)}
    observed = await world.clusters().look(only(world.clusters().plan(world.home.records())))
    assert isinstance(observed[0].presence, Present)
    assert observed[0].presence.leaving


async def test_a_protected_disk_holds_the_whole_cluster(world: World) -> None:
    world.home.journal()
    world.cloud.things[DISK] = thing("disk", DISK, label=CLUSTER, managed_by=NODE, forbid_deletion="1")
    assert await world.run("clusters") == 2
    assert (world.outcomes[KEY].verdict, world.outcomes[KEY].reason) == (Verdict.HELD, Reason.PROTECTED)
    assert world.cloud.log == []


async def test_another_projects_controller_is_not_taken_along(world: World) -> None:
    world.home.cluster()
    world.home.journal()
    world.home.owner(OTHER, OTHER_ALIAS)
    assert await world.run("clusters") == 2
    assert world.outcomes[KEY].reason is Reason.SHARED
    assert world.cloud.log == []


async def test_a_single_command_does_not_kill_a_queue_in_use(world: World) -> None:
    world.home.cluster()
    world.home.journal()
    world.home.owner()
    world.sky.cluster.listed = [pod("controller", "u1")]
    world.sky.jobs = [job(4, "v1", user="alice")]
    assert await world.run("clusters") == 2
    assert world.outcomes[KEY].reason is Reason.FOREIGN_JOBS
    world.sky.jobs = []
    assert await world.run("clusters") == 0
    assert world.owner() is None


async def test_a_kubeconfig_that_leads_elsewhere_refuses(world: World) -> None:
    world.home.cluster(server="https://198.51.100.9")
    world.home.journal()
    assert await world.run("clusters") == 2
    assert world.outcomes[KEY].reason is Reason.WRONG_IDENTITY
    assert world.cloud.log == []


async def test_what_may_outlive_the_cluster_is_said_before(world: World) -> None:
    world.home.cluster()
    world.home.journal()
    world.cloud.things["pv"] = thing("disk", "pv", attached_to=NODE)
    world.sky.cluster.outside = [
        thing("service", "s1", "web", "web/front", addresses="203.0.113.9"),
        thing("volume", "v1", "", "pv-1", capacity="100Gi", claim="web/data", handle="pv"),
    ]
    phase = world.clusters()
    target = only(phase.plan(world.home.records()))
    cleared = await phase.guard(target, await phase.look(target))
    assert not isinstance(cleared, Refusal)
    warnings = [line for line in cleared.touches if line.startswith("!")]
    assert len(warnings) == 3
    assert "203.0.113.9" in " ".join(warnings)
    assert "100Gi" in " ".join(warnings)
    assert "computedisk" not in " ".join(warnings)
    world.sky.cluster.gap = DOWN
    cleared = await phase.guard(target, await phase.look(target))
    assert not isinstance(cleared, Refusal)
    assert any("could not be listed" in line for line in cleared.touches)
    assert await world.run("clusters") == 0
    assert "pv" in world.cloud.things


async def test_an_operation_that_never_ended_ends_with_its_things(world: World) -> None:
    path = world.home.journal(phase="recovery-required", lifecycle="interrupted")
    assert await world.run("clusters") == 0
    journal = json.loads(path.read_text())
    assert (journal["phase"], journal["result"]) == ("destroyed", "destroyed")
    assert await world.run("clusters") == 0, "and is no target any more"
    assert KEY not in world.outcomes


async def test_a_committed_operation_stays_as_it_is(world: World) -> None:
    path = world.home.journal()
    before = path.read_bytes()
    assert await world.run("clusters") == 0
    assert path.read_bytes() == before


async def test_only_the_folder_of_this_very_cluster_is_removed(world: World) -> None:
    world.home.cluster()
    world.home.journal()
    plan = world.plan("clusters")
    world.home.cluster(cluster_id="mk8scluster-e00new")
    world.cloud.things.clear()
    assert await world.run("clusters", plan=plan) == 0
    assert (world.home.roots.clusters / CONTEXT / "cluster.json").exists()


async def test_the_three_phases_in_their_order(world: World) -> None:
    world.home.run("r1", 7)
    world.home.owner()
    world.home.cluster()
    world.home.journal()
    world.home.lay_module(CLUSTER)
    world.sky.jobs = [job(7, "r1")]
    world.sky.cluster.listed = [pod("controller", "u1")]
    assert await world.run("workflows", "controller", "clusters") == 0
    assert world.sky.log[0] == "cancel 7"
    assert world.sky.log[1].startswith("down")
    assert CLUSTER not in world.cloud.things


async def test_a_dry_run_runs_no_terraform_and_writes_nothing(world: World) -> None:
    world.home.cluster()
    world.home.journal()
    world.home.lay_module(CLUSTER)
    world.home.records()
    before = {p: p.stat().st_mtime_ns for p in world.root.rglob("*")}
    plan = Plan(Identity(PROJECT, ALIAS), (world.clusters().plan(world.home.gathered()),))
    assert await world.run("clusters", plan=plan, dry=True) == 0
    assert terraform_of(world).log == []
    assert {p: p.stat().st_mtime_ns for p in world.root.rglob("*")} == before
