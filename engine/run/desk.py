"""The console's side of the engine: reads for its screens, and starts the runner. It changes nothing itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from engine import settings as environment
from engine.clock import Clock
from engine.home.roots import roots
from engine.run.faces import Account, ProjectLine, RunnerInfo
from engine.words.reasons import Reason, Refusal, Refused
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from engine.inventory.model import Inventory, SourceReport
    from engine.run.preview import PhasePreview
    from engine.run.session import Session
    from engine.words.plans import Plan
    from engine.words.presence import Unknown

# Readers and clients are imported where they are first asked: on the console's reading thread, when its first frame is painted.


class Desk:
    """Everything the console asks. Sessions are opened anew for each plan, so that records are never stale; their clients are
    shared per project and belong to the reader's loop."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._settings = environment.read(environ)
        self._roots = roots(self._settings.environ)
        self._clock = Clock(self._settings.time_scale)
        self._sessions: dict[str, Session] = {}

    def projects(self) -> tuple[ProjectLine, ...]:
        """The aliases of this machine, then forgotten ones that something is unresolved of."""
        from engine.home.project_index import load_project_index
        from engine.home.receipt_fold import fold, unresolved
        from engine.home.stores import read_stores
        from engine.run.protection import protected

        stores = read_stores(self._roots)
        try:
            held = protected(self._settings.environ)
        except Refused:  # no telling which: the runner refuses them all
            held = frozenset(
                x for p in (stores.config.projects if stores.config else ()) for x in (p.alias, p.project_id)
            )
        index = load_project_index(self._roots)
        lines: list[ProjectLine] = []
        for record in stores.config.projects if stores.config else ():
            # What a run that is under way has not settled yet is not left behind by anybody.
            running = bool(record.project_id) and self.runner_alive(record.project_id) is not None
            known_id = record.project_id and not running
            states = fold(stores.receipts.events_of(record.project_id)) if known_id else {}
            problem = "" if record.project_id else "no project id"
            lines.append(
                ProjectLine(
                    record.alias,
                    record.project_id,
                    record.region,
                    record.tenant_id,
                    protected=bool({record.alias, record.project_id} & held),
                    unresolved=len(unresolved(states.values())),
                    problem=problem,
                )
            )
        known = {line.project_id for line in lines}
        for forgotten in index.forgotten:
            for project_id in forgotten.project_ids:
                states = fold(stores.receipts.events_of(project_id))
                open_ones = unresolved(states.values())
                if open_ones and project_id not in known:
                    known.add(project_id)
                    lines.append(
                        ProjectLine(forgotten.alias, project_id, forgotten=True, unresolved=len(open_ones))
                    )
        if not lines:
            lines += [ProjectLine("", "", problem=str(p)) for p in stores.problems[:1]]
        return tuple(lines)

    def plan(self, project: str, *, delete_project: bool = False) -> Plan | Refusal:
        if delete_project:
            return Refusal(
                Reason.USAGE,
                "registries, network and the project itself are not removed by this version; the final audit lists them",
                f"npa destroy --project {project} --all",
            )
        try:
            session = self._open(project)
        except Refused as refused:
            return refused.refusal
        return session.plan

    def journal_path(self, project_id: str) -> Path:
        from engine.run.session import journal_path

        return journal_path(self._roots, project_id)

    def inbox(self, project_id: str) -> Path:
        from engine.run.session import inbox

        return inbox(self._roots, project_id)

    def receipt_path(self, project_id: str) -> Path | None:
        from engine.home.receipts import receipt_path
        from engine.ledger.journal import load

        newest = load(self.journal_path(project_id)).newest
        if newest is None or not newest.receipt_id:
            return None
        path = receipt_path(self._roots, newest.receipt_id)
        return path if path.exists() else None

    def runner_alive(self, project_id: str) -> RunnerInfo | None:
        from engine.home.leases import read_lease
        from engine.ledger.journal import load

        lease = read_lease(self._roots, project_id)
        if lease is None or lease.released or not lease.holder_alive:
            return None
        newest = load(self.journal_path(project_id)).newest
        run = newest.id if newest and newest.running and newest.operation_id == lease.operation_id else ""
        return RunnerInfo(lease.owner_pid, lease.acquired_at, lease.command, run)

    async def inventory(self, project: str, on_source: Callable[[SourceReport], None]) -> Inventory:
        from engine.inventory.gather import gather

        session = self._sessions.get(project) or self._open(project)
        others = session.clients.readers()
        return await gather(
            session.clients.nebius,
            session.identity.project_id,
            session.plan,
            self._clock,
            others=others,
            on_source=on_source,
        )

    async def preview(self, plan: Plan, phase: str) -> PhasePreview:
        from engine.run.preview import preview

        project = plan.identity.alias or plan.identity.project_id
        session = self._sessions.get(project) or self._open(project)
        return await preview(plan, phase, session.phases, self._clock.now())

    async def whoami(self) -> Account | Unknown:
        session = next(iter(self._sessions.values()), None)
        if session is None:
            return Account("", "")
        try:
            who = await session.clients.nebius.whoami()
        except Trouble as trouble:
            return trouble.unknown
        return Account(who.name, who.id, session.identity.tenant_id, who.profile, who.expires_at)

    def start(self, plan: Plan, *, delete_project: bool) -> str | Refusal:
        from engine.run import detached

        arguments = [
            "destroy",
            "--project",
            plan.identity.project_id,
            "--all",
            "--serve",
            "--plan",
            plan.digest,
        ]
        log = self._roots.ours / "logs" / f"{plan.identity.project_id}.log"
        return detached.start(arguments, {**os.environ, **self._settings.environ}, log)

    def _open(self, project: str) -> Session:
        """A session with fresh records; its clients are the project's, so that connections are kept."""
        from engine.run.selection import Selection
        from engine.run.session import open_session

        session = open_session(Selection(project), settings=self._settings)
        before = self._sessions.get(project)
        if before is not None:
            session = session.with_clients(before.clients)
        self._sessions[project] = session
        return session


def open_desk(environ: Mapping[str, str] | None = None) -> Desk:
    """The desk for this environment. Raises `Refused` for one that makes no sense."""
    return Desk(environ)
