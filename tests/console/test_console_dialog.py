"""The dialog's rules, by keys: what opens it, what it takes to agree, and what makes it lock."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_source import FakeSource, Session, session
from textual.widgets import Button, Input

from engine.words.reasons import Reason, Refusal
from npa_tui.screens.confirm import GUARD, VALID, ConfirmScreen
from npa_tui.screens.main import MainScreen
from npa_tui.screenshots import world
from npa_tui.screenshots.scenes import look_again
from npa_tui.stands import Stand


def bucket_next(source: FakeSource) -> None:
    script = world.Script().at(1)
    for phase in ("workflows", "agents", "agent_iam", "controller", "clusters", "registries"):
        script.whole(phase, 2)
    source.write(script.entries)
    source.run()
    source.there = world.inventory(without=frozenset({world.SCRATCH.ref.id}))


def focused(s: Session) -> str:
    return (s.app.focused.id or "") if s.app.focused else ""


def go(s: Session) -> Button:
    return s.app.screen.query_one("#go", Button)


async def type_alias(s: Session, text: str = world.ALIAS) -> None:
    s.app.screen.query_one("#field", Input).value = text
    await s.settle()


async def test_nothing_opens_by_itself(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        script = world.Script()
        s.source.write(script.entries)
        s.source.run()
        await s.settle()
        assert isinstance(s.app.screen, MainScreen)
        assert s.source.looks == []


async def test_the_phase_is_looked_at_before_it_is_shown(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        s.source.blocked = True
        await s.pilot.press("down", "enter")
        await s.pilot.pause(0.05)
        assert isinstance(s.app.screen, ConfirmScreen)
        assert "Looking at what is there" in s.text()
        assert go(s).disabled
        s.source.blocked = False
        await s.settle()
        assert "agent-trainer-boot" in s.text()
        assert s.source.looks == [(world.PLAN.digest, "agents")]


async def test_x_opens_the_first_phase_that_waits(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("x")
        assert "Cancel workflow runs" in s.text()
        assert "CAN BE RECREATED" in s.text()


async def test_tier_1_focuses_keeping_and_takes_y(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("x")
        assert focused(s) == "keep"
        await s.press("enter")
        assert isinstance(s.app.screen, MainScreen)
        assert s.source.requests() == []
        await s.press("x")
        await s.wait(1)
        await s.press("y")
        assert isinstance(s.app.screen, MainScreen)
        assert [r.consent.phases for r in s.source.requests() if r.consent] == [("workflows",)]


async def test_tier_2_wants_the_number_and_y_is_only_text(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("down", "enter")
        await s.wait(1)
        assert focused(s) == "field"
        await s.press("y", "enter")
        assert isinstance(s.app.screen, ConfirmScreen)
        assert "does not match" in s.text()
        assert go(s).disabled
        assert str(go(s).label) == "Destroy 2 agents, locked"
        await s.press("backspace", "4")
        assert "matches" in s.text()
        assert str(go(s).label) == "Destroy 2 agents"


@pytest.mark.parametrize("typed", ["ml-sanbox", "ML-SANDBOX", "ml-sandbox2"])
async def test_tier_3_wants_the_exact_alias(tmp_path: Path, typed: str) -> None:
    async with session(tmp_path, bucket_next) as s:
        await s.press("x")
        await s.wait(1)
        assert s.app.screen.query_one("#box").has_class("-danger")
        await s.press(*("minus" if c == "-" else c for c in typed.lower()))
        if typed.isupper():
            s.app.screen.query_one("#field", Input).value = typed
        await s.press("enter", "enter")
        assert isinstance(s.app.screen, ConfirmScreen)
        assert go(s).disabled


async def test_enter_in_the_field_only_goes_to_the_button(tmp_path: Path) -> None:
    async with session(tmp_path, bucket_next) as s:
        await s.press("x")
        await s.wait(1)
        await type_alias(s)
        await s.press("enter")
        assert isinstance(s.app.screen, ConfirmScreen)
        assert focused(s) == "go"
        await s.wait(1)
        await s.press("enter")
        assert isinstance(s.app.screen, MainScreen)
        (request,) = s.source.requests()
        assert request.consent is not None
        assert request.consent.phases == ("bucket",)
        assert request.consent.tier == 3
        assert request.run == world.RUN


async def test_a_double_tap_is_no_answer(tmp_path: Path) -> None:
    async with session(tmp_path, bucket_next) as s:
        await s.press("x")
        await s.wait(1)
        await type_alias(s)
        await s.press("enter", "enter")
        assert isinstance(s.app.screen, ConfirmScreen)
        await s.wait(GUARD + 0.1)
        await s.press("enter")
        assert isinstance(s.app.screen, MainScreen)


async def test_a_key_that_is_still_held_from_opening_does_not_agree(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("x", "y")
        assert isinstance(s.app.screen, ConfirmScreen)
        assert s.source.requests() == []


@pytest.mark.parametrize("stage", [None, bucket_next])
async def test_escape_keeps_everything_whatever_was_typed(tmp_path: Path, stage: object) -> None:
    async with session(tmp_path, stage or (lambda source: None)) as s:
        await s.press("x")
        await s.wait(1)
        await type_alias(s)
        await s.press("escape")
        assert isinstance(s.app.screen, MainScreen)
        assert s.source.requests() == []
        assert s.source.started == []


async def test_pasting_is_allowed_but_must_be_exact(tmp_path: Path) -> None:
    from textual import events

    async with session(tmp_path, bucket_next) as s:
        await s.press("x")
        await s.wait(1)
        s.app.screen.query_one("#field", Input).post_message(events.Paste("ml-sandbox"))
        await s.settle()
        assert not go(s).disabled
        assert isinstance(s.app.screen, ConfirmScreen)


async def test_the_alias_does_not_stand_beside_the_field(tmp_path: Path) -> None:
    async with session(tmp_path, bucket_next) as s:
        await s.press("x")
        lines = s.text().split("\n")
        at = next(n for n, line in enumerate(lines) if "Type the project alias" in line)
        assert all(world.ALIAS not in line[18:102] for line in lines[at : at + 4])


async def test_a_change_locks_the_dialog_names_itself_and_r_looks_again(tmp_path: Path) -> None:
    async with session(tmp_path, bucket_next) as s:
        await s.press("x")
        await s.wait(1)
        await type_alias(s)
        bucket = world.TARGETS["bucket"][0].parts[0].ref.id
        s.source.look = lambda plan, phase: world.preview(plan, phase, other=[bucket])
        await look_again(s.pilot, s.app)
        assert "inventory changed since" in s.text()
        assert "ml-sandbox-state is another thing under the same id" in s.text()
        assert s.app.screen.query_one("#field", Input).disabled
        assert go(s).disabled
        assert focused(s) == "keep"
        await s.press("r")
        await s.wait(1)
        assert "unchanged since" in s.text()
        assert s.app.screen.query_one("#field", Input).value == ""
        await type_alias(s)
        await s.press("enter")
        await s.wait(1)
        await s.press("enter")
        (request,) = s.source.requests()
        assert request.consent is not None
        assert request.consent.seen == {bucket: f"{bucket}-second"}


async def test_an_unchanged_second_look_leaves_what_was_typed(tmp_path: Path) -> None:
    async with session(tmp_path, bucket_next) as s:
        await s.press("x")
        await s.wait(1)
        await type_alias(s, "ml-s")
        await look_again(s.pilot, s.app)
        assert len(s.source.looks) == 2
        assert s.app.screen.query_one("#field", Input).value == "ml-s"


async def test_a_look_that_fails_locks_and_says_why(tmp_path: Path) -> None:
    def fails(plan: object, phase: str) -> object:
        raise TimeoutError("the endpoint did not answer")

    async with session(tmp_path, bucket_next) as s:
        await s.press("x")
        s.source.look = fails  # type: ignore[assignment]
        await look_again(s.pilot, s.app)
        assert "could not be looked at again" in s.text()
        assert go(s).disabled
        await s.press("r")
        assert "It could not be looked at" in s.text()
        assert "the endpoint did not answer" in s.text()
        await s.press("escape")
        assert isinstance(s.app.screen, MainScreen)


async def test_what_is_shown_is_good_for_ten_minutes(tmp_path: Path) -> None:
    async with session(tmp_path, bucket_next) as s:
        await s.press("x")
        await s.wait(1)
        await type_alias(s)
        await s.press("enter")
        await s.wait(VALID + 1)
        await s.press("enter")
        assert isinstance(s.app.screen, ConfirmScreen)
        assert "more than ten minutes ago" in s.text()
        assert s.source.requests() == []


async def test_a_phase_that_was_started_elsewhere_locks_the_dialog(tmp_path: Path) -> None:
    script = world.Script()
    async with session(tmp_path, lambda source: source.run(), entries=script.entries) as s:
        await s.press("x")
        assert isinstance(s.app.screen, ConfirmScreen)
        script.at(5).consent("workflows")
        script.begin("workflows")
        s.source.write(script.entries)
        await s.settle()
        assert "01 was started elsewhere" in s.text()
        await s.wait(1)
        await s.press("y")
        assert isinstance(s.app.screen, ConfirmScreen)


async def test_a_phase_whose_every_target_is_refused_has_nothing_to_agree_to(tmp_path: Path) -> None:
    from dataclasses import replace

    why = Refusal(Reason.IN_USE, "a live run uses it", "npa workflow cancel R")

    def refused(plan: object, phase: str) -> object:
        seen = world.preview(world.PLAN, phase)
        return replace(seen, targets=tuple(replace(t, refusal=why) for t in seen.targets))

    async with session(tmp_path) as s:
        s.source.look = refused  # type: ignore[assignment]
        await s.press("x")
        await s.wait(1)
        assert "there is nothing to agree to" in s.text()
        assert "npa workflow cancel R" in s.text()
        await s.press("y")
        assert isinstance(s.app.screen, ConfirmScreen)
        await s.press("escape")
        phase = s.app.view.phase("workflows")
        assert phase is not None
        assert phase.stand is Stand.HELD


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (120, 36)])
async def test_question_and_buttons_stay_in_sight(tmp_path: Path, size: tuple[int, int]) -> None:
    async with session(tmp_path, size=size) as s:
        await s.press("down", "enter")
        text = s.text()
        assert "Keep everything" in text
        assert "locked" in text
        assert "Type the number of resources" in text


async def test_the_dialog_never_asks_whether_one_is_sure(tmp_path: Path) -> None:
    async with session(tmp_path, bucket_next) as s:
        await s.press("x")
        assert "sure" not in s.text().lower()
        labels = {str(b.label).lower() for b in s.app.screen.query(Button)}
        assert labels == {"keep everything", "delete the bucket, locked"}


async def test_the_alias_can_be_typed(tmp_path: Path) -> None:
    async with session(tmp_path, bucket_next) as s:
        await s.press("x", *("minus" if c == "-" else c for c in world.ALIAS))
        assert "matches" in s.text()
