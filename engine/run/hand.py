"""The hand: gate, consent, intent on disk, receipt on disk, call, result on disk. In that order, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from engine.ledger.events import Intended, Noted, Resulted
from engine.ledger.journal import Journal
from engine.phases.shape import Step
from engine.run.gate import Gate, finish
from engine.words.consent import Consent
from engine.words.intents import Intent
from engine.words.plans import Target
from engine.words.presence import Cause, Present, Ref, Sight, presence_of
from engine.words.reasons import Reason, Refusal, Refused
from engine.words.redact import redact
from engine.words.trouble import Trouble

T = TypeVar("T")

_LOST = frozenset({Cause.TIMED_OUT, Cause.UNREACHABLE})
"""No answer came: the call may have happened, so a repeat must carry the same idempotency key."""

SIDE_BY_SIDE = 16


class Projector(Protocol):
    """Makes the existing CLI's records true to the journal. Returns when they are on disk."""

    async def before_call(self, target: str) -> None: ...

    async def before_tidy(self, target: str) -> None: ...


class RunnerHand:
    """One target's hand. `sight` is the newest look: its fingerprints go into the intents. `grace`: real seconds."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        projector: Projector,
        target: Target,
        consent: Consent | None,
        *,
        grace: float = 0.0,
        repaying: bool = False,
        advice: str = "",
    ) -> None:
        self._journal = journal
        self._gate = gate
        self._projector = projector
        self._target = target
        self._consent = consent
        self._grace = grace
        self._repaying = repaying
        self._advice = advice
        self.sight: Sight = ()
        self.acted = False
        self._agreed: dict[tuple[str, Ref], float] = {}

    def asked(self, ref: Ref, verb: str = "delete") -> bool:
        agreed = self._agreed.get((verb, ref))
        return agreed is not None and asyncio.get_running_loop().time() - agreed < self._grace

    async def step(
        self,
        verb: str,
        ref: Ref,
        call: Callable[[Intent], Awaitable[T]],
        *,
        undo: Mapping[str, str] | None = None,
    ) -> T:
        if not self._repaying:  # giving back what was taken needs nobody's leave
            await self._gate.passes()
        seen = presence_of(self.sight, ref)
        now = seen if isinstance(seen, Present) else None
        self._check_consent(verb, ref, now)
        journal, key = self._journal, self._target.key
        attempt = journal.state.answered[key, verb, ref.id]
        expect = now.fingerprint if now else ""
        number = await journal.append(Intended(key, verb, ref, expect, attempt, dict(undo or {})))
        try:
            await self._projector.before_call(key)
        except OSError as full:
            await journal.append(Resulted(number, False, "not_writable", f"not called: {full.strerror}"))
            raise Refused(
                Refusal(
                    Reason.NO_RECEIPT,
                    f"the receipt cannot be written: {full.strerror}; nothing was called",
                    self._advice,
                )
            ) from full
        self.acted = True
        idempotency = f"{journal.run}/{key}/{verb}/{ref.id}#{attempt}"
        task = asyncio.ensure_future(call(Intent(idempotency, ref, expect, self._gate.stop)))
        cancelled = await finish(task)  # a call in flight is never abandoned: its answer is the point
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        cancelled |= await finish(asyncio.ensure_future(journal.append(_result(number, error))))
        if error is not None:
            raise error
        self._agreed[verb, ref] = asyncio.get_running_loop().time()
        if cancelled:
            raise asyncio.CancelledError
        return task.result()

    async def steps(self, steps: Sequence[Step]) -> None:
        limit = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(s: Step) -> None:
            async with limit:
                await self.step(s.verb, s.ref, s.call, undo=s.undo)

        results = await asyncio.gather(*(one(s) for s in steps), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def note(self, what: str, detail: str = "", data: Mapping[str, str] | None = None) -> None:
        await self._journal.append(Noted(self._target.key, what, redact(detail), dict(data or {})))

    def _check_consent(self, verb: str, ref: Ref, now: Present | None) -> None:
        if self._consent is None:
            return
        reason = self._consent.objection(self._target.phase, ref, now)
        if reason is None:
            return
        why = {
            Reason.NO_CONSENT: "nobody has agreed to this phase",
            Reason.NOT_SHOWN: "it was not among what was shown",
            Reason.CHANGED_SINCE_SHOWN: "another thing is under that id than was shown",
        }.get(reason, str(reason))
        raise Refused(Refusal(reason, f"{verb} {ref.id}: {why}", self._advice))


def _result(number: int, error: BaseException | None) -> Resulted:
    match error:
        case None:
            return Resulted(number, True)
        case Trouble() as t:
            return Resulted(number, False, str(t.cause), t.detail, t.request_id, lost=t.cause in _LOST)
        case asyncio.CancelledError():
            return Resulted(
                number, False, "cancelled", "the call was cancelled; it may have happened", lost=True
            )
        case _:
            return Resulted(number, False, "internal", redact(f"{type(error).__name__}: {error}"), lost=True)
