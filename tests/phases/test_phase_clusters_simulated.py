"""The three phases with the real clients, on simulated worlds whose records or clusters are not as they should be."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import simulated

pytestmark = pytest.mark.slow

OURS = ("workflows", "controller", "clusters")


def statuses(document: dict[str, Any]) -> dict[str, str]:
    return {p["phase"]: p["status"] for p in document["phases"] if p["phase"] in OURS}


def test_without_its_terraform_module_a_cluster_goes_by_its_recorded_ids(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        shutil.rmtree(tmp_path / "repo")
        done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        assert statuses(done.document) == dict.fromkeys(OURS, "completed"), done.out
        asked = [subject for call, subject in sim.changes() if "k8s" in subject]
        assert asked[0].startswith("mk8scluster-"), "children follow their cluster"
        assert asked[-1].startswith("vpcnetwork-")
        assert len(asked) == len(set(asked)) == 4
        assert not [i for ids in sim.ids().values() for i in ids if "k8s" in i]


def test_a_live_job_of_somebody_else_keeps_controller_and_cluster(tmp_path: Path) -> None:
    with simulated.simulation("busy", tmp_path / "home") as sim:
        ledger = tmp_path / "home/.npa/workflow-submissions/ml-sandbox/train-20261120-aaaaaa.json"
        ledger.unlink()
        done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        assert statuses(done.document) == {
            "workflows": "completed",
            "controller": "refused",
            "clusters": "skipped_dependency",
        }, done.out
        assert done.code == 2
        assert "job 11" in done.out
        jobs = {j["job_id"]: j["status"] for j in sim.get("/state")["skypilot"]["jobs"]}
        assert (jobs[11], jobs[12]) == ("RUNNING", "CANCELLED")


def test_everything_deleted_behind_our_back_is_seen_gone(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        state = sim.get("/state")["resources"]
        for kind in ("cluster", "subnet", "network", "serviceaccount"):
            for thing in state.get(kind, ()):
                if "k8s" in thing["id"]:
                    sim.post("/change", {"delete": thing["id"]})
        done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        found = statuses(done.document)
        assert found["clusters"] == "completed", done.out
        assert found["controller"] == "completed", done.out
        assert not [s for c, s in sim.changes() if "k8s" in s]
        assert not (tmp_path / ".npa/clusters/demo-gpu").exists()
