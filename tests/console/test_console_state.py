"""The view as a fold of what was seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from engine.ledger.events import Closed
from engine.run.faces import RunnerInfo
from engine.words.reasons import Reason, Refusal
from npa_tui.badge import Mode
from npa_tui.moments import moment
from npa_tui.screenshots import world
from npa_tui.stands import Stand
from npa_tui.state import Scene, Seen, view
from npa_tui.trail import Trail

NOW = moment(world.NOW)
RUNNER = RunnerInfo(4711, "2026-03-04T14:02:11Z", "npa destroy", world.RUN)


def seen(script: world.Script | None = None, **changed: object) -> Seen:
    base = Seen(
        now=NOW, since=NOW - timedelta(hours=1), projects=world.PROJECTS, aimed=world.ALIAS, plan=world.PLAN,
        trail=Trail.of(script.entries if script else []), inventory=world.inventory(), first=world.inventory(),
    )  # fmt: skip
    return replace(base, **changed)


@pytest.mark.parametrize(
    ("what", "scene"),
    [
        (seen(projects=None, aimed="", plan=None, inventory=None), Scene.READING),
        (seen(projects=(), aimed="", plan=None, inventory=None), Scene.EMPTY),
        (seen(aimed="", plan=None, inventory=None), Scene.CHOOSE),
        (seen(inventory=None, reading=True), Scene.READING),
        (seen(inventory=None, halted=True), Scene.ERROR),
        (seen(inventory=None, problem="OSError: no"), Scene.ERROR),
        (seen(inventory=world.inventory(failed="compute")), Scene.ERROR),
        (seen(plan=Refusal(Reason.UNKNOWN_ALIAS, "nobody knows it", "npa list"), inventory=None), Scene.ERROR),
        (seen(trouble="The journal was altered."), Scene.ERROR),
        (seen(), Scene.READY),
        (seen(world.running(), inventory=None, reading=True), Scene.READY),
    ],
)  # fmt: skip
def test_what_stands_in_the_plans_place(what: Seen, scene: Scene) -> None:
    assert view(what).scene is scene


def test_no_plan_is_offered_on_half_an_inventory_but_a_recorded_run_is_shown() -> None:
    half = world.inventory(failed="compute")
    assert view(seen(inventory=half)).scene is Scene.ERROR
    assert view(seen(world.running(), inventory=half, runner=RUNNER)).scene is Scene.READY


@pytest.mark.parametrize(
    ("what", "mode", "sentence"),
    [
        (seen(), Mode.PLAN, "nothing changes until you confirm a phase"),
        (seen(world.running(), runner=RUNNER), Mode.LIVE, "02 is running, 04 waits for you"),
        (seen(world.running()), Mode.STOPPED, "02 is not known, nothing is running"),
        (seen(world.failed()), Mode.STOPPED, "05 failed, nothing is running"),
        (seen(world.finished()), Mode.DONE, "nothing is left, receipt complete"),
        (
            seen(runner=RunnerInfo(99, "", "npa cluster down", "another")),
            Mode.LIVE,
            "npa cluster down holds the project, pid 99",
        ),
    ],
)  # fmt: skip
def test_the_badge_and_its_sentence(what: Seen, mode: Mode, sentence: str) -> None:
    made = view(what)
    assert (made.mode, made.sentence) == (mode, sentence)


def test_a_run_that_ended_without_finishing_says_who_waits() -> None:
    script = world.Script()
    script.whole("workflows", 5)
    script.add(Closed(2, final=False))
    made = view(seen(script))
    assert (made.mode, made.sentence) == (Mode.STOPPED, "02 and 04 wait for you, nothing is running")


def test_an_open_run_keeps_its_recorded_plan_whatever_the_records_say_now() -> None:
    made = view(seen(world.running(), plan=world.plan(delete_project=False)))
    assert made.digest == world.PLAN.digest
    assert len(made.phases) == 13


def test_a_finished_run_of_long_ago_does_not_hide_a_new_plan() -> None:
    later = NOW + timedelta(days=30)
    made = view(seen(world.finished(), now=later, since=later))
    assert (made.mode, made.run) == (Mode.PLAN, None)
    gone = Refusal(Reason.UNKNOWN_ALIAS, "nobody knows it", "")
    assert view(seen(world.finished(), now=later, since=later, plan=gone)).mode is Mode.DONE


def test_what_was_proven_gone_since_the_inventory_leaves_the_list_and_the_spend() -> None:
    made = view(seen(world.running(), inventory=world.inventory(at="2026-03-04T14:02:00Z"), runner=RUNNER))
    names = [i.row.name for i in made.items]
    assert "agent-trainer" not in names
    assert made.gone == 2
    assert made.spend == pytest.approx(world.inventory().per_day - 9.12 - 1.40)


def test_rows_say_where_they_stand() -> None:
    items = {i.row.name: i for i in view(seen(world.running(), runner=RUNNER)).items}
    assert (items["agent-notebook"].stand, items["agent-notebook"].word) == (Stand.RUNNING, "deleting")
    assert (items["gpu-a-0"].stand, items["gpu-a-0"].goes) == (Stand.WAITS, 5)
    assert items["scratch-nvme"].goes == 0
    left = {i.row.name: i for i in view(seen(world.failed())).items}
    assert left["mk8s-eval"].stand is Stand.FAILED


def test_what_is_in_no_phase_holds_the_project_and_is_named() -> None:
    phase = view(seen()).phase("delete_project")
    assert phase is not None
    assert (phase.stand, phase.held) == (Stand.HELD, "1 disk")
    assert "scratch-nvme" in phase.why
    clean = world.inventory(without=frozenset({world.SCRATCH.ref.id}))
    phase = view(seen(inventory=clean)).phase("delete_project")
    assert phase is not None
    assert phase.stand is Stand.WAITS


def test_a_protected_project_shows_its_plan_and_every_phase_held() -> None:
    lines = (replace(world.PROJECTS[0], protected=True),)
    made = view(seen(projects=lines))
    assert {p.stand for p in made.phases} == {Stand.HELD}
    assert made.mode is Mode.PLAN


def test_the_spend_is_not_known_from_half_an_inventory_and_a_floor_without_every_price() -> None:
    assert view(seen(world.running(), inventory=world.inventory(failed="compute"))).spend is None
    rows = tuple(replace(r, per_hour=None) if r.name == "gpu-a-0" else r for r in world.inventory().rows)
    made = view(seen(inventory=replace(world.inventory(), rows=rows)))
    assert made.spend_floor
    assert made.spend == pytest.approx(world.inventory().per_day - 153.60)


def test_the_spend_before_is_only_known_to_who_was_there_before() -> None:
    before = world.inventory(at="2026-03-04T14:00:00Z")
    assert view(seen(world.running(), first=before)).spend_before == before.per_day
    assert view(seen(world.running(), first=world.inventory())).spend_before is None
