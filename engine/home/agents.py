"""What agents leave on this machine: their password file and their Terraform working folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.home.errors import Kind, RecordProblem
from engine.home.fields import Problems
from engine.home.folders import names_in, opened_folder, read_file
from engine.home.roots import Roots


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """The local traces of one agent or workbench. A part that is absent is None or empty.

    auth_env   its password file, not read
    workdir    its Terraform folder
    states     Terraform states in it: with a local backend, the only record of what exists
    modules    whether it holds configuration, so that Terraform can be run there
    """

    alias: str
    name: str
    auth_env: Path | None = None
    workdir: Path | None = None
    states: tuple[Path, ...] = ()
    modules: bool = False


@dataclass(frozen=True, slots=True)
class AgentFolders:
    folders: tuple[AgentFolder, ...] = ()
    problems: tuple[RecordProblem, ...] = ()

    def get(self, alias: str, name: str) -> AgentFolder | None:
        return next((f for f in self.folders if (f.alias, f.name) == (alias, name)), None)


def read_agent_folders(roots: Roots, aliases: Iterable[str]) -> AgentFolders:
    """The folders of the given aliases. Never raises: a folder that could not be read is a problem."""
    problems = Problems()
    found: list[AgentFolder] = []
    for alias in dict.fromkeys(aliases):
        if not alias or alias in (".", "..") or "/" in alias:
            continue
        names: set[str] = set()
        for base in (roots.agents, roots.workbenches):
            with problems.kept():
                names |= {
                    name
                    for name in names_in(base / alias, roots.home, Kind.AGENTS)
                    if (base / alias / name).is_dir()
                }
        for name in sorted(names):
            with problems.kept():
                found.append(_folder(roots, alias, name))
    return AgentFolders(tuple(found), problems())


def _folder(roots: Roots, alias: str, name: str) -> AgentFolder:
    auth = roots.agents / alias / name / "auth.env"
    workdir = roots.workbenches / alias / name
    has_auth = read_file(auth, roots.home, Kind.AGENTS) is not None
    with opened_folder(workdir, roots.home, Kind.AGENTS) as handle:
        there = handle is not None
    names = names_in(workdir, roots.home, Kind.AGENTS)
    return AgentFolder(
        alias,
        name,
        auth if has_auth else None,
        workdir if there else None,
        tuple(workdir / n for n in names if n.endswith(".tfstate")),
        any(n.endswith((".tf", ".tf.json")) for n in names),
    )
