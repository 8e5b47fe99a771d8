"""Who may use a project's bucket or runs its agents: the access records inside `credentials.yaml`.

Three places: generations of the per-project store, the setup journal that is written before each create, and the agents' account.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.home.fields import Fields

NPA = "npa"
ATTESTED = "npa-recovery-attested"
RECOVERY_SCHEMA = "npa.storage-iam-recovery.v1"
STORAGE_ACCOUNT_NAME = "lerobot-training"
AGENT_ACCOUNT_NAME = "npa-agent"
PROOF_FIELDS = (
    "service_account_id",
    "service_account_name",
    "service_account_project_id",
    "service_account_managed_by",
)


@dataclass(frozen=True, slots=True)
class Binding:
    """The group and the permit through which an account reaches its bucket. `*_owned`: created by the CLI."""

    state: str = ""
    role: str = ""
    scope_id: str = ""
    group_id: str = ""
    group_name: str = ""
    access_permit_id: str = ""
    group_owned: bool = False
    access_permit_owned: bool = False

    @property
    def owned_ids(self) -> tuple[str, ...]:
        """Ids that go with the account: permit before group."""
        permit = (self.access_permit_id,) if self.access_permit_owned and self.access_permit_id else ()
        return permit + ((self.group_id,) if self.group_owned and self.group_id else ())


@dataclass(frozen=True, slots=True)
class Account:
    """The four proof fields of a storage account, wherever they stand. `field` is that place.

    attested   a valid recovery block says that a person vouched for it and the provider was asked
    """

    field: str
    service_account_id: str
    service_account_name: str
    project_id: str
    managed_by: str
    attested: bool = False
    access_key_ids: tuple[str, ...] = ()
    binding: Binding | None = None

    @property
    def owned(self) -> bool:
        """Whether this record proves that the account is the CLI's. A saved id alone proves nothing."""
        if not (self.service_account_id and self.project_id and self.service_account_name):
            return False
        return self.managed_by == NPA or (
            self.managed_by == ATTESTED
            and self.service_account_name == STORAGE_ACCOUNT_NAME
            and self.attested
        )


def read_account(found: Fields) -> Account | None:
    """An account with its keys and binding; None when no account is named. Raises `RecordError`."""
    account_id = found.text("service_account_id")
    if not account_id:
        return None
    name = found.text("service_account_name")
    project_id = found.text("service_account_project_id") or found.text("project_id")
    binding = found.child("binding")
    return Account(
        field=found.where,
        service_account_id=account_id,
        service_account_name=name,
        project_id=project_id,
        managed_by=found.text("service_account_managed_by"),
        attested=_attested(found.child("recovery"), account_id, name, project_id),
        access_key_ids=found.texts("access_key_ids"),
        binding=_binding(binding) if binding else None,
    )


def _attested(found: Fields | None, account_id: str, name: str, project_id: str) -> bool:
    if not found or found.text("schema_version") != RECOVERY_SCHEMA:
        return False
    return (
        found.text("service_account_id") == account_id
        and found.text("service_account_name") == name
        and found.text("project_id") == project_id
        and found.flag("provider_verified")
        and all(found.text(n).strip() for n in ("reason", "attested_by", "attested_at", "verified_at"))
    )


def _binding(found: Fields) -> Binding:
    return Binding(
        found.text("state"),
        found.text("role"),
        found.text("scope_id"),
        found.text("group_id"),
        found.text("group_name"),
        found.text("access_permit_id"),
        found.text("group_managed_by") == NPA,
        found.text("access_permit_managed_by") == NPA,
    )


@dataclass(frozen=True, slots=True)
class SetupResource:
    """One thing that the storage setup created or found. `owned`: it says that it created it, in an attempt of this project."""

    field: str
    kind: str
    id: str
    name: str = ""
    project_id: str = ""
    created_by: str = ""
    attempt_id: str = ""
    service_account_id: str = ""
    owned: bool = False


@dataclass(frozen=True, slots=True)
class SetupRecord:
    """The setup journal of one project; an interrupted one is valid proof as well."""

    field: str
    project_id: str
    status: str = ""
    phase: str = ""
    attempt_id: str = ""
    bucket_name: str = ""
    tenant_id: str = ""
    project_alias: str = ""
    resources: tuple[SetupResource, ...] = ()

    def of_kind(self, kind: str) -> tuple[SetupResource, ...]:
        """Kinds: service_account, bucket, iam_group, iam_permit, access_key."""
        return tuple(r for r in self.resources if r.kind == kind)


def read_setup(found: Fields, project_id: str) -> SetupRecord:
    """One entry of `storage_setup.projects`. Raises `RecordError`."""
    found.schema("version", 1, None)
    resources = found.block("resources")
    rows = [
        _setup_resource(kind, entry, project_id)
        for kind in ("service_account", "bucket", "iam_group", "iam_permit")
        if (entry := resources.child(kind))
    ]
    rows += [
        _setup_resource("access_key", resources.entry("access_keys", key), project_id, key)
        for key, _ in resources.children("access_keys")
    ]
    return SetupRecord(
        found.where,
        found.text("project_id") or project_id,
        found.text("status"),
        found.text("phase"),
        found.text("attempt_id"),
        found.text("bucket_name"),
        found.text("tenant_id"),
        found.text("project_alias"),
        tuple(row for row in rows if row.id),
    )


def _setup_resource(kind: str, found: Fields, project_id: str, key: str = "") -> SetupResource:
    own_project = found.text("project_id")
    created_by, attempt = found.text("created_by"), found.text("attempt_id")
    return SetupResource(
        found.where,
        kind,
        found.text("id") or key,
        found.text("name"),
        own_project,
        created_by,
        attempt,
        found.text("service_account_id"),
        owned=created_by == NPA and own_project == project_id and bool(attempt),
    )


@dataclass(frozen=True, slots=True)
class AgentAccount:
    """The account that a project's agents share, and its keys. `owned` needs creator, project, name and id to fit."""

    field: str
    project_id: str
    status: str
    service_account_id: str
    name: str
    owned: bool
    access_key_ids: tuple[str, ...] = ()
    """Keys whose record says that the CLI created them in this project."""
    foreign_key_ids: tuple[str, ...] = ()
    """Keys that are recorded without that proof."""


def read_agent_account(found: Fields, project_id: str) -> AgentAccount | None:
    """One entry of `agent_iam.projects`; None when it names neither an account nor a key. Raises `RecordError`."""
    resources = found.block("resources")
    account = resources.block("service_account")
    account_id, name = account.text("id"), account.text("name")
    keys = tuple(_agent_keys(resources, project_id))
    if not account_id and not keys:
        return None
    return AgentAccount(
        account.where if account_id else resources.where,
        project_id,
        found.text("status"),
        account_id,
        name,
        owned=bool(account_id) and _created_here(account, project_id) and name == AGENT_ACCOUNT_NAME,
        access_key_ids=tuple(key for key, ours in keys if ours),
        foreign_key_ids=tuple(key for key, ours in keys if not ours),
    )


def _agent_keys(resources: Fields, project_id: str) -> Iterator[tuple[str, bool]]:
    for key, _ in resources.children("access_keys"):
        entry = resources.entry("access_keys", key)
        yield key, _created_here(entry, project_id) and entry.text("id") == key


def _created_here(found: Fields, project_id: str) -> bool:
    return found.text("created_by") == NPA and found.text("project_id") == project_id
