"""Commands of the main screen and of its panes."""

from __future__ import annotations

from engine.words.consent import Tier
from npa_tui.badge import Mode
from npa_tui.commands.base import Command, Group, Hands, Pane, Scope, Where
from npa_tui.phases import PROTECTED, PhaseView, next_to_confirm
from npa_tui.stands import Stand
from npa_tui.state import Scene, View


def cannot_open(phase: PhaseView | None, view: View) -> str:
    """Why `enter` on a phase does nothing; empty when it opens a dialog or the run view."""
    if phase is None:
        return "No phase is highlighted."
    label = f"{phase.number:02}"
    match phase.stand:
        case Stand.RUNNING | Stand.CONFIRM:
            return ""
        case Stand.FAILED | Stand.UNKNOWN | Stand.LEFTOVERS:
            return "" if view.runner is None or phase.ended else f"{label} is still at work."
        case Stand.HELD:
            # A guard's refusal may have gone away since: looking again is how one finds out.
            by_policy = phase.held == PROTECTED or phase.name == "delete_project"
            return f"{label} is held: {phase.why or phase.held}" if by_policy else ""
        case Stand.WAITS if phase.blocked:
            return f"{label} is blocked by {', '.join(f'{n:02}' for n in phase.blocked)}."
        case Stand.WAITS:
            return f"{label} waits for {', '.join(f'{n:02}' for n in phase.after)}."
        case Stand.READY if phase.row.tier is Tier.READS:
            return f"{label} starts by itself: it only reads."
        case Stand.READY:
            return f"{label} is agreed to and starts."
        case Stand.DONE:
            return "" if phase.total else f"{label} is done."
        case Stand.NOTHING:
            return f"{label} has nothing to do."


class OpenPhase(Command):
    id = "plan.open"
    key = "enter"
    label = "Open phase"
    help = "open the highlighted phase"
    scope = Scope.PLAN
    footer = 1

    def reason(self, at: Where) -> str:
        return cannot_open(at.phase, at.view)

    def run(self, hands: Hands, at: Where) -> None:
        if at.phase is not None:
            hands.open_phase(at.phase)


class FoldStage(Command):
    id = "plan.fold"
    key = "space"
    label = "Fold"
    help = "open or close a stage"
    scope = Scope.PLAN
    group = Group.MOVE

    def run(self, hands: Hands, at: Where) -> None:
        hands.fold_stage()


class KeepPhase(Command):
    id = "plan.keep"
    label = "Keep this phase"
    help = "leave the highlighted phase, and what needs it, as it is"
    scope = Scope.PLAN

    def reason(self, at: Where) -> str:
        if at.phase is None:
            return "No phase is highlighted."
        if at.view.mode is not Mode.LIVE or at.view.run is None:
            return "Nothing is running that could be told to keep it."
        if at.phase.stand not in (Stand.CONFIRM, Stand.WAITS, Stand.HELD):
            return f"{at.phase.number:02} can no longer be kept."
        return ""

    def run(self, hands: Hands, at: Where) -> None:
        if at.phase is not None:
            hands.request("keep", at.phase.name)


class IncludeProject(Command):
    id = "main.include-project"
    label = "Include the project itself"
    help = "plan with or without registries, network and the project"
    scope = Scope.MAIN

    def reason(self, at: Where) -> str:
        return (
            "The plan of an open run stays as it was recorded."
            if at.view.run and not at.view.run.closed
            else ""
        )

    def run(self, hands: Hands, at: Where) -> None:
        hands.include_project()


class RunNext(Command):
    id = "main.run-next"
    key = "x"
    label = "Run next"
    help = "open the next one to confirm"
    scope = Scope.MAIN
    footer = 2

    def reason(self, at: Where) -> str:
        if at.view.scene is not Scene.READY:
            return "There is no plan to run."
        if at.view.protected:
            return "The project is protected: nothing of it can be run."
        return "" if next_to_confirm(at.view.phases) else "No phase waits for you."

    def run(self, hands: Hands, at: Where) -> None:
        phase = next_to_confirm(at.view.phases)
        if phase is not None:
            hands.open_phase(phase)


class Filter(Command):
    id = "main.filter"
    key = "slash"
    label = "Filter"
    help = "filter the list"
    family = "filter a list, find in the log"
    scope = Scope.MAIN
    group = Group.MOVE
    footer = 3

    def reason(self, at: Where) -> str:
        return "There is nothing to filter yet." if at.view.scene is not Scene.READY else ""

    def run(self, hands: Hands, at: Where) -> None:
        hands.start_filter()


class ReadAgain(Command):
    id = "main.read"
    key = "r"
    label = "Read again"
    help = "read the inventory again"
    scope = Scope.MAIN
    footer = 4

    def reason(self, at: Where) -> str:
        return "The inventory is being read." if at.view.reading else ""

    def run(self, hands: Hands, at: Where) -> None:
        hands.read_again()


class Back(Command):
    id = "main.back"
    key = "escape"
    label = "Back"
    help = "clear filter, stop reading, back"
    family = "clear filter, stop reading, back"
    scope = Scope.MAIN
    group = Group.MOVE

    def run(self, hands: Hands, at: Where) -> None:
        hands.step_back()


class NextPane(Command):
    id = "main.next-pane"
    key = "tab"
    label = "Next pane"
    help = "next pane"
    family = "next pane, previous pane"
    scope = Scope.MAIN
    group = Group.MOVE
    footer = 1

    def run(self, hands: Hands, at: Where) -> None:
        hands.next_pane(1)


class PreviousPane(Command):
    id = "main.previous-pane"
    key = "shift+tab"
    label = "Previous pane"
    help = "previous pane"
    family = NextPane.family
    scope = Scope.MAIN
    group = Group.MOVE

    def run(self, hands: Hands, at: Where) -> None:
        hands.next_pane(-1)


class _ShowPane(Command):
    pane: Pane
    family = "go to a view"
    scope = Scope.MAIN
    group = Group.MOVE

    def run(self, hands: Hands, at: Where) -> None:
        hands.show_pane(self.pane)


class ShowProjects(_ShowPane):
    id, key, label, help, pane = "main.projects", "1", "Projects", "projects", "projects"


class ShowPlan(_ShowPane):
    id, key, label, help, pane = "main.plan", "2", "Plan", "plan", "plan"


class ShowInventory(_ShowPane):
    id, key, label, help, pane = "main.inventory", "3", "Inventory", "inventory", "inventory"


class ShowReceipt(_ShowPane):
    id, key, label, help, pane = "main.receipt", "4", "Receipt", "receipt", "receipt"


class ShowLog(_ShowPane):
    id, key, label, help, pane = "main.log", "5", "Log", "log", "log"


class Aim(Command):
    id = "projects.aim"
    key = "enter"
    label = "Aim at it"
    help = "aim at the highlighted project"
    scope = Scope.PROJECTS
    footer = 1

    def reason(self, at: Where) -> str:
        if at.project is None:
            return "No project is highlighted."
        return "" if at.project.key else f"It cannot be aimed at: {at.project.problem}"

    def run(self, hands: Hands, at: Where) -> None:
        hands.aim_at_highlighted()


class CopyProject(Command):
    id = "projects.copy-id"
    key = "y"
    label = "Copy id"
    help = "copy id, path or log line"
    scope = Scope.PROJECTS
    group = Group.KEEP

    def run(self, hands: Hands, at: Where) -> None:
        hands.copy_highlighted()


class CopyDetails(CopyProject):
    id = "plan.copy"
    label = "Copy"
    scope = Scope.PLAN


class CopyItem(CopyProject):
    id = "inventory.copy-id"
    label = "Copy id"
    scope = Scope.INVENTORY
    footer = 1

    def reason(self, at: Where) -> str:
        return "" if at.item else "No resource is highlighted."


class CopyPath(CopyProject):
    id = "receipt.copy-path"
    label = "Copy path"
    scope = Scope.RECEIPT
    footer = 1

    def reason(self, at: Where) -> str:
        return "" if at.view.receipt or at.view.journal else "There is no receipt yet."


class WriteReceipt(Command):
    id = "receipt.write"
    key = "w"
    label = "Write"
    help = "write the receipt as Markdown"
    scope = Scope.RECEIPT
    group = Group.KEEP
    footer = 2

    def reason(self, at: Where) -> str:
        return "" if at.view.run else "There is no receipt yet: nothing was confirmed."

    def run(self, hands: Hands, at: Where) -> None:
        hands.write_receipt()


class CopyLine(CopyProject):
    id = "log.copy-line"
    label = "Copy line"
    scope = Scope.LOG
    footer = 2


class FollowLog(Command):
    id = "log.follow"
    key = "f"
    label = "Follow"
    help = "follow the log"
    scope = Scope.LOG
    group = Group.MOVE
    footer = 1

    def reason(self, at: Where) -> str:
        return "The log is followed already." if at.following else ""

    def run(self, hands: Hands, at: Where) -> None:
        hands.follow_log()
