"""What the services answer: each request is logged, meets its fault, shows its token, and is answered from the cloud."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import grpc
import grpc.aio

from engine.simulator.cloud import Cloud
from engine.simulator.faults import Fault, Timetable
from engine.simulator.kinds import BY_SERVICE, Kind, at
from engine.simulator.nebius.messages import details, methods, operation, page, wire
from engine.simulator.nebius.prices import estimate
from engine.simulator.resources import Refusal, Resource

DEFAULT_PAGE = 10
"""Items on a page for a request that does not say."""


class Services(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """All services on one port."""

    def __init__(self, cloud: Cloud, timetable: Timetable) -> None:
        self._cloud = cloud
        self._timetable = timetable
        self._served = 0

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:  # type: ignore[type-arg]
        path = details.method.removeprefix("/")
        if path not in methods():
            return None
        request_class, answer_class = methods()[path]

        async def behave(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            return await self._serve(path, request, context, answer_class)

        return grpc.unary_unary_rpc_method_handler(
            behave,
            request_deserializer=request_class.FromString,
            response_serializer=lambda a: a if isinstance(a, bytes) else a.SerializeToString(),
        )

    async def _serve(self, path: str, request: Any, context: Any, answer_class: Any) -> Any:
        service, _, method = path.rpartition("/")
        call, subject = f"{service.rpartition('.')[2]}/{method}", _subject(request)
        headers = {k.lower(): str(v) for k, v in context.invocation_metadata() or ()}
        known = headers.get("authorization") == f"Bearer {self._cloud.token}"
        entry = {
            "service": "nebius", "call": call, "subject": subject, "at": datetime.now(UTC).isoformat(), "code": "OK",
            "key": headers.get("x-idempotency-key", ""), "principal": "operator" if known else "",
        }  # fmt: skip
        self._cloud.log.append(entry)
        self._served += 1
        await context.send_initial_metadata(
            (("x-request-id", f"req-{self._served:012x}"), ("x-trace-id", f"{self._served:032x}"))
        )
        if fault := await self._timetable.meet("nebius", call, subject):
            entry["code"] = f"fault:{fault.kind}"
            await self._fail(context, service, fault, subject)
        try:
            if not known:
                raise Refusal("UNAUTHENTICATED", "the token is not valid")
            return self._answer(service, method, request, answer_class, headers.get("x-idempotency-key", ""))
        except Refusal as no:
            entry["code"] = no.code
            await context.abort(grpc.StatusCode[no.code], str(no), trailing_metadata=details(service, no))

    async def _fail(self, context: Any, service: str, fault: Fault, subject: str) -> NoReturn:
        """End a call as its fault says. What a dropped connection looks like through gRPC is UNAVAILABLE."""
        if fault.kind == "hang":
            await self._timetable.hang(fault)
        if fault.kind in ("hang", "drop"):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "recvmsg: Connection reset by peer")
        no = Refusal(str(fault.status), fault.message or "injected fault", subject)
        extra: Sequence[tuple[str, str | bytes]] = ()
        if no.code in ("RESOURCE_EXHAUSTED", "PERMISSION_DENIED"):
            extra = details(service, no)
        if fault.retry_after is not None:
            extra = (*extra, ("retry-after", f"{fault.retry_after:g}"))
        await context.abort(grpc.StatusCode[no.code], str(no), trailing_metadata=tuple(extra))
        raise AssertionError("abort does not return")

    def _answer(self, service: str, method: str, request: Any, answer_class: Any, key: str) -> Any:
        """The answer as a message or its bytes. Raises `Refusal`."""
        if kind := BY_SERVICE.get(service):
            return self._of_kind(kind, method, request, answer_class, key)
        match service.rpartition(".")[2]:
            case "ProfileService":
                return self._profile(answer_class)
            case "CalculatorService" if method in ("Estimate", "EstimateBatch"):
                return estimate(
                    service.rpartition(".")[0], method, request, answer_class, self._cloud.world.prices
                )
            case "OperationService" if method in ("Get", "List"):
                return self._operations(method, request, answer_class)
        raise Refusal("UNIMPLEMENTED", f"{service}/{method}")

    def _of_kind(self, kind: Kind, method: str, request: Any, answer_class: Any, key: str) -> Any:
        match method:
            case "Get":
                return wire(self._cloud.get(kind.name, request.id))
            case "GetByName":
                return wire(self._cloud.by_name(kind.name, request.parent_id, request.name))
            case "GetByAwsId":
                return wire(self._by_aws_id(request.aws_access_key_id))
            case "Delete" if kind.name == "project" and request.dry_run:
                return operation(self._cloud.dry_run("project", request.id))
            case "Delete":
                return operation(self._cloud.delete(kind.name, request.id, key, self._ttl(kind, request)))
            case "DeleteByAwsId":
                found = self._by_aws_id(request.aws_access_key_id)
                return operation(self._cloud.delete("accesskey", found.id, key))
            case "Purge":
                return operation(self._cloud.purge(request.id, key))
            case "Undelete":
                return operation(self._cloud.undelete(request.id))
            case "ListMemberOf":
                return self._list(
                    "group", "items", self._groups_of(request.subject_id), request, answer_class
                )
        if keep := self._keep(kind, method, request):
            return self._list(kind.name, kind.list_field, keep, request, answer_class)
        raise Refusal("UNIMPLEMENTED", f"nebius.{kind.package}.{kind.service}Service/{method}")

    def _by_aws_id(self, id: str) -> Resource:
        for r in self._cloud.listing("accesskey", lambda r: at(r.doc, "status", "awsAccessKeyId") == id):
            if r.readable:
                return r
        raise Refusal("NOT_FOUND", f"access key {id} not found", id)

    def _ttl(self, kind: Kind, request: Any) -> timedelta | None:
        """Nominal time until a bucket is to be purged. A moment is a real one: it is brought to scale."""
        if kind.name != "bucket":
            return None
        match request.which_field_in_oneof("purge"):
            case "ttl":
                return timedelta(seconds=request.ttl.total_seconds())
            case "purge_at":
                left: timedelta = request.purge_at - datetime.now(UTC)
                return left / self._cloud.scale
        return None

    # -- listings -----------------------------------------------------------------------------------------------------

    def _list(
        self, kind: str, items: str, keep: Callable[[Resource], bool], request: Any, answer_class: Any
    ) -> bytes:
        rows = self._cloud.listing(kind, keep)
        if request.page_token:
            try:
                after = base64.b64decode(request.page_token, b"-_", validate=True).decode()
            except (binascii.Error, ValueError):
                raise Refusal("INVALID_ARGUMENT", "this page_token is not one of ours") from None
            rows = [r for r in rows if r.id > after]
        size = min(max(int(request.page_size), 0) or DEFAULT_PAGE, self._cloud.world.page_size)
        shown = rows[:size]
        more = len(rows) > size
        token = base64.urlsafe_b64encode(shown[-1].id.encode()).decode() if more else ""
        return page(answer_class, items, kind, shown, token)

    @staticmethod
    def _keep(kind: Kind, method: str, request: Any) -> Callable[[Resource], bool] | None:
        """What a listing shows, or None for a method that is none."""
        match method:
            case "ListByNetwork":
                return lambda r: bool(at(r.doc, "spec", "networkId") == request.network_id)
            case "ListBySubnet":
                return lambda r: bool(at(r.doc, "status", "details", "subnetId") == request.subnet_id)
            case "ListByAccount":
                account = request.account.service_account.id
                return lambda r: bool(at(r.doc, "spec", "account", "serviceAccount", "id") == account)
            case "List" if kind.name == "tenant":
                return lambda r: True
            case "List" | "ListMembers" if not request.parent_id:
                raise Refusal("INVALID_ARGUMENT", "parent_id is required")
            case "List" | "ListMembers":
                return lambda r: r.parent == request.parent_id
        return None

    def _groups_of(self, subject: str) -> Callable[[Resource], bool]:
        members = self._cloud.listing("groupmembership", lambda r: at(r.doc, "spec", "memberId") == subject)
        groups = {r.parent for r in members}
        return lambda r: r.id in groups

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _profile(self, answer_class: Any) -> Any:
        from nebius.base.protos.json_format import parse_dict

        tenants = [{"tenantId": r.id} for r in self._cloud.listing("tenant", lambda r: True)]
        who = {"email": "operator@example", "name": "operator"}
        profile = {"id": "useraccount-e00simulated", "attributes": who, "tenants": tenants}
        return parse_dict({"userProfile": profile}, answer_class())

    def _operations(self, method: str, request: Any, answer_class: Any) -> Any:
        known = self._cloud.operations
        if method == "List":
            return answer_class(
                operations=[operation(o) for o in known.values() if o.resource_id == request.resource_id]
            )
        if request.id not in known:
            raise Refusal("NOT_FOUND", f"operation {request.id} not found", request.id)
        return operation(known[request.id])


def _subject(request: Any) -> str:
    """The id, or the name, that a request is about."""
    for name in (
        "id",
        "parent_id",
        "network_id",
        "subnet_id",
        "subject_id",
        "resource_id",
        "aws_access_key_id",
        "name",
    ):
        value = getattr(request, name, None)
        if isinstance(value, str) and value:
            return value
    account = getattr(request, "account", None)
    return str(account.service_account.id) if account is not None else ""
