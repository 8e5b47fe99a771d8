"""`credentials.yaml`: several independent documents in one file, each read on its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from engine.home.documents import read_yaml
from engine.home.errors import Fault, Kind, RecordProblem
from engine.home.fields import Fields, Problems
from engine.home.iam_records import (
    Account,
    AgentAccount,
    SetupRecord,
    read_account,
    read_agent_account,
    read_setup,
)
from engine.home.roots import Roots
from engine.home.storage_keys import VIEW_NAMES, StorageKeys, read_keys
from engine.home.tokens import TokenGroup, read_tokens

STORE_SCHEMA = "npa.project-credentials.v2"


@dataclass(frozen=True, slots=True)
class ProjectCredentials:
    """One project of the authoritative store."""

    field: str
    project_id: str
    aliases: tuple[str, ...] = ()
    storage: StorageKeys | None = None
    terraform_state: StorageKeys | None = None
    nebius_account_id: str = ""
    active_account_id: str = ""
    generations: tuple[Account, ...] = ()
    """Every account that ever served this project's bucket and was not deleted yet."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The whole file. `problems` are parts that could not be read.

    projects      the store, by project id; empty when it has none or could not be read
    views         the compatibility sections with storage keys: the current project's, or a legacy file's only ones
    top_account   the top-level `storage_iam`;  nebius_account: a legacy proof in the top-level `nebius`
    legacy_owner  the project that a file without a store provably belongs to, else empty
    """

    path: Path
    current_project_id: str = ""
    projects: tuple[ProjectCredentials, ...] = ()
    views: tuple[StorageKeys, ...] = ()
    top_account: Account | None = None
    nebius_account: Account | None = None
    setups: tuple[SetupRecord, ...] = ()
    agent_accounts: tuple[AgentAccount, ...] = ()
    tokens: tuple[TokenGroup, ...] = ()
    legacy_owner: str = ""
    problems: tuple[RecordProblem, ...] = ()

    def project(self, project_id: str) -> ProjectCredentials | None:
        return next((p for p in self.projects if p.project_id == project_id), None)

    def setup(self, project_id: str) -> SetupRecord | None:
        return next((s for s in self.setups if s.project_id == project_id), None)

    def agent_account(self, project_id: str) -> AgentAccount | None:
        return next((a for a in self.agent_accounts if a.project_id == project_id), None)

    def storage_for(self, project_id: str) -> tuple[StorageKeys, ...]:
        """Storage blocks of exactly this project, best first: its store record; else a legacy file that is provably its own."""
        if not project_id:
            return ()
        if (record := self.project(project_id)) is not None:
            return tuple(keys for keys in (record.storage, record.terraform_state) if keys)
        return self.views if self.legacy_owner == project_id else ()


def read_credentials(roots: Roots) -> Credentials | None:
    """The credentials; None when there is no file. Raises `RecordError` when the file as a whole cannot be used."""
    document = read_yaml(roots.credentials_yaml, roots.config, Kind.CREDENTIALS)
    return None if document is None else parse_credentials(document, roots.credentials_yaml)


def parse_credentials(document: Mapping[str, object], path: Path) -> Credentials:
    """The credentials in a document. Raises `RecordError` only when it is no mapping of named parts."""
    root = Fields(document, kind=Kind.CREDENTIALS, path=path)
    problems = Problems()
    read = Credentials(path)
    with problems.kept():
        current, projects = _store(root, problems)
        read = replace(read, current_project_id=current, projects=projects)
    for name in VIEW_NAMES:
        with problems.kept():
            if keys := read_keys(root.child(name)):
                read = replace(read, views=(*read.views, keys))
    with problems.kept():
        read = replace(read, top_account=read_account(root.block("storage_iam")))
    with problems.kept():
        read = replace(read, nebius_account=read_account(root.block("nebius")))
    with problems.kept():
        read = replace(read, setups=tuple(_setups(root, problems)))
    with problems.kept():
        read = replace(read, agent_accounts=tuple(_agent_accounts(root, problems)))
    with problems.kept():
        read = replace(read, tokens=read_tokens(root))
    # With a part unread nobody can say whose the legacy sections are.
    if not problems():
        read = replace(read, legacy_owner=_legacy_owner(read))
    return replace(read, problems=problems())


def _store(root: Fields, problems: Problems) -> tuple[str, tuple[ProjectCredentials, ...]]:
    store = root.child("project_credentials")
    if store is None:
        return "", ()
    store.schema("schema_version", STORE_SCHEMA)
    found: list[ProjectCredentials] = []
    for project_id, _ in store.children("projects"):
        with problems.kept():
            found.append(
                _project(store.entry("projects", project_id).scoped(project_id), project_id, problems)
            )
    return store.text("current_project_id"), tuple(found)


def _project(found: Fields, project_id: str, problems: Problems) -> ProjectCredentials:
    if found.text("project_id", project_id) != project_id:
        raise found.error("project_id", "differs from the key that it stands under", fault=Fault.CONFLICT)
    record = ProjectCredentials(found.where, project_id)
    with problems.kept():
        record = replace(record, aliases=found.texts("aliases"))
    with problems.kept():
        record = replace(record, storage=read_keys(found.child("storage")))
    with problems.kept():
        record = replace(record, terraform_state=read_keys(found.child("terraform_state")))
    with problems.kept():
        record = replace(record, nebius_account_id=found.block("nebius").text("service_account_id"))
    with problems.kept():
        record = _with_accounts(record, found.block("storage_iam"))
    return record  # noqa: RET504 - the assignment may not have come to pass


def _with_accounts(record: ProjectCredentials, access: Fields) -> ProjectCredentials:
    generations = [account for row in access.items("generations") if (account := read_account(row))]
    top = read_account(access)
    # A store from before there were generations has its one account at the top.
    if top and top.service_account_id not in {account.service_account_id for account in generations}:
        generations.append(top)
    return replace(
        record, active_account_id=access.text("active_service_account_id"), generations=tuple(generations)
    )


def _setups(root: Fields, problems: Problems) -> Iterator[SetupRecord]:
    journal = root.block("storage_setup")
    journal.schema("version", 1, None)
    for project_id, _ in journal.children("projects"):
        with problems.kept():
            yield read_setup(journal.entry("projects", project_id).scoped(project_id), project_id)


def _agent_accounts(root: Fields, problems: Problems) -> Iterator[AgentAccount]:
    journal = root.block("agent_iam")
    journal.schema("version", 1, None)
    for project_id, _ in journal.children("projects"):
        with problems.kept():
            entry = journal.entry("projects", project_id).scoped(project_id)
            if account := read_agent_account(entry, project_id):
                yield account


def _legacy_owner(read: Credentials) -> str:
    """The one project that a file without a store belongs to: all evidence that there is names it, and there is some."""
    if read.projects:
        return ""
    owners: set[str] = set()
    if read.top_account and read.top_account.project_id:
        owners.add(read.top_account.project_id)
    if read.nebius_account and read.nebius_account.owned:
        owners.add(read.nebius_account.project_id)
    buckets = {keys.bucket for keys in read.views if keys.bucket}
    complete = [s for s in read.setups if s.status == "complete" and s.bucket_name in buckets]
    if len(complete) == 1:
        owners.add(complete[0].project_id)
    elif not owners:
        return ""
    return owners.pop() if len(owners) == 1 else ""
