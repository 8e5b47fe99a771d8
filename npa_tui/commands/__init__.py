"""The one list of commands. Key bindings, footer, palette and help are generated from it."""

from __future__ import annotations

from npa_tui.commands import anywhere, main, run
from npa_tui.commands.base import Command, Scope

ALL: tuple[Command, ...] = (
    main.ShowProjects(),
    main.ShowPlan(),
    main.ShowInventory(),
    main.ShowReceipt(),
    main.ShowLog(),
    main.NextPane(),
    main.PreviousPane(),
    main.FoldStage(),
    main.Filter(),
    main.Back(),
    main.OpenPhase(),
    main.Aim(),
    main.RunNext(),
    main.ReadAgain(),
    main.KeepPhase(),
    main.IncludeProject(),
    run.Pause(),
    run.Stop(),
    run.Find(),
    run.LeaveRun(),
    main.FollowLog(),
    main.CopyProject(),
    main.CopyDetails(),
    main.CopyItem(),
    main.CopyPath(),
    main.CopyLine(),
    main.WriteReceipt(),
    anywhere.Help(),
    anywhere.Quit(),
)

BY_ID: dict[str, Command] = {c.id: c for c in ALL}


def of(scope: Scope) -> tuple[Command, ...]:
    return tuple(c for c in ALL if c.scope is scope)


def for_footer(*scopes: Scope) -> tuple[Command, ...]:
    """Commands with a place in the footer: the scopes as given, within each by its place."""
    return tuple(c for s in scopes for c in sorted((c for c in of(s) if c.footer), key=lambda c: c.footer))
