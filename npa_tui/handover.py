"""Brings an answer to the run that it is for; starts the runner first where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from engine.words.plans import Plan
from engine.words.reasons import Refusal
from npa_tui.badge import Mode
from npa_tui.following import Asking
from npa_tui.question import Question
from npa_tui.reader import Reader
from npa_tui.source import Source
from npa_tui.stands import SETTLED
from npa_tui.state import View
from npa_tui.trail import Trail


class NotStarted(Exception):
    """The answer reached nobody. `advice` is a command that helps, or empty."""

    def __init__(self, sentence: str, advice: str = "") -> None:
        super().__init__(sentence)
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Handover:
    """`view` and `trail` give what is so at the moment of asking: the runner's start takes some seconds."""

    source: Source
    reader: Reader
    view: Callable[[], View]
    trail: Callable[[], Trail]

    async def deliver(self, question: Question, asking: Asking, operator: str, now: float) -> None:
        """Put the consent into the inbox of the run. Raises `NotStarted`."""
        plan = question.preview.plan
        run = await self._run_for(plan)
        consent = question.consent(operator, self._proven_before(run))
        try:
            asking.consent(self.source.inbox(plan.identity.project_id), run, consent, now)
        except OSError as error:
            raise NotStarted(
                f"The answer could not be written: {error.strerror}: {error.filename}"
            ) from error

    async def _run_for(self, plan: Plan) -> str:
        """The run that works on this plan, started if need be."""
        runner = await asyncio.wrap_future(self.reader.runner(plan.identity.project_id))
        if runner is None:
            with_project = plan.phase("delete_project") is not None
            started = await asyncio.wrap_future(self.reader.start_runner(plan, delete_project=with_project))
            if isinstance(started, Refusal):
                raise NotStarted(started.sentence, started.next_command)
            return started
        run = self.trail().state.runs.get(runner.run)
        if run is not None and run.plan.digest == plan.digest:
            return run.id
        raise NotStarted(f"{runner.command or 'another program'} holds the project, pid {runner.pid}.")

    def _proven_before(self, run: str) -> tuple[str, ...]:
        """Phases that an earlier process of this run finished, so that the present one has nobody's leave to look at them."""
        view = self.view()
        if view.run is None or view.run.id != run:
            return ()
        now = self.trail().ended_now if view.mode is Mode.LIVE else set()
        return tuple(p.name for p in view.phases if p.total and p.stand in SETTLED and p.name not in now)
