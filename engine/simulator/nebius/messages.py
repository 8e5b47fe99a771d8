"""From our documents to the wire: resources, pages, operations and refusals as the SDK's own messages."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from engine.simulator.kinds import BY_SERVICE, KINDS
from engine.simulator.resources import Operation, Refusal, Resource

_OTHERS = (
    "nebius.iam.v1.ProfileService",
    "nebius.billing.v1.CalculatorService",
    "nebius.billing.v1alpha1.CalculatorService",
    "nebius.common.v1.OperationService",
)


def api(package: str) -> Any:
    """A package of the SDK, such as `compute.v1`."""
    return importlib.import_module(f"nebius.api.nebius.{package}")


@functools.cache
def methods() -> Mapping[str, tuple[Any, Any]]:
    """`nebius.storage.v1.BucketService/Get` -> classes of request and answer."""
    found: dict[str, tuple[Any, Any]] = {}
    for full in sorted({*BY_SERVICE, *_OTHERS}):
        package, _, service = full.removeprefix("nebius.").rpartition(".")
        client = getattr(api(package), f"{service}Client")
        registry = client.__registry__
        for method in client.get_descriptor().methods:
            found[f"{full}/{method.name}"] = (
                registry.message_class(method.input_type.full_name),
                registry.message_class(method.output_type.full_name),
            )
    return found


@functools.cache
def message_class(kind: str) -> Any:
    return getattr(api(KINDS[kind].package), KINDS[kind].service)


def wire(r: Resource) -> bytes:
    """A resource, encoded once for as long as it does not change: the SDK's codec is slow."""
    if r.wire is None:
        from nebius.base.protos.json_format import parse_dict

        r.wire = bytes(parse_dict(r.doc, message_class(r.kind)()).SerializeToString())
    return r.wire


@functools.cache
def _tag(answer_class: Any, items: str, item_class: Any) -> bytes:
    """What stands before the length of each item: an answer with one empty item is that tag and a zero."""
    return bytes(answer_class(**{items: [item_class()]}).SerializeToString())[:-1]


def page(answer_class: Any, items: str, kind: str, rows: Sequence[Resource], token: str) -> bytes:
    """A page of a listing. `items`: the field that holds them."""
    tag = _tag(answer_class, items, message_class(kind))
    parts = [tag + _varint(len(body)) + body for body in map(wire, rows)]
    rest = answer_class(next_page_token=token).SerializeToString() if token else b""
    return b"".join(parts) + bytes(rest)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def operation(o: Operation) -> Any:
    """An operation: over when it has a status."""
    from nebius.api.google.rpc import Status

    made = api("common.v1").Operation(
        id=o.id,
        description=o.description,
        created_at=o.created_at,
        created_by="useraccount-e00simulated",
        resource_id=o.resource_id,
    )
    if o.finished_at is not None:
        made.finished_at = o.finished_at
        made.status = Status(code=grpc.StatusCode[o.code].value[0], message=o.message)
    return made


def details(service: str, no: Refusal) -> tuple[tuple[str, str | bytes], ...]:
    """The structured error beside a gRPC status, as trailing metadata; code and message must be the same in both."""
    from nebius.api.google.rpc import Status

    common = api("common.v1")
    retry = common.ServiceError.RetryType.NOTHING
    detail: dict[str, Any] = {}
    match no.code:
        case "NOT_FOUND":
            detail["resource_not_found"] = common.ResourceNotFound(resource_id=no.id)
        case "FAILED_PRECONDITION":
            detail["bad_resource_state"] = common.BadResourceState(resource_id=no.id, message=str(no))
        case "ABORTED":
            detail["operation_conflict"] = common.OperationConflict(
                conflicting_operation_id=no.operation, resource_id=no.id
            )
        case "PERMISSION_DENIED":
            detail["permission_denied"] = common.PermissionDenied(resource_id=no.id)
        case "RESOURCE_EXHAUSTED":
            detail["too_many_requests"] = common.TooManyRequests(violation=str(no))
            retry = common.ServiceError.RetryType.CALL
    error = common.ServiceError(service=service, code=no.code, retry_type=retry, **detail)
    packed = common.ServiceError.__REGISTRY__.pack_any(error)
    code = grpc.StatusCode[no.code].value[0]
    rich = Status(code=code, message=str(no), details=[packed]).SerializeToString()
    return (("grpc-status-details-bin", bytes(rich)),)
