"""The provider's calls, made from the rows of the kinds: which client, which request, which fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING

from engine.clouds.nebius.attributes import text, values
from engine.clouds.nebius.connection import Answer, Connection
from engine.clouds.nebius.kinds import PAGE_SIZE, KindRow, Way
from engine.words.presence import Cause
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from nebius.aio.request import Request
    from nebius.aio.request_kwargs import RequestKwargs
    from nebius.sdk import SDK

MOST_OPERATION_PAGES = 20


@dataclass(frozen=True, slots=True)
class Operation:
    """One change that the provider was asked for. `code`, a gRPC status name, is empty while it runs, `OK` when it succeeded."""

    id: str
    description: str
    created_at: str
    code: str
    message: str

    @property
    def failed(self) -> bool:
        return self.code not in ("", "OK")


class Calls:
    """Each method makes one kind of call. They raise `Missing` and `Trouble`, as `Connection.call` does."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, row: KindRow, id: str) -> Answer:
        package = await self._connection.load(row.package)

        def make(sdk: SDK, options: RequestKwargs) -> Request[object, object]:
            return _call(sdk, package, row.service, "get", options, f"Get{row.service}Request", id=id)

        return await self._connection.call(make, f"{row.kind} {id}")

    async def page(self, row: KindRow, way: Way, parent: str, token: str) -> Answer:
        """One page of a listing. The parent is always given: a default of the SDK's would be the wrong one."""
        package = await self._connection.load(row.package)
        scope = {way.scope: way.value(parent) if way.value else parent} if way.scope else {}

        def make(sdk: SDK, options: RequestKwargs) -> Request[object, object]:
            return _call(
                sdk,
                package,
                way.service or row.service,
                way.rpc,
                options,
                way.request,
                page_size=PAGE_SIZE,
                page_token=token,
                **scope,
            )

        return await self._connection.call(make, f"{row.label} below {parent}" if parent else row.label)

    async def delete(self, row: KindRow, id: str, key: str, purge_after: float | None) -> Operation:
        package = await self._connection.load(row.package)
        fields: dict[str, object] = {"id": id}
        if purge_after is not None:
            fields["ttl"] = timedelta(seconds=purge_after)

        def make(sdk: SDK, options: RequestKwargs) -> Request[object, object]:
            return _call(
                sdk, package, row.service, "delete", options, f"Delete{row.service}Request", **fields
            )

        return await self._change(make, f"delete {row.kind} {id}", key)

    async def purge(self, row: KindRow, id: str, key: str) -> Operation:
        """End a scheduled deletion now."""
        package = await self._connection.load(row.package)

        def make(sdk: SDK, options: RequestKwargs) -> Request[object, object]:
            return _call(sdk, package, row.service, "purge", options, row.purge, id=id)

        return await self._change(make, f"purge {row.kind} {id}", key)

    async def _change(
        self, make: Callable[[SDK, RequestKwargs], Request[object, object]], what: str, key: str
    ) -> Operation:
        answer = await self._connection.call(make, what, idempotency_key=key, repeatable=bool(key))
        raw = getattr(answer.message, "raw", None)
        if raw is None:
            raise Trouble(Cause.MALFORMED, f"{what}: the answer is no operation", answer.request_id)
        return _operation(raw())

    async def operations(self, row: KindRow, id: str) -> list[Operation]:
        """The operations on one thing that the provider still keeps, in no order. Asked for at the service of the kind."""
        package = await self._connection.load(row.package)
        common = await self._connection.load("common.v1")
        found: list[Operation] = []
        token = ""
        for _ in range(MOST_OPERATION_PAGES):

            def make(sdk: SDK, options: RequestKwargs, token: str = token) -> Request[object, object]:
                request = common.ListOperationsRequest(resource_id=id, page_size=PAGE_SIZE, page_token=token)
                service = getattr(package, f"{row.service}ServiceClient")(sdk).operation_service()
                return service.list(request, **options)  # type: ignore[no-any-return]

            answer = await self._connection.call(make, f"operations of {row.kind} {id}")
            found.extend(_operation(operation) for operation in values(answer.message, "operations"))
            token = text(answer.message, "next_page_token")
            if not token:
                break
        return found


def _call(
    sdk: SDK,
    package: ModuleType,
    service: str,
    rpc: str,
    options: RequestKwargs,
    request_class: str,
    **fields: object,
) -> Request[object, object]:
    """One request by names. That every name in the rows is one of the SDK's is checked by a test, not by the types."""
    client = getattr(package, f"{service}ServiceClient")(sdk)
    return getattr(client, rpc)(getattr(package, request_class)(**fields), **options)  # type: ignore[no-any-return]


def _operation(raw: object) -> Operation:
    return Operation(
        id=text(raw, "id"),
        description=text(raw, "description"),
        created_at=text(raw, "created_at"),
        code=text(raw, "status.code"),  # nothing while it is under way
        message=text(raw, "status.message"),
    )
