"""A provider in memory for the phases that remove agents, accounts and buckets, and records laid from plain documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from engine.home.records import Records, gather
from engine.home.roots import Roots, roots
from engine.words.intents import Intent
from engine.words.plans import Evidence, Ownership, Part, Target
from engine.words.presence import Absent, Cause, Listing, Observation, Present, Ref, Resource, Unknown

PROJECT, TENANT = "project-e00demo", "tenant-e00demo"
OURS = Ownership(Evidence.CREATE_RESPONSE, "credentials.yaml", "somewhere")


def thing(kind: str, id: str, name: str = "", parent: str = PROJECT, **attrs: str) -> Resource:
    labels = {"npa-operation-id": attrs.pop("label")} if "label" in attrs else {}
    return Resource(Ref(kind, id), name, parent, Present(f"{id}@1", "ACTIVE"), "", labels, attrs)


def part(kind: str, id: str, name: str = "", owned: Ownership = OURS) -> Part:
    return Part(Ref(kind, id), name, owned)


def target(key: str, *parts: Part, **detail: str) -> Target:
    said = {"alias": "demo", "project_id": PROJECT, **detail}
    return Target(key, key.partition("/")[2], parts, said)


def there(*parts: Part) -> dict[Ref, Present]:
    return {p.ref: Present(f"{p.ref.id}@1") for p in parts}


@dataclass
class Who:
    id: str


@dataclass
class Cloud:
    """What the provider has. `blind`: ids and kinds that answer with this cause."""

    things: dict[Ref, Resource] = field(default_factory=dict)
    blind: dict[str, Cause] = field(default_factory=dict)
    me: str = "useraccount-e00me"
    log: list[str] = field(default_factory=list)

    def put(self, *resources: Resource) -> None:
        self.things |= {r.ref: r for r in resources}

    async def whoami(self) -> Who:
        return Who(self.me)

    async def look(self, ref: Ref, parent: str = "") -> Observation:
        return (await self.get(ref))[0]

    async def get(self, ref: Ref, *, expected_parent: str = "") -> tuple[Observation, Resource | None]:
        if cause := self.blind.get(ref.id):
            return Observation(ref, Unknown(cause), "t", "cloud"), None
        found = self.things.get(ref)
        return Observation(ref, found.presence if found else Absent(), "t", "cloud"), found

    async def list(self, kind: str, parent: str) -> Listing:
        gap = Unknown(self.blind[kind]) if kind in self.blind else None
        below = {"account_id", "network_id"}
        items = tuple(
            r
            for r in self.things.values()
            if r.ref.kind == kind and (r.parent == parent or any(r.attrs.get(a) == parent for a in below))
        )
        return Listing(items, gap, "t", "cloud")

    async def delete(self, intent: Intent, *, purge_after: float | None = None) -> None:
        self.log.append(intent.ref.id)
        self.things.pop(intent.ref, None)


def lay(
    folder: Path,
    *,
    config: Mapping[str, Any] | None = None,
    credentials: Mapping[str, Any] | None = None,
    journals: Mapping[str, Mapping[str, Any]] | None = None,
    receipts: Mapping[str, Mapping[str, Any]] | None = None,
) -> Roots:
    """A home with these documents."""
    folder.mkdir(exist_ok=True)
    r = roots({"HOME": str(folder)})

    def write(path: Path, text: str) -> None:
        for parent in reversed([p for p in path.parents if p.is_relative_to(r.home)]):
            parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)

    if config is not None:
        write(r.config_yaml, yaml.safe_dump(dict(config), sort_keys=False))
    if credentials is not None:
        write(r.credentials_yaml, yaml.safe_dump(dict(credentials), sort_keys=False))
    for id, journal in (journals or {}).items():
        base = {
            "schema_version": "npa.provisioning.operation.v2",
            "operation_id": id,
            "phase": "committed",
            "resources": [],
        }
        write(r.operations / id / "journal.json", json.dumps({**base, "project_id": PROJECT, "project_alias": "demo", **journal}))  # fmt: skip
    for id, receipt in (receipts or {}).items():
        base = {
            "schema_version": "npa.teardown.receipt.v2",
            "receipt_id": id,
            "events": [],
            "project_id": PROJECT,
        }
        write(r.receipts / f"{id}.json", json.dumps({**base, **receipt}))
    return r


def records(r: Roots) -> Records:
    return gather(r, PROJECT, "demo")


def stanza(**more: Any) -> dict[str, Any]:
    return {"projects": {"demo": {"project_id": PROJECT, "tenant_id": TENANT, "region": "eu-north1", **more}}}


def made(kind: str, id: str, name: str = "", **more: Any) -> dict[str, Any]:
    """A row of an operation journal that was created by it."""
    row = {
        "resource_type": kind, "provider_id": id, "requested_name": name, "project_id": PROJECT,
        "ownership": "created_by_this_operation", "ownership_source": "storage-provider-create-callback",
    }  # fmt: skip
    return {**row, **more}


def gone(t: Target) -> tuple[Observation, ...]:
    """A proof that all of a target is gone."""
    return tuple(Observation(p.ref, Absent(), "t", "cloud") for p in t.parts) * 2


def leaving(resource: Resource, due: str = "") -> Resource:
    return replace(resource, presence=replace(resource.presence, leaving=True, due=due))
