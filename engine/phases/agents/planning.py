"""From records to targets: one for each deployment of an agent, from its operation, its configuration, or a receipt.

An operation journal says what was created. Where it knows things by name only, the target has one part more: whatever in the project
carries the operation's label. It is gone when complete listings show nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.home.operations import OWNERSHIPS
from engine.home.receipts import Receipt
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part, PhasePlan, Target
from engine.words.presence import Ref

if TYPE_CHECKING:
    from engine.home.operations import Journal
    from engine.home.records import Records

LABEL = "npa-operation-id"
"""Label that a deployment puts on what it creates: the id of its operation."""

TRACES = "agent_operation"
"""Kind of a part whose id is an operation: all that carries its label, or a recorded name without a recorded id."""

KINDS: Mapping[str, str] = {
    "compute_instance": "instance",
    "boot_disk": "disk",
    "data_disk": "disk",
    "disk": "disk",
    "public_ip": "allocation",
    "subnet": "subnet",
    "security_group": "security_group",
    "network": "network",
}
"""An operation's word for a resource -> the provider's kind. Accounts and keys of the same operation are another phase's."""

_CREATED, _NO_CLAIM = OWNERSHIPS[0], ""
_SETTLED = frozenset({"committed", "state-durable"})


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that an operation recorded. Without an id it is known by its name alone."""

    kind: str
    id: str
    name: str
    owned: Ownership
    generation: int = 1


@dataclass(frozen=True, slots=True)
class Deployment:
    """One operation that deployed an agent. `settled`: it came to its end; `ended`: what it made was taken away again."""

    id: str
    alias: str
    agent: str
    rows: tuple[Row, ...]
    updated: str = ""
    settled: bool = True
    ended: bool = False

    @property
    def instances(self) -> tuple[str, ...]:
        """Ids of its VMs, the newest first."""
        rows = sorted((r for r in self.rows if r.kind == "instance" and r.id), key=lambda r: -r.generation)
        return tuple(dict.fromkeys(r.id for r in rows))

    @property
    def nameless(self) -> tuple[Row, ...]:
        """What it created and could not name by id."""
        return tuple(r for r in self.rows if not r.id and r.owned)


@dataclass(frozen=True, slots=True)
class Named:
    """One agent as a configuration or a receipt names it: an instance without a proof of its own."""

    alias: str
    agent: str
    instance: str
    configured: bool


def plan_agents(records: Records) -> PhasePlan:
    """Every deployment that was not taken away, and every instance that is only named."""
    named = tuple(_named(records))
    deployments = tuple(_deployments(records))
    configured = {n.instance for n in named if n.configured}
    live = [d for d in deployments if not d.ended or configured & set(d.instances)]
    live.sort(key=lambda d: (d.updated, d.id))
    covered = {id for d in deployments for id in d.instances}
    targets = [_of_deployment(records, d, deployments) for d in live]
    lone: dict[str, Named] = {}
    for n in named:
        if n.instance and n.instance not in covered:
            lone.setdefault(n.instance, n)
    targets += [_of_instance(records, n) for n in lone.values()]
    targets += [_of_record(records, n) for n in named if _empty(n, deployments)]
    targets = _with_folders(records, targets, named)
    unread = tuple(str(p) for p in records.problems_of("config", "operations"))
    return PhasePlan("agents", tuple(targets), unread=unread)


def _empty(n: Named, deployments: Iterable[Deployment]) -> bool:
    """A configured agent without an instance, of which no operation knows either."""
    return n.configured and not n.instance and all(d.agent != n.agent for d in deployments)


def _named(records: Records) -> Iterator[Named]:
    for stanza in records.stanzas:
        for agent in stanza.agents:
            yield Named(stanza.alias, agent.name, agent.instance_id, configured=True)
    for receipt in records.receipts:
        for row in receipt.identities("agents"):
            instance, name, project = (_text(row, f) for f in ("instance_id", "agent_name", "project_id"))
            if not instance or (project or receipt.project_id) != records.project_id:
                continue
            ended = (records.receipt_states.get(("agent", key)) for key in (instance, name) if key)
            # A receipt that reports its end names it as history; whatever is there all the same is seen by the audit.
            if not any(state and state.terminal for state in ended):
                yield Named(receipt.project_alias, name, instance, configured=False)


def _deployments(records: Records) -> Iterator[Deployment]:
    """Operations of the journals, and those that only a receipt remembers."""
    known: set[str] = set()
    for journal in records.journals:
        if journal.resource_type == "agent":
            known.add(journal.operation_id)
            yield _of_journal(journal, records.project_id)
    for receipt in records.receipts:
        for number, row in enumerate(receipt.identities("operations")):
            id = _text(row, "operation_id")
            if not id or id in known or _text(row, "resource_type") != "agent":
                continue
            if (_text(row, "project_id") or receipt.project_id) != records.project_id:
                continue
            known.add(id)
            yield _of_receipt(receipt, number, id, row)


def _of_journal(journal: Journal, project_id: str) -> Deployment:
    rows = [
        Row(kind, made.provider_id, made.requested_name, _proof(made.ownership, made.labels.get(LABEL) == journal.operation_id, journal.record, made.field), made.generation)
        for made in journal.resources
        if (kind := KINDS.get(made.resource_type))
        and made.project_id in ("", project_id)
        and made.ownership in (_CREATED, _NO_CLAIM)
    ]  # fmt: skip
    return Deployment(
        journal.operation_id,
        journal.project_alias,
        journal.requested_name,
        tuple(rows),
        journal.updated_at,
        journal.phase in _SETTLED,
        journal.phase == "destroyed" or (journal.phase == "rolled-back" and journal.rollback_completed),
    )


def _of_receipt(receipt: Receipt, number: int, id: str, row: Mapping[str, object]) -> Deployment:
    record, field = f"teardown-receipts/{receipt.path.name}", f"identity.operations[{number}].resources"
    made = row.get("resources")
    rows: list[Row] = []
    for index, item in enumerate(made if isinstance(made, list) else ()):
        kind = KINDS.get(_text(item, "resource_type")) if isinstance(item, Mapping) else None
        ownership = _text(item, "ownership") if isinstance(item, Mapping) else ""
        if kind and ownership in (_CREATED, _NO_CLAIM):
            proof = _proof(ownership, False, record, f"{field}[{index}]")
            rows.append(Row(kind, _text(item, "provider_id"), _text(item, "requested_name"), proof))
    alias = _text(row, "project_alias") or receipt.project_alias
    return Deployment(id, alias, _text(row, "requested_name"), tuple(rows))


def _proof(ownership: str, labelled: bool, record: str, field: str) -> Ownership:
    if ownership != _CREATED:
        return NOT_PROVEN
    return Ownership(Evidence.OPERATION_LABEL if labelled else Evidence.CREATE_RESPONSE, record, field)


def _text(row: Mapping[str, object], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _of_deployment(records: Records, d: Deployment, others: Iterable[Deployment]) -> Target:
    parts = [Part(Ref(r.kind, r.id), r.name, r.owned) for r in d.rows if r.id]
    nameless = {f"{r.kind}/{r.name}" for r in d.nameless if r.name}
    if not d.instances:
        nameless.add(f"instance/{_vm(d.alias, d.agent)}")
    if not d.instances or d.nameless or not d.settled:
        traces = Ownership(Evidence.OPERATION_LABEL, f"operations/{d.id}/journal.json", "operation_id")
        parts.append(Part(Ref(TRACES, d.id), "what its operation labelled", traces))
    namesakes = [o for o in others if o.id != d.id and o.agent == d.agent]
    elsewhere = {o.id for o in namesakes} | {r.id for o in namesakes for r in o.rows if r.id}
    detail = {
        **_detail(records, d.alias, d.agent),
        "operation_id": d.id,
        "vm_name": next((r.name for r in d.rows if r.kind == "instance" and r.name), _vm(d.alias, d.agent)),
        "nameless": " ".join(sorted(n for n in nameless if len(n.split()) == 1)),
        "elsewhere": " ".join(sorted(elsewhere)),
    }
    id = d.instances[0] if d.instances else d.id
    return Target(f"agents/{id}", d.agent, _once(parts), _said(detail))


def _of_instance(records: Records, n: Named) -> Target:
    part = Part(Ref("instance", n.instance), _vm(n.alias, n.agent), NOT_PROVEN)
    detail = {**_detail(records, n.alias, n.agent), "vm_name": _vm(n.alias, n.agent)}
    return Target(f"agents/{n.instance}", n.agent or n.instance, (part,), _said(detail))


def _of_record(records: Records, n: Named) -> Target:
    """An agent that is only a name: nothing is known to exist, and a VM of that name would be nobody's."""
    part = Part(Ref(TRACES, n.agent), n.agent, NOT_PROVEN)
    detail = {**_detail(records, n.alias, n.agent), "nameless": f"instance/{_vm(n.alias, n.agent)}"}
    return Target(f"agents/{n.agent}", n.agent, (part,), _said(detail))


def _detail(records: Records, alias: str, agent: str) -> dict[str, str]:
    return {
        "alias": records.alias,
        "project_id": records.project_id,
        "agent_alias": alias,
        "agent_name": agent,
    }


def _with_folders(records: Records, targets: Iterable[Target], named: Iterable[Named]) -> list[Target]:
    """Mark, for each name, the one target that the local record and folders of that name belong to: the configured one, else the last."""
    rows = list(targets)
    configured = {(n.alias, n.agent): n.instance for n in named if n.configured}
    owners: dict[tuple[str, str], str] = {}
    for target in rows:
        who = (target.detail.get("agent_alias", ""), target.detail.get("agent_name", ""))
        instance = configured.get(who, "")
        holds = any(p.ref == ("instance", instance) for p in target.parts)
        if who[0] in records.aliases and (holds or not instance or who not in configured):
            owners[who] = target.key
    return [replace(t, detail={**t.detail, "local": "1"}) if t.key in owners.values() else t for t in rows]


def _vm(alias: str, agent: str) -> str:
    """What the CLI calls an agent's VM."""
    return f"agent-{alias}-{agent}"


def _once(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Each part once, with the first proof of it."""
    found: dict[Ref, Part] = {}
    for part in parts:
        known = found.get(part.ref)
        if known is None or (part.owned and not known.owned):
            found[part.ref] = part
    return tuple(found.values())


def _said(detail: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in detail.items() if value}
