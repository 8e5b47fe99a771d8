"""Runs a plan: fan-out per target, order, proof, consent, stopping and resuming. Phases hold none of it.

For each target: look; guard; act; look again whatever the call said; prove it gone by two spaced sights; project; tidy. What is
not proven is said so, and gets back what was taken from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.clock import Clock
from engine.home.errors import RecordError
from engine.ledger.events import Closed, Consented, Noted, Opened, PhaseEnded, Proven, Settled, Undone
from engine.ledger.journal import Journal, Unwritable
from engine.phases.shape import Cleared, Phase
from engine.run.gate import Gate, finish
from engine.run.hand import Projector, RunnerHand
from engine.words import commandlines
from engine.words.consent import Consent
from engine.words.outcomes import CONVERGED, Outcome, Status, Verdict, exit_code, fold_phase
from engine.words.phases import PHASES, after, needs
from engine.words.plans import PhasePlan, Plan, Target
from engine.words.presence import Cause, Present, Proof, Sight, Unknown, gone, present, unknown
from engine.words.reasons import Reason, Refusal, Refused
from engine.words.redact import redact
from engine.words.trouble import Trouble

LEAST_DEADLINE = 60.0
"""Real seconds for one target, whatever the time scale."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Nominal seconds and counts of the waits; the contract's numbers unless said otherwise.

    spacing   between the two sights of a proof, and between polls of something that is going
    grace     how long something may stay as it was after its deletion was agreed to, before it is asked for again
    blind     how long a target may stay out of sight after a change was asked for
    attempts  how often in a row a change is asked for without anything having moved
    patience  how long a run with a dead login waits for a new one
    least     real seconds that a target is given at least: in a rehearsal waits shrink, the programs that are asked do not
    """

    spacing: float = 2.0
    local_spacing: float = 0.0
    grace: float = 30.0
    blind: float = 120.0
    attempts: int = 4
    patience: float = 600.0
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Opening:
    """What the journal's first line of a run says beside the plan."""

    command: str
    operation_id: str = ""
    receipt_id: str = ""
    argv: tuple[str, ...] = ()
    program: str = ""


LOCAL = frozenset({"local_cleanup", "forget_alias"})
"""Phases whose targets are on this machine: a file system does not lag."""

Login = Callable[[], Awaitable[Unknown | None]]
"""Asks the cloud who we are: None while the login lives, else why not."""


class Runner:
    """One run in one process. `dry`: look and guard only; then the journal must be one without a path."""

    def __init__(
        self,
        plan: Plan,
        phases: Mapping[str, Phase[Any]],
        clock: Clock,
        journal: Journal,
        projector: Projector,
        opening: Opening,
        *,
        login: Login | None = None,
        pace: Pace | None = None,
        keep: frozenset[str] = frozenset(),
        kept_is_fine: bool = False,
        dry: bool = False,
    ) -> None:
        self.plan = plan
        self.gate = Gate()
        self.dry = dry
        self._kept_is_fine = kept_is_fine
        self._phases = phases
        self._clock = clock
        self._journal = journal
        self._projector = projector
        self._opening = opening
        self._login = login
        self._pace = pace or Pace()
        self._consents: dict[str, Consent] = {}
        self._decided = {p.phase: asyncio.Event() for p in plan.phases}
        self._kept: set[str] = set()
        for phase in keep:
            self.keep_phase(phase)
        if self._kept and "local_cleanup" in self._decided:
            self.keep_phase("local_cleanup")  # its records serve what is kept
        self._ended: dict[str, asyncio.Future[Status]] = {}
        self._reasons: list[Reason] = []
        self._pausing: asyncio.Task[bool] | None = None
        self._resume_command = commandlines.destroy(plan.identity, keep)

    # -- what the faces ask for -------------------------------------------------------------------------------------

    async def consent(self, consent: Consent) -> None:
        """One door for `--yes`, for a prompt and for the console. Raises `Refused` when another plan was shown."""
        if consent.digest != self.plan.digest:
            raise Refused(
                Refusal(
                    Reason.PLAN_CHANGED,
                    f"plan {consent.digest} was agreed to, but the plan is {self.plan.digest}",
                    self._resume_command,
                )
            )
        await self._journal.append(Consented(consent))
        for phase in consent.phases:
            if phase in self._decided:
                self._consents[phase] = consent
                self._decided[phase].set()

    def keep_phase(self, phase: str) -> None:
        """Leave a phase, and what needs it, as it is."""
        if phase in self._decided and not self._decided[phase].is_set():
            self._kept.add(phase)
            self._decided[phase].set()

    def waiting(self) -> list[str]:
        """Phases that wait for somebody's answer now: their needs are met, they have no consent."""
        return [
            p.phase
            for p in self.plan.phases
            if not self._decided[p.phase].is_set()
            and not self._ended[p.phase].done()
            and self._ready(p.phase)
        ]

    def busy(self) -> bool:
        """Whether anything goes on without anybody's answer."""
        waiting = set(self.waiting())
        return any(
            not self._ended[p.phase].done() and p.phase not in waiting and self._could_go(p.phase, waiting)
            for p in self.plan.phases
        )

    def _ready(self, name: str) -> bool:
        edges = {**self._needs(name), **self._after(name)}
        return all(self._ended[n].done() for n in edges)

    def _could_go(self, name: str, waiting: set[str]) -> bool:
        """A phase that does not, directly or through others, stand behind one that waits for an answer."""
        edges = {**self._needs(name), **self._after(name)}
        return all(self._ended[n].done() or (n not in waiting and self._could_go(n, waiting)) for n in edges)

    def _needs(self, name: str) -> dict[str, str]:
        return needs(name, (p.phase for p in self.plan.phases))

    def _after(self, name: str) -> dict[str, str]:
        return after(name, (p.phase for p in self.plan.phases))

    # -- the run ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Write the run's first line, or that an open run goes on. Before anything else, once."""
        loop = asyncio.get_running_loop()
        self._ended = {p.phase: loop.create_future() for p in self.plan.phases}
        if self._journal.run in self._journal.state.runs:
            await self._journal.append(Noted(self._opening.command, "resumed", self._opening.program))
        else:
            o = self._opening
            await self._journal.append(
                Opened(self.plan, o.command, o.operation_id, o.receipt_id, o.argv, o.program)
            )

    async def run(self) -> int:
        """Run to the end of what may be done now; the exit code. Everything that happened is in the journal.

        Raises `Unwritable` when the journal could not be kept: then the world may be ahead of what was said.
        """
        loop = asyncio.get_running_loop()
        if not self.dry:
            for phase, target in self.plan.targets():
                await self._repay(phase.phase, target)  # what a dead run took away comes first
        tasks = [loop.create_task(self._phase(p), name=p.phase) for p in self.plan.phases]
        stopper = loop.create_task(self._stop_waits(tasks))
        try:
            results = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            stopper.cancel()
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        statuses = [f.result() for f in self._ended.values()]
        code = exit_code(statuses, self._reasons, kept_is_fine=self._kept_is_fine)
        final = all(s is Status.COMPLETED for s in statuses)
        await self._journal.append(Closed(code, final=final, detail=self.gate.why))
        return code

    async def _stop_waits(self, tasks: list[asyncio.Task[None]]) -> None:
        """A stop cancels every look and every wait at once; steps in flight finish by themselves."""
        await self.gate.stop.wait()
        for task in tasks:
            task.cancel()

    async def _phase(self, plan: PhasePlan) -> None:
        name, status, blocked = plan.phase, Status.CANCELLED, tuple[str, ...]()
        try:
            status, blocked = await self._phase_status(plan)
        except Unwritable as broken:
            self.gate.close(f"the journal cannot be written: {broken.strerror}")
            raise
        except asyncio.CancelledError:
            if not self.gate.stop.is_set():
                raise
        finally:
            # On disk before anyone who needs this phase may start; but nobody waits for ever if that fails.
            await finish(asyncio.ensure_future(self._journal.append(PhaseEnded(name, status, blocked))))
            if not self._ended[name].done():
                self._ended[name].set_result(status)

    async def _phase_status(self, plan: PhasePlan) -> tuple[Status, tuple[str, ...]]:
        name = plan.phase
        for other in self._after(name):
            await asyncio.shield(self._ended[other])
        ended = {n: await asyncio.shield(self._ended[n]) for n in self._needs(name)}
        blocked = tuple(n for n, s in ended.items() if s not in CONVERGED)
        if blocked:
            kept = all(ended[n] is Status.KEPT for n in blocked)
            return (Status.KEPT if kept else Status.BLOCKED), blocked
        reads_only = PHASES[name].tier == 0
        if not self.dry and not reads_only and (plan.targets or plan.unread):
            await self._decided[name].wait()
        if name in self._kept:
            return Status.KEPT, ()
        await self._journal.append(Noted(name, "phase_began"))
        outcomes = await asyncio.gather(
            *(self._target(plan, t) for t in plan.targets), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return fold_phase((o for o in outcomes if isinstance(o, Outcome)), plan.unread), ()

    # -- one target -------------------------------------------------------------------------------------------------

    async def _target(self, plan: PhasePlan, target: Target) -> Outcome:
        hand = self._hand(target)
        try:
            deadline = max(self._clock.real(PHASES[plan.phase].deadline), self._pace.least)
            async with asyncio.timeout(deadline):
                out = await self._converge(plan, target, hand)
        except Refused as r:
            out = self._came_to(target, hand, Verdict.HELD, r.refusal)
        except TimeoutError:
            out = self._timed_out(target, hand)
        except asyncio.CancelledError:
            if not self.gate.stop.is_set():
                raise
            out = self._came_to(target, hand, Verdict.STOPPED)
        except Unwritable:
            raise
        except Exception as bug:  # the one broad handler: a bug in one target never stops an independent one
            detail = redact(f"{type(bug).__name__}: {bug}")
            out = self._came_to(
                target, hand, Verdict.UNKNOWN, Refusal(Reason.INTERNAL, detail, self._resume_command)
            )
        if out.verdict is not Verdict.DONE and not self.dry:
            await self._repay(plan.phase, target)
        if out.reason:
            self._reasons.append(out.reason)
        await finish(asyncio.ensure_future(self._journal.append(Settled(plan.phase, out))))
        return out

    async def _converge(self, plan: PhasePlan, target: Target, hand: RunnerHand) -> Outcome:
        phase, state = self._phases[plan.phase], self._journal.state
        target = self._widened(target)
        sight = await self._see(
            plan.phase, target, hand
        )  # always first: on a first run, on a resume, after a lost answer
        if plan.wants == "look":
            return await self._report(phase, target, hand, sight)
        proof: Proof = ()
        trouble: Trouble | None = None
        if target.key in state.accepted and not gone(sight):
            proof, _ = await self._prove(
                plan.phase, target, hand, idle_most=self._pace.grace
            )  # agreed to before: wait first
        attempt = 0
        while attempt < self._pace.attempts and not proof and not gone(hand.sight):
            if blind := unknown(hand.sight):
                return self._cannot_see(target, hand, blind, trouble)
            cleared = await phase.guard(target, hand.sight)
            if isinstance(cleared, Refusal):
                return self._came_to(target, hand, Verdict.HELD, cleared)
            if self.dry:
                return self._came_to(target, hand, Verdict.READY)
            self._check_tier(plan.phase, cleared)
            target = await self._with_found(target, cleared)
            try:
                trouble = None
                await phase.act(target, cleared, hand)
            except Trouble as t:
                trouble = t  # what the next look sees counts, not what the call said
            last = attempt == self._pace.attempts - 1
            idle_most = (
                self._clock.backoff(attempt, first=2.0) if trouble else None if last else self._pace.grace
            )
            proof, moved = await self._prove(plan.phase, target, hand, idle_most=idle_most)
            attempt = 0 if moved else attempt + 1
        if not proof and gone(hand.sight):
            proof = state.proofs.get(target.key, ()) or (await self._prove(plan.phase, target, hand))[0]
        if not proof:
            return self._left(target, hand, trouble)
        return await self._tidy(phase, target, hand, proof)

    async def _report(self, phase: Phase[Any], target: Target, hand: RunnerHand, sight: Sight) -> Outcome:
        """A target that is only looked at: its guard says whether all is as it should be."""
        cleared = await phase.guard(target, sight)
        if isinstance(cleared, Refusal):
            return self._came_to(target, hand, Verdict.LEFT, cleared)
        for line in cleared.touches:
            await hand.note("retained", line)
        return self._came_to(target, hand, Verdict.DONE)

    async def _tidy(self, phase: Phase[Any], target: Target, hand: RunnerHand, proof: Proof) -> Outcome:
        residue = ""
        known = self._journal.state.proofs.get(target.key)
        if not self.dry:
            try:
                if known != proof:
                    await self._journal.append(Proven(target.key, proof))
                await self._projector.before_tidy(target.key)
                await phase.tidy(target, proof, hand)  # local records and secrets: only behind the proof
            except (Trouble, OSError, RecordError, Refused) as left:
                residue = redact(str(left)) or type(left).__name__
        acted = hand.acted or target.key in self._journal.state.accepted
        return Outcome(target.key, Verdict.DONE, acted, residue=residue)

    async def _see(self, name: str, target: Target, hand: RunnerHand) -> Sight:
        """Look. A lost login pauses the whole run and looks again once there is a new one."""
        while True:
            hand.sight = await self._phases[name].look(target)
            blind = unknown(hand.sight)
            if blind is None or blind.cause is not Cause.UNAUTHENTICATED or not await self._await_login():
                return hand.sight

    async def _prove(
        self, name: str, target: Target, hand: RunnerHand, idle_most: float | None = None
    ) -> tuple[Proof, bool]:
        """Gone is: seen gone twice, spaced, with nothing else seen between. Decided here and nowhere else.

        Gives up after `idle_most` nominal seconds in which nothing moved (None: only the phase's deadline ends it), after being
        blind for too long, and at once when a part went and another may now be asked for: then the second value is True.
        """
        spacing = self._pace.local_spacing if name in LOCAL else self._pace.spacing
        was_there = {o.ref for o in present(hand.sight)}
        first: Sight = ()
        idle = blind = 0.0
        while True:
            before = hand.sight
            await self._see(name, target, hand)
            if gone(hand.sight):
                if first:
                    return first + hand.sight, False
                first = hand.sight
            else:
                first = ()
                idle = 0.0 if _moved(before, hand.sight) else idle + spacing
                blind = blind + spacing if unknown(hand.sight) else 0.0
                if was_there - {o.ref for o in present(hand.sight)} and _may_be_asked(hand):
                    return (), True
                if (idle_most is not None and idle >= idle_most) or blind >= self._pace.blind:
                    return (), False
            await self._clock.sleep(spacing)

    # -- words for how it ended -------------------------------------------------------------------------------------

    def _came_to(
        self, target: Target, hand: RunnerHand, verdict: Verdict, refusal: Refusal | None = None
    ) -> Outcome:
        acted = hand.acted or target.key in self._journal.state.accepted
        if refusal is None:
            return Outcome(target.key, verdict, acted)
        return Outcome(
            target.key, verdict, acted, refusal.reason, refusal.sentence, next_command=refusal.next_command
        )

    def _cannot_see(
        self, target: Target, hand: RunnerHand, blind: Unknown, trouble: Trouble | None = None
    ) -> Outcome:
        reason = Reason.NEEDS_LOGIN if blind.cause is Cause.UNAUTHENTICATED else Reason.CANNOT_SEE
        if blind.cause is Cause.NO_CLIENT:
            reason = Reason.NO_CLIENT
        detail = "; ".join(
            t for t in (f"{blind.cause}: {blind.detail}", trouble.detail if trouble else "") if t
        )
        return self._came_to(target, hand, Verdict.UNKNOWN, Refusal(reason, detail, self._resume_command))

    def _left(self, target: Target, hand: RunnerHand, trouble: Trouble | None) -> Outcome:
        if blind := unknown(hand.sight):
            return self._cannot_see(target, hand, blind, trouble)
        there = ", ".join(
            f"{o.ref.id} is {o.presence.state or 'there'}"
            for o in hand.sight
            if isinstance(o.presence, Present)
        )
        reason = Reason.REFUSED_BY_PROVIDER if trouble else Reason.STILL_PRESENT
        detail = "; ".join(t for t in (there, str(trouble) if trouble else "") if t)
        return self._came_to(target, hand, Verdict.LEFT, Refusal(reason, detail, self._resume_command))

    def _timed_out(self, target: Target, hand: RunnerHand) -> Outcome:
        if blind := unknown(hand.sight):
            return self._cannot_see(target, hand, blind)
        there = ", ".join(
            f"{o.ref.id} is {o.presence.state or 'there'}"
            for o in hand.sight
            if isinstance(o.presence, Present)
        )
        refusal = Refusal(
            Reason.TIMED_OUT, there or "the deadline came before an answer", self._resume_command
        )
        return self._came_to(target, hand, Verdict.LEFT if there else Verdict.UNKNOWN, refusal)

    # -- debts, consent, login --------------------------------------------------------------------------------------

    def _hand(self, target: Target, *, repaying: bool = False) -> RunnerHand:
        consent = None if repaying else self._consents.get(target.phase)
        return RunnerHand(
            self._journal,
            self.gate,
            self._projector,
            target,
            consent,
            grace=self._clock.real(self._pace.grace),
            repaying=repaying,
            advice=self._resume_command,
        )

    async def _repay(self, name: str, target: Target) -> None:
        """Give back what was taken from a target that is still there; what cannot be seen stays owed."""
        owed = [(n, d) for n, d in self._journal.state.debts.items() if d.target == target.key]
        if not owed:
            return
        phase, hand = self._phases[name], self._hand(target, repaying=True)
        hand.sight = await phase.look(target)
        if gone(hand.sight) or unknown(hand.sight):
            return
        for number, debt in owed:
            try:
                await phase.undo(target, debt, hand)
            except Trouble as t:
                await hand.note("debt_unpaid", f"{debt.ref.id}: {t}")
            else:
                await self._journal.append(Undone(number))

    def _check_tier(self, name: str, cleared: Cleared[Any]) -> None:
        consent = self._consents.get(name)
        tier = PHASES[name].tier if cleared.tier is None else cleared.tier
        if consent is not None and tier > consent.tier:
            raise Refused(
                Refusal(
                    Reason.RISK_ROSE,
                    f"this needs consent of tier {tier} now; tier {consent.tier} was given",
                    self._resume_command,
                )
            )

    def _widened(self, target: Target) -> Target:
        extra = tuple(
            p
            for p in self._journal.state.found.get(target.key, ())
            if all(p.ref != q.ref for q in target.parts)
        )
        return replace(target, parts=target.parts + extra) if extra else target

    async def _with_found(self, target: Target, cleared: Cleared[Any]) -> Target:
        new = tuple(p for p in cleared.found if all(p.ref != q.ref for q in target.parts))
        if new:
            await self._journal.append(
                Noted(target.key, "found", ", ".join(p.ref.id for p in new), parts=new)
            )
        return self._widened(target)

    async def _await_login(self) -> bool:
        """Whether looking again makes sense: the login was dead and is alive again. All targets share one wait."""
        if self._login is None:
            return False
        if self._pausing is None or self._pausing.done():
            self._pausing = asyncio.ensure_future(self._pause_for_login())
        return await asyncio.shield(self._pausing)

    async def _pause_for_login(self) -> bool:
        assert self._login is not None
        why = await self._login()
        if why is None or why.cause is not Cause.UNAUTHENTICATED:
            return False  # the login lives: it is this one source that refuses us
        self.gate.pause("the login is no longer accepted")
        await self._journal.append(Noted("run", "paused", f"needs a login: {why.detail}"))
        try:
            waited = 0.0
            while waited < self._pace.patience:
                await self._clock.sleep(5.0)
                waited += 5.0
                if await self._login() is None:
                    await self._journal.append(Noted("run", "unpaused", "the login is accepted again"))
                    return True
            return False
        finally:
            self.gate.resume()


def _may_be_asked(hand: RunnerHand) -> bool:
    """Whether a part is there that nobody has asked to go: what stood in its way may have gone."""
    if unknown(hand.sight):
        return False
    return any(
        isinstance(o.presence, Present) and not o.presence.leaving and not hand.asked(o.ref)
        for o in hand.sight
    )


def _moved(before: Sight, now: Sight) -> bool:
    """Whether something changed between two looks, or is on its way out: then waiting makes sense."""
    if any(isinstance(o.presence, Present) and o.presence.leaving for o in now):
        return True
    was = {o.ref: o.presence for o in before}
    return any(was.get(o.ref) != o.presence for o in now if not isinstance(o.presence, Unknown))
