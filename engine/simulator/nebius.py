"""The provider's gRPC services, made from the SDK's own descriptors: there are no servicer stubs in it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import importlib
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import grpc.aio

from engine.simulator.cloud import Cloud, Operation, Refusal, Resource
from engine.simulator.faults import Timetable
from engine.simulator.kinds import KINDS, Kind, at

SERVER_OPTIONS = (
    # The SDK pings every 20 s also without calls; a default server hangs up on that.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
)
LIST_METHODS = ("List", "ListMembers", "ListMemberOf", "ListByNetwork", "ListBySubnet", "ListByAccount")
ENVELOPE = ("iam.v1.ProfileService", "billing.v1alpha1.CalculatorService", "common.v1.OperationService")

Answer = Callable[[Any, Any, Any], Awaitable[Any]]


def api(package: str) -> Any:
    return importlib.import_module(f"nebius.api.nebius.{package}")


@functools.cache
def methods() -> dict[str, tuple[Any, Any]]:
    """`nebius.storage.v1.BucketService/Get` -> classes of request and answer."""
    found: dict[str, tuple[Any, Any]] = {}
    names = {f"{k.package}.{k.service}Service" for k in KINDS.values()} | set(ENVELOPE)
    for full in sorted(names):
        package, _, service = full.rpartition(".")
        client = getattr(api(package), f"{service}Client")
        descriptor, registry = client.get_descriptor(), client.__registry__
        for m in descriptor.methods:
            found[f"{descriptor.full_name}/{m.name}"] = (
                registry.message_class(m.input_type.full_name),
                registry.message_class(m.output_type.full_name),
            )
    return found


def kind_of_service(service: str) -> Kind | None:
    return next((k for k in KINDS.values() if service.endswith(f".{k.package}.{k.service}Service")), None)


class Services(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """All services on one port. Every request is logged; faults come from the timetable."""

    def __init__(self, cloud: Cloud, timetable: Timetable) -> None:
        self._cloud = cloud
        self._timetable = timetable

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:  # type: ignore[type-arg]
        path = details.method.removeprefix("/")
        if path not in methods():
            return None
        request_class, answer_class = methods()[path]

        async def behave(request: Any, context: Any) -> Any:
            return await self._serve(path, request, context, answer_class)

        return grpc.unary_unary_rpc_method_handler(
            behave,
            request_deserializer=request_class.FromString,
            response_serializer=lambda a: a if isinstance(a, bytes) else a.SerializeToString(),
        )

    async def _serve(self, path: str, request: Any, context: Any, answer_class: Any) -> Any:
        service, _, method = path.rpartition("/")
        call = f"{service.rpartition('.')[2]}/{method}"
        headers = {k.lower(): str(v) for k, v in context.invocation_metadata() or ()}
        subject = _subject(request)
        entry = {
            "service": "nebius", "call": call, "subject": subject, "at": datetime.now(UTC).isoformat(), "code": "OK",
            "key": headers.get("x-idempotency-key", ""), "principal": "token" if headers.get("authorization") else "",
        }  # fmt: skip
        self._cloud.log.append(entry)
        await context.send_initial_metadata(
            (("x-request-id", f"req-{uuid.uuid4().hex[:12]}"), ("x-trace-id", uuid.uuid4().hex[:16]))
        )
        fault = await self._timetable.meet("nebius", call, subject)
        if fault is not None:
            entry["code"] = f"fault:{fault.kind}"
            if fault.kind == "hang":
                await self._timetable.hang(fault)
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection hung")
            if fault.kind == "drop":
                await context.abort(grpc.StatusCode.UNAVAILABLE, "connection reset by peer")
            await context.abort(grpc.StatusCode[str(fault.status)], fault.message or "injected fault")
        if headers.get("authorization") != f"Bearer {self._cloud.token}":
            entry["code"] = "UNAUTHENTICATED"
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is not valid")
        try:
            return await self._answer(service, method, request, answer_class, headers)
        except Refusal as no:
            entry["code"] = no.code
            await _abort(context, service, no)

    async def _answer(
        self, service: str, method: str, request: Any, answer_class: Any, headers: dict[str, str]
    ) -> Any:
        if service.endswith("ProfileService"):
            return self._profile(answer_class)
        if service.endswith("CalculatorService"):
            return self._estimate(request, answer_class)
        if service.endswith("OperationService"):
            return self._operations(method, request, answer_class)
        kind = kind_of_service(service)
        if kind is None:
            raise Refusal("UNIMPLEMENTED", f"{service}/{method}")
        key = headers.get("x-idempotency-key", "")
        match method:
            case "Get":
                return _message(self._cloud.get(kind.name, request.id), answer_class)
            case "GetByName":
                return _message(self._by_name(kind, request), answer_class)
            case "Delete":
                return self._delete(kind, request, answer_class, key)
            case "Purge":
                return _operation(self._cloud.purge(request.id), answer_class)
            case _ if method in LIST_METHODS:
                return self._list(kind, method, request, answer_class)
        raise Refusal("UNIMPLEMENTED", f"{service}/{method}")

    def _by_name(self, kind: Kind, request: Any) -> Resource:
        for r in self._cloud.listed(kind.name, lambda r: r.hidden_since is None):
            if (r.name, r.parent) == (request.name, request.parent_id):
                return r
        raise Refusal("NOT_FOUND", f"{kind.name} {request.name!r} not found", request.name)

    def _delete(self, kind: Kind, request: Any, answer_class: Any, key: str) -> Any:
        ttl: timedelta | None = None
        if kind.name == "bucket":
            which = request.which_field_in_oneof("purge")
            ttl = (
                request.ttl
                if which == "ttl"
                else request.purge_at - datetime.now(UTC)
                if which == "purge_at"
                else None
            )
        if kind.name == "project" and request.dry_run:
            return _operation(
                Operation(
                    "operation-dryrun",
                    "project",
                    request.id,
                    "dry run",
                    datetime.now(UTC),
                    datetime.now(UTC),
                    "OK",
                ),
                answer_class,
            )
        return _operation(self._cloud.delete(kind.name, request.id, key, ttl), answer_class)

    def _list(self, kind: Kind, method: str, request: Any, answer_class: Any) -> Any:
        keep = self._filter(kind, method, request)
        rows = self._cloud.listed("group" if method == "ListMemberOf" else kind.name, keep)
        if request.page_token:
            try:
                after = base64.urlsafe_b64decode(request.page_token.encode()).decode()
            except (binascii.Error, ValueError):
                raise Refusal("INVALID_ARGUMENT", "bad page_token") from None
            rows = [r for r in rows if r.id > after]
        size = min(request.page_size or 10, self._cloud.world.page_size)
        page, more = rows[:size], len(rows) > size
        answer = answer_class()
        field = "items" if method == "ListMemberOf" else KINDS[kind.name].list_field
        item_class = self._item_class("group" if method == "ListMemberOf" else kind.name)
        getattr(answer, field).extend([_message(r, item_class) for r in page])
        if more:
            answer.next_page_token = base64.urlsafe_b64encode(page[-1].id.encode()).decode()
        return answer

    def _filter(self, kind: Kind, method: str, request: Any) -> Callable[[Resource], bool]:
        match method:
            case "ListByNetwork":
                return lambda r: at(r.doc, "spec", "networkId") == request.network_id
            case "ListBySubnet":
                return lambda r: at(r.doc, "status", "details", "subnetId") == request.subnet_id
            case "ListByAccount":
                account = request.account.service_account.id
                return lambda r: at(r.doc, "spec", "account", "serviceAccount", "id") == account
            case "ListMemberOf":
                groups = {
                    r.parent
                    for r in self._cloud.listed(
                        "groupmembership", lambda r: at(r.doc, "spec", "memberId") == request.subject_id
                    )
                }
                return lambda r: r.id in groups
        if kind.name == "tenant":
            return lambda r: True
        if not request.parent_id:
            raise Refusal("INVALID_ARGUMENT", "parent_id is required")
        return lambda r: r.parent == request.parent_id

    @staticmethod
    @functools.cache
    def _item_class(kind: str) -> Any:
        k = KINDS[kind]
        return getattr(api(k.package), k.service)

    def _profile(self, answer_class: Any) -> Any:
        from nebius.base.protos.json_format import parse_dict

        tenants = [{"tenantId": r.id} for r in self._cloud.listed("tenant", lambda r: True)]
        doc = {
            "userProfile": {
                "id": "useraccount-e00simulated",
                "attributes": {"email": "operator@example", "name": "operator"},
                "tenants": tenants,
            }
        }
        return parse_dict(doc, answer_class(), ignore_unknown_fields=True)

    def _estimate(self, request: Any, answer_class: Any) -> Any:
        from nebius.base.protos.json_format import parse_dict

        prices, spec = self._cloud.world.prices, request.resource_spec
        which = spec.which_field_in_oneof("resource_spec") or ""
        price: float | None = None
        if which.startswith("compute_instance"):
            resources = spec.compute_instance_spec.spec.resources
            price = prices.get(f"{resources.platform}/{resources.preset}", prices.get(resources.platform))
        elif which.startswith("compute_disk"):
            price = prices.get("disk_gib", 0.0001) * (spec.compute_disk_spec.spec.size_gibibytes or 0)
        if price is None:
            raise Refusal("INVALID_ARGUMENT", "this resource has no price")
        doc = {
            "hourlyCost": {"general": {"total": {"cost": f"{price:.4f}"}}},
            "monthlyCost": {"general": {"total": {"cost": f"{price * 730:.2f}"}}},
        }
        return parse_dict(doc, answer_class(), ignore_unknown_fields=True)

    def _operations(self, method: str, request: Any, answer_class: Any) -> Any:
        if method == "Get":
            found = self._cloud.operations.get(request.id)
            if found is None:
                raise Refusal("NOT_FOUND", f"operation {request.id} not found", request.id)
            return _operation(found, answer_class)
        if method == "List":
            item = api("common.v1").Operation
            return answer_class(
                operations=[
                    _operation(o, item)
                    for o in self._cloud.operations.values()
                    if o.resource_id == request.resource_id
                ]
            )
        raise Refusal("UNIMPLEMENTED", method)


def _subject(request: Any) -> str:
    for name in ("id", "parent_id", "network_id", "subnet_id", "subject_id", "resource_id", "name"):
        value = getattr(request, name, None)
        if isinstance(value, str) and value:
            return value
    return ""


def _message(r: Resource, cls: Any) -> Any:
    from nebius.base.protos.json_format import parse_dict

    return parse_dict(r.doc, cls())


def _operation(o: Operation, cls: Any) -> Any:
    from nebius.api.google.rpc import Status

    made = cls(
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


async def _abort(context: Any, service: str, no: Refusal) -> None:
    """Abort with the structured detail that the SDK decodes; code and message must be the same in both."""
    from nebius.api.google.rpc import Status

    common, code = api("common.v1"), grpc.StatusCode[no.code]
    detail: dict[str, Any] = {}
    if no.code == "NOT_FOUND":
        detail["resource_not_found"] = common.ResourceNotFound(resource_id=no.id)
    elif no.code == "FAILED_PRECONDITION":
        detail["bad_resource_state"] = common.BadResourceState(resource_id=no.id, message=no.message)
    error = common.ServiceError(
        service=service, code=no.code, retry_type=common.ServiceError.RetryType.NOTHING, **detail
    )
    packed = common.ServiceError.__REGISTRY__.pack_any(error)
    rich = Status(code=code.value[0], message=no.message, details=[packed]).SerializeToString()
    await context.abort(code, no.message, trailing_metadata=(("grpc-status-details-bin", rich),))


async def serve(cloud: Cloud, timetable: Timetable, port: int = 0) -> tuple[grpc.aio.Server, int]:
    """Start on loopback; the server and its port."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    server.add_generic_rpc_handlers((Services(cloud, timetable),))
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await asyncio.sleep(0)
    return server, bound
