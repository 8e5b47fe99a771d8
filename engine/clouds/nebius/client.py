"""Everything this program asks of the provider and changes there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from engine.clock import Clock
from engine.clouds.nebius.attributes import text, values
from engine.clouds.nebius.calls import Calls, Operation
from engine.clouds.nebius.connection import Connection
from engine.clouds.nebius.failures import Missing, of_code
from engine.clouds.nebius.kinds import KINDS
from engine.clouds.nebius.prices import PricesUnknown, prices
from engine.clouds.nebius.reading import Malformed, resource
from engine.settings import Settings
from engine.words.intents import Intent
from engine.words.presence import (
    Absent,
    Cause,
    Listing,
    Observation,
    Presence,
    Present,
    Ref,
    Resource,
    Unknown,
)
from engine.words.redact import redact
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from nebius.aio.request import Request
    from nebius.aio.request_kwargs import RequestKwargs
    from nebius.sdk import SDK

MOST_PAGES = 2000
"""A listing longer than this is taken for one that does not end."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who the provider takes us for. `kind`: user, service_account. `expires_at`: of the credential, or empty."""

    id: str
    kind: str
    name: str
    tenant_ids: tuple[str, ...]
    profile: str
    expires_at: str


class Nebius:
    """The provider. Reads answer with words and raise nothing for what the outside does; `whoami` and `delete` raise `Trouble`.

    Making one costs nothing: the SDK is loaded and credentials are selected at the first call. Belongs to one event loop.
    """

    def __init__(self, settings: Settings, clock: Clock, *, concurrency: int = 16) -> None:
        self._clock = clock
        self._connection = Connection(settings, clock, concurrency=concurrency)
        self._calls = Calls(self._connection)
        self._principal = ""
        self.prices_gap: Unknown | None = None
        """Why the last `prices` came back empty, or None."""

    async def open(self) -> None:
        """Select credentials and load the SDK now. Raises `Trouble`."""
        await self._connection.open()

    async def aclose(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def whoami(self) -> Principal:
        """Who we are. Raises `Trouble`; unauthenticated also for an anonymous answer."""

        def make(sdk: SDK, options: RequestKwargs) -> Request[object, object]:
            return sdk.whoami(**options)  # type: ignore[return-value]

        login = await self._connection.login()
        try:
            answer = await self._connection.call(make, "who am I")
        except Missing as missing:
            raise Trouble(
                Cause.UNAUTHENTICATED, f"who am I: {missing.detail}", missing.request_id
            ) from missing
        user, account = "user_profile", "service_account_profile.info"
        id = redact(text(answer.message, f"{user}.id", f"{account}.metadata.id"))
        if not id:
            raise Trouble(
                Cause.UNAUTHENTICATED, "the provider takes these credentials for nobody's", answer.request_id
            )
        is_user = bool(text(answer.message, f"{user}.id"))
        tenants = (redact(str(tenant)) for tenant in values(answer.message, f"{user}.tenants.tenant_id"))
        attributes = f"{user}.attributes"
        name = text(answer.message, f"{account}.metadata.name", f"{attributes}.email") or text(
            answer.message, f"{attributes}.name"
        )
        self._principal = id
        return Principal(
            id=id,
            kind="user" if is_user else "service_account",
            name=redact(name),
            tenant_ids=tuple(dict.fromkeys(tenant for tenant in tenants if tenant)),
            profile=login.profile,
            expires_at=login.expires_at,
        )

    async def token(self) -> str:
        """A token for a program that we start. It belongs into that program's environment and nowhere else. Raises `Trouble`."""
        return await self._connection.token()

    async def look(self, ref: Ref, parent: str = "") -> Observation:
        """Whether it is there. With a parent: one that is there below another parent is `Unknown` (wrong scope)."""
        observation, _ = await self.get(ref, expected_parent=parent)
        return observation

    async def get(self, ref: Ref, *, expected_parent: str = "") -> tuple[Observation, Resource | None]:
        """One thing by its id. The `Resource` is given exactly when the observation is `Present`."""
        row = KINDS.get(ref.kind)
        if row is None or not row.fits(ref.id):
            what = (
                f"no kind of the provider: {ref.kind!r}"
                if row is None
                else f"no id of a {row.kind}: {redact(ref.id, 80)!r}"
            )
            return self._observed(ref, Unknown(Cause.WRONG_SCOPE, what), ""), None
        try:
            answer = await self._calls.get(row, ref.id)
            found = resource(row, answer.message, expected_parent)
        except Missing as missing:
            if missing.proves_absence_of(ref.id):
                return self._observed(ref, Absent(), missing.request_id), None
            detail = f"not found, but the answer is about another id: {missing.detail}"
            return self._observed(ref, Unknown(Cause.WRONG_SCOPE, detail), missing.request_id), None
        except Trouble as trouble:
            return self._observed(ref, trouble.unknown, trouble.request_id), None
        except Malformed as malformed:
            return self._observed(ref, Unknown(Cause.MALFORMED, str(malformed)), ""), None
        problem: Unknown | None = None
        if found.ref != ref:
            problem = Unknown(Cause.MALFORMED, f"asked for {ref.id}, answered with {found.ref.id}")
        elif expected_parent and found.parent != expected_parent:
            problem = Unknown(
                Cause.WRONG_SCOPE, f"{ref.id} lies below {found.parent}, not below {expected_parent}"
            )
        if problem is not None:
            return self._observed(ref, problem, answer.request_id), None
        return self._observed(ref, found.presence, answer.request_id), found

    async def list(self, kind: str, parent: str) -> Listing:
        """Everything of a kind below a parent, all pages. The parent's id says which list is meant: access keys below a
        project or below a service account, memberships and permits below a group, tenants below nothing (an empty parent).

        A page that fails, repeats its token, or holds something that lies elsewhere leaves what was read, with a gap.
        """
        at = self._clock.now()
        row = KINDS.get(kind)
        way = row.way(parent) if row else None
        if row is None or way is None:
            below = f"below {redact(parent, 80)!r}" if parent else "without a parent"
            return self._listed(
                {}, Unknown(Cause.WRONG_SCOPE, f"the provider lists no {kind} {below}"), at, ""
            )
        found: dict[str, Resource] = {}
        token, seen, request_id = "", {""}, ""
        for _ in range(MOST_PAGES):
            try:
                answer = await self._calls.page(row, way, parent, token)
                request_id = answer.request_id
                for item in values(answer.message, way.items):
                    one = resource(row, item, parent if way.owned else "")
                    if way.owned and parent and one.parent != parent:
                        where = f"a list of what lies below {parent} holds {one.ref.id}, which lies below {one.parent}"
                        raise Trouble(Cause.WRONG_SCOPE, where, request_id)
                    found.setdefault(one.ref.id, one)
            except Missing as missing:
                trouble = missing.as_trouble(f"{row.label} below {parent}")
                return self._listed(found, trouble.unknown, at, missing.request_id)
            except Trouble as trouble:
                return self._listed(found, trouble.unknown, at, trouble.request_id or request_id)
            except Malformed as malformed:
                return self._listed(found, Unknown(Cause.MALFORMED, str(malformed)), at, request_id)
            token = text(answer.message, "next_page_token")
            if not token:
                return self._listed(found, None, at, request_id)
            if token in seen:
                return self._listed(
                    found, Unknown(Cause.MALFORMED, "a page token came twice"), at, request_id
                )
            seen.add(token)
        return self._listed(found, Unknown(Cause.MALFORMED, f"more than {MOST_PAGES} pages"), at, request_id)

    async def delete(self, intent: Intent, *, purge_after: float | None = None) -> None:
        """Ask for the deletion; return when the provider has accepted it, or when the thing is not there or already leaving.

        `intent.key` goes along as the idempotency key. With `intent.expect`, the thing is read again right before, and must
        still be the same. `purge_after`: for a bucket, nominal seconds until it goes with its contents (0: now, also for one
        that is already scheduled); None leaves it to the provider, which keeps a deleted bucket for a week.
        Raises `Trouble`: conflict when the provider refuses or an operation came back failed, else why it could not be asked.
        """
        ref = intent.ref
        row = KINDS.get(ref.kind)
        if row is None or not row.deletable or not row.fits(ref.id):
            raise Trouble(Cause.WRONG_SCOPE, f"not deleted by this program: {ref.kind} {redact(ref.id, 80)}")
        if purge_after is not None and not row.purge:
            raise Trouble(Cause.WRONG_SCOPE, f"a {row.kind} is deleted at once, not after a time")
        purge_now = False
        if intent.expect:
            now = await self._expected(intent)
            if now is None:
                return
            purge_now = now.leaving and purge_after == 0
            if now.leaving and not purge_now:
                return
        try:
            if purge_now:
                operation = await self._calls.purge(row, ref.id, intent.key)
            else:
                operation = await self._calls.delete(row, ref.id, intent.key, purge_after)
        except Missing as missing:
            if missing.proves_absence_of(ref.id):
                return
            raise missing.as_trouble(f"delete {row.kind} {ref.id}") from missing
        if operation.failed:
            raise _as_trouble(operation)

    async def operation_error(self, ref: Ref) -> Trouble | None:
        """How the newest finished operation on a thing failed, to explain why the thing is still there.

        None when it succeeded, when there is none, and also when the operations cannot be read: an explanation, no evidence.
        """
        row = KINDS.get(ref.kind)
        if row is None or not row.fits(ref.id):
            return None
        try:
            operations = await self._calls.operations(row, ref.id)
        except (Trouble, Missing):
            return None
        over = [operation for operation in operations if operation.code]
        newest = max(over, key=lambda operation: operation.created_at, default=None)
        return _as_trouble(newest) if newest is not None and newest.failed else None

    async def prices(self, resources: Sequence[Resource]) -> Mapping[Ref, float | None]:
        """USD per hour by the provider's billing calculator; None for what has no known price. What the calculator quotes is
        the running thing: a stopped instance is quoted as if it ran. Empty when it cannot be asked; `prices_gap` says why."""
        self.prices_gap = None
        try:
            return await prices(self._connection, resources)
        except PricesUnknown as unknown:
            self.prices_gap = unknown.gap
            return {}

    async def _expected(self, intent: Intent) -> Present | None:
        """The thing as it is right before a change, None when it is gone. Raises `Trouble` when it is another one by now."""
        observation, _ = await self.get(intent.ref)
        match observation.presence:
            case Absent():
                return None
            case Unknown(cause, detail):
                raise Trouble(cause, detail)
            case Present() as now if now.fingerprint != intent.expect:
                raise Trouble(Cause.CONFLICT, f"{intent.ref.id} changed since it was looked at")
            case now:
                return now

    def _by(self, request_id: str) -> str:
        """Who saw it: the provider's host, we, the request."""
        parts = ("nebius", self._connection.host, self._principal, request_id)
        return " ".join(part for part in parts if part)

    def _observed(self, ref: Ref, presence: Presence, request_id: str) -> Observation:
        return Observation(ref, presence, self._clock.now(), self._by(request_id))

    def _listed(
        self, found: Mapping[str, Resource], gap: Unknown | None, at: str, request_id: str
    ) -> Listing:
        return Listing(tuple(found.values()), gap, at, self._by(request_id))


def _as_trouble(operation: Operation) -> Trouble:
    said = redact(operation.message or operation.description)
    return of_code(operation.code, f"operation {redact(operation.id)}: {said}")
