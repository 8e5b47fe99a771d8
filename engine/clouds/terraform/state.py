"""What a Terraform state holds: ids and parents, and nothing of its secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from engine.words.presence import Cause
from engine.words.trouble import Trouble

STATE = "terraform_state"
"""The kind of a `Ref` to a state; its id is the lineage."""
CLUSTER_TYPE = "nebius_mk8s_v1_cluster"
CLUSTER_OUTPUT = "kube_cluster"

# Where ownership evidence stands in an instance's attributes. Nothing else leaves the state.
_EVIDENCE: Mapping[str, tuple[str, ...]] = {
    "parent_id": ("parent_id",),
    "cluster_id": ("cluster_id",),
    "name": ("name",),
    "member_id": ("member_id",),
    "service_account_id": ("account", "service_account", "id"),
    "deletion_protection": ("deletion_protection",),
}


@dataclass(frozen=True, slots=True)
class StateResource:
    """One managed instance. `id` is empty when the state gives none. `attrs`: parent_id, cluster_id, name, member_id,
    service_account_id, deletion_protection, as far as the instance has them."""

    address: str
    type: str
    name: str
    id: str
    attrs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateView:
    """A state. One that does not exist has no lineage, no resources, and serial 0.

    cluster_ids  sorted: the output `kube_cluster.id` and every instance of a cluster
    """

    lineage: str = ""
    serial: int = 0
    cluster_ids: tuple[str, ...] = ()
    resources: tuple[StateResource, ...] = ()

    @property
    def exists(self) -> bool:
        return bool(self.lineage)

    @property
    def fingerprint(self) -> str:
        """What makes it this very state: its lineage and the clusters in it. Not the serial, which a failed destroy moves."""
        return f"{self.lineage}:{','.join(self.cluster_ids)}"


def parse_state(text: str) -> StateView:
    """What `terraform state pull` printed. Nothing at all means that there is no state. Raises `Trouble(MALFORMED)`."""
    if not text.strip():
        return StateView()
    try:
        document: object = json.loads(text)
    except ValueError as error:
        raise Trouble(Cause.MALFORMED, f"the Terraform state is not JSON: {error}") from None
    match document:
        case {"version": 4, "lineage": str(lineage), "serial": int(serial), "resources": list(blocks)} if (
            lineage
        ):
            resources = tuple(r for block in blocks for r in _instances(block))
        case _:
            raise Trouble(
                Cause.MALFORMED,
                "the Terraform state lacks its lineage, its serial or its resources, or is not of version 4",
            )
    ids = {r.id for r in resources if r.type == CLUSTER_TYPE}
    match document:
        case {"outputs": {"kube_cluster": {"value": {"id": str(id)}}}}:
            ids.add(id)
    return StateView(lineage, serial, tuple(sorted(ids - {""})), resources)


def _instances(block: object) -> Iterator[StateResource]:
    match block:
        case {"mode": "data"}:
            return
        case {"mode": "managed", "type": str(type), "name": str(name), "instances": list(instances), **rest}:
            prefix = f"{rest['module']}." if rest.get("module") else ""
            for instance in instances:
                yield _instance(instance, type, name, f"{prefix}{type}.{name}")
        case _:
            raise Trouble(Cause.MALFORMED, "the Terraform state holds a resource that cannot be read")


def _instance(instance: object, type: str, name: str, address: str) -> StateResource:
    match instance:
        case {"attributes": dict(attributes), **rest}:
            key = rest.get("index_key")
            index = "" if key is None else f"[{json.dumps(key)}]"
            attrs = {what: value for what, path in _EVIDENCE.items() if (value := _dig(attributes, path))}
            return StateResource(address + index, type, name, _dig(attributes, ("id",)), attrs)
        case _:
            raise Trouble(
                Cause.MALFORMED, f"the Terraform state holds an instance of {address} that cannot be read"
            )


def _dig(value: object, path: tuple[str, ...]) -> str:
    for step in path:
        if not isinstance(value, dict):
            return ""
        value = value.get(step)
    if isinstance(value, bool):
        return "true" if value else ""
    return value if isinstance(value, str) else ""
