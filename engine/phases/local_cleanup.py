"""Phase local_cleanup: records and caches on this machine that are this project's alone, once no phase needs them as evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.clock import Clock
from engine.home.credentials import read_credentials
from engine.home.errors import RecordError
from engine.home.removal import remove_residue
from engine.home.residue import Residue, read_residue
from engine.home.roots import Roots
from engine.home.writers import forget_credentials
from engine.ledger.events import Intended
from engine.ledger.state import State
from engine.phases.shape import Cleared, Hand
from engine.words.consent import Tier
from engine.words.intents import Intent
from engine.words.outcomes import CONVERGED
from engine.words.phases import PHASES
from engine.words.plans import Evidence, Ownership, Part, PhasePlan, Target
from engine.words.presence import Absent, Cause, Observation, Presence, Present, Proof, Ref, Sight, Unknown
from engine.words.reasons import Reason, Refusal
from engine.words.redact import redact
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.home.records import Records

CREDENTIALS = "credentials_record"
_NEEDS_CREDENTIALS = ("bucket", "storage_iam", "agent_iam")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is there, what must not be touched, and which phases still need it as evidence."""

    name: str
    obstacle: str
    needed_by: tuple[str, ...]


def decide(facts: Facts) -> Cleared[Facts] | Refusal:
    """Evidence stays while a phase that it serves has not converged; what cannot be removed safely stays and is named."""
    if facts.needed_by:
        labels = ", ".join(PHASES[p].label.lower() for p in facts.needed_by)
        return Refusal(Reason.EVIDENCE_NEEDED, f"{facts.name} is still needed: not finished: {labels}", "")
    if facts.obstacle:
        return Refusal(Reason.IN_USE, f"{facts.name} {facts.obstacle}", "")
    return Cleared(facts, Tier.RECREATABLE)


class LocalCleanup:
    """Built with the roots and with how far the teardown is; talks to nobody."""

    name = "local_cleanup"

    def __init__(self, roots: Roots, clock: Clock, state: Callable[[], State]) -> None:
        self._roots = roots
        self._clock = clock
        self._state = state

    def plan(self, records: Records) -> PhasePlan:
        owned = Ownership(Evidence.PART_OF, records.project_id, "recorded for this project alone")
        detail = {
            "aliases": " ".join(records.aliases),
            "contexts": " ".join(c.context for c in records.clusters),
        }
        targets = [
            Target(
                f"local_cleanup/{self._short(item.path)}",
                self._short(item.path),
                (Part(Ref("local_record", str(item.path)), item.path.name, owned),),
                {
                    **detail,
                    "kind": str(item.kind),
                    "serves": "clusters" if item.kind == "terraform_scratch" else "",
                },
            )
            for item in records.residue
            if item.own
        ]
        if records.credentials and self._recorded(records.project_id):
            targets.append(
                Target(
                    f"local_cleanup/{CREDENTIALS}",
                    "credentials record",
                    (Part(Ref(CREDENTIALS, records.project_id), "credentials record", owned),),
                    {"kind": CREDENTIALS, "serves": " ".join(_NEEDS_CREDENTIALS)},
                )
            )
        return PhasePlan(
            "local_cleanup",
            tuple(targets),
            unread=tuple(str(p) for p in records.problems_of("residue", "agents")),
        )

    async def look(self, target: Target) -> Sight:
        return tuple(
            Observation(p.ref, self._see(p.ref), self._clock.now(), "this machine") for p in target.parts
        )

    async def guard(self, target: Target, sight: Sight) -> Cleared[Facts] | Refusal:
        serves = tuple(target.detail.get("serves", "").split())
        needed = tuple(phase for phase in serves if not self._converged(phase))
        item = self._residue(target)
        return decide(Facts(target.name, item.obstacle if item else "", needed))

    async def act(self, target: Target, cleared: Cleared[Facts], hand: Hand) -> None:
        async def remove(intent: Intent) -> None:
            try:
                if intent.ref.kind == CREDENTIALS:
                    forget_credentials(self._roots, intent.ref.id)
                elif item := self._residue(target):
                    remove_residue(item)
            except (RecordError, OSError) as error:
                raise Trouble(Cause.CONFLICT, redact(str(error))) from error

        for part in target.parts:
            await hand.step("remove", part.ref, remove)

    async def tidy(self, target: Target, proof: Proof, hand: Hand) -> None:
        return

    async def undo(self, target: Target, debt: Intended, hand: Hand) -> None:
        raise NotImplementedError("nothing is taken away for a while here")

    def _see(self, ref: Ref) -> Presence:
        try:
            if ref.kind == CREDENTIALS:
                return Present(ref.id, "recorded") if self._recorded(ref.id) else Absent()
            found = Path(ref.id).lstat()
        except FileNotFoundError:
            return Absent()
        except (OSError, RecordError) as error:
            return Unknown(Cause.MALFORMED, redact(str(error)))
        return Present(f"{found.st_dev}:{found.st_ino}", "there")

    def _recorded(self, project_id: str) -> bool:
        credentials = read_credentials(self._roots)
        if credentials is None:
            return False
        return any(
            (
                credentials.project(project_id),
                credentials.setup(project_id),
                credentials.agent_account(project_id),
            )
        )

    def _residue(self, target: Target) -> Residue | None:
        if target.detail["kind"] == CREDENTIALS:
            return None
        path = target.parts[0].ref.id
        found = read_residue(
            self._roots, aliases=target.detail["aliases"].split(), contexts=target.detail["contexts"].split()
        )
        return next((i for i in found if str(i.path) == path and i.own), None)

    def _converged(self, phase: str) -> bool:
        run = self._state().newest
        if run is None or not run.running:
            return True  # a plan or a preview: the runner's order sees to it
        if run.plan.phase(phase) is None:
            return False
        ended = run.phases.get(phase)
        return ended is not None and ended.status in CONVERGED

    def _short(self, path: Path) -> str:
        return str(path.relative_to(self._roots.user)) if path.is_relative_to(self._roots.user) else str(path)
