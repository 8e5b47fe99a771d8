"""One project's home on disk, and small stand-ins for the provider, SkyPilot, a cluster and Terraform, for phases through the real runner."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import toy
import yaml

from engine.clock import Clock
from engine.clouds.skypilot import Job, Queue, SkyCluster
from engine.clouds.terraform import StateResource, StateView, TerraformEvent
from engine.home.controller_owner import ControllerOwner
from engine.home.records import Records, gather
from engine.home.roots import Roots, roots
from engine.ledger.journal import Journal, load
from engine.ledger.state import State
from engine.phases.clusters import Clusters
from engine.phases.controller import Controller
from engine.phases.controller_place import PlaceReader, current_owner
from engine.phases.jobs import Claims, read_claims
from engine.phases.workflows import Workflows
from engine.run.runner import Opening, Pace, Runner
from engine.words.consent import Consent
from engine.words.identity import Identity
from engine.words.intents import Intent
from engine.words.outcomes import Outcome
from engine.words.plans import PhasePlan, Plan
from engine.words.presence import (
    Absent,
    Cause,
    Listing,
    Observation,
    Present,
    Ref,
    Resource,
    Unknown,
)
from engine.words.trouble import Trouble

PROJECT, OTHER, TENANT = "project-e00mine", "project-e00other", "tenant-e00example"
ALIAS, OTHER_ALIAS = "demo", "vision"
CLUSTER, NETWORK, SUBNET, ACCOUNT = (
    "mk8scluster-e00mine",
    "vpcnetwork-e00mine",
    "vpcsubnet-e00mine",
    "serviceaccount-e00mine",
)
GROUP, NODE, DISK = "mk8snodegroup-e00mine", "computeinstance-e00node", "computedisk-e00node"
CONTEXT, SERVER = "demo-gpu", "https://203.0.113.5"
ROW = "sky-jobs-controller-abcd1234"
SCALE = 0.002


# ---------------------------------------------------------------------------------------------------------------- home


class Home:
    """Writes the records of a home as the existing CLI would."""

    def __init__(self, folder: Path) -> None:
        self.roots: Roots = roots({"HOME": str(folder)})
        self.config: dict[str, Any] = {
            "projects": {
                ALIAS: {"project_id": PROJECT, "tenant_id": TENANT, "region": "eu-north1"},
                OTHER_ALIAS: {"project_id": OTHER, "tenant_id": TENANT, "region": "eu-north1"},
            }
        }
        self.module = folder / "repo/deploy/cluster"

    def write(self, path: Path, text: str) -> Path:
        for parent in reversed(path.relative_to(self.roots.user).parents):
            (self.roots.user / parent).mkdir(mode=0o700, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    def json(self, path: Path, document: Mapping[str, object]) -> Path:
        return self.write(path, json.dumps(document))

    def run(self, run_id: str, job: int | None = None, alias: str = ALIAS, **more: object) -> Path:
        """A ledger; without a job, of a run that was never launched."""
        document: dict[str, object] = {
            "schema_version": "npa.workflow.submission.v1", "project": alias, "run_id": run_id,
            "launch_state": "reserved", "workflow": {"name": "x"}, **more,
        }  # fmt: skip
        if job is not None:
            document["launch"] = {"status": "submitted", "sky_job_id": str(job), "job_name": run_id}
        return self.json(self.roots.submissions / alias / f"{run_id}.json", document)

    def owner(self, project: str = PROJECT, alias: str = ALIAS, cluster: str = CLUSTER) -> None:
        self.config["skypilot"] = {
            "controller_owner": {
                "schema_version": "npa.controller-owner.v1", "project_alias": alias, "project_id": project,
                "cluster_id": cluster, "context": CONTEXT, "cluster_name": CONTEXT,
            }
        }  # fmt: skip

    def cluster(
        self, *, managed_by: str | None = "npa cluster terraform", server: str = SERVER, **more: object
    ) -> None:
        """A saved cluster folder; `managed_by` None leaves its metadata out."""
        folder = self.roots.clusters / CONTEXT
        record = {
            "name": CONTEXT, "cluster_id": CLUSTER, "project_id": PROJECT, "region": "eu-north1", "node_count": 1,
            "node_platform": "gpu-l40s-a", "node_preset": "1gpu", "k8s_version": "1.33", "created_at": "2026-11-20T08:00:00Z",
            "provider_name": CONTEXT, "endpoint": server, **more,
        }  # fmt: skip
        self.json(folder / "cluster.json", record)
        if managed_by is not None:
            self.json(folder / "metadata.json", {"managed_by": managed_by})
        inventory = {
            "version": 1,
            "kind": "cluster-terraform-inventory",
            "context": CONTEXT,
            "terraform_dir": str(self.module),
        }
        self.json(folder / "terraform-lifecycle.json", inventory)
        kubeconfig = {
            "apiVersion": "v1", "kind": "Config", "current-context": "another",
            "contexts": [{"name": CONTEXT, "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {"token": "t"}}],
        }  # fmt: skip
        self.write(folder / "kubeconfig", yaml.safe_dump(kubeconfig))

    def journal(self, *rows: Mapping[str, object], phase: str = "committed", **more: object) -> Path:
        """The operation that made the cluster; without rows, with all that belongs to it."""
        made = rows or (
            row("managed_kubernetes_cluster", CLUSTER), row("network", NETWORK), row("subnet", SUBNET),
            row("service_account", ACCOUNT),
        )  # fmt: skip
        document = {
            "schema_version": "npa.provisioning.operation.v2", "operation_id": "cluster-demo-0001", "command": "npa provision-if-absent",
            "project_alias": ALIAS, "project_id": PROJECT, "tenant_id": TENANT, "region": "eu-north1", "resource_type": "cluster",
            "requested_name": CONTEXT, "ownership_source": "cli", "phase": phase, "lifecycle": "succeeded", "result": "succeeded",
            "backend": {"kind": "local-state", "terraform_dir": str(self.module)}, "resources": list(made), "events": [], **more,
        }  # fmt: skip
        return self.json(self.roots.operation("cluster-demo-0001") / "journal.json", document)

    def lay_module(self, *cluster_ids: str, resources: Sequence[Mapping[str, object]] = ()) -> None:
        """A module with a local state that holds these clusters."""
        self.write(self.module / "main.tf", 'variable "parent_id" {\n  type = string\n}\n')
        blocks = [*(state_block("nebius_mk8s_v1_cluster", "cluster", id) for id in cluster_ids), *resources]
        self.json(
            self.module / "terraform.tfstate",
            {"version": 4, "lineage": "l-1", "serial": 3, "outputs": {}, "resources": blocks},
        )

    def records(self) -> Records:
        """Write the configuration, and read everything."""
        self.write(self.roots.config_yaml, yaml.safe_dump(self.config))
        return self.gathered()

    def gathered(self) -> Records:
        """Read everything as it is."""
        return gather(self.roots, PROJECT, ALIAS)


def row(kind: str, id: str, ownership: str = "created_by_this_operation") -> dict[str, object]:
    """A resource of an operation journal."""
    return {"resource_type": kind, "provider_id": id, "requested_name": f"{kind}-name", "project_id": PROJECT, "ownership": ownership,
            "ownership_source": "terraform-state"}  # fmt: skip


def state_block(kind: str, name: str, id: str, **attrs: object) -> dict[str, object]:
    """A resource of a Terraform state."""
    return {"mode": "managed", "type": kind, "name": name, "instances": [{"attributes": {"id": id, **attrs}}]}


# ---------------------------------------------------------------------------------------------------------------- cloud


def thing(kind: str, id: str, parent: str = PROJECT, name: str = "", **attrs: str) -> Resource:
    labels = {"mk8s-cluster-id": attrs.pop("label")} if "label" in attrs else {}
    return Resource(Ref(kind, id), name or id, parent, Present(f"{id}@1", "RUNNING"), "", labels, attrs)


@dataclass
class Cloud:
    """The provider: deletion takes a few looks, children come first, what goes along goes along."""

    things: dict[str, Resource] = field(default_factory=dict)
    leaving: dict[str, int] = field(default_factory=dict)
    deaf: dict[str, Cause] = field(default_factory=dict)
    """id or kind -> why it cannot be seen"""
    failed: dict[str, Trouble] = field(default_factory=dict)
    """id -> how its last operation failed"""
    log: list[str] = field(default_factory=list)

    @classmethod
    def with_cluster(cls, *more: Resource) -> Cloud:
        cloud = cls()
        for r in (
            thing("cluster", CLUSTER, name=CONTEXT, endpoint=f"{SERVER}:443"), thing("network", NETWORK),
            thing("subnet", SUBNET, network_id=NETWORK), thing("service_account", ACCOUNT), thing("node_group", GROUP, CLUSTER),
            thing("instance", NODE, label=CLUSTER, subnets=SUBNET), thing("disk", DISK, label=CLUSTER, managed_by=NODE, attached_to=NODE),
            *more,
        ):  # fmt: skip
            cloud.things[r.ref.id] = r
        return cloud

    async def get(self, ref: Ref, *, expected_parent: str = "") -> tuple[Observation, Resource | None]:
        if cause := self.deaf.get(ref.id) or self.deaf.get(ref.kind):
            return Observation(ref, Unknown(cause, "no"), "t", "cloud"), None
        found = self.things.get(ref.id)
        if found and ref.id in self.leaving:
            self.leaving[ref.id] -= 1
            found = replace(found, presence=replace(found.presence, state="DELETING", leaving=True))
            if self.leaving[ref.id] <= 0:
                self.drop(ref.id)
                found = None
        if found is None:
            return Observation(ref, Absent(), "t", "cloud"), None
        if expected_parent and found.parent != expected_parent:
            return Observation(ref, Unknown(Cause.WRONG_SCOPE, "elsewhere"), "t", "cloud"), None
        return Observation(ref, found.presence, "t", "cloud"), found

    async def look(self, ref: Ref, parent: str = "") -> Observation:
        return (await self.get(ref, expected_parent=parent))[0]

    async def list(self, kind: str, parent: str) -> Listing:
        if cause := self.deaf.get(kind):
            return Listing((), Unknown(cause, "no"), "t", "cloud")
        every = (r for r in self.things.values() if r.ref.kind == kind)
        return Listing(
            tuple(r for r in every if parent in (r.parent, r.attrs.get("network_id"))), None, "t", "cloud"
        )

    def drop(self, id: str) -> None:
        gone = self.things.pop(id, None)
        self.leaving.pop(id, None)
        if gone is None:
            return
        for other in list(self.things.values()):
            along = (
                other.parent == id
                or (other.labels.get("mk8s-cluster-id") == id and other.ref.kind == "instance")
                or other.attrs.get("managed_by") == id
                or (other.attrs.get("network_id") == id and bool(other.attrs.get("default")))
            )
            if along and other.ref.id in self.things:
                self.drop(other.ref.id)

    async def operation_error(self, ref: Ref) -> Trouble | None:
        return self.failed.get(ref.id)

    async def delete(self, intent: Intent) -> None:
        id = intent.ref.id
        self.log.append(f"delete {id}")
        users = {
            SUBNET: [r for r in self.things.values() if r.ref.kind in ("cluster", "instance")],
            NETWORK: [r for r in self.things.values() if r.ref.kind == "subnet"],
            ACCOUNT: [r for r in self.things.values() if r.ref.kind == "cluster"],
        }.get(id, [])
        if users:
            raise Trouble(Cause.CONFLICT, f"{id} is in use by {users[0].ref.id}")
        if id in self.things:
            self.leaving[id] = 2


def job(id: int, name: str, status: str = "RUNNING", user: str = "operator") -> Job:
    terminal = status in ("SUCCEEDED", "CANCELLED", "FAILED")
    return Job(id, 0, name, status, terminal, user, "default", "")


def pod(name: str, uid: str, controller: str = ROW, *, leaving: bool = False) -> Resource:
    labels = {"parent": "skypilot", "skypilot-cluster-name": f"{controller}-u"} if controller else {"parent": "skypilot"}  # fmt: skip
    return Resource(
        Ref("pod", uid), f"default/{name}", "default", Present(f"{uid}@1", "Running", leaving), "", labels
    )


@dataclass
class Cluster:
    """A cluster's API server, and the pods in it."""

    listed: list[Resource] = field(default_factory=list)
    outside: list[Resource] = field(default_factory=list)
    gap: Unknown | None = None
    stuck: bool = False
    log: list[str] = field(default_factory=list)

    async def pods(self, selector: str = "", namespace: str = "") -> Listing:
        assert selector == "parent=skypilot"
        return Listing(() if self.gap else tuple(self.listed), self.gap, "t", "kubernetes demo-gpu")

    async def services(self) -> Listing:
        return Listing(tuple(r for r in self.outside if r.ref.kind == "service"), self.gap, "t", "k")

    async def volumes(self) -> Listing:
        return Listing(tuple(r for r in self.outside if r.ref.kind == "volume"), self.gap, "t", "k")

    async def delete_pod(self, intent: Intent) -> None:
        self.log.append(f"delete pod {intent.ref.id}")
        self.listed = [p for p in self.listed if p.ref != intent.ref]


@dataclass
class Sky:
    """SkyPilot: its queue, its record of the controller, and the cluster that it lives on."""

    jobs: list[Job] = field(default_factory=list)
    row: str = ROW
    context: str = CONTEXT
    cluster: Cluster = field(default_factory=Cluster)
    gap: Unknown | None = None
    deaf_cancels: int = 0
    log: list[str] = field(default_factory=list)
    reads: int = 0

    async def queue(self) -> Queue:
        self.reads += 1
        if self.gap:
            return Queue((), self.gap, at="t", by="skypilot")
        self.jobs = [replace(j, status="CANCELLED", terminal=True) if j.leaving else j for j in self.jobs]
        return Queue(
            tuple(self.jobs) if self.row else (), controller_absent=not self.row, at="t", by="skypilot"
        )

    async def cancel(self, intent: Intent, job_ids: Sequence[int]) -> None:
        self.log.append(f"cancel {' '.join(map(str, job_ids))}")
        if self.deaf_cancels:
            self.deaf_cancels -= 1
            return
        self.jobs = [replace(j, status="CANCELLING") if j.id in job_ids else j for j in self.jobs]

    async def clusters(self) -> tuple[tuple[SkyCluster, ...], Unknown | None]:
        if self.gap:
            return (), self.gap
        if not self.row:
            return (), None
        return (SkyCluster(self.row, "UP", self.context, "Kubernetes", self.row, ""),), None

    async def down(self, intent: Intent, cluster_name: str) -> None:
        self.log.append(f"down {cluster_name}")
        self.row = ""
        if not self.cluster.stuck:
            self.cluster.listed = []

    async def forget(self, intent: Intent, cluster_name: str) -> None:
        self.log.append(f"forget {cluster_name}")
        self.row = ""


@dataclass
class Terraform:
    """Terraform in one module: what its state says, and a destroy that takes the cloud's things along."""

    cloud: Cloud
    view: StateView = field(default_factory=lambda: state(CLUSTER))
    trouble: Trouble | None = None
    leaves: tuple[str, ...] = ()
    log: list[str] = field(default_factory=list)
    variables: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, module: Path, context: str) -> Terraform:
        self.log.append(f"open {module.name} {context}")
        return self

    async def __aenter__(self) -> Terraform:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.log.append("close")

    async def init(self) -> None:
        self.log.append("init")

    async def state(self) -> StateView:
        return self.view

    async def destroy(
        self,
        intent: Intent,
        progress: Callable[[TerraformEvent], None],
        *,
        variables: Mapping[str, str],
        recovery_dir: Path,
    ) -> None:
        self.log.append(f"destroy {intent.ref.id}")
        self.variables = variables
        for n in range(50):
            progress(TerraformEvent("progress", "cluster.k8s", f"still destroying, {n}", float(n)))
        if self.trouble:
            raise self.trouble
        for id in (CLUSTER, SUBNET, ACCOUNT, NETWORK):
            if id not in self.leaves:
                self.cloud.drop(id)
        self.view = state()
        progress(TerraformEvent("done", "cluster.k8s", "destroyed", 9.0))


def state(*cluster_ids: str, resources: Sequence[StateResource] = ()) -> StateView:
    found = tuple(StateResource(f"c.{id}", "nebius_mk8s_v1_cluster", "c", id) for id in cluster_ids)
    return StateView("l-1", 3, tuple(sorted(cluster_ids)), (*found, *resources))


# ---------------------------------------------------------------------------------------------------------------- running


@dataclass
class World:
    """All of it together, and how a run over it ends."""

    root: Path
    home: Home
    cloud: Cloud
    sky: Sky = field(default_factory=Sky)
    terraform: Terraform | None = None
    runs: int = 0

    def __post_init__(self) -> None:
        self.clock = Clock(SCALE)
        self.terraform = self.terraform or Terraform(self.cloud)

    def _claims(self) -> Claims:
        return read_claims(self.home.roots, PROJECT, (ALIAS,))

    def owner(self) -> ControllerOwner | Unknown | None:
        return current_owner(self.home.roots)

    def kubernetes(self, path: Path, context: str) -> Cluster:
        assert context == CONTEXT
        return self.sky.cluster

    @property
    def places(self) -> PlaceReader:
        return PlaceReader(self.cloud, self.kubernetes)

    def workflows(self) -> Workflows:
        return Workflows(lambda: self.sky, self.places, self.clock, self._claims)

    def controller(self) -> Controller:
        return Controller(
            self.home.roots, lambda: self.sky, self.places, self.kubernetes, self.clock, self._claims, self.owner
        )  # fmt: skip

    def clusters(self) -> Clusters:
        assert self.terraform is not None
        return Clusters(
            self.home.roots, self.cloud, self.terraform, self.kubernetes, lambda: self.sky, self.places, self.clock,
            self._claims, self.owner,
        )  # fmt: skip

    async def run(self, *names: str, plan: Plan | None = None, dry: bool = False) -> int:
        """Plan (unless a recorded plan is given) and run these phases; the exit code."""
        built: dict[str, Any] = {n: getattr(self, n)() for n in names}
        if plan is None:
            records = self.home.records()
            plan = Plan(Identity(PROJECT, ALIAS), tuple(built[n].plan(records) for n in names if n in built))
        self.runs += 1
        journal = Journal(
            None if dry else self.root / f"journal-{self.runs}.jsonl", f"r{self.runs}", self.clock
        )
        pace = Pace(spacing=2.0, grace=10.0, blind=20.0)
        runner = Runner(
            plan, built, self.clock, journal, toy.Projector(), Opening("destroy"), pace=pace, dry=dry
        )
        await runner.open()
        await runner.consent(Consent(plan.digest, tuple(p.phase for p in plan.phases), 3, "test"))
        code = await runner.run()
        self.state_now = journal.state
        return code

    def plan(self, *names: str) -> Plan:
        records = self.home.records()
        return Plan(Identity(PROJECT, ALIAS), tuple(getattr(self, n)().plan(records) for n in names))

    @property
    def state(self) -> State:
        return load(self.root / f"journal-{self.runs}.jsonl")

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return self.state_now.outcomes


def only(plan: PhasePlan) -> Any:
    """The one target of a phase."""
    assert len(plan.targets) == 1, plan.targets
    return plan.targets[0]
