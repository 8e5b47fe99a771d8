"""Agents, their account, the bucket and its access, through the runner against whole simulated worlds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import simulated
import yaml
from toy import Projector

from engine import settings as environment
from engine.clock import Clock
from engine.home.records import Records, gather
from engine.home.roots import roots
from engine.ledger.journal import Journal
from engine.ledger.state import State
from engine.phases.agent_iam import AgentIam
from engine.phases.agents import Agents
from engine.phases.bucket import Bucket
from engine.phases.shape import Phase
from engine.phases.storage_iam import StorageIam
from engine.run.clients import Clients
from engine.run.runner import Opening, Runner
from engine.words.consent import Consent
from engine.words.identity import Identity
from engine.words.outcomes import Outcome
from engine.words.plans import Plan

SCALE = 0.005
NAMES = ("agents", "agent_iam", "bucket", "storage_iam")
WORLD: dict[str, Any] = {
    "description": "one agent, one bucket",
    "seconds": {"instance": 4, "bucket": 2, "default": 1},
    "projects": [
        {
            "alias": "demo", "id": "project-e00small", "tenant_id": "tenant-e00example",
            "agents": [{"name": "agent", "suffix": "smallagent", "data_disk": True}],
            "storage": {"bucket": "npa-bucket-small", "suffix": "smallbkt"},
        }
    ],
}  # fmt: skip


class Destroyed:
    """One run of the four phases over a simulated world."""

    def __init__(self, sim: simulated.Simulation) -> None:
        self.sim = sim
        self.code = -1
        self.state = State()
        self.plan = Plan(Identity(sim.project, sim.alias), ())

    @property
    def records(self) -> Records:
        return gather(roots(self.sim.environ()), self.sim.project, self.sim.alias)

    def outcome(self, phase: str) -> Outcome:
        return next(o for k, o in self.state.outcomes.items() if k.startswith(f"{phase}/"))

    def deletes(self) -> list[str]:
        return [subject for call, subject in self.sim.changes() if call.endswith("/Delete")]

    async def run(self, *names: str) -> int:
        records, clock = self.records, Clock(SCALE)
        clients = Clients(environment.read(self.sim.environ()), records.roots, clock, records)
        journal = Journal(self.sim.home / "journal.jsonl", f"run-{self.code}", clock)
        built: list[Phase[Any]] = [
            Agents(records.roots, clients.nebius),
            AgentIam(records.roots, clients.nebius),
            Bucket(records.roots, clients.nebius, clients.object_store, clock, lambda: journal.state),
            StorageIam(records.roots, clients.nebius),
        ]
        phases = {p.name: p for p in built if p.name in (names or NAMES)}
        self.plan = Plan(
            Identity(self.sim.project, self.sim.alias), tuple(p.plan(records) for p in phases.values())
        )
        runner = Runner(self.plan, phases, clock, journal, Projector(), Opening("destroy"))
        try:
            await runner.open()
            await runner.consent(Consent(self.plan.digest, tuple(phases), 3, "test"))
            self.code = await runner.run()
        finally:
            self.state = journal.state
            journal.close()
            await clients.aclose()
        return self.code


@contextmanager
def world(tmp_path: Path, name: str = "", **changes: Any) -> Iterator[Destroyed]:
    if not name:
        name = str(tmp_path / "world.yaml")
        (tmp_path / "world.yaml").write_text(yaml.safe_dump({**WORLD, **changes}))
    home = tmp_path / "home"
    home.mkdir()
    with simulated.simulation(name, home, SCALE) as sim:
        yield Destroyed(sim)


def project(**changes: Any) -> list[dict[str, Any]]:
    return [{**WORLD["projects"][0], **changes}]


async def test_everything_goes_once_and_is_tidied_behind_its_proof(tmp_path: Path) -> None:
    with world(tmp_path) as run:
        records = run.records
        assert await run.run() == 0, run.state.outcomes
        left = run.sim.ids()
        for kind in (
            "instance",
            "disk",
            "allocation",
            "serviceaccount",
            "accesskey",
            "bucket",
            "group",
            "accesspermit",
        ):
            assert kind not in left, left
        assert {i for k in ("network", "subnet", "securitygroup") for i in left[k]} == {
            i
            for k in ("network", "subnet", "securitygroup")
            for i in left[k]
            if "dflt" in i and "agent" not in i
        }
        asked = run.deletes()
        assert len(asked) == len(set(asked)), "nothing is asked for twice"
        assert "vpcsecuritygroup-e00smallagentdflt" not in asked, "a default group goes with its network"
        assert asked.index("computeinstance-e00smallagent") < asked.index("computedisk-e00smallagent")
        assert asked.index("vpcsubnet-e00smallagent") < asked.index("vpcnetwork-e00smallagent")
        assert asked.index("accesskey-e00smallbktstor") < asked.index("serviceaccount-e00smallbktstor")
        after = run.records
        assert (after.agents, after.agent_account, after.storage, after.markers) == ((), None, (), ())
        assert not after.storage_candidates or all(
            c.source in ("operation", "receipt") for c in after.storage_candidates
        )
        assert not (records.roots.agents / "demo").exists()
        assert not (records.roots.workbenches / "demo").exists()
        text = records.roots.credentials_yaml.read_text()
        assert "example-secret-of" not in text + records.roots.config_yaml.read_text()
        assert "keep-me" in text
        before = run.sim.changes()
        assert await run.run() == 0
        assert run.sim.changes() == before
        assert {o.verdict for o in run.state.outcomes.values()} == {"done"}


async def test_the_recorded_project_goes_although_its_journal_knows_most_by_name_only(tmp_path: Path) -> None:
    with world(tmp_path, "full") as run:
        assert await run.run("agents") == 0, run.state.outcomes
        left = run.sim.ids()
        assert not any("demoagent" in i for ids in left.values() for i in ids)


async def test_network_parts_of_a_vm_that_is_gone_still_go(tmp_path: Path) -> None:
    changed = project(agents=[{"name": "agent", "suffix": "gone", "vm_gone": True, "ids_recorded": False}])
    with world(tmp_path, projects=changed) as run:
        assert await run.run("agents") == 0, run.state.outcomes
        assert not any("gone" in i for ids in run.sim.ids().values() for i in ids)


async def test_another_thing_in_the_network_is_reported_and_not_forced(tmp_path: Path) -> None:
    stranger = {
        "kind": "subnet", "id": "vpcsubnet-e00stranger", "name": "theirs",
        "attrs": {"spec": {"networkId": "vpcnetwork-e00smallagent"}, "status": {"state": "READY"}},
    }  # fmt: skip
    with world(tmp_path, projects=project(extras=[stranger])) as run:
        assert await run.run("agents") == 2
        left = run.outcome("agents")
        assert left.reason == "refused_by_provider"
        assert "vpcnetwork-e00smallagent" in left.detail
        assert "vpcsubnet-e00stranger" in run.sim.ids()["subnet"]
        assert run.records.agents, "the record stays while something of the agent does"


async def test_a_protected_disk_holds_the_whole_agent(tmp_path: Path) -> None:
    with world(tmp_path) as run:
        run.sim.post(
            "/change", {"update": "computedisk-e00smallagentdata", "set": {"spec": {"forbidDeletion": True}}}
        )
        assert await run.run("agents") == 2
        assert run.outcome("agents").reason == "content_held"
        assert run.deletes() == []


async def test_a_bucket_that_must_be_empty_is_emptied_before_it_is_asked_for_again(tmp_path: Path) -> None:
    refusal = {
        "service": "nebius",
        "match": "BucketService/Delete *",
        "kind": "status",
        "status": "FAILED_PRECONDITION",
    }
    with world(tmp_path, faults=[{**refusal, "times": 1}]) as run:
        held = run.sim.get("/state")["object_store"]
        assert await run.run("agents", "bucket") == 0, run.state.outcomes
        assert held
        assert "bucket" not in run.sim.ids()
        verbs = [i.verb for i in run.state.intents.values() if i.target.startswith("bucket/")]
        assert verbs == ["delete", "purge", "delete"]
        calls = [call for call, _ in run.sim.changes()]
        assert calls.index("DeleteObjects") < len(calls) - calls[::-1].index("BucketService/Delete") - 1


async def test_without_keys_a_bucket_that_must_be_empty_is_reported(tmp_path: Path) -> None:
    refusal = {
        "service": "nebius",
        "match": "BucketService/Delete *",
        "kind": "status",
        "status": "FAILED_PRECONDITION",
    }
    with world(tmp_path, faults=[refusal]) as run:
        roots_ = run.records.roots
        for path in (roots_.config_yaml, roots_.credentials_yaml):
            path.write_text(
                path.read_text().replace("secret_key:", "x_key:").replace("secret_access_key:", "x_key:")
            )
        assert await run.run("agents", "bucket") == 2
        left = run.outcome("bucket")
        assert left.reason == "refused_by_provider"
        assert not any(i.verb == "purge" for i in run.state.intents.values())


async def test_a_bucket_of_nobody_is_held_with_the_command_that_adopts_it(tmp_path: Path) -> None:
    storage = {**WORLD["projects"][0]["storage"], "owned": False}
    with world(tmp_path, projects=project(storage=storage)) as run:
        assert await run.run("bucket") == 2
        held = run.outcome("bucket")
        assert held.reason == "not_owned"
        assert "--adopted-bucket npa-bucket-small" in held.next_command
        assert run.sim.changes() == []
        assert run.records.storage, "keys stay while the bucket does"


async def test_a_bucket_waits_for_the_agent_whose_state_is_in_it(tmp_path: Path) -> None:
    with world(tmp_path) as run:
        assert await run.run("bucket") == 2
        held = run.outcome("bucket")
        assert held.reason == "evidence_needed"
        assert held.next_command == "npa agent destroy --project demo --name agent --yes"
        assert run.sim.changes() == []


async def test_accounts_wait_for_the_vm_and_the_bucket(tmp_path: Path) -> None:
    with world(tmp_path) as run:
        assert await run.run("agent_iam", "storage_iam") == 2
        vm, bucket = run.outcome("agent_iam"), run.outcome("storage_iam")
        assert (vm.reason, bucket.reason) == ("in_use", "evidence_needed")
        assert "computeinstance-e00smallagent" in vm.detail
        assert run.deletes() == []


async def test_an_instance_list_that_is_forbidden_keeps_the_account(tmp_path: Path) -> None:
    with world(tmp_path) as run:
        fault = {
            "service": "nebius",
            "match": "InstanceService/List *",
            "kind": "status",
            "status": "PERMISSION_DENIED",
        }
        run.sim.post("/faults", [fault])
        assert await run.run("agent_iam") == 2
        assert run.outcome("agent_iam").reason == "cannot_see"
        assert run.deletes() == []


async def test_another_member_of_the_group_keeps_group_and_account(tmp_path: Path) -> None:
    member = {
        "kind": "groupmembership", "id": "groupmembership-e00other", "name": "", "parent": "group-e00smallbkt",
        "attrs": {"spec": {"memberId": "useraccount-e00colleague"}},
    }  # fmt: skip
    with world(tmp_path, projects=project(extras=[member])) as run:
        assert await run.run("agents", "bucket", "storage_iam") == 2
        held = run.outcome("storage_iam")
        assert held.reason == "in_use"
        assert "useraccount-e00colleague" in held.detail
        marker = run.records.markers[0]
        assert marker.bucket_cleanup_state == "complete"
        assert marker.service_account_id == "serviceaccount-e00smallbktstor"
