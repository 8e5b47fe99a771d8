"""Operation ids, journals and their proofs, leases; reading them and writing them."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.home.errors import Fault, Kind, RecordError
from engine.home.leases import read_lease
from engine.home.locks import Held, flocked
from engine.home.operation_ids import next_operation_id, operation_id
from engine.home.operation_writes import edit_journal, write_journal, write_lease
from engine.home.operations import (
    creation_proof,
    parse_journal,
    read_journal,
    read_operations,
    read_state_copy,
)
from engine.home.records import gather
from engine.home.roots import Roots

DEMO, TENANT = "project-e00demo", "tenant-e00demo"
AGENT = "agent-agent-a575fec140e5c170"
Put = Callable[[str, str], Path]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("npa agent deploy", DEMO, "agent", "agent"), AGENT),
        (("npa destroy", DEMO, "project-teardown", "demo"), "project--demo-84cfe1552a45ebd0"),
        (
            ("npa configure --forget-project", DEMO, "forget-project", "demo"),
            "forget-p-demo-82eeeadec953fea9",
        ),
        (
            ("npa configure --forget-project", "demo", "forget-project", "demo"),
            "forget-p-demo-c809e3fa2961e7cd",
        ),
    ],
)
def test_operation_ids_are_the_clis(parts: tuple[str, str, str, str], expected: str) -> None:
    assert operation_id(*parts) == expected


def test_every_recorded_operation_has_the_id_that_its_fields_give(state: Any) -> None:
    journals = read_operations(state("after-partial-destroy")).journals
    assert len(journals) == 7
    for journal in journals:
        project = journal.project_id or journal.project_alias
        assert journal.operation_id == operation_id(
            journal.command, project, journal.resource_type, journal.requested_name
        )


def test_a_finished_operation_is_followed_by_its_next_generation() -> None:
    assert next_operation_id("x", {}) == "x"
    assert next_operation_id("x", {"x": False}) == "x"
    assert next_operation_id("x", {"x": True}) == "x-r1"
    assert next_operation_id("x", {"x": True, "x-r1": True, "x-r2": False, "x-r3": True}) == "x-r2"


def journal_document(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "npa.provisioning.operation.v2", "operation_id": "op", "command": "npa destroy", "project_alias": "a",
        "project_id": "project-a", "tenant_id": "tenant-a", "region": "r", "resource_type": "project-teardown", "requested_name": "a",
        "ownership_source": "npa-destroy", "phase": "mutating", "lifecycle": "running", "owner_pid": os.getpid(), "resources": [], **changes,
    }  # fmt: skip


def test_a_running_journal_of_a_dead_process_is_interrupted_and_its_file_stays(home: Roots, put: Put) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    path = put("operations/op/journal.json", json.dumps(journal_document(owner_pid=child.pid)))
    before = path.read_bytes()
    journal = read_journal(home, "op")
    assert journal is not None and journal.interrupted and journal.status == "interrupted"
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == ["journal.json"]
    put("operations/op/journal.json", json.dumps(journal_document()))
    journal = read_journal(home, "op")
    assert journal is not None and not journal.interrupted and journal.status == "running"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"schema_version": "npa.provisioning.operation.v3"}, Fault.UNSUPPORTED),
        ({"schema_version": True}, Fault.UNSUPPORTED),
        ({"operation_id": "other"}, Fault.CONFLICT),
        ({"phase": "melting"}, Fault.UNSUPPORTED),
        ({"phase": ""}, Fault.MALFORMED),
        ({"resources": {}}, Fault.MALFORMED),
        ({"resources": None}, Fault.MALFORMED),
        ({"resources": [{"resource_type": "x", "ownership": "mine"}]}, Fault.UNSUPPORTED),
        ({"owner_pid": "12"}, Fault.MALFORMED),
        ({"project_id": 7}, Fault.MALFORMED),
    ],
)
def test_a_journal_that_is_not_one_is_a_problem_of_its_project(
    home: Roots, put: Put, changes: dict[str, Any], fault: Fault
) -> None:
    put("operations/op/journal.json", json.dumps(journal_document(**changes)))
    put("operations/fine/journal.json", json.dumps(journal_document(operation_id="fine")))
    operations = read_operations(home)
    assert [j.operation_id for j in operations.journals] == ["fine"]
    assert [(p.kind, p.fault) for p in operations.problems] == [(Kind.OPERATIONS, fault)]
    assert gather(home, "project-a").problems_of(Kind.OPERATIONS)
    # A problem that is certainly another project's does not concern this one.
    assert bool(gather(home, "project-b").problems) is (operations.problems[0].scope == "")


@pytest.mark.parametrize("version", [1, "1", "npa.provisioning.operation.v2"])
def test_known_versions_are_read(version: object) -> None:
    assert parse_journal(journal_document(schema_version=version), Path("x"), "op").phase == "mutating"


def test_a_folder_with_only_its_lock_is_no_operation(home: Roots, put: Put) -> None:
    put("operations/op/.lock", "")
    put("operations/.projects/x/.lock", "")
    assert read_operations(home) == type(read_operations(home))()


# --- proofs -------------------------------------------------------------------------------------------------------------------


def proofs(state: Any, change: Callable[[dict[str, Any]], Any], tenant: str = TENANT) -> object:
    roots = state("full")
    path = roots.operations / "project-demo-a3bfc34d1de9e84f" / "journal.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return creation_proof(read_operations(roots).journals, DEMO, tenant)


def test_a_project_is_proven_by_exactly_one_creation_record(state: Any) -> None:
    assert proofs(state, lambda d: d) is not None
    assert proofs(state, lambda d: d.update(project_alias="renamed")) is not None
    assert proofs(state, lambda d: d, tenant="") is None
    assert proofs(state, lambda d: d, tenant="tenant-other") is None
    assert proofs(state, lambda d: d["resources"].append(copy.deepcopy(d["resources"][0]))) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resource_type", "network"), ("provider_id", "project-other"), ("project_id", "project-other"), ("ownership", "adopted"),
        ("ownership_source", "terraform-state"), ("labels", {"tenant_id": "tenant-other"}), ("labels", {}),
    ],
)  # fmt: skip
def test_a_creation_record_that_does_not_fit_proves_nothing(state: Any, field: str, value: object) -> None:
    assert proofs(state, lambda d: d["resources"][0].update({field: value})) is None


def copy_of(roots: Roots) -> tuple[Any, Any]:
    journal = read_journal(roots, AGENT)
    assert journal is not None
    return journal, journal.state_copies[0]


@pytest.mark.parametrize("what", ["edited", "missing", "link", "shorter"])
def test_a_state_copy_that_was_touched_is_not_adopted(state: Any, what: str, tmp_path: Path) -> None:
    roots = state("full")
    journal, kept = copy_of(roots)
    path = journal.path.parent / kept.path
    if what == "edited":
        path.write_bytes(b"x" * kept.size_bytes)
    elif what == "shorter":
        path.write_bytes(b"x")
    else:
        path.rename(tmp_path / "moved")
        if what == "link":
            path.symlink_to(tmp_path / "moved")
    with pytest.raises(RecordError) as caught:
        read_state_copy(roots, journal, kept)
    if what == "missing":
        assert "npa agent deploy" in caught.value.problem.remedy


@pytest.mark.parametrize(
    ("field", "value"),
    [("path", "../other/x"), ("path", "/etc/passwd"), ("operation_id", "other"), ("backend_identity", {"bucket": "other"}), ("sha256", "0" * 64)],
)  # fmt: skip
def test_a_state_copy_must_be_of_this_operation_and_backend(state: Any, field: str, value: object) -> None:
    roots = state("full")
    path = roots.operation(AGENT) / "journal.json"
    document = json.loads(path.read_text())
    document["local_state_copies"][0][field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(RecordError):
        read_state_copy(roots, *copy_of(roots))


# --- writing journals ---------------------------------------------------------------------------------------------------------


def test_a_journal_is_written_privately_in_the_clis_form(home: Roots) -> None:
    assert write_journal(home, journal_document())
    path = home.operation("op") / "journal.json"
    assert path.stat().st_mode & 0o777 == 0o600 and home.operation_lock("op").exists()
    assert path.read_text() == json.dumps(journal_document(), indent=2, sort_keys=True) + "\n"
    assert not write_journal(home, journal_document())
    assert write_journal(home, journal_document(phase="committed", lifecycle="succeeded"))
    journal = read_journal(home, "op")
    assert journal is not None and journal.terminal


@pytest.mark.parametrize(
    "changes",
    [
        {"project_id": "project-b"},
        {"tenant_id": ""},
        {"phase": "prepared"},
        {"labels": {"api_token": "x"}},
        {"last_error": "sent hf_abcdefghij"},
        {"schema_version": 1},
        {"resources": None},
    ],
)
def test_a_journal_keeps_its_identity_goes_forward_and_holds_no_secret(
    home: Roots, changes: dict[str, Any]
) -> None:
    write_journal(home, journal_document())
    with pytest.raises(RecordError) as caught:
        write_journal(home, journal_document(**changes))
    assert "hf_abcdefghij" not in str(caught.value)
    journal = read_journal(home, "op")
    assert journal is not None and journal.phase == "mutating" and journal.project_id == "project-a"


def test_a_terminal_phase_is_not_left(home: Roots) -> None:
    write_journal(home, journal_document(phase="destroyed"))
    for phase in ("mutating", "recovery-required", "committed"):
        with pytest.raises(RecordError):
            write_journal(home, journal_document(phase=phase))
    assert write_journal(home, journal_document(phase="destroyed", updated_at="now"))


def test_names_of_secret_fields_are_no_secrets(home: Roots) -> None:
    mutation = {
        "store": "config.yaml",
        "fields": ["terraform_state"],
        "secret_fields": ["secret_key"],
        "before": {},
    }
    assert write_journal(home, journal_document(config_mutations=[mutation]))


def test_an_edit_sees_what_is_there_and_keeps_unknown_fields(home: Roots, put: Put) -> None:
    put("operations/op/journal.json", json.dumps(journal_document(mine={"a": [1]})))

    def end(document: dict[str, object] | None) -> dict[str, object] | None:
        assert document is not None
        return {**document, "phase": "destroyed"}

    assert edit_journal(home, "op", end)
    stored = json.loads((home.operation("op") / "journal.json").read_text())
    assert stored["mine"] == {"a": [1]} and stored["phase"] == "destroyed"
    assert not edit_journal(home, "op", lambda _: None)


@pytest.mark.parametrize("name", ["", "..", "../x", "/x", ".projects"])
def test_an_operation_id_cannot_lead_elsewhere(home: Roots, name: str) -> None:
    with pytest.raises(RecordError):
        write_journal(home, journal_document(operation_id=name))
    assert not home.home.exists()


# --- leases -------------------------------------------------------------------------------------------------------------------


def lease_document(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "npa.project.lifecycle-lease.v1", "project_identity": "project-a", "project_id": "project-a", "project_alias": "a",
        "operation_id": "op", "command": "npa destroy", "resource_type": "project-teardown", "phase": "mutating", "lifecycle": "running",
        "owner_pid": os.getpid(), "acquired_at": "2026-12-01T05:00:00Z",
        "recovery_commands": {"resume": "npa destroy", "resume_argv": ["npa", "destroy"]}, **changes,
    }  # fmt: skip


def test_a_lease_is_written_and_read_back(home: Roots) -> None:
    write_lease(home, lease_document())
    lease = read_lease(home, "project-a")
    assert (
        lease is not None
        and lease.holder_alive
        and not lease.released
        and lease.resume_argv == ("npa", "destroy")
    )
    assert lease.path.stat().st_mode & 0o777 == 0o600
    assert lease.path.parent.stat().st_mode & 0o777 == 0o700
    assert read_lease(home, "project-b") is None


@pytest.mark.parametrize(
    "changes",
    [{"schema_version": "npa.project.lifecycle-lease.v2"}, {"project_identity": ""}, {"owner_pid": "x"}, {"command": "npa nvapi-abcdefgh"}],
)  # fmt: skip
def test_a_lease_that_is_not_one_is_neither_written_nor_read(
    home: Roots, put: Put, changes: dict[str, Any]
) -> None:
    with pytest.raises(RecordError):
        write_lease(home, lease_document(**changes))
    assert not home.operations.exists()
    if "command" not in changes:
        folder = home.lease_folder("project-a").relative_to(home.home)
        put(f"{folder}/lease.json", json.dumps(lease_document(**changes)))
        assert [p.kind for p in gather(home, "project-a").problems] == [Kind.LEASES]
        assert not gather(home, "project-b").problems


def test_a_lease_of_another_project_under_this_folder_is_a_conflict(home: Roots, put: Put) -> None:
    folder = home.lease_folder("project-a").relative_to(home.home)
    put(f"{folder}/lease.json", json.dumps(lease_document(project_identity="project-b")))
    with pytest.raises(RecordError) as caught:
        read_lease(home, "project-a")
    assert caught.value.problem.fault is Fault.CONFLICT


@pytest.mark.parametrize(
    ("journal_phase", "lease_phase", "blocks"),
    [
        ("recovery-required", "committed", True), ("mutating", "mutating", True), ("committed", "mutating", False),
        ("destroyed", "mutating", False), (None, "mutating", True), (None, "committed", False),
    ],
)  # fmt: skip
def test_a_lease_blocks_while_its_operation_has_not_ended(
    home: Roots, journal_phase: str | None, lease_phase: str, blocks: bool
) -> None:
    write_lease(home, lease_document(phase=lease_phase, released_at="2026-12-01T06:00:00Z"))
    if journal_phase:
        write_journal(home, journal_document(phase=journal_phase))
    records = gather(home, "project-a")
    assert bool(records.blocking_leases) is blocks


def test_leases_of_two_projects_are_apart(home: Roots) -> None:
    with flocked(home.lease_lock("project-a"), root=home.operations, kind=Kind.LEASES, wait=False):
        with flocked(home.lease_lock("project-b"), root=home.operations, kind=Kind.LEASES, wait=False):
            pass
        with (
            pytest.raises(Held),
            flocked(home.lease_lock("project-a"), root=home.operations, kind=Kind.LEASES, wait=False),
        ):
            pass
