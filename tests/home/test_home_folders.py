"""Clusters, ledgers, runs, agents' folders, buckets, and what else lies about."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.home.clusters import ManagedBy, read_clusters
from engine.home.errors import Fault, Kind, RecordError
from engine.home.records import gather
from engine.home.removal import remove_residue, remove_tree
from engine.home.residue import Residue, ResidueKind, read_residue, tree_bytes
from engine.home.roots import Roots, roots
from engine.home.runs import read_runs, scope
from engine.home.submissions import Audit, read_submissions

Put = Callable[[str, str], Path]
DEMO = "project-e00demo"
CLUSTER = {
    "name": "c", "cluster_id": "mk8scluster-a", "project_id": "project-a", "region": "r", "node_count": 0, "node_platform": "p", "node_preset": "q",
    "k8s_version": "1.33", "created_at": "2026-12-01T05:00:00Z",
}  # fmt: skip


# --- clusters -----------------------------------------------------------------------------------------------------------------


def test_a_cluster_with_its_required_fields_only(home: Roots, put: Put) -> None:
    put("clusters/ctx/cluster.json", json.dumps(CLUSTER))
    (folder,) = read_clusters(home).folders
    assert (
        folder.cluster is not None
        and folder.cluster.last_seen_state == "UNKNOWN"
        and folder.cluster.node_count == 0
    )
    assert folder.metadata is None and folder.evidence == ("cluster.json",)


@pytest.mark.parametrize("field", sorted(CLUSTER))
def test_a_missing_required_field_is_one_problem_and_hides_no_other_cluster(
    home: Roots, put: Put, field: str
) -> None:
    put("clusters/bad/cluster.json", json.dumps({k: v for k, v in CLUSTER.items() if k != field}))
    put("clusters/good/cluster.json", json.dumps(CLUSTER))
    put("clusters/good/metadata.json", "[]")
    found = read_clusters(home)
    assert [(f.context, bool(f.cluster)) for f in found.folders] == [("bad", False), ("good", True)]
    assert [p.field for p in found.problems] == [field, ""]
    assert gather(home, "project-b").problems_of(Kind.CLUSTERS)


@pytest.mark.parametrize(
    ("text", "manager"),
    [(m.value, m) for m in ManagedBy] + [("kubespray", None), ("", None)],
)
def test_who_takes_a_cluster_down(home: Roots, put: Put, text: str, manager: ManagedBy | None) -> None:
    put(
        "clusters/ctx/metadata.json",
        json.dumps({"managed_by": text, "backend_project_id": "project-a", "fleet": "f"}),
    )
    (folder,) = read_clusters(home).folders
    assert folder.metadata is not None and folder.metadata.manager is manager
    assert folder.project_id == "project-a" and folder.metadata.get("fleet") == "f"


def test_evidence_of_an_interrupted_apply_and_of_terraform_state(
    home: Roots, put: Put, tmp_path: Path
) -> None:
    module = tmp_path / "repo" / "deploy" / "cluster"
    (module / ".terraform").mkdir(parents=True)
    inventory = {
        "version": 1,
        "managed_by": "npa",
        "kind": "cluster-terraform-inventory",
        "context": "ctx",
        "terraform_dir": str(module),
        "status": "apply_started",
    }
    put("clusters/ctx/terraform-lifecycle.json", json.dumps(inventory))
    (folder,) = read_clusters(home).folders
    assert folder.evidence == ("terraform-lifecycle.json",) and folder.state_files == ()
    (module / ".tfstate.d" / "w").mkdir(parents=True)
    (module / ".tfstate.d" / "w" / "terraform.tfstate").touch()
    (module / "terraform.tfstate").touch()
    (folder,) = read_clusters(home).folders
    assert [p.name for p in folder.state_files] == ["terraform.tfstate", "terraform.tfstate"]
    assert folder.evidence == ("terraform-lifecycle.json", "terraform state")


def test_a_folder_that_names_no_project_goes_by_who_claims_its_context(home: Roots, put: Put) -> None:
    put("clusters/mine/kubeconfig", "x")
    put("clusters/theirs/kubeconfig", "x")
    put("clusters/nobodys/kubeconfig", "x")
    put(
        "config.yaml",
        "projects: {a: {project_id: project-a, kubernetes: {context: mine}}, b: {project_id: project-b, kubernetes: {context: theirs}}}\n",
    )
    records = gather(home, "project-a")
    assert [c.context for c in records.clusters] == ["mine"] and [c.context for c in records.unclaimed] == [
        "nobodys"
    ]


def test_a_linked_kubeconfig_is_refused(home: Roots, put: Put, tmp_path: Path) -> None:
    put("clusters/ctx/cluster.json", json.dumps(CLUSTER))
    (home.clusters / "ctx" / "kubeconfig").symlink_to(tmp_path / "k")
    (folder,) = read_clusters(home).folders
    assert folder.kubeconfig is None and [p.fault for p in folder.problems] == [Fault.REFUSED]


# --- ledgers and runs ---------------------------------------------------------------------------------------------------------


def ledger(**changes: Any) -> str:
    base = {
        "schema_version": "npa.workflow.submission.v1",
        "project": "demo",
        "run_id": "run-1",
        "updated_at": "2026-12-01T05:00:00Z",
    }
    return json.dumps({**base, **changes})


@pytest.mark.parametrize(
    ("changes", "never"),
    [
        ({"launch_state": "planned"}, True), ({"launch_state": "reserved"}, True), ({"launch_state": "staged"}, True),
        ({"launch_state": "not_submitted"}, True), ({"launch_state": "launched"}, False), ({}, False), ({"workflow": {}}, True),
        ({"launch_state": "planned", "launch": {}}, False), ({"launch_state": "planned", "launch": None}, False),
        ({"launch_state": "planned", "launch": "x"}, False), ({"workflow": {}, "launch": {"status": "failed"}}, False),
    ],
)  # fmt: skip
def test_what_proves_that_a_run_was_never_launched(
    home: Roots, put: Put, changes: dict[str, Any], never: bool
) -> None:
    put("workflow-submissions/demo/run-1.json", ledger(**changes))
    found = read_submissions(home, ["demo"])
    assert not found.problems and found.ledgers[0].never_launched is never
    assert found.audit is (Audit.NOT_SUBMITTED if never else Audit.LAUNCH_EVIDENCE)


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", ledger(schema_version="npa.workflow.submission.v2"), ledger(schema_version=None), ledger(project="other"),
        ledger(run_id="other"), ledger(run_id=""), ledger(workflow=[]),
    ],
)  # fmt: skip
def test_a_ledger_that_cannot_be_trusted_makes_the_audit_unavailable(
    home: Roots, put: Put, text: str
) -> None:
    put("workflow-submissions/demo/run-1.json", text)
    put("workflow-submissions/demo/run-2.json", ledger(run_id="run-2", launch_state="planned"))
    found = read_submissions(home, ["demo"])
    assert found.audit is Audit.UNAVAILABLE and [s.run_id for s in found.ledgers] == ["run-2"]


def test_a_linked_ledger_folder_makes_the_audit_unavailable(home: Roots, put: Put, tmp_path: Path) -> None:
    put("workflow-submissions/x", "")
    (home.submissions / "demo").symlink_to(tmp_path)
    assert read_submissions(home, ["demo"]).audit is Audit.UNAVAILABLE
    assert read_submissions(home, ["none"]).audit is Audit.ABSENT


def test_a_job_id_may_be_a_number(home: Roots, put: Put) -> None:
    put("workflow-submissions/demo/run-1.json", ledger(launch={"status": "submitted", "job_id": 7}))
    assert read_submissions(home, ["demo"]).ledgers[0].sky_job_id == "7"


def test_ledgers_of_a_reused_alias_are_not_taken_for_the_old_project(home: Roots, put: Put) -> None:
    put("config.yaml", "projects: {demo: {project_id: project-new}}\n")
    put("workflow-submissions/demo/run-1.json", ledger(launch_state="planned"))
    put(
        "teardown-receipts/r.json",
        json.dumps(
            {
                "schema_version": "npa.teardown.receipt.v2",
                "receipt_id": "r",
                "project_alias": "demo",
                "project_id": DEMO,
                "events": [],
            }
        ),
    )
    assert gather(home, DEMO, "demo").submissions.ledgers == ()
    assert gather(home, DEMO, "demo").aliases == ()


def test_a_run_is_found_by_its_project_and_ended_only_when_verified(home: Roots, put: Put) -> None:
    assert scope(DEMO) == "project-e00demo-35ca7d3f2427"
    assert scope("physical-ai-data-factory") == "physical-ai-data-factory-2e26cd6ae3ae"
    base = {
        "schema_version": "npa.workflow.first-run.v1",
        "run_id": "r",
        "project_identity": DEMO,
        "last_known_state": "SUCCEEDED",
    }
    put(f"workflow-runs/{scope(DEMO)}/a.json", json.dumps({**base, "last_verification_status": "VERIFIED"}))
    put(f"workflow-runs/{scope(DEMO)}/b.json", json.dumps({**base, "last_verification_status": "UNVERIFIED"}))
    put(f"workflow-runs/{scope(DEMO)}/c.json", "{")
    put(f"workflow-runs/{scope('alias:demo')}/d.json", json.dumps({**base, "project_identity": "alias:demo"}))
    found = read_runs(home, DEMO, ["demo"])
    assert [r.ended for r in found.records] == [True, False, False] and len(found.problems) == 1


# --- agents and buckets -------------------------------------------------------------------------------------------------------


def test_an_agents_local_state_is_seen(home: Roots, put: Put) -> None:
    put("config.yaml", "projects: {demo: {project_id: project-a}}\n")
    put("workbenches/demo/x/main.tf", "")
    put("workbenches/demo/x/errored.tfstate", "{}")
    put("agents/demo/y/auth.env", "AGENT_PASSWORD=p")
    folders = gather(home, "project-a").agent_folders
    x, y = folders.get("demo", "x"), folders.get("demo", "y")
    assert (
        x is not None
        and x.modules
        and [p.name for p in x.states] == ["errored.tfstate"]
        and x.auth_env is None
    )
    assert y is not None and y.auth_env is not None and y.workdir is None


def test_a_bucket_that_another_projects_record_names_is_claimed(home: Roots, put: Put) -> None:
    put(
        "config.yaml",
        "projects:\n"
        "  a: {project_id: project-a, terraform_state: {bucket: shared, secret_key: s}}\n"
        "  b: {project_id: project-b, storage: {bucket: s3://shared/x, secret_key: s}}\n"
        "  c: {project_id: project-c, terraform_state: {bucket: alone}}\n",
    )
    records = gather(home, "project-a")
    assert {n: [(c.project_id, c.field) for c in cs] for n, cs in records.claims.items()} == {
        "shared": [("project-b", "projects.b.storage")]
    }
    assert gather(home, "project-c").claims == {}


def test_a_receipt_of_another_project_claims_a_bucket_too(home: Roots, put: Put) -> None:
    put("config.yaml", "projects: {a: {project_id: project-a, terraform_state: {bucket: shared}}}\n")
    put(
        "teardown-receipts/r.json",
        json.dumps(
            {
                "schema_version": "npa.teardown.receipt.v2",
                "receipt_id": "r",
                "project_id": "project-b",
                "events": [],
                "identity": {"terraform_backends": [{"bucket": "shared"}]},
            }
        ),
    )
    assert [c.record for c in gather(home, "project-a").claims["shared"]] == ["teardown-receipts/r.json"]


def test_a_created_bucket_has_its_id_and_its_proof(state: Any) -> None:
    owned = {(b.bucket_id, b.record) for b in gather(state("full"), DEMO).buckets if b.owned}
    assert owned == {
        ("bucket-e00demo", "credentials.yaml"),
        ("bucket-e00demo", "operations/storage-npa-bucket-d-9ed36f363968eee5/journal.json"),
    }


# --- residue ------------------------------------------------------------------------------------------------------------------


def scratch(home: Roots, put: Put, name: str = "active/run-ab12", **changes: Any) -> Path:
    folder = home.terraform_scratch / name
    marker = {
        "version": 1,
        "managed_by": "npa",
        "kind": "cluster-terraform-data",
        "path": str(folder),
        "context": "ctx",
    }
    put(f"terraform-data/cluster/{name}/.npa-owned.json", json.dumps({**marker, **changes}))
    return folder


def only(home: Roots, kind: ResidueKind, **given: Any) -> list[Residue]:
    return [r for r in read_residue(home, **given) if r.kind is kind]


def test_scratch_is_a_projects_own_by_its_context(home: Roots, put: Put) -> None:
    scratch(home, put)
    scratch(home, put, "run-legacy", context="other")
    found = only(home, ResidueKind.TERRAFORM_SCRATCH, contexts=["ctx"])
    assert [(r.path.name, r.own, r.obstacle) for r in found] == [
        ("run-ab12", True, ""),
        ("run-legacy", False, ""),
    ]


@pytest.mark.parametrize(
    "changes", [{"path": "/elsewhere"}, {"version": 2}, {"managed_by": "x"}, {"kind": "x"}, {"context": 5}]
)
def test_scratch_with_a_marker_that_does_not_fit_is_not_removed(
    home: Roots, put: Put, changes: dict[str, Any]
) -> None:
    folder = scratch(home, put, **changes)
    (item,) = only(home, ResidueKind.TERRAFORM_SCRATCH)
    assert item.obstacle
    with pytest.raises(RecordError):
        remove_residue(item)
    assert folder.exists()


def test_scratch_in_use_is_not_removed_until_it_is_free(home: Roots, put: Put) -> None:
    folder = scratch(home, put)
    with (folder / ".npa-in-use.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (item,) = only(home, ResidueKind.TERRAFORM_SCRATCH)
        assert "Terraform run" in item.obstacle
    (item,) = only(home, ResidueKind.TERRAFORM_SCRATCH)
    assert remove_residue(item) and not folder.exists() and not remove_residue(item)


def test_links_are_shown_and_never_removed(home: Roots, put: Put, tmp_path: Path) -> None:
    """Turned round: the recorded CLI ignores a linked cache and calls the machine clean."""
    put("agents/x/y/z", "")
    (tmp_path / "real").mkdir()
    for name in ("skypilot-venv", "terraform-plugin-cache", "agents/linked"):
        (home.home / name).symlink_to(tmp_path / "real")
    found = read_residue(home)
    assert {r.kind for r in found} == {
        ResidueKind.SKYPILOT_VENV,
        ResidueKind.PLUGIN_CACHE,
        ResidueKind.EMPTY_FOLDER,
    }
    for item in found:
        with pytest.raises(RecordError):
            remove_residue(item)
    assert (tmp_path / "real").exists()


def test_empty_folders_leftovers_and_shared_state(home: Roots, put: Put) -> None:
    (home.agents / "demo" / "hollow").mkdir(parents=True)
    put("workbenches/demo/x/main.tf", "")
    put(".npa-cleanup-12-ab/x", "")
    put(".skypilot-venv.staging-1/x", "")
    home.sky_state.mkdir()
    found = {(r.kind, r.path.name, r.own) for r in read_residue(home, aliases=["demo"])}
    assert found == {
        (ResidueKind.EMPTY_FOLDER, "demo", True), (ResidueKind.QUARANTINE, ".npa-cleanup-12-ab", False),
        (ResidueKind.VENV_EXCHANGE, ".skypilot-venv.staging-1", False), (ResidueKind.SKY_STATE, ".sky", False),
    }  # fmt: skip
    (item,) = only(home, ResidueKind.EMPTY_FOLDER, aliases=["demo"])
    (home.agents / "demo" / "hollow" / "came-meanwhile").touch()
    with pytest.raises(OSError, match="not empty"):
        remove_residue(item)
    (home.agents / "demo" / "hollow" / "came-meanwhile").unlink()
    assert remove_residue(item) and not (home.agents / "demo").exists()


def test_both_plugin_caches_are_seen_when_the_roots_are_split(tmp_path: Path) -> None:
    """Turned round: the recorded CLI writes one of them and cleans the other."""
    home = roots(
        {
            "HOME": str(tmp_path),
            "NPA_CONFIG_DIR": str(tmp_path / "c"),
            "TF_PLUGIN_CACHE_DIR": str(tmp_path / "t"),
        }
    )
    for path in (
        home.home / "terraform-plugin-cache",
        home.config / "terraform-plugin-cache",
        tmp_path / "t",
    ):
        path.mkdir(parents=True)
    found = only(home, ResidueKind.PLUGIN_CACHE)
    assert [(r.path.parent.name, bool(r.obstacle)) for r in found] == [
        (tmp_path.name, True),
        (".npa", False),
        ("c", False),
    ]


@pytest.mark.parametrize("what", ["fine", "no-module", "empty", "linked-deploy"])
def test_the_old_cache_in_a_checkout(home: Roots, tmp_path: Path, what: str) -> None:
    top = tmp_path / "repo"
    module = (tmp_path / "real" if what == "linked-deploy" else top / "deploy") / "cluster"
    module.mkdir(parents=True)
    (top / ".git").mkdir(parents=True)
    if what == "linked-deploy":
        (top / "deploy").symlink_to(tmp_path / "real")
    (module / ".terraform").mkdir()
    if what != "empty":
        (module / ".terraform" / "providers").mkdir()
    for name in ("main.tf", "versions.tf", ".terraform.lock.hcl") if what != "no-module" else ():
        (module / name).touch()
    (item,) = only(home, ResidueKind.SOURCE_CACHE, start=top / "deploy")
    assert bool(item.obstacle) is (what != "fine")
    if what == "fine":
        assert remove_residue(item) and sorted(p.name for p in module.iterdir()) == [
            ".terraform.lock.hcl",
            "main.tf",
            "versions.tf",
        ]


def test_only_the_thing_that_was_looked_at_is_removed(home: Roots, put: Put) -> None:
    folder = scratch(home, put)
    (item,) = only(home, ResidueKind.TERRAFORM_SCRATCH)
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    with pytest.raises(RecordError) as caught:
        remove_residue(item)
    assert caught.value.problem.fault is Fault.CONFLICT and folder.exists()


def test_a_tree_is_removed_without_following_links_in_it(home: Roots, put: Put, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "x").touch()
    put("agents/demo/agent/auth.env", "p")
    (home.agents / "demo" / "agent" / "link").symlink_to(tmp_path / "precious")
    assert remove_tree(home.agents / "demo" / "agent", root=home.home, kind=Kind.AGENTS)
    assert (tmp_path / "precious" / "x").exists() and os.listdir(home.agents / "demo") == []  # noqa: PTH208
    assert not remove_tree(home.agents / "demo" / "agent", root=home.home, kind=Kind.AGENTS)
    (home.agents / "demo" / "agent").symlink_to(tmp_path / "precious")
    with pytest.raises(RecordError):
        remove_tree(home.agents / "demo" / "agent", root=home.home, kind=Kind.AGENTS)


def test_bytes_of_a_tree_count_files_once_and_no_link_targets(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x").write_bytes(b"1234")
    (tmp_path / "a" / "b" / "y").write_bytes(b"12")
    (tmp_path / "big").write_bytes(b"1" * 100)
    (tmp_path / "a" / "l").symlink_to(tmp_path / "big")
    assert tree_bytes(tmp_path / "a") == 6 and tree_bytes(tmp_path / "none") == 0
