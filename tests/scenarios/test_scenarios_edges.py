"""What a destroy does at its edges: kept phases, finished projects, strangers, conflicting selectors, odd command lines."""

from __future__ import annotations

import json
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest
import simulated

pytestmark = pytest.mark.slow

ALL = ("--all", "--yes", "--json")


def create(sim: simulated.Simulation, kind: str, id: str, name: str) -> None:
    sim.post("/change", {"create": {"kind": kind, "id": id, "parent": sim.project, "name": name}})


def phases(document: Any) -> dict[str, Any]:
    return {p["phase"]: p for p in document["phases"]}


def test_what_is_kept_stays_in_every_command_and_may_be_fine(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        shown = sim.npa("destroy", "--project", sim.alias, "--all", "--keep", "bucket")
        assert "--keep bucket" in shown.out.splitlines()[-1]
        kept = sim.npa("destroy", "--project", sim.alias, *ALL, "--keep", "bucket", timeout=200)
        assert kept.code == 2, kept.out
        assert sim.ids()["bucket"], "it is still there"
        for phase in kept.document["phases"]:
            for command in phase["recovery_commands"]:
                assert shlex.join(command).count("--keep bucket") == 1
        assert phases(kept.document)["bucket"]["status"] == phases(kept.document)["storage_iam"]["status"]
        fine = sim.npa(
            "destroy", "--project", sim.alias, *ALL, "--keep", "bucket", "--allow-kept", timeout=200
        )
        assert fine.code == 0, fine.out
        assert phases(fine.document)["final_audit"]["status"] == "completed"
        assert any("kept by you" in row["what"] for row in fine.document["retained"])
        assert sim.ids()["bucket"]


def test_after_the_end_what_came_back_is_seen_and_strangers_are_nobodys_default(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        first = sim.npa("destroy", "--project", sim.alias, *ALL, timeout=200)
        assert first.code == 0, first.out
        wrong = sim.npa("destroy", "--project", sim.alias, *ALL, "--plan", "deadbeefdeadbeef")
        assert (wrong.code, wrong.document["reason_code"]) == (1, "plan_changed")
        create(sim, "network", "vpcnetwork-e00foreign0", "default-network-of-bob")
        before = sim.changes()
        again = sim.npa("destroy", "--project", sim.alias, *ALL, timeout=200)
        assert again.code == 2, again.out + again.err
        assert phases(again.document)["final_audit"]["status"] == "partial"
        assert "vpcnetwork-e00foreign0" in again.out
        assert sim.changes() == before, "nothing of the plan is there: nothing is asked for"
        for command in (c for p in again.document["phases"] for c in p["recovery_commands"]):
            assert sim.npa(*command[1:], "--json", timeout=200).code == 2, "a printed command can be parsed"


def test_a_holder_on_another_host_is_never_presumed_dead(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        stopped = sim.npa("destroy", "--project", sim.alias, *ALL, "--deadline", "0.001", timeout=200)
        assert stopped.code == 130, stopped.out
        lease = next((sim.home / ".npa/operations/.projects").rglob("lease.json"))
        document = json.loads(lease.read_text())
        assert document["owner_host"] == socket.gethostname()
        document.pop("released_at", None)
        lease.write_text(json.dumps({**document, "owner_host": "other-host", "phase": "executing"}))
        before = sim.changes()
        held = sim.npa("destroy", "--project", sim.alias, *ALL)
        assert (held.code, held.document["reason_code"]) == (1, "lease_held")
        assert "other-host" in held.document["message"]
        assert sim.changes() == before
        unknown = sim.npa(
            "destroy", "--project", sim.alias, *ALL, "--abandon-operation", "no-such", "--reason", "x"
        )
        assert (unknown.code, unknown.document["reason_code"]) == (1, "unknown_id")
        taken = sim.npa(*shlex.split(held.document["next_command"])[1:], "--json", timeout=200)
        assert taken.code == 0, taken.out


def test_command_lines_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    with simulated.simulation("busy", tmp_path) as sim:
        others = [i for i in sim.ids()["project"] if i != sim.project]
        conflict = sim.npa("destroy", "--project", sim.project, "--project-id", others[0], "--all", "--json")
        assert (conflict.code, conflict.document["reason_code"]) == (1, "identity_conflict")
        for odd in (["--js"], ["--deadline", "0"], ["--deadline", "nan"], ["--keep", "final_audit"]):
            done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", *odd)
            assert done.code == 64, odd
        before = sim.tree()
        path = tmp_path.parent / f"{tmp_path.name}.toml"
        path.write_text(f'protected = ["{sim.alias}"]')
        refused = sim.npa("destroy", "--project", sim.alias, *ALL, "--detach", NPA_TUI_CONFIG=str(path))
        assert (refused.code, refused.document["reason_code"]) == (1, "protected")
        assert sim.tree() == before
        assert sim.changes() == []
