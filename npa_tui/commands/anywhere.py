"""Commands that work on every screen."""

from __future__ import annotations

from npa_tui.commands.base import Command, Group, Hands, Scope, Where


class Help(Command):
    id = "app.help"
    key = "question_mark"
    label = "Help"
    help = "keys and signs"
    scope = Scope.APP
    group = Group.KEEP
    footer = 9

    def run(self, hands: Hands, at: Where) -> None:
        hands.open_help()


class Quit(Command):
    id = "app.quit"
    key = "ctrl+q,ctrl+c"
    label = "Quit"
    help = "quit; a run goes on"
    priority = True
    scope = Scope.APP
    group = Group.KEEP

    def run(self, hands: Hands, at: Where) -> None:
        hands.leave()
