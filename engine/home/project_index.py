"""Which aliases mean which project ids, now and in what was forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.home.errors import RecordProblem
from engine.home.receipts import Receipts
from engine.home.roots import Roots
from engine.home.stores import Stores, read_stores


@dataclass(frozen=True, slots=True)
class ForgottenAlias:
    """An alias that the configuration no longer names. `receipts`: for each project id, the receipts that name both."""

    alias: str
    receipts: Mapping[str, tuple[str, ...]]

    @property
    def project_ids(self) -> tuple[str, ...]:
        return tuple(sorted(self.receipts))


@dataclass(frozen=True, slots=True)
class ProjectIndex:
    """What names mean.

    configured    alias -> project id; an empty id for a stanza that has none
    forgotten     aliases that only receipts know
    default       the configured default alias, which never stands in for a missing selector
    flat          project id of a configuration without stanzas, empty when there is none
    known_ids     every project id that any record names, and which kinds of record do
    """

    configured: Mapping[str, str]
    forgotten: tuple[ForgottenAlias, ...]
    default: str
    flat: str
    known_ids: Mapping[str, tuple[str, ...]]
    problems: tuple[RecordProblem, ...]

    def aliases_of(self, project_id: str) -> tuple[str, ...]:
        """Configured aliases of an id; more than one is for the caller to name and refuse."""
        return tuple(sorted(a for a, i in self.configured.items() if i == project_id))

    def ids_of(self, alias: str) -> tuple[str, ...]:
        """Every id that an alias means or meant; more than one is for the caller to name and refuse."""
        now = self.configured.get(alias, "")
        before = self.forgotten_alias(alias)
        return tuple(sorted({now, *(before.project_ids if before else ())} - {""}))

    def forgotten_alias(self, alias: str) -> ForgottenAlias | None:
        return next((f for f in self.forgotten if f.alias == alias), None)

    @property
    def shared_aliases(self) -> dict[str, tuple[str, ...]]:
        """Aliases that mean, or meant, several ids: configured for one, in receipts with others."""
        names = {*self.configured, *(f.alias for f in self.forgotten)}
        found = {alias: self.ids_of(alias) for alias in sorted(names)}
        return {alias: ids for alias, ids in found.items() if len(ids) > 1}

    @property
    def shared_ids(self) -> dict[str, tuple[str, ...]]:
        """Ids that several configured aliases mean."""
        found = {i: self.aliases_of(i) for i in sorted(set(self.configured.values()) - {""})}
        return {i: aliases for i, aliases in found.items() if len(aliases) > 1}

    @property
    def sole(self) -> str:
        """The only configured alias, which may stand in for a missing selector; empty when there is none or more."""
        return next(iter(self.configured)) if len(self.configured) == 1 else ""


def load_project_index(roots: Roots) -> ProjectIndex:
    """Read what is needed to tell what a name means. Never raises for what is on disk; writes nothing."""
    return index_of(read_stores(roots))


def index_of(stores: Stores) -> ProjectIndex:
    """The index of stores that are read already."""
    config = stores.config
    configured = {p.alias: p.project_id for p in config.projects} if config else {}
    return ProjectIndex(
        configured=configured,
        forgotten=_forgotten(stores.receipts, configured),
        default=config.default_project if config else "",
        flat=config.flat.project_id if config and config.flat else "",
        known_ids=_known_ids(stores),
        problems=stores.problems,
    )


def _forgotten(receipts: Receipts, configured: Mapping[str, str]) -> tuple[ForgottenAlias, ...]:
    """Aliases that a receipt binds to a project id other than the configured one.

    Only the root of a receipt, or an event, that names both binds them: an alias in one place and an id in another may have met by
    chance in a snapshot of several projects.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for receipt in receipts.receipts:
        pairs = {(receipt.project_alias, receipt.project_id)}
        pairs |= {(event.project_alias, event.project_id) for event in receipt.events}
        for alias, project_id in pairs:
            # A clean-up run by id writes the id in the place of the alias.
            if alias and project_id and alias != project_id and configured.get(alias) != project_id:
                found.setdefault(alias, {}).setdefault(project_id, set()).add(receipt.receipt_id)
    return tuple(
        ForgottenAlias(alias, {i: tuple(sorted(names)) for i, names in sorted(ids.items())})
        for alias, ids in sorted(found.items())
    )


def _known_ids(stores: Stores) -> dict[str, tuple[str, ...]]:
    named: dict[str, list[str]] = {}

    def note(project_id: str, where: str) -> None:
        if project_id and where not in named.setdefault(project_id, []):
            named[project_id].append(where)

    for stanza in stores.config.projects if stores.config else ():
        note(stanza.project_id, "config")
    if stores.config and stores.config.flat:
        note(stores.config.flat.project_id, "config")
    if credentials := stores.credentials:
        for project_id in (
            *(p.project_id for p in credentials.projects),
            *(s.project_id for s in credentials.setups),
            *(a.project_id for a in credentials.agent_accounts),
            credentials.legacy_owner,
        ):
            note(project_id, "credentials")
    for folder in stores.clusters.folders:
        note(folder.project_id, "clusters")
    for journal in stores.operations.journals:
        note(journal.project_id, "operations")
    for receipt in stores.receipts.receipts:
        for project_id in sorted(receipt.project_ids):
            note(project_id, "receipts")
    return {i: tuple(where) for i, where in sorted(named.items())}
