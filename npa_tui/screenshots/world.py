"""One imaginary project: its plan, what is there, and the journals of its teardown at several moments."""

from __future__ import annotations

from collections.abc import Iterable

from engine.inventory.model import Inventory, Row, SourceReport
from engine.ledger.events import (
    Closed,
    Consented,
    Entry,
    Event,
    Intended,
    Noted,
    Opened,
    PhaseEnded,
    Proven,
    Resulted,
    Settled,
    encode,
)
from engine.ledger.journal import link
from engine.run.faces import Account, ProjectLine
from engine.run.preview import PhasePreview, TargetPreview
from engine.words.consent import Consent
from engine.words.identity import Identity
from engine.words.outcomes import Outcome, Status, Verdict
from engine.words.phases import PHASES, ROWS
from engine.words.plans import Evidence, Ownership, Part, PhasePlan, Plan, Target
from engine.words.presence import Absent, Observation, Present, Ref
from engine.words.reasons import Reason

PROJECT = "project-e00k3m9v7tq2x8w4n5"
ALIAS = "ml-sandbox"
RUN = "20260304-140211-9f3c"
NOW = "2026-03-04T14:03:22.000Z"
READ = "2026-03-04T14:03:10.000Z"
IDENTITY = Identity(PROJECT, ALIAS, "tenant-e00c8q2v5x9", "eu-north1")
ACCOUNT = Account("lena@acme", "useraccount-e00d7w3k5t1", "acme-research", "default", "2026-03-05T01:00:00Z")

PROJECTS = (
    ProjectLine(ALIAS, PROJECT, "eu-north1", IDENTITY.tenant_id),
    ProjectLine("vision-train", "project-e00p8d2f6hj4k1z7c3", "eu-north1", IDENTITY.tenant_id, unresolved=2),
    ProjectLine("eval-batch", "project-e00a1s5x9c3v7b2n6m", "eu-west1", IDENTITY.tenant_id),
    ProjectLine("demo-gtc", "project-e00t4r8e2w6q1y5u9i", "eu-north1", IDENTITY.tenant_id, forgotten=True),
    ProjectLine("prod-serving", "project-e00z7x1c5v9b3n2m8k", "eu-north1", IDENTITY.tenant_id, protected=True),
    ProjectLine("team-notebooks", "project-e00l6k2j8h4g1f5d9s", "us-central1", IDENTITY.tenant_id),
    ProjectLine("legacy-import", "project-e00q9w3e7r1t5y2u8i", "eu-west1", IDENTITY.tenant_id, problem="record unreadable"),
)  # fmt: skip

_OWNED = Ownership(Evidence.CREATE_RESPONSE, "deploy-receipt-35ca.json", "created[]")


def _target(phase: str, name: str, *parts: tuple[str, str, str], **detail: str) -> Target:
    made = tuple(Part(Ref(kind, id_), part, _OWNED) for kind, id_, part in parts)
    return Target(f"{phase}/{parts[0][1] if parts else name}", name, made, detail)


TARGETS: dict[str, tuple[Target, ...]] = {
    "workflows": tuple(
        _target("workflows", f"train-{n}", ("run", f"wf-{n:04}-7d1e", f"train-{n}")) for n in (17, 18, 21)
    ),
    "agents": (
        _target(
            "agents", "agent-trainer",
            ("instance", "computeinstance-e00y3vv8k1c7w2b", "agent-trainer"),
            ("disk", "computedisk-e00y4kk2m9d1x5c", "agent-trainer-boot"),
        ),
        _target(
            "agents", "agent-notebook",
            ("instance", "computeinstance-e00f4kq8v2m6xz1", "agent-notebook"),
            ("disk", "computedisk-e00m1vg7t5j9lq3", "agent-notebook-boot"),
        ),
    ),
    "agent_iam": (
        _target("agent_iam", "agent-access", ("service_account", "serviceaccount-e00t7w4p2k9s", "agent-access")),
    ),
    "controller": (
        _target(
            "controller", "sky-jobs-controller",
            ("pod", "4f1b2c7e-8a11-4d0c-93aa-0b6f2d1c9e47", "sky-jobs-controller"),
            ("claim", "91c2a0d4-3be7-49f0-b2c1-77aa03e5d210", "sky-controller-data"), context="mk8s-train",
        ),
    ),
    "clusters": (
        _target(
            "clusters", "mk8s-train", ("cluster", "mk8scluster-e00t1lv7d5y3zd8", "mk8s-train"),
            ("node_group", "mk8snodegroup-e00v6qp1c8m2ra5", "gpu-a"),
        ),
        _target(
            "clusters", "mk8s-eval", ("cluster", "mk8scluster-e00u4ny2f8a6be1", "mk8s-eval"),
            ("node_group", "mk8snodegroup-e00w8zk3n6t4sb7", "gpu-b"),
        ),
    ),
    "registries": (_target("registries", "sandbox-images", ("registry", "registry-e00z1yk7l5k3gk8", "sandbox-images")),),
    "bucket": (_target("bucket", "ml-sandbox-state", ("bucket", "storagebucket-e00w2sd8h4e3dg7", "ml-sandbox-state")),),
    "storage_iam": (
        _target("storage_iam", "storage-gen-1", ("service_account", "serviceaccount-e00a7qx2c9v5n", "storage-gen-1")),
        _target(
            "storage_iam", "storage-gen-2", ("service_account", "serviceaccount-e00b3wz6m1k8p", "storage-gen-2"),
            ("access_key", "accesskey-e00f1lx7r5y3mq8", "gen-2/a"), ("access_key", "accesskey-e00g4nz9s7u5qr2", "gen-2/b"),
        ),
    ),
    "network": (
        _target(
            "network", "default", ("network", "vpcnetwork-e00c2fr8o4r3jn7", "default"),
            ("subnet", "vpcsubnet-e00d5ht1p7u6ko2", "default-eu-north1-a"),
        ),
    ),
    "delete_project": (_target("delete_project", ALIAS, ("project", PROJECT, ALIAS)),),
    "local_cleanup": tuple(
        _target("local_cleanup", path, ("path", path, path))
        for path in ("~/.npa/clusters/ml-sandbox", "~/.npa/agents/ml-sandbox", "~/.npa/terraform-data", "~/.npa/cache")
    ),
    "forget_alias": (_target("forget_alias", ALIAS, ("alias", "config.yaml:projects.ml-sandbox", ALIAS)),),
    "final_audit": (_target("final_audit", "whole project", ("project", PROJECT, ALIAS)),),
}  # fmt: skip


def plan(*, delete_project: bool = True) -> Plan:
    """The imaginary project's plan, with or without the phases that end with the project itself."""
    rows = [r for r in ROWS if delete_project or not r.with_project]
    return Plan(
        IDENTITY,
        tuple(
            PhasePlan(r.name, TARGETS[r.name], "look" if r.name == "final_audit" else "absent") for r in rows
        ),
    )


PLAN = plan()

_DAY = 24.0


def _row(
    kind: str, name: str, id_: str, state: str, days: int, a_day: float, phase: str, *, leaving: bool = False, note: str = ""
) -> Row:  # fmt: skip
    made = f"2026-{(3 if days < 4 else 2 if days < 32 else 1):02}-{4 - days if days < 4 else max(1, 32 - days) if days < 32 else 1:02}T09:00:00Z"
    return Row(
        Ref(kind, id_), name, state, leaving, made if days < 63 else "2025-11-04T09:00:00Z", phase,
        _OWNED if phase else Ownership(), a_day / _DAY, note,
    )  # fmt: skip


ROWS_THERE: tuple[Row, ...] = (
    _row("instance", "agent-trainer", "computeinstance-e00y3vv8k1c7w2b", "running", 12, 9.12, "agents"),
    _row("instance", "agent-notebook", "computeinstance-e00f4kq8v2m6xz1", "running", 12, 9.12, "agents"),
    _row("instance", "gpu-a-0", "computeinstance-e00g9tr3b7n1cw5", "running", 9, 153.60, "clusters"),
    _row("instance", "gpu-a-1", "computeinstance-e00h2yd6p8k4vj7", "running", 9, 153.60, "clusters"),
    _row("instance", "gpu-b-0", "computeinstance-e00j5ws1q9f3bx2", "running", 31, 38.40, "clusters"),
    _row("disk", "agent-trainer-boot", "computedisk-e00y4kk2m9d1x5c", "attached", 12, 1.40, "agents"),
    _row("disk", "agent-notebook-boot", "computedisk-e00m1vg7t5j9lq3", "attached", 12, 1.40, "agents"),
    _row("disk", "gpu-a-0-boot", "computedisk-e00n4bh2y6m8pw1", "attached", 9, 1.40, "clusters"),
    _row("disk", "gpu-a-1-boot", "computedisk-e00p7dk5u1q3rx4", "attached", 9, 1.40, "clusters"),
    _row("disk", "pvc-ckpt", "computedisk-e00q2fm8i4s6tz7", "attached", 54, 18.90, "clusters"),
    _row("cluster", "mk8s-train", "mk8scluster-e00t1lv7d5y3zd8", "running", 31, 4.80, "clusters"),
    _row("cluster", "mk8s-eval", "mk8scluster-e00u4ny2f8a6be1", "running", 54, 4.80, "clusters"),
    _row("bucket", "ml-sandbox-state", "storagebucket-e00w2sd8h4e3dg7", "active", 120, 9.84, "bucket", note="1 892 526 objects"),
    _row("registry", "sandbox-images", "registry-e00z1yk7l5k3gk8", "active", 77, 0.41, "registries"),
    _row("service_account", "agent-access", "serviceaccount-e00t7w4p2k9s", "active", 12, 0.0, "agent_iam"),
    _row("service_account", "storage-gen-1", "serviceaccount-e00a7qx2c9v5n", "active", 120, 0.0, "storage_iam"),
    _row("service_account", "storage-gen-2", "serviceaccount-e00b3wz6m1k8p", "active", 44, 0.0, "storage_iam"),
    _row("access_key", "gen-2/a", "accesskey-e00f1lx7r5y3mq8", "active", 44, 0.0, "storage_iam"),
    _row("access_key", "gen-2/b", "accesskey-e00g4nz9s7u5qr2", "active", 44, 0.0, "storage_iam"),
    _row("allocation", "203.0.113.17", "vpcallocation-e00b7dp5n1p9im4", "in use", 31, 0.93, "clusters"),
    _row("network", "default", "vpcnetwork-e00c2fr8o4r3jn7", "in use", 120, 0.0, "network"),
    _row("subnet", "default-eu-north1-a", "vpcsubnet-e00d5ht1p7u6ko2", "in use", 120, 0.0, "network"),
    _row("project", ALIAS, PROJECT, "active", 120, 0.0, "delete_project"),
)  # fmt: skip
SCRATCH = _row("disk", "scratch-nvme", "computedisk-e00r5hp1o7u9vb2", "detached", 61, 11.20, "")

SOURCES = ("compute", "kubernetes", "object storage", "registry", "identity", "network", "skypilot")
HAZARDS = ("budget prod-eval/gate allows no eviction", "scratch-nvme is in no phase")


def reports(at: str = READ, *, failed: str = "") -> tuple[SourceReport, ...]:
    counts = dict(zip(SOURCES, (10, 2, 1, 1, 5, 3, 0), strict=True))
    return tuple(
        SourceReport(
            n, 0, at, "denied",
            f"The account lacks compute.instances.list on {PROJECT} (PERMISSION_DENIED, request 6f2e0b1c-77ad-4a0e)",
        )
        if n == failed
        else SourceReport(n, counts[n], at)
        for n in SOURCES
    )  # fmt: skip


def inventory(*, without: frozenset[str] = frozenset(), at: str = READ, failed: str = "") -> Inventory:
    """What is there, but for some ids."""
    rows = tuple(r for r in (*ROWS_THERE, SCRATCH) if r.ref.id not in without)
    ordered = sorted(rows, key=lambda r: _KIND_ORDER.index(r.ref.kind))
    return Inventory(PROJECT, tuple(ordered), reports(at, failed=failed), at, hazards=HAZARDS if rows else ())


_KIND_ORDER = list(dict.fromkeys(r.ref.kind for r in ROWS_THERE))


def ids_of(*phases: str) -> frozenset[str]:
    """The ids of everything that these phases remove."""
    named = {p.ref.id for phase in phases for t in TARGETS[phase] for p in t.parts}
    return frozenset(named | {r.ref.id for r in ROWS_THERE if r.phase in phases})


# -- journals -------------------------------------------------------------------------------------------------------------


class Script:
    """Writes a journal's entries as a runner would, at chosen seconds after 14:02:11."""

    def __init__(self, plan_: Plan = PLAN) -> None:
        self.plan = plan_
        self.entries: list[Entry] = []
        self._prev = ""
        self.second = 0.0
        self.add(Opened(plan_, "destroy", "op-35ca", "receipt-35ca", ("npa", "destroy"), "npa-tui 0.1.0"))

    def add(self, event: Event) -> int:
        seq = len(self.entries) + 1
        whole = int(self.second)
        minute, second = divmod(11 + whole, 60)
        hour, minute = divmod(14 * 60 + 2 + minute, 60)
        at = f"2026-03-04T{hour:02}:{minute:02}:{second:02}.{int(self.second % 1 * 1000):03}Z"
        entry = Entry(1, seq, at, RUN, self._prev, event)
        self._prev = link(encode(entry))
        self.entries.append(entry)
        return seq

    def at(self, second: float) -> Script:
        self.second = second
        return self

    @property
    def time(self) -> str:
        return self.entries[-1].at

    def consent(self, *phases: str) -> None:
        tier = max(PHASES[p].tier for p in phases)
        self.add(Consented(Consent(self.plan.digest, phases, int(tier), ACCOUNT.name)))

    def begin(self, phase: str) -> None:
        self.add(Noted(phase, "phase_began"))

    def ask(self, target: Target, verb: str = "delete", part: int = 0) -> int:
        return self.add(Intended(target.key, verb, target.parts[part].ref, "fp", 0))

    def agreed(self, intent: int) -> None:
        self.add(Resulted(intent, True))

    def gone(self, target: Target) -> None:
        seen = tuple(Observation(p.ref, Absent(), self.entries[-1].at, "compute") for p in target.parts)
        self.add(Proven(target.key, (*seen, *seen)))
        self.add(Settled(target.phase, Outcome(target.key, Verdict.DONE, acted=True)))

    def end(self, phase: str, status: Status = Status.COMPLETED, *blocked: str) -> None:
        self.add(PhaseEnded(phase, status, blocked))

    def whole(self, phase: str, seconds: float) -> None:
        """A phase from consent to end, everything gone."""
        if PHASES[phase].tier:
            self.consent(phase)
        self.begin(phase)
        start = self.second
        for n, target in enumerate(TARGETS[phase], 1):
            if PHASES[phase].tier:
                self.agreed(self.ask(target, "cancel" if phase == "workflows" else "delete"))
                self.at(start + seconds * n / len(TARGETS[phase]))
                self.gone(target)
            else:
                self.at(start + seconds)
                self.add(Settled(phase, Outcome(target.key, Verdict.DONE)))
        self.end(phase)


def running() -> Script:
    """One phase done, one at work, one that waits for an answer."""
    script = Script().at(1)
    script.whole("workflows", 18)
    script.at(20).consent("agents")
    script.begin("agents")
    trainer, notebook = TARGETS["agents"]
    asked = script.at(20.5).ask(trainer)
    script.at(21).agreed(asked)
    script.at(29).add(Noted(trainer.key, "waiting", "operation computeoperation-e00r1 is running"))
    script.at(41).gone(trainer)
    asked = script.at(42).ask(notebook)
    script.at(43).add(
        Noted(notebook.key, "progress", "the boot disk has auto-delete off: it is deleted after the VM")
    )
    script.at(44).agreed(asked)
    asked = script.at(52).ask(notebook)
    script.at(56).add(Resulted(asked, False, "throttled", "429 too many requests", "req-88d1"))
    asked = script.at(60).ask(notebook, part=1)
    script.at(62).add(Noted(notebook.key, "progress", "deleting instance"))
    return script


def failed() -> Script:
    """A cluster that would not go, and what stands behind it."""
    script = Script().at(1)
    script.whole("workflows", 38)
    script.consent("agents")
    script.begin("agents")
    trainer, notebook = TARGETS["agents"]
    start = script.second
    script.agreed(script.ask(trainer))
    script.agreed(script.ask(notebook))
    script.at(start + 134).gone(trainer)
    script.add(
        Settled(
            "agents",
            Outcome(notebook.key, Verdict.DONE, True, residue="~/.npa/agents/notebook could not be removed"),
        )
    )
    script.end("agents", Status.DEGRADED)
    script.whole("agent_iam", 9)
    script.whole("controller", 100)
    script.consent("clusters")
    script.begin("clusters")
    train, evaluation = TARGETS["clusters"]
    start = script.second
    script.agreed(script.ask(train))
    script.agreed(script.ask(evaluation))
    script.at(start + 300).gone(train)
    script.at(start + 412).add(
        Settled(
            "clusters",
            Outcome(
                evaluation.key, Verdict.LEFT, True, Reason.NOT_DRAINED,
                "node group gpu-b still drains: a disruption budget in namespace prod-eval allows no eviction",
                next_command="npa destroy --project ml-sandbox --all --yes",
            ),
        )
    )  # fmt: skip
    script.end("clusters", Status.PARTIAL)
    for phase in ("registries", "bucket", "network"):
        script.end(phase, Status.BLOCKED, "clusters")
    script.end("storage_iam", Status.BLOCKED, "bucket")
    script.end("delete_project", Status.BLOCKED, "clusters", "registries", "bucket", "storage_iam", "network")
    for phase in ("local_cleanup", "forget_alias", "final_audit"):
        script.end(phase, Status.CANCELLED)
    script.add(Closed(2, final=False))
    return script


_SECONDS = (38, 134, 9, 100, 412, 47, 31, 24, 15, 8, 2, 1, 18)


def finished() -> Script:
    """Everything gone."""
    script = Script().at(1)
    for row, seconds in zip(ROWS, _SECONDS, strict=True):
        script.whole(row.name, seconds)
    script.add(Closed(0, final=True))
    return script


# -- what a dialog sees ---------------------------------------------------------------------------------------------------

_TOUCHES: dict[str, tuple[str, ...]] = {
    "workflows": ("2 of the runs write to ml-sandbox-state every few minutes",),
    "controller": ("!managed jobs can no longer be listed after this: 0 are active now", "cluster mk8s-train stays until it is taken down"),
    "clusters": ("!4 disruption budgets in kube-system are lifted, and put back if a cluster stays", "!volume pvc-ckpt dies with its cluster: 1.8 TiB"),
    "bucket": (
        "!ckpt/ was written to 3 hours ago, after the last run was cancelled",
        "!no copy of this bucket is known; versions are deleted too",
    ),
    "local_cleanup": ("receipts and journals stay where they are",),
}  # fmt: skip


def preview(
    plan_: Plan, phase: str, *, at: str = NOW, gone: Iterable[str] = (), other: Iterable[str] = ()
) -> PhasePreview:
    """A look at a phase. `gone`: ids that are not there; `other`: ids under which another thing is."""
    here = plan_.phase(phase)
    absent, changed = set(gone), set(other)
    targets = []
    for target in here.targets if here else ():
        sight = tuple(
            Observation(
                p.ref,
                Absent() if p.ref.id in absent else Present(f"{p.ref.id}{'-second' if p.ref.id in changed else ''}", _state(p.ref.kind)),
                at, "compute",
            )
            for p in target.parts
        )  # fmt: skip
        targets.append(TargetPreview(target, sight, None, PHASES[phase].tier, _TOUCHES.get(phase, ())))
    return PhasePreview(plan_, phase, tuple(targets), at)


def _state(kind: str) -> str:
    return {"instance": "running", "cluster": "running", "run": "running", "pod": "running", "claim": "bound",
            "disk": "attached", "path": "there", "alias": "configured"}.get(kind, "active")  # fmt: skip
