"""What widgets need of the application: the ink, and their keys from the command list."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.binding import Binding, BindingType

from npa_tui import commands
from npa_tui.commands.base import Scope
from npa_tui.render.ink import Ink

if TYPE_CHECKING:
    from textual.message_pump import MessagePump

    from npa_tui.app import Console


def console(node: MessagePump) -> Console:
    """The application, by its own type."""
    return cast("Console", node.app)


def ink_of(node: MessagePump) -> Ink:
    return console(node).ink


def bindings(scope: Scope) -> list[BindingType]:
    """The keys of a scope. Each command has an action string of its own, and an id for keymaps."""
    return [
        Binding(
            c.key, f"app.command('{c.id}')", c.label, show=False, id=c.id, tooltip=c.help, priority=c.priority
        )
        for c in commands.of(scope)
        if c.key
    ]
