"""The runner's ear: reads request files, answers each in the journal, and goes home when nobody wants anything any more."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine.clock import Clock
from engine.ledger.events import Asked
from engine.ledger.journal import Journal
from engine.run.requests import Request, waiting
from engine.run.runner import Runner
from engine.words.reasons import Refused

LISTEN_EVERY = 0.1
"""Real seconds between two looks into the inbox: a person is waiting."""

IDLE = 600.0
"""Nominal seconds after which a runner with nothing left to do but wait for consent goes away, resumable."""


async def attend(runner: Runner, journal: Journal, inbox: Path, clock: Clock) -> None:
    """Listen until cancelled."""
    loop = asyncio.get_running_loop()
    idle_since = loop.time()
    while True:
        for path, request in list(waiting(inbox)):
            if request is None or request.run != journal.run:
                path.unlink(missing_ok=True)  # not for this run: nobody else will ever want it
                continue
            accepted, detail = await _answer(runner, request)
            await journal.append(Asked(request.what, request.by, accepted, detail))
            path.unlink(missing_ok=True)
            idle_since = loop.time()
        if runner.busy():
            idle_since = loop.time()
        elif loop.time() - idle_since > clock.real(IDLE):
            runner.gate.close("nobody answered for ten minutes")
            return
        await asyncio.sleep(LISTEN_EVERY)


async def _answer(runner: Runner, request: Request) -> tuple[bool, str]:
    match request.what:
        case "consent" if request.consent is not None:
            try:
                await runner.consent(request.consent)
            except Refused as refused:
                return False, refused.refusal.sentence
            return True, ", ".join(request.consent.phases)
        case "keep":
            runner.keep_phase(request.phase)
            return True, request.phase
        case "pause":
            runner.gate.pause(f"paused by {request.by}")
            return True, ""
        case "resume":
            runner.gate.resume()
            return True, ""
        case "stop":
            runner.gate.close(f"stopped by {request.by}")
            return True, ""
        case _:
            return False, "a consent request without a consent"
