"""The console as a whole: what it shows, what its keys do, and that it changes nothing by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_source import FakeSource, Session, session
from textual.widgets import Input

from engine.ledger.events import Asked, Noted
from engine.words.reasons import Reason, Refusal
from npa_tui.badge import Mode
from npa_tui.following import ORPHANED, PATIENCE
from npa_tui.screens.confirm import ConfirmScreen
from npa_tui.screens.help import HelpScreen
from npa_tui.screens.leaving import LeavingScreen
from npa_tui.screens.main import MainScreen
from npa_tui.screens.run import RunScreen
from npa_tui.screenshots import world
from npa_tui.stands import Stand
from npa_tui.state import Scene
from npa_tui.widgets.inventory import InventoryList
from npa_tui.widgets.log import LogView
from npa_tui.widgets.plan import PlanTree


def running(source: FakeSource) -> None:
    source.write(world.running().entries)
    source.run()


def stand(s: Session, phase: str) -> Stand:
    view = s.app.view.phase(phase)
    assert view is not None
    return view.stand


def toasts(s: Session) -> str:
    return "\n".join(n.message for n in s.app._notifications)


# -- consent and the runner -----------------------------------------------------------------------------------------------


async def test_consent_starts_a_runner_and_reaches_it_through_its_inbox(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("x")
        await s.wait(1)
        await s.press("y")
        assert [p.digest for p in s.source.started] == [world.PLAN.digest]
        (request,) = s.source.requests()
        assert (request.what, request.run, request.by) == ("consent", world.RUN, "lena@acme")
        assert request.consent is not None
        assert request.consent.digest == world.PLAN.digest
        assert stand(s, "workflows") is Stand.READY
        assert not s.source.journal_path(world.PROJECT).exists()  # the console itself writes nothing there


async def test_consent_of_a_live_run_only_asks(tmp_path: Path) -> None:
    script = world.Script()
    async with session(tmp_path, lambda source: source.run(), entries=script.entries) as s:
        await s.press("x")
        await s.wait(1)
        await s.press("y")
        assert s.source.started == []
        assert len(s.source.requests()) == 1
        s.source.answer(script)
        await s.settle()
        assert s.source.requests() == []
        assert stand(s, "workflows") is Stand.READY
        script.at(4).begin("workflows")
        s.source.write(script.entries)
        await s.settle()
        assert stand(s, "workflows") is Stand.RUNNING
        assert s.app.view.sentence == "01 is running, 02 waits for you"


async def test_a_runner_that_does_not_start_says_why_and_the_phase_waits_again(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        s.source.start_answer = Refusal(Reason.LEASE_HELD, "a deploy holds the project", "npa watch")
        await s.press("x")
        await s.wait(1)
        await s.press("y")
        assert "a deploy holds the project" in toasts(s)
        assert s.source.requests() == []
        assert stand(s, "workflows") is Stand.CONFIRM


async def test_another_program_on_the_project_is_not_asked(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        s.source.run()  # a live holder whose run is in no journal of ours
        await s.press("x")
        await s.wait(1)
        await s.press("y")
        assert "holds the project, pid 4711" in toasts(s)
        assert (s.source.started, s.source.requests()) == ([], [])


@pytest.mark.parametrize(("alive", "seconds"), [(False, ORPHANED), (True, PATIENCE)])
async def test_an_answer_that_nobody_takes_is_taken_back(tmp_path: Path, alive: bool, seconds: float) -> None:
    async with session(tmp_path, entries=world.Script().entries) as s:
        if alive:
            s.source.run()
            s.app.reader.check_runner()
        await s.settle()
        await s.press("x")
        await s.wait(1)
        await s.press("y")
        assert len(s.source.requests()) == 1
        await s.wait(seconds - 2)
        assert len(s.source.requests()) == 1
        await s.wait(4)
        assert s.source.requests() == []
        assert "taken back" in toasts(s)
        assert stand(s, "workflows") is Stand.CONFIRM


async def test_a_resumed_run_may_look_again_at_what_was_finished(tmp_path: Path) -> None:
    async with session(tmp_path, entries=world.failed().entries) as s:
        assert s.app.view.mode is Mode.STOPPED
        await s.press("enter")
        assert isinstance(s.app.screen, ConfirmScreen)
        await s.wait(1)
        s.app.screen.query_one("#field", Input).value = world.ALIAS
        await s.press("enter")
        await s.wait(1)
        await s.press("enter")
        (request,) = s.source.requests()
        assert request.consent is not None
        assert request.consent.phases == ("workflows", "agents", "agent_iam", "controller", "clusters")
        shown = {p.ref.id for t in world.TARGETS["clusters"] for p in t.parts}
        assert set(request.consent.seen or {}) == shown


async def test_the_runners_refusal_is_told(tmp_path: Path) -> None:
    script = world.Script()
    async with session(tmp_path, lambda source: source.run(), entries=script.entries) as s:
        script.add(Asked("consent", "lena@acme", False, "plan 1 was agreed to, but the plan is 2"))
        s.source.write(script.entries)
        await s.settle()
        assert "plan 1 was agreed to" in toasts(s)


# -- attaching, taking over, dying ----------------------------------------------------------------------------------------


async def test_a_second_console_finds_the_run_and_can_stop_it(tmp_path: Path) -> None:
    async with session(tmp_path, running) as s:
        assert s.app.view.mode is Mode.LIVE
        assert stand(s, "agents") is Stand.RUNNING
        assert s.app.view.run is not None
        assert s.app.view.run.operators == ("lena@acme",)
        tree = s.app.screen.query_one(PlanTree)
        assert tree.phase is not None
        assert tree.phase.name == "controller"
        await s.press("up", "up", "up", "up", "enter")
        assert isinstance(s.app.screen, RunScreen)
        await s.press("p", "s")
        assert [r.what for r in s.source.requests()] == ["pause", "stop"]
        await s.press("escape")
        assert isinstance(s.app.screen, MainScreen)


async def test_a_paused_run_is_told_to_go_on(tmp_path: Path) -> None:
    script = world.running()
    script.add(Noted("run", "paused", "needs a login: token expired"))
    async with session(tmp_path, lambda source: source.run(), entries=script.entries) as s:
        assert s.app.view.sentence.startswith("needs a login: token expired")
        await s.press("up", "up", "up", "up", "enter", "p")
        assert [r.what for r in s.source.requests()] == ["resume"]


async def test_leaving_while_something_runs_asks_and_harms_nothing(tmp_path: Path) -> None:
    async with session(tmp_path, running) as s:
        await s.press("ctrl+q")
        assert isinstance(s.app.screen, LeavingScreen)
        await s.press("escape")
        assert isinstance(s.app.screen, MainScreen)
        await s.press("ctrl+q", "tab")
        await s.pilot.press("enter")
        assert s.app.return_value == 0
        assert s.source.requests() == []


async def test_stopping_and_leaving_asks_the_runner_first(tmp_path: Path) -> None:
    async with session(tmp_path, running) as s:
        await s.press("ctrl+q", "tab", "tab")
        await s.pilot.press("enter")
        assert [r.what for r in s.source.requests()] == ["stop"]
        assert s.app.return_value == 0


async def test_leaving_without_a_run_just_leaves_even_from_a_dialog(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("x")
        await s.pilot.press("ctrl+q")
        assert s.app.return_value == 0


async def test_a_runner_that_died_leaves_its_phase_not_known(tmp_path: Path) -> None:
    async with session(tmp_path, running) as s:
        s.source.run(alive=False)
        s.app.reader.check_runner()
        await s.settle()
        assert (s.app.view.mode, stand(s, "agents")) == (Mode.STOPPED, Stand.UNKNOWN)
        await s.press("up", "up", "up", "enter")
        assert isinstance(s.app.screen, ConfirmScreen)


async def test_an_altered_journal_is_said_and_nothing_is_offered(tmp_path: Path) -> None:
    async with session(tmp_path, running) as s:
        pass
    entries = world.running().entries
    async with session(tmp_path, lambda source: source.write(entries[:3] + entries[6:])) as s:
        assert s.app.view.scene is Scene.ERROR
        assert "The journal was altered" in s.text()
        await s.press("x")
        assert isinstance(s.app.screen, MainScreen)


# -- moving about ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_the_same_five_keys_reach_every_pane(tmp_path: Path, size: tuple[int, int]) -> None:
    async with session(tmp_path, running, size=size) as s:
        for key, mark in (
            ("1", "vision-train"),
            ("3", "computeinstance"),
            ("4", "gone held left"),
            ("5", "info"),
            ("2", "Clusters"),
        ):
            await s.press(key)
            assert mark in s.text(), key
            assert s.app.focused is not None


async def test_tab_goes_round_the_panes(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        ids = []
        for _ in range(3):
            ids.append(s.app.focused.id if s.app.focused else "")
            await s.press("tab")
        assert ids == ["tree", "items", "project-list"]
        await s.press("shift+tab")
        assert s.app.focused is not None
        assert s.app.focused.id == "project-list"


async def test_the_cursor_does_not_change_the_aim_but_enter_does(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("1", "down")
        assert s.app.view.aimed == world.ALIAS
        await s.press("enter")
        assert s.app.view.aimed == "vision-train"


async def test_more_than_one_project_and_none_named_is_a_question(tmp_path: Path) -> None:
    async with session(tmp_path, project="") as s:
        assert s.app.view.scene is Scene.CHOOSE
        assert "Which project?" in s.text()
        await s.press("down", "enter")
        assert s.app.view.aimed == "vision-train"


async def test_the_only_project_is_aimed_at(tmp_path: Path) -> None:
    def one(source: FakeSource) -> None:
        source.lines = world.PROJECTS[:1]

    async with session(tmp_path, one, project="") as s:
        assert s.app.view.aimed == world.ALIAS


async def test_a_stage_folds_and_the_relations_follow_the_cursor(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        assert "›04" in s.text()
        await s.press("space")
        assert "Cancel workflow runs" not in s.text().split("Unblocks")[0].split("Clusters")[0]
        await s.press("space")
        assert "Cancel workflow runs" in s.text()


async def test_a_key_that_cannot_act_says_why(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("down", "down", "enter")
        assert isinstance(s.app.screen, MainScreen)
        assert "03 waits for 02." in toasts(s)
        assert "Open phase" not in s.text()


async def test_filtering_counts_and_escape_goes_back_step_by_step(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("slash", *"gpu", "space", *"kind", "colon", *"disk")
        items = s.app.screen.query_one(InventoryList)
        assert items.shown == 2
        assert "2 of 24" in s.text()
        await s.press("enter")
        assert s.app.focused is items
        await s.press("escape")
        assert items.shown == 24
        await s.press("slash", "escape")
        assert s.app.focused is items


async def test_a_letter_in_a_field_is_text_and_no_command(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("slash", "x", "r", "y")
        assert isinstance(s.app.screen, MainScreen)
        assert s.app.screen.query_one("#filter", Input).value == "xry"


async def test_help_opens_anywhere_and_closes(tmp_path: Path) -> None:
    async with session(tmp_path, running) as s:
        await s.press("question_mark")
        assert isinstance(s.app.screen, HelpScreen)
        await s.press("escape", "up", "up", "up", "up", "enter", "question_mark")
        assert isinstance(s.app.screen, HelpScreen)


async def test_copying_gives_the_raw_value_and_shows_it(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.press("3", "y")
        assert s.app.clipboard == "computeinstance-e00y3vv8k1c7w2b"
        assert "computeinstance-e00y3vv8k1c7w2b" in toasts(s)
        await s.press("1", "y")
        assert s.app.clipboard == world.PROJECT


async def test_the_receipt_is_written_beside_and_never_over_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    async with session(tmp_path, running) as s:
        await s.press("4", "w")
        (path,) = work.iterdir()
        text = path.read_text()
        assert world.PROJECT in text
        assert "Not complete." in text
        await s.press("w")
        assert path.read_text() == text
        assert "exists" in toasts(s).lower()


async def test_looking_changes_nothing_on_disk(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        for key in (
            "1",
            "2",
            "3",
            "4",
            "5",
            "slash",
            "escape",
            "r",
            "question_mark",
            "escape",
            "2",
            "x",
            "escape",
        ):
            await s.press(key)
        assert list(tmp_path.iterdir()) == []


# -- reading --------------------------------------------------------------------------------------------------------------


async def test_reading_shows_what_answered_and_escape_stops_it(tmp_path: Path) -> None:
    def silent(source: FakeSource) -> None:
        source.there = None
        source.heard = world.reports()[:3]

    async with session(tmp_path, silent, reading=True) as s:
        assert s.app.view.scene is Scene.READING
        assert "3 sources answered" in s.text()
        await s.press("escape")
        assert s.app.view.scene is Scene.ERROR
        assert "Reading was stopped" in s.text()
        s.source.there = world.inventory()
        await s.press("r")
        assert s.app.view.scene is Scene.READY


async def test_a_source_that_breaks_is_told_and_the_console_lives(tmp_path: Path) -> None:
    def broken(source: FakeSource) -> None:
        source.there = RuntimeError("token=abcdef123456 was bad")

    async with session(tmp_path, broken) as s:
        assert s.app.view.scene is Scene.ERROR
        assert "RuntimeError" in s.text()
        assert "abcdef123456" not in s.text()


async def test_a_settled_target_brings_a_new_inventory(tmp_path: Path) -> None:
    def early(source: FakeSource) -> None:
        source.there = world.inventory(at="2026-03-04T14:02:00Z")

    async with session(tmp_path, early) as s:
        script = world.running()
        s.source.there = world.inventory(without=world.ids_of("agents"), at=world.NOW)
        s.source.write(script.entries)
        s.source.run()
        await s.settle()
        await s.settle()
        assert all(i.row.phase != "agents" for i in s.app.view.items)


# -- the log --------------------------------------------------------------------------------------------------------------


async def test_the_log_follows_until_somebody_moves_up(tmp_path: Path) -> None:
    script = world.running()
    async with session(tmp_path, lambda source: source.run(), size=(120, 30), entries=script.entries) as s:
        await s.press("5")
        log = s.app.screen.query_one(LogView)
        assert log.following
        assert log.max_scroll_y > 0
        assert log.scroll_offset.y == log.max_scroll_y
        await s.press("up", "up", "up")
        at = log.scroll_offset.y
        assert "f follows" in log.note
        script.at(70).add(Noted(world.TARGETS["agents"][1].key, "progress", "still deleting"))
        s.source.write(script.entries)
        await s.settle()
        assert log.scroll_offset.y == at
        await s.press("f")
        assert log.following
        assert "still deleting" in s.text()


async def test_finding_runs_over_all_lines(tmp_path: Path) -> None:
    async with session(tmp_path, running) as s:
        await s.press("5", "slash", *"throttled")
        log = s.app.screen.query_one(LogView)
        assert len(log.entries) == 1
        assert "1 of" in log.note


# -- windows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(10, 4), (59, 20), (80, 15)])
async def test_a_window_that_is_too_small_says_one_sentence(tmp_path: Path, size: tuple[int, int]) -> None:
    async with session(tmp_path, running, size=size) as s:
        words = " ".join(s.text().split())
        assert words.startswith("This")
        assert "Plan" not in words


async def test_no_size_and_no_key_breaks_it(tmp_path: Path) -> None:
    async with session(tmp_path, running) as s:
        for size in ((60, 16), (99, 30), (150, 40), (20, 5), (120, 36)):
            await s.pilot.resize_terminal(*size)
            await s.pilot.press("1", "4", "5", "3", "end", "tab")
        await s.settle()
        assert s.app.view.mode is Mode.LIVE


async def test_what_a_provider_says_is_no_markup_and_does_not_steer_the_terminal(tmp_path: Path) -> None:
    from dataclasses import replace

    def hostile(source: FakeSource) -> None:
        rows = world.inventory().rows
        source.there = replace(
            world.inventory(), rows=(replace(rows[0], name="[red]x[/]\x1b[2Jy\u202ez"), *rows[1:])
        )

    async with session(tmp_path, hostile) as s:
        assert "[red]x[/]\\x1b[2Jy\\x202ez" in s.text()
        s.source.start_answer = Refusal(Reason.PREFLIGHT_FAILED, "[bold]no[/] quota [/x]", "npa list")
        await s.press("x")
        await s.wait(1)
        await s.press("y")
        assert "[bold]no[/] quota [/x]" in toasts(s)
