"""The queue of managed jobs that a controller keeps: rows, filters, and what a cancel does to a job in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from engine.simulator.skypilot.errors import SkyError
from engine.simulator.skypilot.spec import JobSpec, SkySpec

TERMINAL = frozenset(
    {
        "SUCCEEDED", "CANCELLED", "FAILED", "FAILED_SETUP", "FAILED_PRECHECKS", "FAILED_NO_RESOURCE", "FAILED_CONTROLLER",
    }
)  # fmt: skip
Body = dict[str, Any]
"""The JSON body of a request."""


class Job:
    """One managed job while it lives. `spec` holds its status, so that it can be kept and started from again."""

    def __init__(self, spec: JobSpec, user_hash: str) -> None:
        self.spec = spec.model_copy()
        self.user_hash = user_hash
        self.submitted_at = time.time() - 900
        self.ended_at = time.time() - 60 if self.over else None
        self.cancelling = False

    @property
    def over(self) -> bool:
        return self.spec.status in TERMINAL

    def end(self, status: str) -> None:
        self.spec.status, self.ended_at = status, time.time()

    def rows(self) -> Iterator[Body]:
        started = None if self.spec.status == "PENDING" else self.submitted_at + 100
        duration = (self.ended_at or time.time()) - started if started else None
        for n, name in enumerate(self.spec.tasks or [self.spec.name]):
            yield {
                "job_id": self.spec.job_id, "task_id": n, "job_name": self.spec.name, "task_name": name, "status": self.spec.status,
                "schedule_state": "DONE" if self.over else "WAITING" if started is None else "ALIVE",
                "workspace": self.spec.workspace, "user_hash": self.user_hash, "user_name": self.spec.user,
                "resources": self.spec.resources, "submitted_at": self.submitted_at, "start_at": started, "end_at": self.ended_at,
                "job_duration": duration, "recovery_count": 0, "failure_reason": None, "pool": None,
            }  # fmt: skip


class Queue:
    """All managed jobs. `alive` tells whether the controller's process runs; `on_end` is told of each job that ends."""

    def __init__(
        self, spec: SkySpec, time_scale: float, alive: Callable[[], bool], on_end: Callable[[JobSpec], None]
    ) -> None:
        self.jobs = [Job(j, spec.hash_of(j.user)) for j in spec.jobs]
        self._scale = time_scale
        self._alive, self._on_end = alive, on_end
        self._timers: list[asyncio.TimerHandle] = []

    def start(self) -> None:
        """Let jobs go on by themselves from now."""
        for job in self.jobs:
            if job.spec.ends_after is not None and not job.over:
                self._later(job.spec.ends_after, self._finish, job, job.spec.ends_as)

    def clear(self) -> None:
        """The queue goes with its controller."""
        self.stop()
        self.jobs = []

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def rows(self, body: Body, user_hash: str) -> Body:
        """The answer to queue/v2. Without `all_users`, jobs of that user only."""
        mine = [j for j in self.jobs if body.get("all_users") or j.user_hash == user_hash]
        rows = [r for j in sorted(mine, key=lambda j: -j.spec.job_id) for r in j.rows()]
        chosen = [r for r in rows if _chosen(r, body)]
        counts: dict[str, int] = {}
        for r in chosen:
            counts[r["status"]] = counts.get(r["status"], 0) + 1
        limit = body.get("limit") or len(chosen) or 1
        first = ((body.get("page") or 1) - 1) * limit
        page = chosen[first : first + limit]
        if fields := body.get("fields"):
            kept = {*fields, "job_id", "task_id", "status"}
            page = [{k: v for k, v in r.items() if k in kept} for r in page]
        return {
            "jobs": page, "total": len(chosen), "total_no_filter": len(rows), "status_counts": counts, "infra_options": [],
        }  # fmt: skip

    def cancel(self, body: Body, user_hash: str, say: Callable[[str], None]) -> None:
        """Ask for cancellation; what comes of it is only said in the log. Raises `SkyError` for a selection that is none."""
        given = [
            bool(body.get("job_ids")),
            body.get("name") is not None,
            body.get("pool") is not None,
            bool(body.get("all") or body.get("all_users")),
        ]
        if sum(given) != 1:
            raise SkyError("ValueError", "Can only specify one of JOB_IDS, name, pool, or all/all_users.")
        say(self._cancel_each(self._selected(body, user_hash, say), _workspace(body), say))

    def _selected(self, body: Body, user_hash: str, say: Callable[[str], None]) -> Iterable[Job]:
        going = [j for j in self.jobs if not j.over]
        if ids := body.get("job_ids"):
            by_id = {j.spec.job_id: j for j in self.jobs}
            for id in sorted(set(ids) - by_id.keys()):
                say(f"Job {id} not found. Skipped.\n")
            return [by_id[id] for id in sorted(set(ids) & by_id.keys())]
        if (name := body.get("name")) is not None:
            named = [j for j in going if j.spec.name == name]
            if len(named) > 1:
                raise SkyError("RuntimeError", "Please specify the job ID instead of the job name.")
            if not named:
                say(f"No running job found with name {name!r}.\n")
            return named
        if body.get("pool") is not None:
            return []
        return [j for j in going if body.get("all_users") or j.user_hash == user_hash]

    def _cancel_each(self, jobs: Iterable[Job], workspace: str, say: Callable[[str], None]) -> str:
        cancelled, elsewhere = [], []
        for job in jobs:
            if job.spec.workspace != workspace:
                elsewhere.append(str(job.spec.job_id))
            elif job.over:
                say(f"Job {job.spec.job_id} is already in terminal state {job.spec.status}. Skipped.\n")
            else:
                self._cancel(job)
                cancelled.append(str(job.spec.job_id))
        end = ""
        if elsewhere:
            s, verb = ("s", "are") if len(elsewhere) > 1 else ("", "is")
            end = f" Job{s} with ID{s} {', '.join(elsewhere)} {verb} skipped as they are not in the active workspace {workspace!r}."
        if not cancelled:
            return f"No job to cancel.{end}\n"
        who = (
            f"Job with ID {cancelled[0]} is"
            if len(cancelled) == 1
            else f"Jobs with IDs {', '.join(cancelled)} are"
        )
        return f"{who} scheduled to be cancelled.{end}\n"

    def _cancel(self, job: Job) -> None:
        if job.spec.ignores_cancels > 0:
            job.spec.ignores_cancels -= 1
        elif job.spec.status == "PENDING":
            self._finish(job, "CANCELLED")
        elif not job.cancelling:
            job.cancelling = True
            self._later(job.spec.notice_seconds, self._leave, job)

    def _leave(self, job: Job) -> None:
        if not job.over:
            job.spec.status = job.spec.sticks_in or "CANCELLING"
            if job.spec.sticks_in is None:
                self._later(job.spec.cancel_seconds, self._finish, job, "CANCELLED")

    def _finish(self, job: Job, status: str) -> None:
        if not job.over:
            job.end(status)
            self._on_end(job.spec)

    def _later(self, seconds: float, act: Callable[..., None], *args: object) -> None:
        def now() -> None:
            # Nobody does anything where the controller does not run.
            if self._alive():
                act(*args)

        self._timers.append(asyncio.get_running_loop().call_later(seconds * self._scale, now))


def _chosen(row: Body, body: Body) -> bool:
    return (
        not (body.get("skip_finished") and row["status"] in TERMINAL)
        and not (body.get("job_ids") and row["job_id"] not in body["job_ids"])
        and not (body.get("statuses") and row["status"] not in body["statuses"])
        and str(body.get("name_match") or "") in row["job_name"]
    )


def _workspace(body: Body) -> str:
    config = body.get("override_skypilot_config") or {}
    return str(config.get("active_workspace") or "default")
