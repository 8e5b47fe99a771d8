"""Where phases stand: tables over plan, journal and circumstances."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ledger.events import Closed, Noted, Settled
from engine.words.outcomes import Outcome, Status, Verdict
from engine.words.phases import ROWS
from engine.words.plans import PhasePlan, Plan
from engine.words.reasons import Reason, Refusal
from npa_tui.phases import Circumstances, fold
from npa_tui.screenshots import world
from npa_tui.stands import Stand
from npa_tui.trail import Trail


def folded(
    script: world.Script | None = None, *, plan: Plan = world.PLAN, alive: bool = True, **around: object
):
    trail = Trail.of(script.entries if script else [])
    run = trail.state.newest
    views = fold(plan, run, trail, Circumstances(alive=alive and run is not None, **around))
    return {v.name: v for v in views}


def stands(views) -> dict[str, str]:
    return {name: str(v.stand) for name, v in views.items()}


def test_before_any_run_phases_without_needs_wait_for_a_person_and_the_others_say_for_whom() -> None:
    views = folded()
    assert [n for n, v in views.items() if v.stand is Stand.CONFIRM] == ["workflows", "agents"]
    assert views["clusters"].after == (4,)
    assert views["bucket"].after == (2, 5)
    assert views["storage_iam"].after == (7,)
    assert views["final_audit"].after == (12,)


def test_needs_and_what_is_unblocked_are_transitively_reduced() -> None:
    views = folded()
    assert views["clusters"].needs == (4,)
    assert views["bucket"].needs == (2, 5)
    assert views["workflows"].unblocks == (4,)
    assert views["clusters"].unblocks == (6, 7, 9)


def test_a_phase_with_no_targets_has_nothing_to_do_but_passes_its_needs_on() -> None:
    plan = Plan(
        world.IDENTITY,
        tuple(replace(p, targets=()) if p.phase == "bucket" else p for p in world.PLAN.phases),
    )
    views = folded(plan=plan)
    assert views["bucket"].stand is Stand.NOTHING
    assert views["storage_iam"].stand is Stand.WAITS
    assert views["storage_iam"].after == (2, 5)


def test_a_record_that_could_not_be_read_is_something_to_do() -> None:
    plan = Plan(world.IDENTITY, (PhasePlan("agents", unread=("agents/x.json",)),))
    views = folded(plan=plan)
    assert views["agents"].stand is Stand.CONFIRM
    assert "agents/x.json" in views["agents"].note


def test_a_running_phase_counts_its_targets_and_says_what_is_known_of_each() -> None:
    agents = folded(world.running())["agents"]
    assert (agents.stand, agents.settled, agents.total) == (Stand.RUNNING, 1, 2)
    trainer, notebook = agents.steps
    assert (trainer.stand, trainer.note) == (Stand.DONE, "gone and checked")
    assert (notebook.stand, notebook.note) == (Stand.RUNNING, "deleting instance")


def test_what_was_running_when_the_runner_died_is_not_known() -> None:
    views = folded(world.running(), alive=False)
    assert views["agents"].stand is Stand.UNKNOWN
    assert views["agents"].steps[1].stand is Stand.UNKNOWN
    assert views["agents"].why


@pytest.mark.parametrize(
    ("status", "outcome", "expected"),
    [
        (Status.COMPLETED, Outcome("agents/x", Verdict.DONE, acted=True), Stand.DONE),
        (Status.COMPLETED, Outcome("agents/x", Verdict.DONE), Stand.NOTHING),
        (Status.DEGRADED, Outcome("agents/x", Verdict.DONE, True, residue="a key stayed"), Stand.LEFTOVERS),
        (Status.PARTIAL, Outcome("agents/x", Verdict.LEFT, True, Reason.STILL_PRESENT, "there"), Stand.FAILED),
        (Status.PARTIAL, Outcome("agents/x", Verdict.UNKNOWN, True, Reason.CANNOT_SEE, "blind"), Stand.UNKNOWN),
        (Status.PARTIAL, Outcome("agents/x", Verdict.HELD, True, Reason.IN_USE, "used"), Stand.HELD),
        (Status.REFUSED, Outcome("agents/x", Verdict.HELD, False, Reason.NOT_OWNED, "not ours"), Stand.HELD),
        (Status.CANCELLED, Outcome("agents/x", Verdict.STOPPED, False), Stand.CONFIRM),
        (Status.CANCELLED, Outcome("agents/x", Verdict.STOPPED, True), Stand.UNKNOWN),
        (Status.KEPT, Outcome("agents/x", Verdict.HELD, False), Stand.HELD),
    ],
)  # fmt: skip
def test_each_end_of_a_phase_has_its_stand(status: Status, outcome: Outcome, expected: Stand) -> None:
    target = replace(world.TARGETS["agents"][0], key="agents/x")
    plan = Plan(world.IDENTITY, (PhasePlan("agents", (target,)),))
    script = world.Script(plan)
    script.begin("agents")
    script.add(Settled("agents", outcome))
    script.end("agents", status)
    script.add(Closed(2, final=False))
    view = folded(script, plan=plan, alive=False)["agents"]
    assert view.stand is expected
    if expected in (Stand.FAILED, Stand.HELD, Stand.LEFTOVERS):
        assert outcome.detail in view.why
        assert outcome.residue in view.why


def test_what_needs_a_failed_phase_is_blocked_by_it_and_what_comes_after_waits() -> None:
    views = folded(world.failed(), alive=False)
    assert views["clusters"].stand is Stand.FAILED
    assert views["bucket"].blocked == (5,)
    assert views["storage_iam"].after == (7,)
    assert views["storage_iam"].blocked == ()


def test_a_resumed_process_opens_again_what_the_one_before_it_did_not_finish() -> None:
    script = world.failed()
    assert folded(script, alive=False)["clusters"].stand is Stand.FAILED
    script.add(Noted("destroy", "resumed", "npa-tui"))
    views = folded(script)
    assert views["clusters"].stand is Stand.CONFIRM
    assert views["workflows"].stand is Stand.DONE
    assert views["agents"].stand is Stand.LEFTOVERS


def test_consent_on_its_way_and_consent_in_the_journal_both_stop_the_asking() -> None:
    assert folded(asked=frozenset({"agents"}))["agents"].stand is Stand.READY
    script = world.Script()
    script.consent("agents")
    assert folded(script)["agents"].stand is Stand.READY
    assert folded(script, alive=False)["agents"].stand is Stand.CONFIRM


def test_a_guard_that_refused_every_target_holds_the_phase() -> None:
    seen = world.preview(world.PLAN, "agents")
    why = Refusal(Reason.IN_USE, "a live run uses it", "npa workflow cancel")
    refused = replace(seen, targets=tuple(replace(t, refusal=why) for t in seen.targets))
    view = folded(previews={"agents": refused})["agents"]
    assert (view.stand, view.held) == (Stand.HELD, "2 agents")
    assert "a live run uses it" in view.why
    assert view.next == "npa workflow cancel"


def test_holds_win_over_asking() -> None:
    views = folded(holds={"agents": ("protected", "The project is protected.")})
    assert (views["agents"].stand, views["agents"].why) == (Stand.HELD, "The project is protected.")


def test_everything_finished_is_done_or_nothing() -> None:
    assert set(stands(folded(world.finished(), alive=False)).values()) == {"done"}


@given(st.sets(st.sampled_from([r.name for r in ROWS])), st.booleans())
def test_nothing_waits_for_itself_or_for_what_is_done(empty: set[str], with_project: bool) -> None:
    """Whatever has no targets: some phase can always be started, and no row waits for a finished one."""
    base = world.plan(delete_project=with_project)
    plan = Plan(base.identity, tuple(replace(p, targets=()) if p.phase in empty else p for p in base.phases))
    views = folded(plan=plan)
    by_number = {v.number: v for v in views.values()}
    startable = [v for v in views.values() if v.stand in (Stand.CONFIRM, Stand.READY)]
    assert startable
    for view in views.values():
        assert view.number not in view.after
        assert all(by_number[n].stand not in (Stand.DONE, Stand.NOTHING) for n in view.after)
        assert bool(view.after) == (view.stand is Stand.WAITS)
