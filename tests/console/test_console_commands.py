"""The command list: one source for keys, footer, palette and help."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from textual.binding import Binding

from npa_tui import commands
from npa_tui.app import Console
from npa_tui.commands.base import Scope, Where
from npa_tui.commands.main import cannot_open
from npa_tui.phases import PhaseView
from npa_tui.render.help import help_text
from npa_tui.render.ink import Ink
from npa_tui.screens.confirm import ConfirmScreen
from npa_tui.screens.help import HelpScreen
from npa_tui.screens.leaving import LeavingScreen
from npa_tui.screens.main import MainScreen
from npa_tui.screens.run import RunScreen
from npa_tui.stands import Stand
from npa_tui.state import View
from npa_tui.widgets.inventory import InventoryList
from npa_tui.widgets.lines import Lines
from npa_tui.widgets.log import LogView
from npa_tui.widgets.plan import PlanTree
from npa_tui.widgets.projects import ProjectList

BOUND = (
    Console, MainScreen, RunScreen, ConfirmScreen, HelpScreen, LeavingScreen, Lines, PlanTree, ProjectList, InventoryList,
    LogView,
)  # fmt: skip
EMPTY = Where(View(now=datetime(2026, 3, 4, tzinfo=UTC)))


def test_ids_are_unique_and_name_their_scope() -> None:
    assert max(Counter(c.id for c in commands.ALL).values()) == 1
    assert all(c.id.partition(".")[0] == str(c.scope) for c in commands.ALL)


def test_no_key_is_heard_twice_in_one_scope() -> None:
    for scope in Scope:
        keys = Counter(k for c in commands.of(scope) for k in c.key.split(",") if k)
        assert not keys or max(keys.values()) == 1, scope


def test_panes_do_not_hide_the_screens_keys() -> None:
    panes = (Scope.PROJECTS, Scope.PLAN, Scope.INVENTORY, Scope.RECEIPT, Scope.LOG)
    main = {k for c in (*commands.of(Scope.MAIN), *commands.of(Scope.APP)) for k in c.key.split(",") if k}
    for pane in panes:
        assert main.isdisjoint(k for c in commands.of(pane) for k in c.key.split(",") if k)


@pytest.mark.parametrize("owner", BOUND)
def test_every_binding_has_an_id_and_says_what_it_does(owner: type) -> None:
    own = [b for b in owner.__dict__.get("BINDINGS", []) if isinstance(b, Binding)]
    assert own
    for binding in own:
        assert binding.id, binding
        assert binding.description, binding
    assert len({b.id for b in own}) == len(own)


@pytest.mark.parametrize("command", commands.ALL, ids=lambda c: c.id)
def test_every_command_has_a_label_a_help_text_and_an_answer(command: object) -> None:
    assert isinstance(command, commands.Command)
    assert command.label
    assert command.help
    assert not command.help.endswith(".")
    assert not command.key or len(command.family or command.help) <= 33
    assert isinstance(command.reason(EMPTY), str)


def test_no_key_needs_alt_a_function_key_or_one_that_terminals_take() -> None:
    taken = {"ctrl+a", "ctrl+b", "ctrl+s", "ctrl+z", "ctrl+enter", "ctrl+h", "ctrl+i", "ctrl+m"}
    for command in commands.ALL:
        for key in command.key.split(","):
            assert key not in taken
            assert not key.startswith(("alt+", "f1", "f2", "f3"))


def test_the_help_has_every_key() -> None:
    text = help_text(commands.ALL, Ink(), 94).plain
    for command in commands.ALL:
        if command.key:
            assert command.shown_key in text
            assert (command.family or command.help) in text
    assert "…" not in text


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        (None, "No phase is highlighted."),
        (PhaseView("bucket", 7, Stand.WAITS, after=(2, 5)), "07 waits for 02, 05."),
        (PhaseView("bucket", 7, Stand.WAITS, after=(5,), blocked=(5,)), "07 is blocked by 05."),
        (PhaseView("final_audit", 13, Stand.READY), "13 starts by itself: it only reads."),
        (PhaseView("bucket", 7, Stand.READY), "07 is agreed to and starts."),
        (PhaseView("bucket", 7, Stand.NOTHING), "07 has nothing to do."),
        (
            PhaseView("delete_project", 10, Stand.HELD, held="1 registry", why="Registry x is in no phase."),
            "10 is held: Registry x is in no phase.",
        ),
        (PhaseView("bucket", 7, Stand.CONFIRM), ""),
        (PhaseView("bucket", 7, Stand.RUNNING), ""),
        (PhaseView("bucket", 7, Stand.FAILED), ""),
    ],
)
def test_why_a_phase_does_not_open(phase: PhaseView | None, reason: str) -> None:
    assert cannot_open(phase, EMPTY.view) == reason
