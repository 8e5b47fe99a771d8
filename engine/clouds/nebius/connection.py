"""One call to the provider: authenticated, with a deadline, tried again where that is safe, and its failure classified."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from engine.clock import Clock
from engine.clouds.nebius.auth import Login, Selected, TokenSource, select
from engine.clouds.nebius.failures import TRANSIENT, Missing, classify
from engine.clouds.nebius.lanes import Lanes
from engine.settings import Settings, is_loopback
from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from nebius.aio.request import Request
    from nebius.aio.request_kwargs import RequestKwargs
    from nebius.aio.token.token import Bearer
    from nebius.sdk import SDK

DEADLINE = 20.0
"""Nominal seconds for one call with all its attempts."""
SHORTEST = 8.0
"""Real seconds that a call is given at least, whatever the time scale: the far side does not run faster."""
ATTEMPTS = 3
CLOSING = 5.0
"""Real seconds after which a connection that does not close is left behind."""
USER_AGENT = "npa-tui/0.1"
_LARGEST_MESSAGE = 64 << 20

T = TypeVar("T")
Make = Callable[["SDK", "RequestKwargs"], "Request[object, object]"]
"""Builds the request of one attempt; the options are to be handed to the SDK's method as they are."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`message`: the SDK's own object, never None; `request_id`: the provider's, for its support."""

    message: object
    request_id: str


class Connection:
    """The SDK, made at the first call; a failure to make it is tried again at the next call, so that a login made meanwhile
    counts. Belongs to one event loop; the SDK works on a thread of its own."""

    def __init__(self, settings: Settings, clock: Clock, *, concurrency: int = 16) -> None:
        self._settings = settings
        self._clock = clock
        self._concurrency = concurrency
        self._lanes = Lanes(concurrency)
        self._opening = asyncio.Lock()
        self._sdk: SDK | None = None
        self._selected: Selected | None = None
        self._packages: dict[str, ModuleType] = {}

    @property
    def host(self) -> str:
        """Who is asked, for the record of an observation; empty before credentials were selected, unless it is set."""
        return self._selected.login.endpoint if self._selected else self._settings.nebius_endpoint

    async def open(self) -> Selected:
        """Select credentials and make the SDK. Raises `Trouble`: no client, unauthenticated."""
        await self._opened()
        assert self._selected is not None
        return self._selected

    async def login(self) -> Login:
        """The credentials as they are on the disk now: a login renewed since `open` counts. Raises `Trouble`."""
        return (await asyncio.to_thread(select, self._settings)).login

    async def token(self) -> str:
        """A token for a program that we start, to be handed over in its environment only. Raises `Trouble`."""
        sdk = await self._opened()
        assert self._selected is not None
        if self._selected.source is not None:
            return await asyncio.to_thread(self._selected.source.read)
        try:
            async with asyncio.timeout(max(SHORTEST, self._clock.real(DEADLINE))):
                return (await sdk.get_token(None)).token
        except Exception as error:
            raise Trouble(Cause.UNAUTHENTICATED, redact(f"no token for Terraform: {error}")) from error

    async def close(self) -> None:
        sdk, self._sdk, self._selected = self._sdk, None, None
        if sdk is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await sdk.close()

    async def load(self, package: str) -> ModuleType:
        """A package of the API, below `nebius.api.nebius`. Each takes 0.1 to 0.3 s once, off the event loop.

        Never the SDK's whole registry: that takes seconds and 200 MiB. Raises `Trouble` (no client).
        """
        await self._opened()
        loaded = self._packages.get(package)
        if loaded is None:
            try:
                loaded = await asyncio.to_thread(importlib.import_module, f"nebius.api.nebius.{package}")
            except ImportError as error:
                raise Trouble(Cause.NO_CLIENT, redact(f"the Nebius SDK lacks {package}: {error}")) from error
            self._packages[package] = loaded
        return loaded

    async def call(
        self,
        make: Make,
        what: str,
        *,
        idempotency_key: str = "",
        repeatable: bool = True,
    ) -> Answer:
        """Make one call. `make` builds its request anew for each attempt; `what` names it for people.

        Repeated after a transient failure only if `repeatable`: a read, or a change with an idempotency key.
        Raises `Missing` for the NOT_FOUND of the service that was asked, and `Trouble` for everything else.
        """
        sdk = await self._opened()
        left = max(SHORTEST, self._clock.real(DEADLINE))
        for attempt in range(ATTEMPTS):
            async with self._lanes:
                started = time.monotonic()
                answer, retry_after = await self._attempt(sdk, make, what, left, idempotency_key)
                left -= time.monotonic() - started
            if isinstance(answer, Answer):
                self._lanes.passed()
                return answer
            if isinstance(answer, Missing):
                self._lanes.passed()
                raise answer
            if answer.cause is Cause.THROTTLED:
                self._lanes.throttled()
            pause = self._clock.real(max(self._clock.backoff(attempt), retry_after))
            last = attempt + 1 == ATTEMPTS or not repeatable or answer.cause not in TRANSIENT
            if last or pause >= left:
                raise answer
            await asyncio.sleep(pause)
            left -= pause
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _attempt(
        self, sdk: SDK, make: Make, what: str, left: float, key: str
    ) -> tuple[Answer | Missing | Trouble, float]:
        """One attempt and, where the provider said so, the nominal seconds after which to come back."""
        from nebius.aio.token.options import OPTION_REPORT_ERROR

        options: RequestKwargs = {
            "timeout": left,
            "auth_timeout": left,
            "per_retry_timeout": left,
            "retries": 1,
            # Else a failure to obtain a token is retried behind our back and comes out as a timeout.
            "auth_options": {OPTION_REPORT_ERROR: "1"},
        }
        if key:
            options["metadata"] = [("x-idempotency-key", key)]
        try:
            request = make(sdk, options)
            request.wait_for_ready = False  # else a refused connection is silence until the deadline
        except Exception as error:
            return classify(error, what, answered=True), 0.0
        try:
            # The SDK keeps the deadline itself; this one holds if it does not.
            async with asyncio.timeout(left + 0.5):
                message = await request
        except asyncio.CancelledError:
            if _being_cancelled():
                raise
            return Trouble(Cause.UNREACHABLE, f"{what}: the client gave the call up"), 0.0
        except TimeoutError as error:
            return classify(error, what, answered=False), 0.0
        except Exception as error:
            answered = await _has_own_status(request)
            after = await _retry_after(request) if answered else 0.0
            return classify(error, what, answered=answered), after
        if message is None:
            # The SDK's way of saying that it could not decode the answer.
            return Trouble(
                Cause.MALFORMED, f"{what}: an answer that cannot be decoded", await _request_id(request)
            ), 0.0
        return Answer(message, await _request_id(request)), 0.0

    async def _opened(self) -> SDK:
        if self._sdk is not None:
            return self._sdk
        async with self._opening:
            if self._sdk is None:
                selected = await asyncio.to_thread(select, self._settings)
                self._sdk = await asyncio.to_thread(_make_sdk, self._settings, selected, self._concurrency)
                self._selected = selected
            return self._sdk


def _make_sdk(settings: Settings, selected: Selected, concurrency: int) -> SDK:
    """The SDK with our credentials and the endpoint of the settings. Importing it takes some 0.2 s: not on an event loop."""
    # The C core of gRPC writes to stderr, which may be a console's screen.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        import certifi
        import grpc
        from nebius.aio.cli_config import Config
        from nebius.base.options import INSECURE
        from nebius.base.resolver import Constant
        from nebius.sdk import SDK
    except ImportError as error:
        raise Trouble(Cause.NO_CLIENT, redact(f"the Nebius SDK cannot be loaded: {error}")) from error
    _quiet()
    endpoint = selected.login.endpoint
    local = is_loopback(endpoint)
    options: list[tuple[str, object]] = [("grpc.max_receive_message_length", _LARGEST_MESSAGE)]
    if local:
        # Else a proxy that the environment names is asked for 127.0.0.1.
        options.append(("grpc.enable_http_proxy", 0))
    if local and settings.nebius_plaintext:
        options.append((INSECURE, True))
    roots = Path(certifi.where()).read_bytes()
    try:
        return SDK(
            # By itself the SDK asks `<service>.<domain>`, which a bare address has not.
            resolver=Constant(endpoint) if local else None,
            domain=endpoint,
            options=options,
            credentials=_bearer(selected.source) if selected.source else None,
            # `no_parent_id`: a default parent would be filled into lists of tenants, which then come back empty.
            config_reader=None
            if selected.source
            else Config(
                config_file=selected.config_file,
                profile=selected.login.profile,
                no_env=True,
                no_parent_id=True,
            ),
            tls_credentials=grpc.ssl_channel_credentials(root_certificates=roots),
            keepalive=False,
            max_free_channels_per_address=concurrency,
            federation_invitation_no_browser_open=True,
            user_agent_prefix=USER_AGENT,
        )
    except Exception as error:
        # A key file that is missing, a profile that lacks a field: the SDK has a type for each, and they mean one thing.
        name = selected.login.profile
        raise Trouble(
            Cause.UNAUTHENTICATED, redact(f"profile {name!r}: {type(error).__name__}: {error}")
        ) from error


def _quiet() -> None:
    """The SDK logs a traceback for every failure, also of its background renewal of tokens, and without a handler they land on
    stderr. Each failure already reaches people through its `Trouble`."""
    logger = logging.getLogger("nebius")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False


def _bearer(source: TokenSource) -> Bearer:
    """Our token source as the SDK's credentials: read for each request, and once more when the provider refuses it."""
    from nebius.aio.token.token import Bearer, Receiver, Token

    class FromSource(Receiver):
        def __init__(self) -> None:
            self._latest = None
            self._again = True

        async def _fetch(self, timeout: float | None = None, options: dict[str, str] | None = None) -> Token:
            return Token(source.read())

        def can_retry(self, err: Exception, options: dict[str, str] | None = None) -> bool:
            """Once, and only with another token: the refused one will not be liked better the second time."""
            if isinstance(err, Trouble) or not self._again:
                return False
            self._again = False
            try:
                return self._latest is None or self._latest.token != source.read()
            except Trouble:
                return False

    class Source(Bearer):
        def receiver(self) -> Receiver:
            return FromSource()

    return Source()


async def _has_own_status(request: Request[object, object]) -> bool:
    """Whether the service that was asked gave a status. Credentials are exchanged by calls of their own, inside the request;
    a failure of theirs comes out as if it were the request's, but leaves the request without a status."""
    return await _of_finished(request.status()) is not None


async def _request_id(request: Request[object, object]) -> str:
    return redact(await _of_finished(request.request_id()) or "")


async def _retry_after(request: Request[object, object]) -> float:
    """Seconds that the provider asks to wait: gRPC's `grpc-retry-pushback-ms` or `retry-after`, else 0."""
    metadata = await _of_finished(request.trailing_metadata())
    if metadata is None:
        return 0.0
    pushback, after = metadata.get_one("grpc-retry-pushback-ms", ""), metadata.get_one("retry-after", "")
    try:
        seconds = float(pushback) / 1000 if pushback else float(after or 0)
    except ValueError:
        return 0.0
    return seconds if 0 < seconds < 86400 else 0.0


async def _of_finished(detail: Awaitable[T]) -> T | None:
    """A detail of a request that is over, or None where it has none. Asking may raise the request's own failure again."""
    try:
        async with asyncio.timeout(1.0):
            return await detail
    except asyncio.CancelledError:
        if _being_cancelled():
            raise
        return None
    except Exception:
        return None


def _being_cancelled() -> bool:
    """Whether a CancelledError is meant for us. The SDK also raises it for requests that it gave up itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
