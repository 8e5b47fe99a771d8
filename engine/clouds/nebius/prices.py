"""What resources cost per hour, from the provider's billing calculator. An estimate is a read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engine.clouds.nebius.attributes import GIB, text
from engine.clouds.nebius.connection import Connection
from engine.clouds.nebius.failures import Missing
from engine.clouds.nebius.kinds import KINDS
from engine.words.presence import Cause, Ref, Resource, Unknown
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from nebius.aio.request import Request
    from nebius.aio.request_kwargs import RequestKwargs
    from nebius.api.nebius.billing.v1alpha1 import ResourceSpec
    from nebius.api.nebius.compute.v1 import DiskSpec, FilesystemSpec
    from nebius.sdk import SDK

Spec = tuple[str, ...]
"""What a price depends on: the kind, the parent (it decides the region), then what `_SPECS` says for the kind."""


class PricesUnknown(Exception):
    """The calculator could not be asked."""

    def __init__(self, gap: Unknown) -> None:
        super().__init__(gap.detail)
        self.gap = gap


async def prices(connection: Connection, resources: Sequence[Resource]) -> Mapping[Ref, float | None]:
    """USD per hour of each resource that is there; None for one whose price the calculator does not know.

    Things of one shape are asked for once. Raises `PricesUnknown` when the calculator cannot be asked.
    """
    specs = {resource.ref: spec_of(resource) for resource in resources}
    asked = list(dict.fromkeys(spec for spec in specs.values() if spec))
    if not asked:
        return dict.fromkeys(specs)
    try:
        await connection.load("billing.v1alpha1")
    except Trouble as trouble:
        raise PricesUnknown(trouble.unknown) from trouble
    # Not a TaskGroup: the first failure must come out as itself, with the rest awaited.
    answers = await asyncio.gather(*(_estimate(connection, spec) for spec in asked), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, Trouble):
            raise PricesUnknown(answer.unknown) from answer
        if isinstance(answer, BaseException):
            raise answer
    known = {spec: answer for spec, answer in zip(asked, answers, strict=True) if isinstance(answer, float)}
    return {ref: known.get(spec) if spec else None for ref, spec in specs.items()}


def spec_of(resource: Resource) -> Spec | None:
    """What the price of a resource depends on, or None for one that the calculator does not quote: kinds without a price
    of their own, and instances at spot prices, which change."""
    row = KINDS.get(resource.ref.kind)
    attrs = resource.attrs
    if row is None or not row.quote or attrs.get("spot"):
        return None
    if row.quote == "compute_instance_spec":
        shape: tuple[str, ...] = (
            attrs.get("platform", ""),
            attrs.get("preset", ""),
            attrs.get("preemptible", ""),
        )
        complete = bool(shape[0])
    else:
        shape = (attrs.get("type", ""), attrs.get("size_gib", ""))
        # A type that is newer than this SDK cannot be asked for.
        complete = bool(shape[1]) and not shape[0].startswith("UNRECOGNIZED")
    return (resource.ref.kind, resource.parent, *shape) if complete else None


async def _estimate(connection: Connection, spec: Spec) -> float | None:
    def make(sdk: SDK, options: RequestKwargs) -> Request[object, object]:
        from nebius.api.nebius.billing.v1alpha1 import CalculatorServiceClient, EstimateRequest, OfferType

        request = EstimateRequest(
            resource_spec=_resource_spec(spec), offer_types=[OfferType.OFFER_TYPE_CONTRACT_PRICE]
        )
        return CalculatorServiceClient(sdk).estimate(request, **options)  # type: ignore[return-value]

    try:
        answer = await connection.call(make, f"price of a {spec[0]}")
    except Missing:
        return None
    except Trouble as trouble:
        # Refused for what was asked (a platform or size that has no price), not for who asks or how it goes.
        if trouble.cause is Cause.MALFORMED and trouble.detail.startswith("INVALID_ARGUMENT"):
            return None
        raise
    cost = text(answer.message, "hourly_cost.general.total.cost")
    try:
        return float(cost) if cost else None
    except ValueError:
        return None


def _resource_spec(spec: Spec) -> ResourceSpec:
    """The creation request that would make such a thing: the calculator prices requests."""
    from nebius.api.nebius.billing.v1alpha1 import ResourceSpec
    from nebius.api.nebius.common.v1 import ResourceMetadata
    from nebius.api.nebius.compute import v1

    kind, parent, *shape = spec
    metadata = ResourceMetadata(parent_id=parent)
    if kind == "instance":
        platform, preset, preemptible = shape
        instance = v1.InstanceSpec(resources=v1.ResourcesSpec(platform=platform, preset=preset))
        if preemptible:
            instance.preemptible = v1.PreemptibleSpec()
        return ResourceSpec(compute_instance_spec=v1.CreateInstanceRequest(metadata=metadata, spec=instance))
    type_name, gib = shape
    if kind == "disk":
        disk = v1.DiskSpec(type=getattr(v1.DiskSpec.DiskType, type_name or "UNSPECIFIED"))
        _set_size(disk, gib)
        return ResourceSpec(compute_disk_spec=v1.CreateDiskRequest(metadata=metadata, spec=disk))
    filesystem = v1.FilesystemSpec(type=getattr(v1.FilesystemSpec.FilesystemType, type_name or "UNSPECIFIED"))
    _set_size(filesystem, gib)
    return ResourceSpec(
        compute_filesystem_spec=v1.CreateFilesystemRequest(metadata=metadata, spec=filesystem)
    )


def _set_size(spec: DiskSpec | FilesystemSpec, gib: str) -> None:
    if gib.isdigit():
        spec.size_gibibytes = int(gib)
    else:
        spec.size_bytes = round(float(gib) * GIB)
