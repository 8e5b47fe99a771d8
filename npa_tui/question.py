"""What a confirmation dialog asks, what answer counts, and what makes it stale. Pure, and without a screen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.run.preview import PhasePreview, TargetPreview
from engine.words.consent import Consent, Tier
from engine.words.phases import PHASES, PhaseRow
from engine.words.plans import Part
from engine.words.presence import Present, presence_of
from engine.words.redact import visible
from npa_tui.wording import nouns, plural


@dataclass(frozen=True, slots=True)
class Thing:
    """One row of what will be deleted. `within`: it goes with the row above it."""

    name: str
    id: str
    kind: str
    state: str
    within: bool


@dataclass(frozen=True, slots=True)
class Question:
    """One phase as it was looked at, turned into what is asked."""

    preview: PhasePreview

    @property
    def row(self) -> PhaseRow:
        return PHASES[self.preview.phase]

    @property
    def number(self) -> int:
        return self.preview.plan.number(self.preview.phase)

    @property
    def tier(self) -> Tier:
        """Never below 1: whatever asks at all asks for a key."""
        return Tier(max(self.preview.tier, Tier.RECREATABLE))

    @property
    def going(self) -> tuple[TargetPreview, ...]:
        """Targets that would go: there, and not refused."""
        return tuple(t for t in self.preview.targets if not t.refusal and not t.gone)

    @property
    def refused(self) -> tuple[TargetPreview, ...]:
        return tuple(t for t in self.preview.targets if t.refusal)

    @property
    def gone(self) -> tuple[TargetPreview, ...]:
        return tuple(t for t in self.preview.targets if t.gone)

    @property
    def askable(self) -> bool:
        """Whether there is anything to agree to: a phase whose every target is refused has nothing."""
        return len(self.refused) < len(self.preview.targets) or not self.preview.targets

    @property
    def things(self) -> tuple[Thing, ...]:
        return tuple(_thing(t, part, within=n > 0) for t in self.going for n, part in enumerate(t.live))

    @property
    def noun(self) -> str:
        """What is counted: targets by their own noun where each is one thing, else resources."""
        one_each = all(len(t.live) == 1 for t in self.going)
        return self.row.noun if one_each else "resource"

    @property
    def size(self) -> str:
        """`3 clusters`, `2 agents, 6 resources`."""
        targets, things = len(self.going), len(self.things)
        if not targets:
            return "nothing is there any more" if self.gone else "nothing that may go"
        own = nouns(targets, self.row.noun)
        return own if targets == things else f"{own}, {nouns(things, 'resource')}"

    @property
    def wanted(self) -> str:
        """What must be typed, exactly; empty for tier 1."""
        match self.tier:
            case Tier.NOT_UNDOABLE:
                return str(len(self.things))
            case Tier.DATA_DIES:
                return self.preview.plan.identity.label
            case _:
                return ""

    @property
    def wanted_words(self) -> str:
        """How the dialog calls what must be typed. It does not show it."""
        if self.tier is Tier.NOT_UNDOABLE:
            return f"the number of {plural(self.noun)}"
        if self.preview.plan.identity.alias:
            return "the project alias"
        return "the last six characters of the project id"

    @property
    def deed(self) -> str:
        """The destructive button's words: `Delete the bucket`, `Remove 3 clusters`."""
        n = len(self.going)
        if n == 1 or not n:
            return f"{self.row.verb} the {self.row.noun}"
        return f"{self.row.verb} {nouns(n, self.row.noun)}"

    def consent(self, by: str, proven: Iterable[str] = ()) -> Consent:
        """The answer: bound to the plan, this phase, the tier that was asked, and every id that was shown.

        `proven`: phases that an earlier process of the run has finished. A resumed runner must look at them again; it may, but
        since nothing of them was shown, it may change nothing there: what came back is held.
        """
        phases = (*(p for p in proven if p != self.preview.phase), self.preview.phase)
        return Consent(self.preview.plan.digest, phases, int(self.tier), by, self.preview.seen)


def verdict(question: Question, typed: str) -> str:
    """In words, how far the typed text is: `not typed yet`, `6 of 10`, `does not match`, `matches`."""
    wanted = question.wanted
    if typed == wanted:
        return "matches"
    if not typed:
        return "not typed yet"
    return f"{len(typed)} of {len(wanted)}" if wanted.startswith(typed) else "does not match"


def changes(before: PhasePreview, now: PhasePreview) -> tuple[str, ...]:
    """What became different between two looks, named; empty while an answer to the first still fits."""
    if before.plan.digest != now.plan.digest:
        return (f"the plan is {now.plan.digest[:8]} now",)
    names = {
        p.ref.id: p.name or p.ref.id
        for v in (before, now)
        for t in v.targets
        for p in (*t.target.parts, *t.found)
    }
    old, new = before.seen, now.seen
    said = [f"{names.get(i, i)} is new" for i in new if i not in old]
    said += [f"{names.get(i, i)} is no longer listed" for i in old if i not in new]
    for i in (i for i in old if i in new and old[i] != new[i]):
        words = (
            "was gone and is there"
            if not old[i]
            else "is gone"
            if not new[i]
            else "is another thing under the same id"
        )
        said.append(f"{names.get(i, i)} {words}")
    if now.tier > before.tier:
        said.append("more is at stake: a stronger confirmation is needed")
    was = {t.target.key: t.refusal for t in before.targets}
    for t in now.targets:
        if t.refusal and not was.get(t.target.key):
            said.append(f"{t.target.name}: {t.refusal.sentence}")
        elif not t.refusal and was.get(t.target.key):
            said.append(f"{t.target.name} is not refused any more")
    fresh = [line.lstrip("! ") for line in now.touches if line not in before.touches]
    return tuple(said + fresh)


def _thing(target: TargetPreview, part: Part, *, within: bool) -> Thing:
    seen = presence_of(target.sight, part.ref)
    state = "found" if seen is None else (seen.state or "there") if isinstance(seen, Present) else "not seen"
    words = (
        "on its way out" if isinstance(seen, Present) and seen.leaving else state.replace("_", " ").lower()
    )
    return Thing(
        visible(part.name or target.target.name), part.ref.id, part.ref.kind.replace("_", " "), words, within
    )
