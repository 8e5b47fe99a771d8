"""Agents: what is planned from journal, configuration and receipt, what is found, and every reason to leave one."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from account_cloud import (
    Cloud,
    gone,
    lay,
    leaving,
    made,
    part,
    records,
    stanza,
    target,
    thing,
)

from engine.home.config import read_config
from engine.home.records import gather
from engine.home.roots import roots
from engine.phases.agents import Agents, Facts, decide
from engine.phases.shape import Cleared
from engine.words.plans import NOT_PROVEN, Target
from engine.words.presence import Absent, Cause, Present, Resource, Unknown
from engine.words.reasons import Refusal

VM, DISK, DATA, IP = "computeinstance-e00a", "computedisk-e00a", "computedisk-e00data", "vpcallocation-e00a"
SUBNET, GROUP, NET = "vpcsubnet-e00a", "vpcsecuritygroup-e00a", "vpcnetwork-e00a"
OP = "agent-agent-a575fec140e5c170"
NAME = "agent-demo-agent"


def vm(**attrs: str) -> Resource:
    return thing(
        "instance",
        VM,
        NAME,
        **{
            "disks": f"{DISK} {DATA}",
            "allocations": IP,
            "subnets": SUBNET,
            "security_groups": GROUP,
            **attrs,
        },
    )


DISKS = (
    thing("disk", DISK, f"{NAME}-boot", size_gib="64", attached_to=VM),
    thing("disk", DATA, "data", size_gib="256", attached_to=VM),
)
NETWORK = (
    thing("allocation", IP, f"{NAME}-ip", static="1", used_by=VM, subnet_id=SUBNET), thing("subnet", SUBNET, f"{NAME}-subnet", network_id=NET),
    thing("security_group", GROUP, f"{NAME}-sg", network_id=NET), thing("network", NET, f"{NAME}-network"),
)  # fmt: skip
DEFAULT = thing(
    "security_group", "vpcsecuritygroup-e00dflt", "default-security-group", network_id=NET, default="1"
)
ALL = (vm(), *DISKS, *NETWORK, DEFAULT)
PARTS = tuple(part(r.ref.kind, r.ref.id, r.name) for r in (vm(), DISKS[0], *NETWORK))
TARGET = target(
    f"agents/{VM}", *PARTS, agent_name="agent", agent_alias="demo", vm_name=NAME, operation_id=OP, local="1"
)


def facts(*resources: Resource, parts: tuple[Any, ...] = PARTS, **more: Any) -> Facts:
    known = {r.ref: r for r in resources or ALL}
    here = {p.ref: known[p.ref].presence for p in parts if p.ref in known}
    return Facts(replace(TARGET, parts=parts), here, known, **more)


ROWS = [
    made("compute_instance", VM, NAME, labels={"npa-operation-id": OP}), made("boot_disk", DISK, f"{NAME}-boot"), made("network", NET, f"{NAME}-network"),
    made("subnet", SUBNET, f"{NAME}-subnet"), made("security_group", GROUP, f"{NAME}-sg"), made("public_ip", IP, f"{NAME}-ip"),
]  # fmt: skip


def journal(rows: Any = ROWS, **more: Any) -> dict[str, Any]:
    return {
        OP: {
            "resource_type": "agent",
            "requested_name": "agent",
            "resources": rows,
            "updated_at": "2026-12-01T05:00:00Z",
            **more,
        }
    }


def configured(instance: str = VM, name: str = "agent") -> dict[str, Any]:
    return stanza(agents={name: {"instance_id": instance, "service_account_id": "serviceaccount-e00x"}})


def plan(tmp_path: Path, **documents: Any) -> tuple[Target, ...]:
    r = lay(tmp_path, **documents)
    return Agents(r, Cloud()).plan(records(r)).targets


# -- deciding --


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (facts(parts=(part("instance", VM, owned=NOT_PROVEN),)), "not_owned"),
        (facts(parts=(*PARTS[:-1], part("network", NET, owned=NOT_PROVEN))), "not_owned"),
        (facts(gaps=("disk: denied",)), "cannot_see"),
        (facts(replace(vm(), name="agent-other-agent"), *ALL[1:]), "wrong_identity"),
        (facts(replace(vm(), parent="project-e00x"), *ALL[1:]), "wrong_identity"),
        (facts(*ALL[:-2], replace(NETWORK[3], parent="project-e00x"), DEFAULT), "wrong_identity"),
        (facts(*ALL, replace(DISKS[1], attrs={**DISKS[1].attrs, "forbid_deletion": "1"})), "content_held"),
        (facts(*ALL, replace(DISKS[0], labels={"npa-operation-id": "agent-of-bob"})), "wrong_identity"),
        (facts(namesakes=(thing("network", "vpcnetwork-e00namesake", f"{NAME}-network"),)), "not_owned"),
    ],
)  # fmt: skip
def test_what_keeps_an_agent(case: Facts, reason: str) -> None:
    refused = decide(case)
    assert isinstance(refused, Refusal)
    assert refused.reason == reason
    assert (
        refused.next_command == "npa destroy --project demo --all --keep agents --yes"
        if reason != "cannot_see"
        else refused.next_command
    )


def test_an_unproven_part_that_is_gone_holds_nothing() -> None:
    lost = facts(vm(), *DISKS, *NETWORK[:3], parts=(*PARTS[:-1], part("network", NET, owned=NOT_PROVEN)))
    assert isinstance(decide(lost), Cleared)


def test_disks_and_the_default_group_are_found_with_what_they_belong_to() -> None:
    cleared = decide(facts())
    assert isinstance(cleared, Cleared)
    assert {p.ref.id: p.owned.record for p in cleared.found} == {DATA: VM, DEFAULT.ref.id: NET}
    assert any("data" in line and "256 GiB" in line for line in cleared.touches)


def test_a_disk_of_two_machines_and_a_reserved_address_stay_and_are_named() -> None:
    shared = replace(DISKS[1], attrs={**DISKS[1].attrs, "attached_to": f"{VM} computeinstance-e00other"})
    reserved = thing("allocation", "vpcallocation-e00mine", "mine", static="1", ip="203.0.113.9/32")
    case = facts(vm(allocations=f"{IP} {reserved.ref.id}"), DISKS[0], shared, *NETWORK, reserved)
    cleared = decide(case)
    assert isinstance(cleared, Cleared)
    assert cleared.found == ()
    assert sorted(line for line in cleared.touches if line.startswith("!")) == [
        "! address 203.0.113.9/32 stays: reserved, in no record", "! disk data stays: another VM has it attached"
    ]  # fmt: skip


def test_an_attached_disk_of_another_operation_stays_and_is_named() -> None:
    foreign = replace(DISKS[1], labels={"npa-operation-id": "agent-of-bob"})
    cleared = decide(facts(*ALL, foreign))
    assert isinstance(cleared, Cleared)
    assert foreign.ref not in {p.ref for p in cleared.found}
    assert "! disk data stays: it carries the label of operation agent-of-bob" in cleared.touches


def test_parts_go_in_their_order_and_what_goes_along_is_never_asked_for() -> None:
    assert [r.id for r in facts().askable()] == [VM]
    managed = replace(DISKS[1], attrs={**DISKS[1].attrs, "managed_by": VM})
    without_vm = (DISKS[0], managed, *NETWORK, DEFAULT)
    parts = (*PARTS, part("disk", DATA), part("security_group", DEFAULT.ref.id))
    assert {r.id for r in facts(*without_vm, parts=parts).askable()} == {DISK, IP}
    assert [r.id for r in facts(managed, *NETWORK[1:], DEFAULT, parts=parts).askable()] == [SUBNET]
    assert [r.id for r in facts(*NETWORK[2:], DEFAULT, parts=parts).askable()] == [GROUP]
    assert [r.id for r in facts(NETWORK[3], DEFAULT, parts=parts).askable()] == [NET]
    assert facts(DEFAULT, parts=parts).askable() == ()
    assert facts(leaving(vm()), *ALL[1:]).askable() == ()


def test_an_address_that_follows_its_user_is_asked_for_only_when_nobody_uses_it() -> None:
    dynamic = thing("allocation", IP, static="", used_by=VM)
    assert facts(dynamic, *NETWORK[1:]).askable() == ()
    assert [r.id for r in facts(thing("allocation", IP), *NETWORK[1:]).askable()] == [IP]


def test_what_carries_the_label_goes_and_a_recorded_name_only_where_the_machine_leads_to_it() -> None:
    labelled = thing("disk", "computedisk-e00lab", "x", label=OP)
    parts = (part("instance", VM, NAME),)
    case = facts(*ALL, labelled, parts=parts, labelled=(labelled,), namesakes=(NETWORK[1], NETWORK[3]))
    cleared = decide(case)
    assert isinstance(cleared, Cleared)
    assert {p.ref.id: str(p.owned.evidence) for p in cleared.found} == {
        "computedisk-e00lab": "operation_label", SUBNET: "part_of", NET: "part_of", DISK: "part_of", DATA: "part_of", DEFAULT.ref.id: "part_of"
    }  # fmt: skip


def test_an_id_in_the_preserved_state_is_a_proof() -> None:
    case = facts(NETWORK[3], parts=(), namesakes=(NETWORK[3],), preserved=frozenset({NET}))
    cleared = decide(case)
    assert isinstance(cleared, Cleared)
    assert [(p.ref.id, p.owned.evidence) for p in cleared.found] == [(NET, "create_response")]


# -- planning --


def test_a_deployment_is_one_target_with_every_recorded_id(tmp_path: Path) -> None:
    (planned,) = plan(tmp_path, config=configured(), journals=journal())
    assert planned.key == f"agents/{VM}"
    assert {p.ref.id: str(p.owned.evidence) for p in planned.parts} == {
        VM: "operation_label", DISK: "create_response", NET: "create_response", SUBNET: "create_response", GROUP: "create_response", IP: "create_response"
    }  # fmt: skip
    assert planned.parts[0].owned.record == f"operations/{OP}/journal.json"
    assert planned.parts[0].owned.field == "resources[0]"
    assert planned.detail["local"] == "1"


def test_what_is_known_by_name_only_is_looked_for_by_the_operation(tmp_path: Path) -> None:
    rows = [ROWS[0], {**ROWS[1], "provider_id": ""}, {**ROWS[2], "provider_id": ""}]
    (planned,) = plan(tmp_path, journals=journal(rows))
    assert [p.ref.kind for p in planned.parts] == ["instance", "agent_operation"]
    assert planned.detail["nameless"] == f"disk/{NAME}-boot network/{NAME}-network"


def test_a_deployment_that_never_had_a_machine_is_keyed_by_its_operation(tmp_path: Path) -> None:
    (planned,) = plan(tmp_path, journals=journal([], phase="recovery-required"))
    assert planned.key == f"agents/{OP}"
    assert planned.detail["nameless"] == f"instance/{NAME}"


@pytest.mark.parametrize("ownership", ["adopted", "pre_existing"])
def test_what_was_there_before_is_no_part(tmp_path: Path, ownership: str) -> None:
    (planned,) = plan(tmp_path, journals=journal([ROWS[0], {**ROWS[2], "ownership": ownership}]))
    assert [p.ref.id for p in planned.parts] == [VM]


def test_a_row_without_a_claim_is_planned_without_proof(tmp_path: Path) -> None:
    (planned,) = plan(tmp_path, journals=journal([ROWS[0], {**ROWS[2], "ownership": ""}]))
    assert [(p.ref.id, bool(p.owned)) for p in planned.parts] == [(VM, True), (NET, False)]


def test_an_operation_that_was_taken_away_is_no_target_unless_its_machine_is_configured(
    tmp_path: Path,
) -> None:
    assert plan(tmp_path / "a", journals=journal(phase="destroyed")) == ()
    (planned,) = plan(tmp_path / "b", config=configured(), journals=journal(phase="destroyed"))
    assert planned.parts[0].owned


def test_an_instance_that_only_the_configuration_names_is_held(tmp_path: Path) -> None:
    (planned,) = plan(tmp_path, config=configured())
    assert [(p.ref.id, bool(p.owned)) for p in planned.parts] == [(VM, False)]


def test_a_configured_agent_without_anything_is_looked_for_by_its_name(tmp_path: Path) -> None:
    (planned,) = plan(tmp_path, config=configured(""))
    assert [(p.ref.kind, bool(p.owned)) for p in planned.parts] == [("agent_operation", False)]
    assert planned.detail["nameless"] == f"instance/{NAME}"


def test_every_generation_is_a_target_and_the_configured_one_has_the_local_records(tmp_path: Path) -> None:
    second = {
        f"{OP}-r1": {**journal()[OP], "resources": [{**ROWS[0], "provider_id": "computeinstance-e00b"}]}
    }
    planned = {t.id: t for t in plan(tmp_path, config=configured(), journals={**journal(), **second})}
    assert set(planned) == {VM, "computeinstance-e00b"}
    assert "local" in planned[VM].detail
    assert "local" not in planned["computeinstance-e00b"].detail


def test_a_receipt_proves_with_its_operations_and_only_names_with_its_agents(tmp_path: Path) -> None:
    agents = [
        {"agent_name": "agent", "instance_id": VM},
        {"agent_name": "b", "instance_id": "computeinstance-e00b"},
    ]
    operations = [
        {"operation_id": OP, "resource_type": "agent", "requested_name": "agent", "resources": ROWS[:1]}
    ]
    receipt = {"project_alias": "demo", "identity": {"agents": agents, "operations": operations}}
    planned = {t.id: t for t in plan(tmp_path, receipts={"demo-1": receipt})}
    assert planned[VM].parts[0].owned.record == "teardown-receipts/demo-1.json"
    assert planned[VM].parts[0].owned.field == "identity.operations[0].resources[0]"
    assert not planned["computeinstance-e00b"].parts[0].owned


def test_an_agent_whose_end_a_receipt_reports_is_history(tmp_path: Path) -> None:
    event = {
        "phase": "agent",
        "resource": VM,
        "terminal_state": "verified_deleted",
        "recorded_at": "2026-12-01T05:00:00Z",
        "identity": {},
    }
    receipt = {"identity": {"agents": [{"agent_name": "agent", "instance_id": VM}]}, "events": [event]}
    assert plan(tmp_path, receipts={"demo-1": receipt}) == ()


@pytest.mark.parametrize("state", ["full", "after-partial-destroy", "forgotten-alias"])
def test_recorded_states(tmp_path: Path, states: Path, state: str) -> None:
    subprocess.run([sys.executable, str(states / "materialize"), state, str(tmp_path)], check=True)
    r = roots({"HOME": str(tmp_path)})
    (planned,) = Agents(r, Cloud()).plan(gather(r, "project-e00demo", "demo")).targets
    assert planned.key == "agents/computeinstance-e00demo"
    assert all(p.owned for p in planned.parts)
    assert "security_group/agent-demo-agent-sg" in planned.detail["nameless"]


# -- the phase --


def traced(tmp_path: Path, cloud: Cloud) -> tuple[Agents, Target]:
    r = lay(tmp_path, config=configured(), journals=journal([{**row, "provider_id": ""} for row in ROWS[1:]]))
    phase = Agents(r, cloud)
    return phase, next(t for t in phase.plan(records(r)).targets if t.id == OP)


async def test_traces_are_there_until_complete_listings_show_none(tmp_path: Path) -> None:
    cloud = Cloud()
    phase, planned = traced(tmp_path, cloud)

    async def seen() -> Any:
        return (await phase.look(planned))[0].presence

    assert isinstance(await seen(), Absent)
    cloud.put(thing("disk", DISK, "whatever", label=OP))
    assert isinstance(await seen(), Present)
    cloud.things.clear()
    cloud.put(thing("network", NET, f"{NAME}-network"))
    assert isinstance(await seen(), Present)
    held = await phase.guard(planned, await phase.look(planned))
    assert isinstance(held, Refusal)
    assert held.reason == "not_owned"
    assert NET in held.sentence
    cloud.things.clear()
    cloud.blind = {"subnet": Cause.DENIED}
    assert isinstance(await seen(), Unknown)


async def test_a_preserved_state_that_fits_its_hash_proves_what_only_has_a_name(tmp_path: Path) -> None:
    state = {
        "resources": [
            {"mode": "managed", "type": "nebius_vpc_v1_network", "instances": [{"attributes": {"id": NET}}]}
        ]
    }
    data = json.dumps(state).encode()
    cloud = Cloud()
    cloud.put(NETWORK[3])
    rows = [{**ROWS[2], "provider_id": ""}]
    copy = {
        "path": "state/a.tfstate",
        "sha256": sha256(data).hexdigest(),
        "size_bytes": len(data),
        "operation_id": OP,
        "backend_identity": {},
    }
    r = lay(tmp_path, journals=journal(rows, local_state_copies=[copy]))
    (r.operations / OP / "state").mkdir(mode=0o700)
    kept = r.operations / OP / "state" / "a.tfstate"
    kept.write_bytes(data)
    kept.chmod(0o600)
    phase = Agents(r, cloud)
    (planned,) = phase.plan(records(r)).targets
    cleared = await phase.guard(planned, await phase.look(planned))
    assert isinstance(cleared, Cleared)
    assert [p.ref.id for p in cleared.found] == [NET]
    kept.write_bytes(data + b" ")
    assert isinstance(await phase.guard(planned, await phase.look(planned)), Refusal)


@pytest.mark.parametrize("blinded", [VM, DATA, IP, SUBNET, GROUP, NET, "security_group"])
async def test_what_cannot_be_seen_holds_everything(tmp_path: Path, blinded: str) -> None:
    cloud = Cloud()
    cloud.put(*ALL)
    phase = Agents(lay(tmp_path), cloud)
    sight = await phase.look(TARGET)
    assert isinstance(await phase.guard(TARGET, sight), Cleared)
    cloud.blind = {blinded: Cause.DENIED}
    held = await phase.guard(TARGET, sight)
    assert isinstance(held, Refusal)
    assert held.reason == "cannot_see"


def folders(tmp_path: Path, **documents: Any) -> Any:
    r = lay(tmp_path, **documents)
    for base in (r.agents, r.workbenches):
        (base / "demo" / "agent").mkdir(mode=0o700, parents=True)
        (base / "demo" / "agent" / "x").write_text("x")
    return r


async def test_local_records_go_with_the_agent_and_another_agents_stay(tmp_path: Path) -> None:
    two = stanza(agents={"agent": {"instance_id": VM}, "b": {"instance_id": "computeinstance-e00b"}})
    r = folders(tmp_path, config=two, journals=journal())
    (r.agents / "demo" / "b").mkdir(mode=0o700)
    await Agents(r, Cloud()).tidy(TARGET, gone(TARGET), None)  # type: ignore[arg-type]
    config = read_config(r)
    assert config is not None
    assert [a.name for a in config.projects[0].agents] == ["b"]
    assert [p.name for p in (r.agents / "demo").iterdir()] == ["b"]
    assert not (r.workbenches / "demo").exists()


@pytest.mark.parametrize(
    "document",
    [
        configured("computeinstance-e00new"),
        {"projects": {"demo": {"project_id": "project-e00x", "agents": {}}}},
    ],
)
async def test_local_records_of_another_machine_or_project_of_that_name_stay(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    r = folders(tmp_path, config=document)
    await Agents(r, Cloud()).tidy(TARGET, gone(TARGET), None)  # type: ignore[arg-type]
    assert (r.agents / "demo" / "agent" / "x").exists()
    config = read_config(r)
    assert config is not None
    assert len(config.projects[0].agents) == len(document["projects"]["demo"]["agents"])


@pytest.mark.parametrize("name", ["..", "a/b", "."])
async def test_a_name_that_is_a_path_removes_nothing(tmp_path: Path, name: str) -> None:
    r = folders(tmp_path)
    bad = replace(TARGET, detail={**TARGET.detail, "agent_name": name})
    await Agents(r, Cloud()).tidy(bad, gone(bad), None)  # type: ignore[arg-type]
    assert (r.agents / "demo" / "agent" / "x").exists()
