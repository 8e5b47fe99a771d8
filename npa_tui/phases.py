"""Where each phase of a plan stands: a pure fold of plan, run and what else is known. Tested as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.ledger.events import PhaseEnded
from engine.ledger.state import Run
from engine.words.consent import Tier
from engine.words.outcomes import Outcome, Status, Verdict
from engine.words.phases import PHASES, PhaseRow, after, needs, unblocks
from engine.words.plans import PhasePlan, Plan, Target
from engine.words.reasons import Refusal
from npa_tui.stands import BROKEN, FINISHED, SETTLED, Stand
from npa_tui.trail import Trail
from npa_tui.wording import nouns

if TYPE_CHECKING:
    from engine.run.preview import PhasePreview

PROTECTED = "protected"
"""What holds every phase of a protected project."""


@dataclass(frozen=True, slots=True)
class Step:
    """One target of a phase. `note`: what is known of it now, in a few words."""

    key: str
    name: str
    stand: Stand
    note: str = ""
    began: str = ""
    ended: str = ""


@dataclass(frozen=True, slots=True)
class PhaseView:
    """One row of the tree. Other phases are meant by their numbers.

    needs      transitively reduced, whatever their stand
    after      what of it, and of the phases that must only have ended, is open
    blocked    what of it ended in a way on which this one cannot go on
    held       what holds it, in one or two words
    why, next  a sentence, and the command that helps
    """

    name: str
    number: int
    stand: Stand
    targets: tuple[Target, ...] = ()
    settled: int = 0
    needs: tuple[int, ...] = ()
    unblocks: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    blocked: tuple[int, ...] = ()
    began: str = ""
    ended: str = ""
    steps: tuple[Step, ...] = ()
    held: str = ""
    why: str = ""
    next: str = ""
    note: str = ""

    @property
    def row(self) -> PhaseRow:
        return PHASES[self.name]

    @property
    def total(self) -> int:
        return len(self.targets)

    @property
    def left(self) -> int:
        return self.total - self.settled


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What decides beside the journal.

    alive     the run's own process is there
    asked     phases whose consent is on its way to the runner
    previews  the newest look at a phase, by its name
    holds     phase -> (short, sentence): why nothing may start it
    """

    alive: bool = False
    asked: frozenset[str] = frozenset()
    previews: Mapping[str, PhasePreview] | None = None
    holds: Mapping[str, tuple[str, str]] | None = None


def fold(plan: Plan, run: Run | None, trail: Trail, around: Circumstances) -> tuple[PhaseView, ...]:
    """The rows of a plan in its order. `run` is the run of this very plan, or None before there is one."""
    names = [p.phase for p in plan.phases]
    order = _Edges(names, trail.ended_now if around.alive else set())
    edges = order.all
    views: list[PhaseView] = []
    for phase in plan.phases:
        name = phase.phase
        open_, blocked = order.before(name)
        stand = _stand(phase, run, trail, around, bool(open_), bool(blocked))
        order.stands(name, stand)
        steps = tuple(_step(t, run, trail, stand, around.alive) for t in phase.targets)
        held, why, advice = _reasons(phase, stand, run, around)
        number = plan.number
        views.append(
            PhaseView(
                name=name,
                number=number(name),
                stand=stand,
                targets=phase.targets,
                settled=sum(1 for t in phase.targets if _gone(t, run)),
                needs=_numbers(number, _reduced(needs(name, names), edges)),
                unblocks=_numbers(number, _direct(name, unblocks(name, names), edges)),
                after=_numbers(number, _reduced(open_, edges)) if stand is Stand.WAITS else (),
                blocked=_numbers(number, blocked) if stand is Stand.WAITS else (),
                began=run.began.get(name, "") if run else "",
                ended=run.finished.get(name, "") if run else "",
                steps=steps,
                held=held,
                why=why,
                next=advice,
                note=_note(phase, stand, run, around),
            )
        )
    return tuple(views)


def next_to_confirm(views: Iterable[PhaseView]) -> PhaseView | None:
    """The first phase that waits for an answer."""
    return next((v for v in views if v.stand is Stand.CONFIRM), None)


class _Edges:
    """What stands in front of each phase, found in the plan's order."""

    def __init__(self, names: list[str], over: set[str]) -> None:
        self.names = names
        self.all = {n: {*needs(n, names), *after(n, names)} for n in names}
        self._over = over
        self._stands: dict[str, Stand] = {}
        self._before: dict[str, tuple[set[str], set[str]]] = {}

    def before(self, name: str) -> tuple[set[str], set[str]]:
        """What has to end before this phase, and which of its needs ended badly."""
        must = needs(name, self.names)
        waiting, blocked = set[str](), set[str]()
        for other in self.all[name]:
            stand = self._stands[other]
            if stand is Stand.NOTHING and other not in self._over:
                # It will end by itself, but only once what is before it has ended.
                earlier, bad = self._before[other]
                waiting |= earlier
                blocked |= bad if other in must else set()
            elif stand not in SETTLED and (other in must or other not in self._over):
                waiting.add(other)
                if other in must and (stand in (Stand.FAILED, Stand.UNKNOWN) or other in self._over):
                    blocked.add(other)
        self._before[name] = waiting, blocked
        return waiting, blocked

    def stands(self, name: str, stand: Stand) -> None:
        self._stands[name] = stand


def _reduced(wanted: Iterable[str], edges: Mapping[str, set[str]]) -> set[str]:
    """Without what is reached through another one of them anyway."""
    here = set(wanted)
    return here - {far for near in here for far in _closure(near, edges)}


def _direct(name: str, later: Iterable[str], edges: Mapping[str, set[str]]) -> list[str]:
    return [other for other in later if name in _reduced(edges[other], edges)]


def _closure(name: str, edges: Mapping[str, set[str]]) -> set[str]:
    found, todo = set[str](), list(edges[name])
    while todo:
        if (one := todo.pop()) not in found:
            found.add(one)
            todo.extend(edges[one])
    return found


def _numbers(number: Callable[[str], int], names: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted(number(n) for n in names))


def _gone(target: Target, run: Run | None) -> bool:
    outcome = run.outcomes.get(target.key) if run else None
    return outcome is not None and outcome.verdict is Verdict.DONE


def _outcomes(phase: PhasePlan, run: Run | None) -> list[Outcome]:
    return [o for t in phase.targets if run and (o := run.outcomes.get(t.key))]


def _stand(
    phase: PhasePlan, run: Run | None, trail: Trail, around: Circumstances, waits: bool, blocked: bool
) -> Stand:
    name, row = phase.phase, PHASES[phase.phase]
    if run is not None and name in run.began and name not in run.finished:
        return Stand.RUNNING if around.alive else Stand.UNKNOWN
    ended = run.phases.get(name) if run and name in run.finished else None
    stand = _ended(phase, ended, run) if ended else None
    # What an earlier process of this run did not finish is open again for the one that is there now.
    if stand and (stand in SETTLED or not around.alive or name in trail.ended_now):
        return stand
    if not phase.targets and not phase.unread and row.tier is not Tier.READS:
        return Stand.NOTHING
    if around.holds and name in around.holds:
        return Stand.HELD
    if waits or blocked:
        return Stand.WAITS
    if row.tier is Tier.READS:
        return Stand.READY
    if _all_refused(phase, around):
        return Stand.HELD
    consented = around.alive and name in trail.consented_now
    return Stand.READY if consented or name in around.asked else Stand.CONFIRM


def _ended(phase: PhasePlan, ended: PhaseEnded, run: Run | None) -> Stand | None:
    """The stand of a phase that ended; None when it ended without having been tried, so that it is as if it had not begun."""
    outcomes = _outcomes(phase, run)
    bad = [o for o in outcomes if o.verdict is not Verdict.DONE]
    match ended.status:
        case Status.COMPLETED if PHASES[phase.phase].tier is Tier.READS or any(o.acted for o in outcomes):
            return Stand.DONE
        case Status.COMPLETED:
            return Stand.NOTHING
        case Status.DEGRADED:
            return Stand.LEFTOVERS
        case Status.REFUSED | Status.KEPT:
            return Stand.HELD
        case Status.PARTIAL if bad and all(o.verdict is Verdict.UNKNOWN for o in bad):
            return Stand.UNKNOWN
        case Status.PARTIAL if bad and all(o.verdict is Verdict.HELD for o in bad):
            return Stand.HELD
        case Status.PARTIAL:
            return Stand.FAILED
        case Status.CANCELLED if any(o.acted for o in bad):
            return Stand.UNKNOWN
        case _:
            return None


def _all_refused(phase: PhasePlan, around: Circumstances) -> bool:
    preview = (around.previews or {}).get(phase.phase)
    there = [t for t in preview.targets if not t.gone] if preview else []
    return bool(there) and all(t.refusal for t in there)


def _step(target: Target, run: Run | None, trail: Trail, phase: Stand, alive: bool) -> Step:
    outcome = run.outcomes.get(target.key) if run else None
    began, ended = trail.began.get(target.key, ""), trail.ended.get(target.key, "")
    flying = any(i.target == target.key for i in trail.flying.values())
    note = trail.notes.get(target.key, "")
    if outcome is None or (phase is Stand.RUNNING and not ended):
        if phase is Stand.RUNNING:
            stand = Stand.RUNNING if began else Stand.WAITS
            return Step(target.key, target.name, stand, note or "looking", began)
        if flying and not alive:
            return Step(target.key, target.name, Stand.UNKNOWN, "asked, the answer never came", began)
        return Step(target.key, target.name, Stand.WAITS, note, began)
    match outcome.verdict:
        case Verdict.DONE if outcome.residue:
            return Step(target.key, target.name, Stand.LEFTOVERS, f"gone; {outcome.residue}", began, ended)
        case Verdict.DONE if outcome.acted:
            return Step(target.key, target.name, Stand.DONE, "gone and checked", began, ended)
        case Verdict.DONE:
            return Step(target.key, target.name, Stand.NOTHING, "was gone already", began, ended)
        case Verdict.HELD:
            return Step(target.key, target.name, Stand.HELD, outcome.detail or "held", began, ended)
        case Verdict.LEFT:
            return Step(target.key, target.name, Stand.FAILED, outcome.detail or "still there", began, ended)
        case Verdict.UNKNOWN | Verdict.STOPPED:
            return Step(
                target.key, target.name, Stand.UNKNOWN, outcome.detail or "outcome not known", began, ended
            )
        case Verdict.READY:
            return Step(target.key, target.name, Stand.READY, "", began, ended)


def _reasons(phase: PhasePlan, stand: Stand, run: Run | None, around: Circumstances) -> tuple[str, str, str]:
    """What holds it in short, why in a sentence, and the command that helps."""
    if stand not in BROKEN and stand is not Stand.LEFTOVERS:
        return "", "", ""
    if stand is Stand.HELD and around.holds and phase.phase in around.holds:
        short, sentence = around.holds[phase.phase]
        return short, sentence, ""
    if run and (ended := run.phases.get(phase.phase)) and ended.status is Status.KEPT:
        return "kept by you", "It was to be kept, and so was what needs it.", ""
    bad = [o for o in _outcomes(phase, run) if o.verdict is not Verdict.DONE or o.residue]
    said = [f"{_name(phase, o.target)}: {o.detail or o.residue}" for o in bad if o.detail or o.residue]
    said += [f"{record} could not be read" for record in phase.unread]
    advice = next((o.next_command for o in bad if o.next_command), "")
    if not said and stand is Stand.HELD:
        refusals = _refusals(phase, around)
        said = [f"{name}: {r.sentence}" for name, r in refusals]
        advice = next((r.next_command for _, r in refusals if r.next_command), "")
    if not said and stand is Stand.UNKNOWN:
        said = ["The runner went away before it could say how this ended."]
    short = "" if stand is not Stand.HELD else nouns(len(said) or 1, PHASES[phase.phase].noun)
    return short, ". ".join(s.rstrip(".") for s in said) + "." if said else "", advice


def _refusals(phase: PhasePlan, around: Circumstances) -> list[tuple[str, Refusal]]:
    preview = (around.previews or {}).get(phase.phase)
    return [(t.target.name, t.refusal) for t in preview.targets if t.refusal] if preview else []


def _note(phase: PhasePlan, stand: Stand, run: Run | None, around: Circumstances) -> str:
    if stand is Stand.READY and phase.phase in around.asked:
        return "Your answer is with the runner."
    if phase.unread:
        return f"{', '.join(phase.unread)} could not be read: this phase cannot come out as done."
    gone_before = [o for o in _outcomes(phase, run) if o.verdict is Verdict.DONE and not o.acted]
    if stand in FINISHED and gone_before:
        return f"{len(gone_before)} of {len(phase.targets)} had gone already, and that was checked."
    return ""


def _name(phase: PhasePlan, key: str) -> str:
    return next((t.name for t in phase.targets if t.key == key), key)
