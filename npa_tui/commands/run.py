"""Commands of the run view."""

from __future__ import annotations

from npa_tui.badge import Mode
from npa_tui.commands.base import Command, Hands, Scope, Where
from npa_tui.commands.main import Back, Filter


def _not_running(at: Where) -> str:
    return "" if at.view.mode is Mode.LIVE and at.view.run else "Nothing is running."


class Pause(Command):
    id = "run.pause"
    key = "p"
    label = "Pause"
    help = "pause before the next step"
    scope = Scope.RUN
    footer = 1

    def reason(self, at: Where) -> str:
        return _not_running(at)

    def run(self, hands: Hands, at: Where) -> None:
        hands.request("resume" if at.view.run and at.view.run.paused else "pause")


class Stop(Command):
    id = "run.stop"
    key = "s"
    label = "Stop"
    help = "stop after the calls in flight"
    scope = Scope.RUN
    footer = 2

    def reason(self, at: Where) -> str:
        return _not_running(at)

    def run(self, hands: Hands, at: Where) -> None:
        hands.request("stop")


class Find(Filter):
    id = "run.find"
    label = "Find"
    help = "find in the log"
    scope = Scope.RUN
    footer = 3


class LeaveRun(Back):
    id = "run.back"
    label = "Back, keeps running"
    help = "back to the plan; the phase goes on"
    scope = Scope.RUN
    footer = 4
