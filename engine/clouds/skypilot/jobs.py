"""SkyPilot's words for managed jobs and clusters, and what they mean here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from engine.clock import timestamp
from engine.words.presence import Cause, Unknown
from engine.words.redact import redact

TERMINAL: Mapping[str, bool] = {
    "PENDING": False,
    "SUBMITTED": False,
    "STARTING": False,
    "RUNNING": False,
    "WINDING_DOWN": False,
    "RECOVERING": False,
    "CANCELLING": False,
    "SUCCEEDED": True,
    "CANCELLED": True,
    "FAILED": True,
    "FAILED_SETUP": True,
    "FAILED_PRECHECKS": True,
    "FAILED_NO_RESOURCE": True,
    "FAILED_CONTROLLER": True,
}
"""Whether a job with that status is over. A status that is not here is one of a newer SkyPilot: shown by its name, and not over."""

LEAVING = "CANCELLING"
CONTROLLER_PREFIX = "sky-jobs-controller-"
"""How the name of a jobs controller's cluster begins; the rest is the API server's own id."""

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Job:
    """A managed job with all its tasks.

    task          id of the task that `status` is of: the first one that is not over, else the one that tells most
    terminal      all its tasks are over
    submitted_at  RFC 3339, or empty
    """

    id: int
    task: int
    name: str
    status: str
    terminal: bool
    user: str
    workspace: str
    submitted_at: str
    task_names: tuple[str, ...] = ()
    """Names of its tasks where they are not that of the job: a run id may stand in either."""

    @property
    def leaving(self) -> bool:
        """Its cancellation is under way."""
        return self.status == LEAVING


@dataclass(frozen=True, slots=True)
class Queue:
    """All managed jobs that the API server knows, of all users.

    gap                with one, jobs may be missing
    controller_absent  the API server has no record of a jobs controller, and so no job of it is known
    at, by             when the question was sent, and who answered
    """

    jobs: tuple[Job, ...]
    gap: Unknown | None = None
    controller_absent: bool = False
    at: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class SkyCluster:
    """A cluster in SkyPilot's records. `context`: of a Kubernetes cluster, else the region. `updated_at`: when its status was
    last looked up, RFC 3339; a status is no evidence of anything that happened later."""

    name: str
    status: str
    context: str
    cloud: str
    name_on_cloud: str
    updated_at: str

    @property
    def is_jobs_controller(self) -> bool:
        return self.name.startswith(CONTROLLER_PREFIX)


def is_terminal(status: str) -> bool:
    return TERMINAL.get(status, False)


def jobs_of(rows: Sequence[Row], total: object = None) -> tuple[tuple[Job, ...], Unknown | None]:
    """One job for each id, and a gap when a row cannot be attributed or fewer jobs came than the server counted."""
    tasks: dict[int, list[Row]] = {}
    lost = 0
    for row in rows:
        id = row.get("job_id")
        if isinstance(id, int) and not isinstance(id, bool):
            tasks.setdefault(id, []).append(row)
        else:
            lost += 1
    jobs = tuple(_job(id, tasks[id]) for id in sorted(tasks))
    if lost:
        return jobs, Unknown(Cause.MALFORMED, f"{lost} rows of the job queue have no job id")
    if isinstance(total, int) and total > len(rows):
        # Counted in jobs or in tasks, according to the version: more than there are rows is too many either way.
        return jobs, Unknown(
            Cause.MALFORMED, f"the job queue has {total} jobs, but only {len(rows)} rows came"
        )
    return jobs, None


def _job(id: int, rows: list[Row]) -> Job:
    ordered = sorted(rows, key=_task)
    # Where all is over, a task that did not succeed tells more than one that did.
    telling = next(
        (row for row in ordered if not is_terminal(_status(row))),
        next((row for row in ordered if _status(row) != "SUCCEEDED"), ordered[-1]),
    )
    first = ordered[0]
    name = _text(first, "job_name") or _text(first, "task_name")
    return Job(
        id=id,
        task=_task(telling),
        name=name,
        status=_status(telling),
        terminal=all(is_terminal(_status(row)) for row in ordered),
        user=_text(first, "user_name") or _text(first, "user_hash"),
        workspace=_text(first, "workspace"),
        submitted_at=_moment(first.get("submitted_at")),
        task_names=_others(name, (_text(row, "task_name") for row in ordered)),
    )


def clusters_of(rows: Iterable[Row]) -> tuple[tuple[SkyCluster, ...], Unknown | None]:
    """Each cluster, and a gap when a row has no name."""
    found = tuple(
        SkyCluster(
            name=_text(row, "name"),
            status=_status(row),
            context=_text(row, "region"),
            cloud=_text(row, "cloud"),
            name_on_cloud=_text(row, "cluster_name_on_cloud"),
            updated_at=_moment(row.get("status_updated_at")),
        )
        for row in rows
    )
    named = tuple(cluster for cluster in found if cluster.name)
    if len(named) < len(found):
        return named, Unknown(Cause.MALFORMED, "a row of the clusters has no name")
    return named, None


def _others(name: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(other for other in names if other and other != name))


def _task(row: Row) -> int:
    task = row.get("task_id")
    return task if isinstance(task, int) else 0


def _status(row: Row) -> str:
    return _text(row, "status") or "UNKNOWN"


def _text(row: Row, key: str) -> str:
    value = row.get(key)
    return _clean(value) if isinstance(value, str) else ""


@lru_cache(maxsize=4096)
def _clean(text: str) -> str:
    """Redacted. A long queue repeats the same few words in every row."""
    return redact(text)


def _moment(value: object) -> str:
    """Seconds since the epoch as RFC 3339."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return timestamp(datetime.fromtimestamp(value, UTC))
        except (ValueError, OverflowError, OSError):
            return ""
    return ""
