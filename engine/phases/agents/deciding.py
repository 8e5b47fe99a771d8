"""Whether an agent may go, and what goes with it: pure, from what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.phases.agents.planning import LABEL
from engine.phases.parts import Order, cannot_see, free, going_on, no_proof, unproven, without_phase
from engine.phases.shape import Cleared
from engine.words.plans import Evidence, Ownership, Part, Target
from engine.words.presence import Present, Ref, Resource
from engine.words.reasons import Reason, Refusal

ORDER: Order = {
    "instance": frozenset(),
    "disk": frozenset({"instance"}),
    "allocation": frozenset({"instance"}),
    "subnet": frozenset({"instance", "allocation"}),
    "security_group": frozenset({"instance", "subnet"}),
    "network": frozenset({"instance", "subnet", "security_group"}),
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the guard read.

    there      the planned parts, as they are now
    resources  the same, and all that they lead to: disks and addresses of the VM, its subnets, groups and networks
    labelled   what carries the operation's label
    namesakes  what has a name that the operation recorded without an id, and not its label
    preserved  ids in the operation's preserved Terraform state: it created them
    gaps       what could not be seen, in words
    """

    target: Target
    there: Mapping[Ref, Present]
    resources: Mapping[Ref, Resource] = field(default_factory=dict)
    labelled: tuple[Resource, ...] = ()
    namesakes: tuple[Resource, ...] = ()
    preserved: frozenset[str] = frozenset()
    gaps: tuple[str, ...] = ()

    def of_kind(self, kind: str) -> tuple[Resource, ...]:
        return tuple(r for r in self.resources.values() if r.ref.kind == kind)

    @property
    def proven(self) -> tuple[Resource, ...]:
        """The planned parts that are there."""
        return tuple(r for r in self.resources.values() if r.ref in self.there)

    @property
    def machines(self) -> tuple[Resource, ...]:
        """Its VMs: planned ones, and those that carry the label."""
        labelled = {r.ref for r in self.labelled}
        return tuple(r for r in self.of_kind("instance") if r.ref in self.there or r.ref in labelled)

    def askable(self) -> tuple[Ref, ...]:
        """What may be asked to go now. What goes along with its owner is not asked for; a default group does not hold its network."""
        going = {p.ref for p in (*self.target.parts, *found(self))}
        live = {
            ref: r.presence
            for ref, r in self.resources.items()
            if ref in going and r.attrs.get("default") != "1"
        }
        return tuple(ref for ref in free(live, ORDER) if not _goes_along(self.resources[ref]))


def _goes_along(resource: Resource) -> bool:
    attrs = resource.attrs
    match resource.ref.kind:
        case "disk":
            return bool(attrs.get("managed_by"))
        case "allocation":
            return attrs.get("static") != "1" and bool(attrs.get("used_by"))
        case _:
            return False


def decide(facts: Facts) -> Cleared[Facts] | Refusal:
    """An agent goes when every part of it is proven, is what was recorded, and may be deleted."""
    target = facts.target
    if missing := unproven(target, facts.there):
        return no_proof(missing, without_phase(target))
    if facts.gaps:
        return cannot_see("; ".join(facts.gaps), going_on(target))
    if wrong := _differs(facts):
        return Refusal(Reason.WRONG_IDENTITY, wrong, without_phase(target))
    parts = found(facts)
    going = {p.ref for p in (*target.parts, *parts)}
    disks = [d for d in facts.of_kind("disk") if d.ref in going]
    if kept := [d for d in disks if d.attrs.get("forbid_deletion") == "1"]:
        named = ", ".join(f"{d.name or 'disk'} ({d.ref.id})" for d in kept)
        return Refusal(
            Reason.CONTENT_HELD, f"protected from deletion at the provider: {named}", without_phase(target)
        )
    if strangers := [r for r in facts.namesakes if r.ref not in going]:
        named = ", ".join(f"{r.ref.kind} {r.name} ({r.ref.id})" for r in strangers)
        return Refusal(
            Reason.NOT_OWNED,
            f"{named} has a recorded name, but neither a recorded id nor the label of the operation: a name is no proof",
            without_phase(target),
        )
    return Cleared(facts, touches=_touches(facts, parts), found=parts)


def _differs(facts: Facts) -> str:
    """In what a live part differs from its record; empty when in nothing."""
    detail = facts.target.detail
    for vm in facts.machines:
        if vm.name != detail.get("vm_name", vm.name):
            return f"{vm.ref.id} is called {vm.name!r}, and was recorded as {detail['vm_name']!r}"
    for part in facts.proven:
        if part.parent != detail["project_id"]:
            return f"{part.ref.id} lies in {part.parent}, not in {detail['project_id']}"
        if _of_another_operation(facts, part):
            return f"{part.ref.id} carries the label of operation {part.labels[LABEL]}, not of {detail['operation_id']}"
    return ""


def _of_another_operation(facts: Facts, resource: Resource) -> bool:
    """Whether the provider shows another operation's label on it: then a record that names it, or a VM that has it attached, is wrong."""
    operation, label = facts.target.detail.get("operation_id", ""), resource.labels.get(LABEL, "")
    own = {operation, *facts.target.detail.get("elsewhere", "").split()}
    return bool(operation and label and label not in own)


def found(facts: Facts) -> tuple[Part, ...]:
    """What goes with the target and no record names by id, each with its proof."""
    target, parts = facts.target, dict[Ref, Part]()
    known = {p.ref for p in target.parts}

    def take(r: Resource | None, owned: Ownership) -> None:
        if r is not None and r.ref not in known:
            parts.setdefault(r.ref, Part(r.ref, r.name, owned))

    operation = target.detail.get("operation_id", "")
    record = f"operations/{operation}/journal.json"
    for r in facts.labelled:
        take(r, Ownership(Evidence.OPERATION_LABEL, record, f"label {LABEL}"))
    for r in facts.namesakes:
        if r.ref.id in facts.preserved:
            take(r, Ownership(Evidence.CREATE_RESPONSE, record, "local_state_copies"))
        elif r.ref in _reached(facts):
            take(r, Ownership(Evidence.PART_OF, record, f"resources: {r.name}"))
    ours = {r.ref.id for r in facts.machines}
    for vm in facts.machines:
        part_of = Ownership(Evidence.PART_OF, vm.ref.id, "attached disks")
        for disk in _named(facts, vm, "disk", "disks", "managed_disks"):
            if not _shared(disk, ours) and not _of_another_operation(facts, disk):
                take(disk, part_of)
        for address in _named(facts, vm, "allocation", "allocations"):
            if address.attrs.get("static") != "1":
                take(address, Ownership(Evidence.PART_OF, vm.ref.id, "network interfaces"))
    networks = {r.ref.id for r in facts.proven if r.ref.kind == "network"}
    networks |= {ref.id for ref in parts if ref.kind == "network"}
    for group in facts.of_kind("security_group"):
        network = group.attrs.get("network_id", "")
        if group.attrs.get("default") == "1" and network in networks:
            take(group, Ownership(Evidence.PART_OF, network, "default security group"))
    return tuple(parts.values())


def _named(facts: Facts, vm: Resource, kind: str, *attrs: str) -> tuple[Resource, ...]:
    """What a VM's attributes name, as far as it was read."""
    ids = [id for attr in attrs for id in vm.attrs.get(attr, "").split()]
    return tuple(r for id in dict.fromkeys(ids) if (r := facts.resources.get(Ref(kind, id))) is not None)


def _shared(disk: Resource, ours: set[str]) -> bool:
    """Whether another VM has the disk attached as well."""
    return bool(set(disk.attrs.get("attached_to", "").split()) - ours)


def _reached(facts: Facts) -> frozenset[Ref]:
    """What a proven VM leads to by ids: its disks, addresses, subnets, groups, and the networks of those subnets."""
    refs: set[Ref] = set()
    for vm in facts.machines:
        refs |= led_to(vm)
    refs |= {network_of(r) for r in facts.of_kind("subnet") if r.ref in refs and r.attrs.get("network_id")}
    return frozenset(refs)


def led_to(vm: Resource) -> frozenset[Ref]:
    """Ids in a VM's own description."""
    ways = {
        "disks": "disk",
        "managed_disks": "disk",
        "allocations": "allocation",
        "subnets": "subnet",
        "security_groups": "security_group",
    }
    return frozenset(Ref(kind, id) for attr, kind in ways.items() for id in vm.attrs.get(attr, "").split())


def network_of(subnet: Resource) -> Ref:
    return Ref("network", subnet.attrs.get("network_id", ""))


def _touches(facts: Facts, parts: tuple[Part, ...]) -> tuple[str, ...]:
    """What goes beside the plan, and what stays although the agent uses it."""
    known = {p.ref for p in (*facts.target.parts, *parts)}
    lines: list[str] = []
    for part in parts:
        resource = facts.resources.get(part.ref)
        size = resource.attrs.get("size_gib", "") if resource else ""
        what = part.ref.kind.replace("_", " ")
        lines.append(f"{what} {part.name or part.ref.id}{f', {size} GiB,' if size else ''} goes with it")
    for vm in facts.machines:
        stays = [d for d in _named(facts, vm, "disk", "disks") if d.ref not in known]
        lines += [
            f"! disk {d.name or d.ref.id} stays: "
            + (
                f"it carries the label of operation {d.labels[LABEL]}"
                if _of_another_operation(facts, d)
                else "another VM has it attached"
            )
            for d in stays
        ]
        reserved = [a for a in _named(facts, vm, "allocation", "allocations") if a.ref not in known]
        lines += [
            f"! address {a.attrs.get('ip') or a.ref.id} stays: reserved, in no record" for a in reserved
        ]
    return tuple(lines)
