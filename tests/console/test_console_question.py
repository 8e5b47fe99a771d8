"""What a dialog asks, what answers it, and what makes it stale."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.run.preview import PhasePreview
from engine.words.consent import Tier
from engine.words.identity import Identity
from engine.words.plans import Plan
from engine.words.presence import Cause, Observation, Unknown
from engine.words.reasons import Reason, Refusal
from npa_tui.question import Question, changes, verdict
from npa_tui.screenshots import world

REFUSED = Refusal(Reason.IN_USE, "a live run uses it", "npa workflow cancel R")


def asked(phase: str, **changed: object) -> Question:
    return Question(world.preview(world.PLAN, phase, **changed))


def with_target(preview: PhasePreview, index: int, **changed: object) -> PhasePreview:
    targets = list(preview.targets)
    targets[index] = replace(targets[index], **changed)
    return replace(preview, targets=tuple(targets))


@pytest.mark.parametrize(
    ("phase", "tier", "size", "wanted", "words", "deed"),
    [
        ("workflows", 1, "3 runs", "", "the project alias", "Cancel 3 runs"),
        ("agents", 2, "2 agents, 4 resources", "4", "the number of resources", "Destroy 2 agents"),
        ("agent_iam", 2, "1 account", "1", "the number of accounts", "Remove the account"),
        ("controller", 2, "1 controller, 2 resources", "2", "the number of resources", "Remove the controller"),
        ("clusters", 3, "2 clusters, 4 resources", "ml-sandbox", "the project alias", "Take down 2 clusters"),
        ("bucket", 3, "1 bucket", "ml-sandbox", "the project alias", "Delete the bucket"),
        ("delete_project", 3, "1 project", "ml-sandbox", "the project alias", "Delete the project"),
        ("local_cleanup", 1, "4 records", "", "the project alias", "Clean 4 records"),
        ("forget_alias", 1, "1 alias", "", "the project alias", "Forget the alias"),
    ],
)  # fmt: skip
def test_what_each_phase_asks(phase: str, tier: int, size: str, wanted: str, words: str, deed: str) -> None:
    question = asked(phase)
    assert (question.tier, question.size, question.wanted, question.deed) == (tier, size, wanted, deed)
    if tier > 1:
        assert question.wanted_words == words


def test_a_project_without_an_alias_is_named_by_the_end_of_its_id() -> None:
    plan = Plan(Identity(world.PROJECT), world.PLAN.phases)
    question = Question(world.preview(plan, "bucket"))
    assert question.wanted == world.PROJECT[-6:]
    assert question.wanted_words == "the last six characters of the project id"


def test_the_number_counts_what_is_listed_and_what_is_gone_is_not() -> None:
    gone = world.TARGETS["agents"][0].parts[1].ref.id
    question = asked("agents", gone=[gone])
    assert question.wanted == "3"
    assert gone not in [t.id for t in question.things]


def test_a_guard_may_raise_the_tier_and_a_refused_target_is_not_listed() -> None:
    preview = with_target(world.preview(world.PLAN, "agents"), 0, tier=Tier.DATA_DIES)
    assert Question(preview).wanted == "ml-sandbox"
    preview = with_target(world.preview(world.PLAN, "agents"), 0, refusal=REFUSED)
    question = Question(preview)
    assert question.askable
    assert [t.name for t in question.things] == ["agent-notebook", "agent-notebook-boot"]
    assert not Question(with_target(preview, 1, refusal=REFUSED)).askable


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", "not typed yet"),
        ("ml-san", "6 of 10"),
        ("ml-sanbox", "does not match"),
        ("ml-sandbox ", "does not match"),
        ("ML-SANDBOX", "does not match"),
        (" ml-sandbox", "does not match"),
        ("ml-sandbox", "matches"),
    ],
)
def test_the_verdict_in_words(typed: str, words: str) -> None:
    assert verdict(asked("bucket"), typed) == words


@given(st.text(max_size=14))
def test_only_the_exact_text_matches(typed: str) -> None:
    for phase in ("agents", "bucket"):
        question = asked(phase)
        assert (verdict(question, typed) == "matches") == (typed == question.wanted)


def test_the_answer_is_bound_to_plan_phase_tier_and_every_id_shown() -> None:
    question = asked("agents")
    consent = question.consent("lena@acme")
    assert consent.digest == world.PLAN.digest
    assert consent.phases == ("agents",)
    assert consent.tier == 2
    assert consent.seen is not None
    assert set(consent.seen) == {p.ref.id for t in world.TARGETS["agents"] for p in t.parts}


def test_an_answer_that_reopens_finished_phases_shows_nothing_of_them() -> None:
    consent = asked("agents").consent("lena@acme", ("workflows", "agents"))
    assert consent.phases == ("workflows", "agents")
    run = world.TARGETS["workflows"][0].parts[0].ref
    assert consent.objection("workflows", run, None) is Reason.NOT_SHOWN


# -- going stale ----------------------------------------------------------------------------------------------------------


def test_two_equal_looks_change_nothing() -> None:
    assert (
        changes(world.preview(world.PLAN, "agents"), world.preview(world.PLAN, "agents", at=world.READ)) == ()
    )


def test_what_changed_is_named() -> None:
    before = world.preview(world.PLAN, "agents")
    vm = world.TARGETS["agents"][1].parts[0].ref.id
    assert changes(before, world.preview(world.PLAN, "agents", gone=[vm])) == ("agent-notebook is gone",)
    assert changes(before, world.preview(world.PLAN, "agents", other=[vm])) == (
        "agent-notebook is another thing under the same id",
    )
    back = changes(world.preview(world.PLAN, "agents", gone=[vm]), before)
    assert back == ("agent-notebook was gone and is there",)
    fewer = replace(before, targets=before.targets[:1])
    assert changes(fewer, before) == ("agent-notebook is new", "agent-notebook-boot is new")
    assert "agent-notebook is no longer listed" in changes(before, fewer)


def test_a_refusal_a_higher_tier_another_plan_and_a_new_warning_are_changes() -> None:
    before = world.preview(world.PLAN, "agents")
    assert changes(before, with_target(before, 0, refusal=REFUSED)) == ("agent-trainer: a live run uses it",)
    assert changes(with_target(before, 0, refusal=REFUSED), before) == (
        "agent-trainer is not refused any more",
    )
    assert changes(before, with_target(before, 0, tier=Tier.DATA_DIES))
    other = world.preview(world.plan(delete_project=False), "agents")
    assert changes(before, other)[0].startswith("the plan is ")
    assert changes(before, with_target(before, 0, touches=("!it serves traffic",))) == ("it serves traffic",)


def test_what_can_no_longer_be_seen_is_a_change() -> None:
    before = world.preview(world.PLAN, "bucket")
    ref = before.targets[0].sight[0].ref
    blind = (Observation(ref, Unknown(Cause.TIMED_OUT, "no answer"), world.NOW, "storage"),)
    why = Refusal(Reason.CANNOT_SEE, "timed_out: no answer", "")
    assert changes(before, with_target(before, 0, sight=blind, refusal=why))
