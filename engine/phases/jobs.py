"""Whose managed jobs are in the shared queue: the ledgers of this machine, held against what SkyPilot lists. Pure but for one reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from engine.home.config import read_config
from engine.home.errors import Kind, RecordError
from engine.home.folders import names_in
from engine.home.roots import Roots
from engine.home.runs import Runs, read_runs
from engine.home.submissions import Submission, Submissions, path_part, read_submissions
from engine.words.presence import Unknown

MOST_NAMED = 20


class Job(Protocol):
    """What is asked of a managed job, as `engine.clouds.skypilot` has it."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def terminal(self) -> bool: ...

    @property
    def leaving(self) -> bool: ...

    @property
    def user(self) -> str: ...

    @property
    def task_names(self) -> tuple[str, ...]: ...


class JobQueue(Protocol):
    """What SkyPilot answers about its queue."""

    @property
    def jobs(self) -> Sequence[Job]: ...

    @property
    def gap(self) -> Unknown | None: ...

    @property
    def controller_absent(self) -> bool: ...

    @property
    def at(self) -> str: ...

    @property
    def by(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Claim:
    """One run as a record knows it.

    project         label of its project: the alias that its ledger is filed under
    job_ids         recorded ids; `job_name` is the name recorded with them, or empty
    never_launched  the ledger proves that nothing was ever handed to SkyPilot
    record, field   where it stands, for a proof
    """

    run_id: str
    project: str
    job_ids: tuple[int, ...] = ()
    job_name: str = ""
    never_launched: bool = False
    record: str = ""
    field: str = ""

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.run_id, self.job_name} - {""})


@dataclass(frozen=True, slots=True)
class Claims:
    """The runs of this project and of all others on this machine. `problems`: records of this project that could not be read."""

    own: tuple[Claim, ...] = ()
    others: tuple[Claim, ...] = ()
    problems: tuple[str, ...] = ()

    def get(self, run_id: str) -> Claim | None:
        return next((c for c in self.own if c.run_id == run_id), None)


class Match(StrEnum):
    """How a job stands to a claim."""

    NONE = "none"
    SAME = "same"
    CONTRADICTED = "contradicted"
    """The recorded id under another name than was recorded with it: ids begin anew with a new controller."""


def match(claim: Claim, job: Job) -> Match:
    """By recorded id, which the recorded name must not contradict, or by the exact name of the run or its job."""
    if claim.never_launched:
        return Match.NONE
    if claim.names & {job.name, *job.task_names}:
        return Match.SAME
    if job.id not in claim.job_ids:
        return Match.NONE
    return Match.CONTRADICTED if claim.job_name else Match.SAME


@dataclass(frozen=True, slots=True)
class Attributed:
    """The jobs that are not over, by whose they are.

    own      run id -> its jobs
    foreign  (label of another project, job)
    nobodys  jobs that no ledger of this machine names
    unclear  run id of ours -> why a job cannot be told to be its or not
    """

    own: dict[str, list[Job]] = field(default_factory=dict)
    foreign: list[tuple[str, Job]] = field(default_factory=list)
    nobodys: list[Job] = field(default_factory=list)
    unclear: dict[str, str] = field(default_factory=dict)

    @property
    def of_us(self) -> tuple[str, ...]:
        """A line for each job that is, or may be, this project's."""
        rows = [f"job {job.id} {job.name} ({job.status})" for some in self.own.values() for job in some]
        return tuple(dict.fromkeys((*rows, *self.unclear.values())))

    @property
    def of_others(self) -> tuple[str, ...]:
        """A line for each job that is not this project's: id, status, user, project."""
        rows = [_line(job, f"project {project}") for project, job in self.foreign]
        return (*rows, *(_line(job, "no project of this machine") for job in self.nobodys))


def _line(job: Job, whose: str) -> str:
    return f"job {job.id} {job.name} ({job.status}) of user {job.user or 'unknown'}, {whose}"


def attribute(jobs: Iterable[Job], claims: Claims) -> Attributed:
    """Whose each live job is. One that two projects claim, or whose id and name contradict each other, is unclear."""
    found = Attributed()
    for job in jobs:
        if job.terminal:
            continue
        ours = {c.run_id: m for c in claims.own if (m := match(c, job)) is not Match.NONE}
        theirs = [c for c in claims.others if match(c, job) is Match.SAME]
        same = [run for run, how in ours.items() if how is Match.SAME]
        if same and theirs:
            for run in same:
                found.unclear[run] = f"job {job.id} is claimed by project {theirs[0].project} too"
        elif same:
            for run in same:
                found.own.setdefault(run, []).append(job)
        elif theirs:
            found.foreign.append((theirs[0].project, job))
        else:
            found.nobodys.append(job)
            for run in ours:
                found.unclear[run] = f"job {job.id} is recorded for it, but is called {job.name}"
    return found


def shortened(lines: Iterable[str]) -> tuple[str, ...]:
    """At most `MOST_NAMED` lines, and how many more there are."""
    every = tuple(lines)
    more = len(every) - MOST_NAMED
    return every[:MOST_NAMED] + ((f"and {more} more",) if more > 0 else ())


# ------------------------------------------------------------------------------------------------------------- records


def claims_of(submissions: Submissions, runs: Runs, project: str) -> tuple[Claim, ...]:
    """The runs of one project: every ledger, and every run record that no ledger covers and whose end was not verified."""
    ledgers = tuple(_claim(ledger) for ledger in submissions.ledgers)
    known = {claim.run_id for claim in ledgers}
    bare = {
        run.run_id: Claim(run.run_id, run.project_alias or project, record=run.path.name, field="run_id")
        for run in runs.records
        if run.run_id not in known and not run.ended
    }
    return tuple({claim.run_id: claim for claim in (*bare.values(), *ledgers)}.values())


def _claim(ledger: Submission) -> Claim:
    ids = (int(ledger.sky_job_id),) if ledger.sky_job_id.isdecimal() else ()
    return Claim(
        run_id=ledger.run_id,
        project=ledger.project,
        job_ids=ids,
        job_name=ledger.job_name,
        never_launched=ledger.never_launched,
        record=f"workflow-submissions/{ledger.path.parent.name}/{ledger.path.name}",
        field="launch.sky_job_id" if ids else "launch" if ledger.has_launch else "run_id",
    )


def read_claims(roots: Roots, project_id: str, aliases: Iterable[str]) -> Claims:
    """Every ledger of this machine as it is now. Never raises for what is on disk; writes nothing."""
    own_names = tuple(dict.fromkeys((*aliases, project_id)))
    submissions, runs = read_submissions(roots, own_names), read_runs(roots, project_id, own_names)
    problems = [str(p) for p in (*submissions.problems, *runs.problems)]
    others = tuple(
        _claim(ledger)
        for name in _other_projects(roots, own_names)
        for ledger in read_submissions(roots, (name,)).ledgers
    )
    return Claims(claims_of(submissions, runs, own_names[0]), others, tuple(problems))


def _other_projects(roots: Roots, own: tuple[str, ...]) -> tuple[str, ...]:
    """Names under which other projects' ledgers may be filed: configured ones, and folders that nothing names any more."""
    try:
        config = read_config(roots)
        known = [name for p in config.projects for name in (p.alias, p.project_id) if name] if config else []
    except RecordError:
        known = []
    try:
        folders = names_in(roots.submissions, roots.home, Kind.SUBMISSIONS)
    except RecordError:
        folders = ()
    taken = {path_part(name) for name in (*own, *known)}
    names = [name for name in known if path_part(name) not in {path_part(o) for o in own}]
    names += [folder for folder in folders if folder not in taken]
    return tuple(dict.fromkeys(names))
