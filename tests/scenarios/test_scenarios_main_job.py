"""The main job on whole worlds: everything goes, is proven gone, and stays proven."""

from __future__ import annotations

from pathlib import Path

import pytest
import simulated

from engine.words.phases import PHASES

pytestmark = pytest.mark.slow

RETAINED = {"project", "tenant", "registry", "artifact", "network", "subnet", "securitygroup", "routetable"}
DEFAULT_PHASES = [name for name, row in PHASES.items() if not row.with_project]


@pytest.mark.parametrize("world", ["clean-project", "full"])
def test_a_destroy_removes_everything_and_proves_it(world: str, tmp_path: Path) -> None:
    with simulated.simulation(world, tmp_path) as sim:
        plan = sim.npa("destroy", "--project", sim.alias, "--all", "--json")
        assert plan.code == 0, plan.err
        assert plan.document["status"] == "plan_only"
        assert [p["phase"] for p in plan.document["phases"]] == DEFAULT_PHASES
        planned = {i["id"] for p in plan.document["phases"] for t in p["targets"] for i in t["ids"]}

        done = sim.npa(
            "destroy",
            "--project",
            sim.alias,
            "--all",
            "--yes",
            "--json",
            "--plan",
            plan.document["plan_digest"],
        )
        document = done.document
        assert {p["phase"]: p["status"] for p in document["phases"]} == dict.fromkeys(
            DEFAULT_PHASES, "completed"
        ), done.out
        assert done.code == 0
        assert document["mutated"]
        assert document["operation_id"]
        assert document["receipt_id"]

        left = sim.ids()
        assert set(left) <= RETAINED, left
        assert all(
            "dflt" in id
            for kind in ("network", "subnet", "securitygroup", "routetable")
            for id in left.get(kind, ())
        )
        retained = " ".join(r["what"] for r in document["retained"])
        assert all(id in retained for kind in ("registry", "network") for id in left.get(kind, ()))

        assert document["deleted"]
        for item in document["deleted"]:
            assert item["owned_by"]["evidence"] != "none"
            assert item["owned_by"]["record"]
            assert len(item["absent"]) == 2
            assert all(seen["at"] and seen["source"] for seen in item["absent"])
        cloud_ids = {d["id"] for d in document["deleted"]}
        assert {
            i
            for i in planned
            if i.startswith(("computeinstance", "mk8scluster", "storagebucket", "bucket-", "serviceaccount"))
        } <= cloud_ids

        changes, tree = sim.changes(), sim.tree()
        again = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        assert again.code == 0, again.out + again.err
        assert not again.document["mutated"]
        assert sim.changes() == changes, "a second run must change nothing outside"
        assert sim.tree() == tree, "a second run must write nothing"


def test_no_delete_goes_out_for_what_was_seen_gone_twice(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        assert sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json").code == 0
        asked: dict[str, int] = {}
        for call, subject in sim.changes():
            if call.endswith("/Delete"):
                asked[subject] = asked.get(subject, 0) + 1
        assert asked
        assert max(asked.values()) == 1, asked


def test_a_half_done_destroy_of_the_cli_is_continued(tmp_path: Path) -> None:
    with simulated.simulation("after-a-crash", tmp_path) as sim:
        done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        assert done.code == 0, done.out + done.err
        assert done.document["operation_id"].startswith("project--demo-")
        assert set(sim.ids()) <= RETAINED
