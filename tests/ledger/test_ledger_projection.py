"""The existing CLI's records follow our journal: receipt, operation journal, lease."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import toy

from engine.clock import Clock
from engine.home.leases import read_lease
from engine.home.operations import Operations, read_operations
from engine.home.receipt_fold import fold
from engine.home.receipts import read_receipt, read_receipts
from engine.home.roots import Roots, roots
from engine.ledger import projector as projector_module
from engine.ledger.journal import Journal
from engine.ledger.lease import held, lives, me
from engine.ledger.projector import RecordProjector
from engine.run.runner import Opening, Pace, Runner
from engine.words.reasons import Reason, Refused

RECEIPT = "toy-0123456789ab"
OPERATION = "project--toy-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path) -> Roots:
    return roots({"HOME": str(tmp_path)})


def run_in(home: Roots, cloud: toy.Cloud, run: str = "r1") -> tuple[int, RecordProjector, Journal]:
    clock = Clock(toy.SCALE)
    journal = Journal(home.ours / "toy.jsonl", run, clock)
    plan = toy.plan()
    projector = RecordProjector(home, plan.identity, plan, journal, clock, RECEIPT)
    runner = Runner(
        plan,
        toy.phases(cloud),
        clock,
        journal,
        projector,
        Opening("destroy", OPERATION, RECEIPT),
        pace=Pace(grace=20.0, blind=40.0),
    )

    async def go() -> int:
        await runner.open()
        projector.open()
        await runner.consent(toy.consent(plan))
        code = await runner.run()
        projector.close()
        return code

    code = asyncio.run(go())
    journal.close()
    return code, projector, journal


def test_the_receipt_says_what_was_deleted_why_it_was_ours_and_who_saw_it_gone(
    home: Roots, tmp_path: Path
) -> None:
    code, projector, _ = run_in(home, toy.seed(tmp_path))
    assert code == 0
    receipt = read_receipt(home, RECEIPT)
    assert receipt is not None
    states = fold(receipt.events)
    assert states["agent", "vm-1"].state == "verified_deleted"
    assert all(s.terminal for s in states.values())
    document = json.loads(projector.receipt.read_text())
    proven = next(
        e
        for e in document["events"]
        if e["terminal_state"] == "remote_absent_local_pending" and e["resource"] == "vm-1"
    )
    assert {a["id"] for a in proven["verification"]["absent"]} == {"vm-1", "disk-1"}
    assert all(a["at"] and a["by"] for a in proven["verification"]["absent"])
    assert proven["precheck"]["owned_by"][0]["record"] == "operations/op"


def test_deleted_it_comes_back_the_same_and_projecting_twice_changes_nothing(
    home: Roots, tmp_path: Path
) -> None:
    _, projector, journal = run_in(home, toy.seed(tmp_path))
    before = projector.receipt.read_bytes()
    again = RecordProjector(home, toy.plan().identity, toy.plan(), journal, Clock(), RECEIPT)
    again.write_receipt()
    assert projector.receipt.read_bytes() == before
    projector.receipt.unlink()
    again.write_receipt()
    assert projector.receipt.read_bytes() == before


def test_events_of_others_stay_as_they_are(home: Roots, tmp_path: Path) -> None:
    theirs = {
        "phase": "registry", "resource": "registry-x", "terminal_state": "verified_deleted", "project_alias": "toy",
        "project_id": "project-e00toy", "context": "", "precheck": {}, "action": {"kind": "x"}, "verification": {}, "errors": [],
        "recorded_at": "2026-01-01T00:00:00Z", "identity": {},
    }  # fmt: skip
    home.receipts.mkdir(parents=True, mode=0o700)
    path = home.receipts / f"{RECEIPT}.json"
    document = {
        "schema_version": "npa.teardown.receipt.v2", "receipt_id": RECEIPT, "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z", "project_alias": "toy", "project_id": "project-e00toy", "identity": {"note": "kept"},
        "events": [theirs], "unknown_field": {"kept": True},
    }  # fmt: skip
    path.write_text(json.dumps(document))
    run_in(home, toy.seed(tmp_path))
    after = json.loads(path.read_text())
    assert after["events"][0] == theirs
    assert after["unknown_field"] == {"kept": True}
    assert after["identity"]["note"] == "kept"
    assert len(after["events"]) > 1


def test_a_receipt_is_rewritten_at_most_twice_per_phase_and_resource(
    home: Roots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0
    real = projector_module.edit_receipt

    def counted(*args: Any) -> bool:
        nonlocal written
        wrote = real(*args)
        written += wrote
        return wrote

    monkeypatch.setattr(projector_module, "edit_receipt", counted)
    run_in(home, toy.seed(tmp_path))
    targets = sum(1 for _ in toy.plan().targets())
    assert 0 < written <= 2 * targets


def test_the_receipt_is_on_disk_before_the_first_call_of_a_target(home: Roots, tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    seen: list[set[str]] = []

    class Watching(toy.Cloud):
        async def delete(self, intent: Any) -> None:
            receipt = read_receipt(home, RECEIPT)
            seen.append({e.resource for e in receipt.events} if receipt else set())
            assert receipt is not None
            assert any(intent.key.split("/")[2] == e.resource for e in receipt.events)
            await super().delete(intent)

    code, _, _ = run_in(home, Watching(cloud.path))
    assert code == 0
    assert seen


def test_operation_journal_and_lease_are_terminal_after_us(home: Roots, tmp_path: Path) -> None:
    run_in(home, toy.seed(tmp_path))
    operation = read_operations(home).get(OPERATION)
    assert operation is not None
    assert (operation.phase, operation.lifecycle, operation.terminal) == ("committed", "succeeded", True)
    assert operation.preflight_phases == ("agents", "clusters", "bucket")
    lease = read_lease(home, "project-e00toy")
    assert lease is not None
    assert lease.released
    assert not lease.blocks(read_operations(home))


def test_an_unfinished_run_leaves_the_operation_to_be_resumed(home: Roots, tmp_path: Path) -> None:
    cloud = toy.seed(tmp_path)
    with cloud.world() as world:
        world["deaf"]["vm-1"] = "denied"
    code, _, _ = run_in(home, cloud)
    assert code == 2
    operation = read_operations(home).get(OPERATION)
    assert operation is not None
    assert (operation.phase, operation.terminal) == ("recovery-required", False)
    states = fold(e for r in read_receipts(home).receipts for e in r.events)
    assert states["agent", "vm-1"].state == "verification_failed"
    with cloud.world() as world:
        world["deaf"].clear()


# -- the lease ----------------------------------------------------------------------------------------------------------


@contextmanager
def another_process_holds(home: Roots, project: str) -> Iterator[int]:
    code = (
        "import fcntl, os, sys; os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True);"
        "f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    path = str(home.lease_lock(project))
    child = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield child.pid
    finally:
        child.communicate()


def test_the_cli_s_own_lock_decides(home: Roots) -> None:
    identity = toy.plan().identity
    with (
        another_process_holds(home, identity.project_id),
        pytest.raises(Refused) as caught,
        held(home, identity, Operations()),
    ):
        pass
    assert caught.value.refusal.reason is Reason.LEASE_HELD
    assert "npa watch" in caught.value.refusal.next_command
    with held(home, identity, Operations()) as before:
        assert before is None


def lease_file(home: Roots, **fields: Any) -> None:
    folder = home.lease_folder("project-e00toy")
    folder.mkdir(parents=True, mode=0o700)
    document = {
        "schema_version": "npa.project.lifecycle-lease.v1", "project_identity": "project-e00toy", "project_id": "project-e00toy",
        "project_alias": "toy", "operation_id": "agent-x", "command": "npa agent deploy", "resource_type": "agent", "phase": "mutating",
        "lifecycle": "running", "owner_pid": 999999999, "acquired_at": "2026-01-01T00:00:00Z",
        "recovery_commands": {"resume": "", "resume_argv": ["npa", "agent", "deploy"], "destroy": "", "destroy_argv": []}, **fields,
    }  # fmt: skip
    (folder / "lease.json").write_text(json.dumps(document))


def test_a_crashed_deploy_is_explained_and_given_up_only_by_name(home: Roots) -> None:
    lease_file(home)
    identity = toy.plan().identity
    with pytest.raises(Refused) as caught, held(home, identity, Operations()):
        pass
    refusal = caught.value.refusal
    assert refusal.reason is Reason.LEASE_HELD
    assert "npa agent deploy" in refusal.sentence
    assert "--abandon-operation agent-x --reason" in refusal.next_command
    with held(home, identity, Operations(), frozenset({"agent-x"})) as before:
        assert before is not None


@pytest.mark.parametrize("kind", ["project-teardown", "agent-teardown", "forget-project"])
def test_a_dead_teardown_is_resumed_without_asking(home: Roots, kind: str) -> None:
    lease_file(home, resource_type=kind, phase="recovery-required")
    with held(home, toy.plan().identity, Operations()) as before:
        assert before is not None
        assert not before.holder_alive


def test_a_lease_that_cannot_be_read_stops_us(home: Roots) -> None:
    lease_file(home, schema_version="npa.project.lifecycle-lease.v9")
    with pytest.raises(Refused) as caught, held(home, toy.plan().identity, Operations()):
        pass
    assert caught.value.refusal.reason is Reason.RECORD_UNREADABLE


def test_a_holder_is_known_by_more_than_its_pid() -> None:
    mine = me()
    assert lives(mine.pid, mine.started, mine.boot, mine.host) is True
    assert lives(mine.pid, "1", mine.boot, mine.host) is False
    assert lives(mine.pid, mine.started, "another boot", mine.host) is False
    assert lives(mine.pid, mine.started, mine.boot, "another-host") is None
    assert replace(mine, pid=0) != mine
