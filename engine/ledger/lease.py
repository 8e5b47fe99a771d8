"""The right to change a project: the CLI's own lock on it. What a lease file says of a holder explains, and decides nothing."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.home.errors import Kind, RecordError
from engine.home.leases import Lease, read_lease
from engine.home.locks import Held, flocked
from engine.home.operations import Operations
from engine.home.roots import Roots
from engine.words import commandlines
from engine.words.identity import Identity
from engine.words.reasons import Reason, Refusal, Refused

TEARDOWN_TYPES = frozenset({"project-teardown", "agent-teardown", "forget-project"})
"""Operations that take down: a dead one is resumed by the teardown itself, nobody has to give it up first."""


@dataclass(frozen=True, slots=True)
class Holder:
    """This process, as a lease file explains it."""

    pid: int
    started: str
    boot: str
    host: str


def me() -> Holder:
    """Who we are: a pid alone could be another process by the time somebody asks."""
    return Holder(os.getpid(), _start_time(os.getpid()), _boot_id(), socket.gethostname())


def lives(pid: int, started: str, boot: str, host: str) -> bool | None:
    """Whether a recorded holder lives; None when this machine cannot say: the record is of another host."""
    if host and host != socket.gethostname():
        return None
    if boot and boot != _boot_id():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return not started or _start_time(pid) == started


@contextmanager
def held(
    roots: Roots, identity: Identity, operations: Operations, adopt: frozenset[str] = frozenset()
) -> Iterator[Lease | None]:
    """Hold the project's lock; gives the lease file as it was found. Raises `Refused` when somebody else has the project.

    adopt   ids of crashed operations that the operator gave up for this teardown
    """
    project = identity.project_id
    try:
        lock = flocked(roots.lease_lock(project), root=roots.operations, kind=Kind.LEASES, wait=False)
        with lock:
            before = _before(roots, project)
            known = {before.operation_id if before else "", *(j.operation_id for j in operations.journals)}
            if unknown := sorted(adopt - known):
                raise Refused(
                    Refusal(
                        Reason.UNKNOWN_ID, f"there is no operation {unknown[0]} to give up", "npa cleanup"
                    )
                )
            if before is not None:
                _check(before, operations, identity, adopt)
            yield before
    except Held:
        raise Refused(_busy(_before(roots, project), identity)) from None


def _before(roots: Roots, project: str) -> Lease | None:
    try:
        return read_lease(roots, project)
    except RecordError as error:
        raise Refused(
            Refusal(Reason.RECORD_UNREADABLE, f"the lease of {project} cannot be read: {error.problem}", "")
        ) from error


def _check(lease: Lease, operations: Operations, identity: Identity, adopt: frozenset[str]) -> None:
    """The lock is ours. A lease that names an operation of another kind that did not end is for the operator to decide."""
    if not lease.blocks(operations) or lease.operation_id in adopt:
        return
    elsewhere = not lease.released and lives(lease.owner_pid, "", "", lease.owner_host) is None
    if lease.resource_type in TEARDOWN_TYPES and not elsewhere:
        return
    state = "its process still runs" if lease.holder_alive else "its process is gone"
    if elsewhere:  # no lock of ours reaches there, and no pid of ours says whether it lives
        state = f"it ran on {lease.owner_host}, and nothing here can tell whether it still does"
    resume = shlex.join(lease.resume_argv)
    sentence = (
        f"{identity.alias or identity.project_id} belongs to {lease.command or lease.operation_id}"
        f" (operation {lease.operation_id}, {lease.phase or 'unknown phase'}, since {lease.acquired_at}, pid {lease.owner_pid}):"
        f" {state}. Finish it{' with `' + resume + '`' if resume else ''}, or give it up for this teardown"
    )
    give_up = (
        f"{commandlines.destroy(identity)} --abandon-operation {lease.operation_id} --reason 'it crashed'"
    )
    raise Refused(Refusal(Reason.LEASE_HELD, sentence, give_up))


def _busy(lease: Lease | None, identity: Identity) -> Refusal:
    who = "another process"
    if lease is not None and not lease.released:
        who = f"{lease.command or lease.operation_id} (pid {lease.owner_pid}, since {lease.acquired_at})"
    name = identity.alias or identity.project_id
    return Refusal(Reason.LEASE_HELD, f"{name} is being changed by {who}", commandlines.watch(identity))


def lease_document(
    identity: Identity, fields: Mapping[str, str], acquired_at: str, released_at: str, holder: Holder
) -> dict[str, Any]:
    """The lease file as the CLI knows it, with what explains the holder better added. `fields`: operation_id, command, phase, lifecycle."""
    argv = commandlines.destroy_argv(identity)
    line = shlex.join(argv)
    document: dict[str, Any] = {
        "schema_version": "npa.project.lifecycle-lease.v1",
        "project_identity": identity.project_id,
        "project_id": identity.project_id,
        "project_alias": identity.alias,
        "resource_type": "project-teardown",
        "owner_pid": holder.pid,
        "owner_started": holder.started,
        "owner_boot": holder.boot,
        "owner_host": holder.host,
        "acquired_at": acquired_at,
        "recovery_commands": {
            "resume": line,
            "resume_argv": argv,
            "destroy": line,
            "destroy_argv": argv,
        },
        **fields,
    }
    if released_at:
        document["released_at"] = released_at
    return document


def _start_time(pid: int) -> str:
    """Clock ticks from boot to the process's start: field 22 of its stat line, counted from behind its name."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
