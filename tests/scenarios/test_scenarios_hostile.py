"""When everything goes wrong somewhere: no crash, no false absence, independent work done, and convergence once it is over."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import simulated

pytestmark = pytest.mark.slow

RETAINED = {"project", "tenant", "registry", "artifact", "network", "subnet", "securitygroup", "routetable"}


def test_hostile_is_survived_and_then_converges(tmp_path: Path) -> None:
    with simulated.simulation("hostile", tmp_path) as sim:
        first = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json", timeout=240)
        document = first.document
        assert first.code == 2, first.out + first.err
        assert "Traceback" not in first.err
        there = {id for ids in sim.ids().values() for id in ids}
        claimed = {d["id"] for d in document["deleted"]}
        assert not claimed & there, "something was called gone that is there"
        statuses = {p["phase"]: p for p in document["phases"]}
        assert "completed" in {p["status"] for p in document["phases"]}, "independent work is done"
        for phase in statuses.values():
            if phase["status"] == "skipped_dependency":
                assert phase["blocked_by"]
                assert phase["recovery_commands"]
            assert phase["status"] == "completed" or phase["recovery_commands"]

        sim.post("/faults/end", {})
        second = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json", timeout=240)
        assert second.code == 0, second.out + second.err
        assert set(sim.ids()) <= RETAINED
        assert second.document["run_id"] == document["run_id"], "the same run was resumed"


def test_a_login_that_dies_in_the_middle_pauses_the_run_until_there_is_a_new_one(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        running = sim.start("destroy", "--project", sim.alias, "--all", "--yes", "--events")
        assert running.stdout is not None
        seen = ""
        for line in running.stdout:
            seen = line.decode()
            if '"verb":"terraform_destroy"' in seen or '"verb":"delete"' in seen:
                break
        sim.post("/change", {"token": "expired"})
        paused = False
        for line in running.stdout:
            if '"what":"paused"' in line.decode():
                paused = True
                break
        assert paused
        before = sim.changes()
        time.sleep(0.5)
        assert [c for c in sim.changes() if not c[0].startswith("destroy ")] == [
            c for c in before if not c[0].startswith("destroy ")
        ]
        sim.post("/change", {"login": "a-new-token"})
        rest = running.stdout.read().decode()
        assert running.wait(120) == 0, rest[-2000:]
        assert '"what":"unpaused"' in rest
        assert set(sim.ids()) <= RETAINED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_destroy_goes_on_from_where_it_was(tmp_path: Path, number: signal.Signals) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        running = sim.start("destroy", "--project", sim.alias, "--all", "--yes", "--events")
        assert running.stdout is not None
        for line in running.stdout:
            if b'"type":"intended"' in line:
                break
        os.kill(running.pid, number)
        began = time.monotonic()
        running.stdout.read()
        code = running.wait(60)
        if number is signal.SIGKILL:
            assert code == -signal.SIGKILL
        else:
            assert code == 130
            assert time.monotonic() - began < 20
        done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        assert done.code == 0, done.out + done.err
        assert set(sim.ids()) <= RETAINED


def test_two_cannot_change_one_project_and_the_first_can_be_watched_and_stopped(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        detached = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--detach", "--json")
        assert detached.code == 0, detached.out + detached.err
        run = detached.document["run_id"]
        second = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        assert (second.code, second.document["reason_code"]) == (1, "lease_held")
        assert "npa watch" in second.document["next_command"]
        assert sim.npa("destroy", "--project", sim.alias, "--all", "--json").code == 0, (
            "reading goes on meanwhile"
        )
        assert sim.npa("stop", "--project", sim.alias, "--json").document["run_id"] == run
        watched = sim.npa("watch", "--project", sim.alias, "--json")
        assert watched.document["run_id"] == run
        assert watched.code == 130
        done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        assert done.code == 0, done.out + done.err
