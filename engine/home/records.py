"""Everything that this machine's records say about one project: what a plan is made from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.home.agents import AgentFolders, read_agent_folders
from engine.home.buckets import BucketRecord, buckets_named, claimed_by_others
from engine.home.clusters import ClusterFolder
from engine.home.config import AgentRecord, Config, ProjectRecord, WorkbenchRecord
from engine.home.controller_owner import ControllerOwner
from engine.home.credentials import Credentials
from engine.home.errors import RecordProblem
from engine.home.fields import Problems
from engine.home.iam_records import AgentAccount, SetupRecord
from engine.home.leases import Lease, read_lease
from engine.home.marker import Marker
from engine.home.operations import CreationProof, Journal, Operations, creation_proof
from engine.home.project_index import ProjectIndex, index_of
from engine.home.receipt_fold import ResourceState, fold
from engine.home.receipts import Receipt
from engine.home.residue import Residue, read_residue
from engine.home.roots import Roots
from engine.home.runs import Runs, read_runs
from engine.home.storage_keys import StorageKeys
from engine.home.storage_proofs import StorageCandidate, storage_candidates
from engine.home.stores import Stores, read_stores
from engine.home.submissions import Submissions, read_submissions


@dataclass(frozen=True, slots=True)
class Records:
    """One project's records. What another project's records say is in no field but `claims` and `controller_owner`.

    aliases            every alias that means this id and no other, configured or forgotten; the one asked for first
    tenant_id, region  as recorded, from the strongest kind of record that has them; empty when none does
    stanzas            its parts of the configuration: one per configured alias
    controller         the owner of the shared controller, when it is this project; `controller_owner`: whoever it is
    storage            blocks that open its bucket, best first
    storage_candidates every record of a storage account; those that are `owned` are proofs
    buckets            every record of a bucket of it; `claims`: records of other projects that name the same ones
    clusters           its cluster folders; `unclaimed`: folders that no record gives to any project
    leases             of its id, and of its aliases from before the id was known
    receipt_states     what all receipts together say, per (phase, resource)
    problems           records that could not be read and may concern this project
    exposed            private files and folders that other users of this machine may read
    """

    roots: Roots
    project_id: str
    alias: str
    aliases: tuple[str, ...]
    tenant_id: str
    region: str
    config: Config | None
    credentials: Credentials | None
    stanzas: tuple[ProjectRecord, ...]
    agents: tuple[AgentRecord, ...]
    workbenches: tuple[WorkbenchRecord, ...]
    markers: tuple[Marker, ...]
    controller: ControllerOwner | None
    controller_owner: ControllerOwner | None
    storage: tuple[StorageKeys, ...]
    storage_candidates: tuple[StorageCandidate, ...]
    setup: SetupRecord | None
    agent_account: AgentAccount | None
    buckets: tuple[BucketRecord, ...]
    claims: Mapping[str, tuple[BucketRecord, ...]]
    clusters: tuple[ClusterFolder, ...]
    unclaimed: tuple[ClusterFolder, ...]
    operations: Operations
    journals: tuple[Journal, ...]
    creation: CreationProof | None
    leases: tuple[Lease, ...]
    submissions: Submissions
    runs: Runs
    agent_folders: AgentFolders
    receipts: tuple[Receipt, ...]
    receipt_states: Mapping[tuple[str, str], ResourceState]
    residue: tuple[Residue, ...]
    index: ProjectIndex
    problems: tuple[RecordProblem, ...]
    exposed: tuple[Path, ...]

    def problems_of(self, *kinds: str) -> tuple[RecordProblem, ...]:
        """The records of these kinds that could not be read: with one, nothing about them is complete."""
        return tuple(p for p in self.problems if p.kind in kinds)

    @property
    def forgotten(self) -> bool:
        """Whether no stanza names this project any more."""
        return not self.stanzas

    @property
    def storage_proofs(self) -> tuple[StorageCandidate, ...]:
        """The records which prove that a storage account is the CLI's, strongest first."""
        return tuple(c for c in self.storage_candidates if c.owned)

    @property
    def blocking_leases(self) -> tuple[Lease, ...]:
        """Leases that name an operation which has not ended."""
        return tuple(lease for lease in self.leases if lease.blocks(self.operations))

    @property
    def interrupted(self) -> tuple[Journal, ...]:
        """Its operations whose process is gone without an end."""
        return tuple(j for j in self.journals if j.interrupted)


def gather(roots: Roots, project_id: str, alias: str = "", *, start: Path | None = None) -> Records:
    """Read everything about one project. Never raises for what is on disk; writes nothing.

    alias   the label that was asked for; used for records that are filed by alias only if it means no other project
    start   a folder in a checkout whose old provider cache is looked for
    """
    return select(read_stores(roots), project_id, alias, start=start)


def select(stores: Stores, project_id: str, alias: str = "", *, start: Path | None = None) -> Records:
    """The records of one project out of stores that are read already."""
    roots, config, credentials = stores.roots, stores.config, stores.credentials
    index = index_of(stores)
    aliases = _aliases(index, project_id, alias)
    stanzas = _stanzas(config, project_id)
    owner = config.controller_owner if config else None
    journals = tuple(j for j in stores.operations.journals if _concerns(j, project_id, aliases))
    receipts = stores.receipts.of(project_id)
    clusters, unclaimed = _clusters(stores, project_id, stanzas, journals)
    named = buckets_named(config, credentials, stores.operations.journals, stores.receipts.receipts)
    tenant_id = _first(
        (s.tenant_id for s in stanzas), (j.tenant_id for j in journals), _said(receipts, "tenant_id")
    )
    problems = Problems()
    problems.add(*stores.problems)
    leases: list[Lease] = []
    for identity in dict.fromkeys((project_id, *aliases)):
        with problems.kept():
            if lease := read_lease(roots, identity):
                leases.append(lease)
    submissions = read_submissions(roots, (*aliases, project_id))
    runs = read_runs(roots, project_id, aliases)
    folders = read_agent_folders(roots, aliases)
    problems.add(*submissions.problems, *runs.problems, *folders.problems)
    return Records(
        roots=roots,
        project_id=project_id,
        alias=alias,
        aliases=aliases,
        tenant_id=tenant_id,
        region=_first((s.region for s in stanzas), (j.region for j in journals), _said(receipts, "region")),
        config=config,
        credentials=credentials,
        stanzas=stanzas,
        agents=tuple(a for s in stanzas for a in s.agents),
        workbenches=tuple(w for s in stanzas for w in s.workbenches),
        markers=tuple(s.marker for s in stanzas if s.marker),
        controller=owner if owner and owner.project_id == project_id else None,
        controller_owner=owner,
        storage=_storage(stanzas, credentials, project_id),
        storage_candidates=storage_candidates(credentials, stores.operations.journals, receipts, project_id),
        setup=credentials.setup(project_id) if credentials else None,
        agent_account=credentials.agent_account(project_id) if credentials else None,
        buckets=tuple(b for b in named if b.project_id == project_id),
        claims=claimed_by_others(named, project_id),
        clusters=clusters,
        unclaimed=unclaimed,
        operations=stores.operations,
        journals=journals,
        creation=creation_proof(stores.operations.journals, project_id, tenant_id),
        leases=tuple(leases),
        submissions=submissions,
        runs=runs,
        agent_folders=folders,
        receipts=receipts,
        receipt_states=fold(stores.receipts.events_of(project_id)),
        residue=read_residue(
            roots, aliases=aliases, contexts=[folder.context for folder in clusters], start=start
        ),
        index=index,
        problems=tuple(p for p in problems() if p.scope in ("", project_id)),
        exposed=_exposed(stores, leases, folders),
    )


def _aliases(index: ProjectIndex, project_id: str, alias: str) -> tuple[str, ...]:
    """Aliases under which records without an id can be taken for this project's: each means it, and no other id."""
    mine = {
        *index.aliases_of(project_id),
        *(f.alias for f in index.forgotten if f.project_ids == (project_id,)),
    }
    sole = {a for a in mine if index.ids_of(a) == (project_id,)}
    # A label that nothing knows is taken at its word: exact ids were given with it.
    if alias and not index.ids_of(alias) and alias not in index.configured:
        sole.add(alias)
    return tuple(sorted(sole, key=lambda a: (a != alias, a)))


def _stanzas(config: Config | None, project_id: str) -> tuple[ProjectRecord, ...]:
    if config is None:
        return ()
    found = config.of(project_id)
    if not found and config.flat and config.flat.project_id == project_id:
        return (config.flat,)
    return found


def _concerns(journal: Journal, project_id: str, aliases: tuple[str, ...]) -> bool:
    if journal.project_id:
        return journal.project_id == project_id
    return journal.project_alias in aliases or any(r.project_id == project_id for r in journal.resources)


def _clusters(
    stores: Stores, project_id: str, stanzas: tuple[ProjectRecord, ...], journals: tuple[Journal, ...]
) -> tuple[tuple[ClusterFolder, ...], tuple[ClusterFolder, ...]]:
    """Folders of this project, and folders of nobody. A folder that names no project goes by the one that claims its context."""
    contexts = {s.kubernetes.context for s in stanzas if s.kubernetes}
    contexts |= {j.requested_name for j in journals if j.resource_type == "cluster"}
    elsewhere = (
        {s.kubernetes.context for s in stores.config.projects if s.kubernetes} if stores.config else set()
    )
    elsewhere |= {j.requested_name for j in stores.operations.journals if j.resource_type == "cluster"}
    mine: list[ClusterFolder] = []
    nobodys: list[ClusterFolder] = []
    for folder in stores.clusters.folders:
        if folder.project_id == project_id or (not folder.project_id and folder.context in contexts):
            mine.append(folder)
        elif not folder.project_id and folder.context not in elsewhere:
            nobodys.append(folder)
    return tuple(mine), tuple(nobodys)


def _storage(
    stanzas: tuple[ProjectRecord, ...], credentials: Credentials | None, project_id: str
) -> tuple[StorageKeys, ...]:
    named = tuple(keys for stanza in stanzas for keys in stanza.buckets)
    return named + (credentials.storage_for(project_id) if credentials else ())


def _said(receipts: tuple[Receipt, ...], name: str) -> Iterable[str]:
    for receipt in receipts:
        value = receipt.identity.get(name)
        if isinstance(value, str):
            yield value


def _first(*ranked: Iterable[str]) -> str:
    return next((value for values in ranked for value in values if value), "")


def _exposed(stores: Stores, leases: list[Lease], folders: AgentFolders) -> tuple[Path, ...]:
    roots = stores.roots
    paths: list[Path] = [
        roots.home,
        roots.config,
        roots.config_yaml,
        roots.credentials_yaml,
        roots.receipts,
        roots.operations,
    ]
    paths += [path for f in stores.clusters.folders for path in (f.kubeconfig,) if path]
    paths += [j.path for j in stores.operations.journals]
    paths += [r.path for r in stores.receipts.receipts]
    paths += [lease.path for lease in leases]
    paths += [f.auth_env for f in folders.folders if f.auth_env]
    return tuple(path for path in dict.fromkeys(paths) if _readable_by_others(path))


def _readable_by_others(path: Path) -> bool:
    try:
        return bool(os.stat(path).st_mode & 0o077)  # noqa: PTH116 - follows a configuration's own link
    except OSError:
        return False
