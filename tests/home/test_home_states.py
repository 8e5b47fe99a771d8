"""Every recorded state loads, or says why not; none is written to; none reads as clean when it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.home.errors import Fault, Kind
from engine.home.operations import read_state_copy
from engine.home.project_index import load_project_index
from engine.home.records import gather
from engine.home.residue import ResidueKind
from engine.home.roots import Roots
from engine.home.storage_proofs import Source
from engine.home.submissions import Audit

NAMES = (
    "after-partial-destroy", "corrupt-receipts", "crashed-deploy-lease", "credentials-with-service-tokens", "forgotten-alias", "full",
    "iam-marker-blocks-forget", "legacy-flat-config", "legacy-storage-record", "malformed-config", "storage-only", "two-iam-generations",
)  # fmt: skip
DEMO = "project-e00demo"
State = Callable[[str], Roots]


def test_every_recorded_state_is_covered(states: Path) -> None:
    assert sorted(p.name for p in states.iterdir() if p.is_dir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_reading_a_state_writes_nothing_and_never_crashes(name: str, state: State, picture: Any) -> None:
    roots = state(name)
    before = picture(roots.user)
    index = load_project_index(roots)
    for project_id in (*index.known_ids, "project-nobody"):
        gather(roots, project_id, start=roots.user)
    assert picture(roots.user) == before


def test_an_empty_home_has_no_records_no_problems_and_stays_empty(home: Roots, picture: Any) -> None:
    before = picture(home.user)
    records = gather(home, DEMO, "demo")
    assert records.config is None and records.credentials is None
    assert not records.problems and not records.residue and not records.receipts and not records.leases
    assert records.submissions.audit is Audit.ABSENT
    assert picture(home.user) == before


def test_the_full_state_in_every_part(state: State) -> None:
    records = gather(state("full"), DEMO, "demo")
    assert not records.problems
    assert (records.tenant_id, records.region, records.aliases) == ("tenant-e00demo", "eu-north1", ("demo",))
    assert [(a.name, a.instance_id, a.service_account_id) for a in records.agents] == [
        ("agent", "computeinstance-e00demo", "serviceaccount-e00demoagnt")
    ]
    assert records.controller is not None and records.controller.cluster_id == "mk8scluster-e00demo"
    assert {k.bucket for k in records.storage} == {"npa-bucket-demo"} and all(
        k.opens for k in records.storage
    )
    (cluster,) = records.clusters
    assert cluster.cluster is not None and cluster.cluster.cluster_id == "mk8scluster-e00demo"
    assert cluster.metadata is not None and cluster.metadata.manager == "npa cluster terraform"
    assert cluster.evidence == ("terraform-lifecycle.json", "cluster.json", "kubeconfig")
    assert records.agent_account is not None and records.agent_account.owned
    assert records.agent_account.access_key_ids == ("accesskey-e00demoagnt",)
    assert records.creation is not None
    assert records.creation.record == "operations/project-demo-a3bfc34d1de9e84f/journal.json"
    assert records.creation.field == "resources[0]"
    assert records.submissions.audit is Audit.LAUNCH_EVIDENCE
    runs = {s.run_id: s.never_launched for s in records.submissions.ledgers}
    assert runs == {"paidf-20261201-aaaaaa": True, "paidf-20261201-bbbbbb": False}
    (run,) = records.runs.records
    assert run.run_id == "paidf-20261201-bbbbbb" and not run.ended
    folder = records.agent_folders.get("demo", "agent")
    assert folder is not None and folder.auth_env and folder.workdir and folder.modules and not folder.states
    assert {r.kind for r in records.residue} == {ResidueKind.SKYPILOT_VENV, ResidueKind.PLUGIN_CACHE}
    assert not any(r.own for r in records.residue)
    assert records.leases[0].released and not records.blocking_leases


def test_proofs_of_the_storage_account_name_record_and_field(state: State) -> None:
    proofs = gather(state("full"), DEMO).storage_proofs
    assert [(p.source, p.record, p.field) for p in proofs] == [
        (Source.STORE, "credentials.yaml", f"project_credentials.projects.{DEMO}.storage_iam.generations[0]"),
        (Source.TOP_LEVEL, "credentials.yaml", "storage_iam"),
        (Source.SETUP, "credentials.yaml", f"storage_setup.projects.{DEMO}.resources.service_account"),
        (Source.OPERATION, "operations/storage-npa-bucket-d-9ed36f363968eee5/journal.json", "resources[0]"),
    ]
    assert proofs[0].binding is not None
    assert proofs[0].binding.owned_ids == ("accesspermit-e00demo", "group-e00demo")


def test_two_generations_are_both_proven(state: State) -> None:
    proofs = gather(state("two-iam-generations"), DEMO).storage_proofs
    stored = {p.service_account_id: p.access_key_ids for p in proofs if p.source is Source.STORE}
    assert stored == {
        "serviceaccount-old": ("accesskey-old",),
        "serviceaccount-e00demostor": ("accesskey-e00demostor",),
    }


def test_a_malformed_configuration_is_not_an_empty_one(state: State) -> None:
    roots = state("malformed-config")
    records = gather(roots, "project-a", "prod")
    (problem,) = records.problems_of(Kind.CONFIG)
    assert (
        problem.fault is Fault.MALFORMED and "line" in problem.problem and problem.path == roots.config_yaml
    )
    assert "unterminated" not in str(problem)
    assert load_project_index(roots).problems == (problem,)


def test_corrupt_receipts_are_problems_and_hide_no_other(state: State) -> None:
    records = gather(state("corrupt-receipts"), "project-old")
    assert {(p.path.name, p.fault) for p in records.problems_of("receipts")} == {
        ("corrupt.json", Fault.MALFORMED),
        ("v9.json", Fault.UNSUPPORTED),
    }
    assert [r.receipt_id for r in records.receipts] == ["v1-legacy"]
    assert records.receipt_states[("cluster", "c")].terminal


def test_a_forgotten_alias_is_found_through_its_receipt(state: State) -> None:
    roots = state("forgotten-alias")
    index = load_project_index(roots)
    assert not index.configured and index.ids_of("demo") == (DEMO,)
    forgotten = index.forgotten_alias("demo")
    assert forgotten is not None and forgotten.receipts == {DEMO: ("demo-35ca7d3f2427",)}
    records = gather(roots, DEMO, "demo")
    assert records.forgotten and records.aliases == ("demo",)
    assert len(records.submissions.ledgers) == 2 and records.clusters and records.creation
    # The receipt that only knows the alias counts for no project by itself.
    assert {r.receipt_id for r in records.receipts} == {"demo-35ca7d3f2427", "demo-2a97516c354b"}
    assert all(s.receipt_id == "demo-35ca7d3f2427" for s in records.receipt_states.values())


def test_after_a_partial_destroy_the_lease_is_explained(state: State) -> None:
    records = gather(state("after-partial-destroy"), DEMO)
    (lease,) = records.blocking_leases
    assert (
        lease.operation_id == "project--demo-84cfe1552a45ebd0" and lease.released and not lease.holder_alive
    )
    destroy = records.operations.get(lease.operation_id)
    assert destroy is not None and destroy.preflight_phases[0] == "workflows" and not destroy.terminal
    assert [j.operation_id for j in records.interrupted] == ["forget-p-demo-82eeeadec953fea9"]
    assert not records.receipt_states[("project_destroy_agents", "demo")].terminal
    assert records.receipt_states[("project_destroy_local_cleanup", "demo")].terminal


def test_the_preserved_state_copy_passes_its_checks(state: State) -> None:
    roots = state("full")
    journal = gather(roots, DEMO).operations.get("agent-agent-a575fec140e5c170")
    assert journal is not None
    (copy,) = journal.state_copies
    assert len(read_state_copy(roots, journal, copy)) == copy.size_bytes == 39


def test_a_version_1_marker_blocks(state: State) -> None:
    (marker,) = gather(state("iam-marker-blocks-forget"), "project-a").markers
    assert (marker.status, marker.ownership_state) == ("present_unverified_ownership", "pending-verification")
    assert marker.account_ids == ("serviceaccount-a",)


def test_a_flat_configuration_gives_a_project_without_an_alias(state: State) -> None:
    roots = state("legacy-flat-config")
    index = load_project_index(roots)
    assert not index.configured and index.flat == "project-flat"
    records = gather(roots, "project-flat")
    assert (
        [w.name for w in records.workbenches] == ["wb"] and records.tenant_id == "t" and not records.forgotten
    )


def test_a_legacy_storage_record_without_ownership_is_evidence_only(state: State) -> None:
    records = gather(state("legacy-storage-record"), "project-a")
    (candidate,) = records.storage_candidates
    assert (
        candidate.service_account_id == "serviceaccount-a"
        and not candidate.owned
        and not records.storage_proofs
    )


def test_a_file_without_a_store_opens_only_the_bucket_of_its_proven_owner(state: State) -> None:
    roots = state("storage-only")
    (keys,) = gather(roots, "project-a").storage
    assert keys.bucket == "npa-bucket-a" and keys.secret_key.reveal() == "SKEX" and "SKEX" not in repr(keys)
    assert gather(roots, "project-b").storage == ()


def test_service_tokens_are_named_and_not_shown(state: State) -> None:
    credentials = gather(state("credentials-with-service-tokens"), "project-a").credentials
    assert credentials is not None and not credentials.problems
    assert {t.label for t in credentials.tokens} == {
        "Hugging Face token",
        "Token Factory key",
        "NGC credentials",
    }
    assert "hf_x" not in repr(credentials)
