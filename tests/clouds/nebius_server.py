"""A small cloud behind a real gRPC server on loopback, for the tests of the client: its services, requests and messages come
from the SDK's own descriptors; what it holds and how it misbehaves, from the test."""

from __future__ import annotations

import asyncio
import functools
import importlib
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from engine.settings import Settings, read

SERVICES = {
    "iam.v1": ("AccessPermit", "Group", "GroupMembership", "Profile", "ServiceAccount", "TokenExchange"),
    "iam.v2": ("Tenant", "Project", "AccessKey"),
    "storage.v1": ("Bucket",),
    "mk8s.v1": ("Cluster", "NodeGroup"),
    "compute.v1": ("Instance", "Disk", "Filesystem"),
    "vpc.v1": ("Network", "Subnet", "SecurityGroup", "SecurityRule", "Allocation"),
    "registry.v1": ("Registry", "Artifact"),
    "billing.v1alpha1": ("Calculator",),
    "common.v1": ("Operation",),
}

Behaviour = Callable[[Any, grpc.aio.ServicerContext], Awaitable[Any]]
BORN = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def api(package: str) -> Any:
    return importlib.import_module(f"nebius.api.nebius.{package}")


@functools.cache
def methods() -> dict[str, tuple[Any, Any]]:
    """`BucketService/Get` -> the SDK's classes of its request and its answer."""
    found: dict[str, tuple[Any, Any]] = {}
    for package, names in SERVICES.items():
        for name in names:
            client = getattr(api(package), f"{name}ServiceClient")
            registry = client.__registry__
            for method in client.get_descriptor().methods:
                found[f"{name}Service/{method.name}"] = (
                    registry.message_class(method.input_type.full_name),
                    registry.message_class(method.output_type.full_name),
                )
    return found


def metadata(id: str, parent: str = "", name: str = "", **labels: str) -> Any:
    return api("common.v1").ResourceMetadata(
        id=id, parent_id=parent, name=name or id, created_at=BORN, labels=labels, resource_version=1
    )


async def refuse(
    context: grpc.aio.ServicerContext,
    code: str,
    message: str,
    *,
    trailing: tuple[tuple[str, str], ...] = (),
    **details: Any,
) -> None:
    """Abort as the provider does: gRPC status, and the structured `ServiceError` beside it."""
    from nebius.api.google.rpc import Status

    status = grpc.StatusCode[code]
    extra: tuple[tuple[str, str | bytes], ...] = trailing
    if details:
        error = api("common.v1").ServiceError
        packed = error.__REGISTRY__.pack_any(error(service="test", code=code, **details))
        rich = Status(code=status.value[0], message=message, details=[packed]).SerializeToString()
        extra = (*extra, ("grpc-status-details-bin", rich))
    await context.abort(status, message, trailing_metadata=extra)


@dataclass
class Cloud(grpc.GenericRpcHandler):
    """`things`: what is there, by id. `behaviours`: what a method does instead of the usual, such as `BucketService/Get`."""

    token: str = "good"
    page_size: int = 100
    things: dict[str, Any] = field(default_factory=dict)
    below: dict[str, str] = field(default_factory=dict)  # the parent of a thing that does not name it
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    calls: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)
    operations: list[Any] = field(default_factory=list)
    replies: dict[str, Any] = field(default_factory=dict)  # answers by idempotency key
    port: int = 0

    def put(self, *things: Any) -> None:
        for thing in things:
            self.things[thing.metadata.id] = thing

    def called(self, method: str) -> list[Any]:
        return [request for name, request, _ in self.calls if name == method]

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        service, _, method = details.method.removeprefix("/").rpartition("/")
        name = f"{service.rpartition('.')[2]}/{method}"
        if name not in methods():
            return None
        request_class, answer_class = methods()[name]

        async def behave(request: Any, context: grpc.aio.ServicerContext) -> Any:
            headers = {key.lower(): str(value) for key, value in context.invocation_metadata() or ()}
            self.calls.append((name, request, headers))
            await context.send_initial_metadata(
                (("x-request-id", f"req-{len(self.calls)}"), ("x-trace-id", "trace"))
            )
            if (
                name != "TokenExchangeService/Exchange"
                and headers.get("authorization") != f"Bearer {self.token}"
            ):
                await refuse(context, "UNAUTHENTICATED", "invalid token")
            special = self.behaviours.get(name)
            return await (
                special(request, context)
                if special
                else self._usual(name, request, context, answer_class, headers)
            )

        return grpc.unary_unary_rpc_method_handler(
            behave,
            request_deserializer=request_class.FromString,
            response_serializer=lambda answer: (
                answer if isinstance(answer, bytes) else answer.SerializeToString()
            ),
        )

    async def _usual(
        self, name: str, request: Any, context: Any, answer_class: Any, headers: dict[str, str]
    ) -> Any:
        method = name.partition("/")[2]
        if name == "OperationService/List":
            return answer_class(
                operations=[one for one in self.operations if one.resource_id == request.resource_id]
            )
        if method == "Get" and hasattr(request, "id"):
            return self.things.get(request.id) or await self.missing(context, request.id)
        if method.startswith("List"):
            return self._page(request, answer_class)
        if method == "Delete":
            key = headers.get("x-idempotency-key", "")
            if key not in self.replies:
                if request.id not in self.things:
                    await self.missing(context, request.id)
                del self.things[request.id]
                self.replies[key] = self.operation(request.id)
            return self.replies[key]
        await refuse(context, "UNIMPLEMENTED", f"{name} is not offered")
        raise AssertionError

    def _page(self, request: Any, answer_class: Any) -> Any:
        parent = next(
            (
                getattr(request, field)
                for field in ("parent_id", "network_id", "subnet_id")
                if hasattr(request, field)
            ),
            "",
        )
        answer = answer_class()
        items = getattr(answer, "memberships", None) if hasattr(answer, "memberships") else answer.items
        kind = type(items_of(answer_class)).__name__
        every = [thing for id, thing in sorted(self.things.items()) if self._listed(thing, id, parent, kind)]
        start = int(request.page_token or 0)
        size = min(self.page_size, request.page_size or 10)
        items.extend(every[start : start + size])
        answer.next_page_token = str(start + size) if start + size < len(every) else ""
        return answer

    def _listed(self, thing: Any, id: str, parent: str, kind: str) -> bool:
        if type(thing).__name__ != kind:
            return False
        own = self.below.get(id) or getattr(thing.metadata, "parent_id", "")
        return not parent or parent in (own, getattr(getattr(thing, "spec", None), "network_id", ""))

    async def missing(self, context: Any, id: str) -> None:
        not_found = api("common.v1").ResourceNotFound(resource_id=id)
        await refuse(context, "NOT_FOUND", f"{id} not found", resource_not_found=not_found)

    def operation(self, id: str, code: int | None = None, message: str = "", age: float = 0.0) -> Any:
        """An operation on a thing: under way, or over with a status code."""
        from nebius.api.google.rpc import Status

        now = datetime.now(UTC) - timedelta(seconds=age)
        one = api("common.v1").Operation(
            id=f"operation-e00{len(self.operations)}",
            description=f"Delete {id}",
            resource_id=id,
            created_at=now,
        )
        if code is not None:
            one.status = Status(code=code, message=message)
            one.finished_at = now
        self.operations.append(one)
        return one


def items_of(answer_class: Any) -> Any:
    """An empty message of the class that an answer lists."""
    fields = {field.name: field for field in answer_class.get_descriptor().fields}
    listed = fields.get("items") or fields["memberships"]
    return answer_class.__REGISTRY__.message_class(listed.message_type.full_name)()


@asynccontextmanager
async def serving(cloud: Cloud) -> Any:
    server = grpc.aio.server(
        options=[
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_ping_strikes", 0),
        ]
    )
    server.add_generic_rpc_handlers((cloud,))
    cloud.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield cloud
    finally:
        await server.stop(0)


def home_with_token_file(home: Path, token: str = "good") -> None:
    """A profile whose token stands in a file."""
    folder = home / ".nebius"
    folder.mkdir(parents=True, exist_ok=True)
    (home / "token").write_text(token)
    (folder / "config.yaml").write_text(
        "default: p\nprofiles:\n  p:\n    endpoint: api.nebius.cloud\n"
        f"    token-file: {home / 'token'}\n    parent-id: project-e00p\n    tenant-id: tenant-e00t\n"
    )


def settings(home: Path, port: int, **environ: str) -> Settings:
    return read(
        {
            "HOME": str(home),
            "NEBIUS_ENDPOINT": f"127.0.0.1:{port}",
            "NPA_NEBIUS_PLAINTEXT": "1",
            "NPA_TIME_SCALE": "0.01",
            **environ,
        }
    )


async def hang(request: Any, context: Any) -> Any:
    await asyncio.sleep(60)
