"""The whole job through the console, driven by keys as a person would; and the console killed in the middle of it."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest
import simulated
from terminal import Terminal, terminal

from engine.ledger.journal import load
from engine.ledger.state import Run

pytestmark = pytest.mark.slow

RETAINED = {"project", "tenant", "registry", "artifact", "network", "subnet", "securitygroup", "routetable"}
BUTTON_IS_DEAF = 0.6
ENTER, ESCAPE, QUIT = "\r", "\x1b", "\x11"
DIALOG = ("Type the number", "Type the project alias", "Press y")


def console(sim: simulated.Simulation) -> list[str]:
    return [sys.executable, "-m", "npa_tui", "--project", sim.alias]


def newest(sim: simulated.Simulation) -> Run | None:
    found = sorted((sim.home / ".npa/teardown").glob("*.jsonl"))
    return load(found[0]).newest if found else None


def consent(screen: Terminal, alias: str) -> None:
    """Agree to what the open dialog shows, the way that it asks for."""
    asks = screen.until(*DIALOG)
    screen.read(BUTTON_IS_DEAF)
    if "look again" in screen.text:  # what it shows has begun meanwhile, or changed: nobody can agree to it
        screen.press(ESCAPE)
        screen.read(1.0)
        return
    title = screen.line("CANNOT BE UNDONE") or screen.line("CAN BE RECREATED")
    keys = "y" if asks == "Press y" else ENTER
    if asks != "Press y":
        number = re.findall(r"(\d+) [a-zA-Z]", title.partition("CAN")[0])[-1]
        screen.press(alias if "alias" in asks else number)
        if screen.until("✓ matches", "look again") == "look again":
            screen.press(ESCAPE)
            screen.read(1.0)
            return
        screen.press(ENTER)
        screen.read(BUTTON_IS_DEAF)
    ends = time.monotonic() + 30
    while title in screen.text:
        assert time.monotonic() < ends, screen.text
        screen.press(keys)  # on a busy machine the button may be deaf for longer
        screen.read(BUTTON_IS_DEAF)


def carry_on(screen: Terminal, sim: simulated.Simulation, seconds: float = 150.0) -> None:
    """Open the next dialog and agree to it, again and again, until the run has ended."""
    ends = time.monotonic() + seconds
    while (run := newest(sim)) is None or not run.ended:
        assert time.monotonic() < ends, screen.text
        assert screen.status is None, screen.text
        screen.press("x")
        for _ in range(10):
            screen.read(0.1)
            if any(words in screen.text for words in DIALOG):
                consent(screen, sim.alias)
                break


@pytest.mark.parametrize("world", ["clean-project", "full"])
def test_the_console_does_the_whole_job_by_keys(world: str, tmp_path: Path) -> None:
    with (
        simulated.simulation(world, tmp_path) as sim,
        terminal(console(sim), sim.environ(), str(sim.home)) as screen,
    ):
        screen.until("Cancel workflow runs")
        screen.until("resources")
        assert newest(sim) is None, "looking writes nothing"
        carry_on(screen, sim)
        run = newest(sim)
        assert run is not None
        assert run.exit == 0, screen.text
        assert set(sim.ids()) <= RETAINED
        screen.press(ESCAPE)
        screen.read(1.0)
        screen.press(QUIT)
        ends = time.monotonic() + 20
        while screen.status is None and time.monotonic() < ends:
            screen.read(0.2)
        assert screen.status == 0, screen.text
        again = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json")
        assert again.code == 0
        assert not again.document["mutated"]


def test_a_killed_console_harms_no_run_and_a_second_one_takes_over(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        with terminal(console(sim), sim.environ(), str(sim.home)) as screen:
            screen.until("resources")
            screen.press("x")
            consent(screen, sim.alias)
        # The first one is dead now: killed, not closed.
        with terminal(console(sim), sim.environ(), str(sim.home)) as screen:
            screen.until("Cancel workflow runs")
            carry_on(screen, sim)
            run = newest(sim)
            assert run is not None
            assert run.exit == 0, screen.text
            assert set(sim.ids()) <= RETAINED
