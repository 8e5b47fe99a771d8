"""The wire: one API server, reached through the official client in a few threads, each call with a deadline.

A connection follows its kubeconfig and its credential: both are read again when a credential runs out or is refused, and a
kubeconfig that has come to mean another server is refused instead of followed.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from engine.clock import Clock
from engine.clouds.kubernetes.credentials import Credential, credential
from engine.clouds.kubernetes.failures import TRANSIENT, StatusError, of_answer, of_exception
from engine.clouds.kubernetes.kubeconfig import Entry, Kubeconfig, read_entry
from engine.settings import is_loopback
from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

DEADLINE = 20.0
"""Nominal seconds for one attempt."""
ATTEMPTS = 3

_LEAST_REAL = 2.0
_CONNECT = 5.0
_LONGEST_WAIT = 30.0
"""Nominal seconds. A server that asks for more is asked again earlier, and then given up."""
_THREADS = 8
_LARGEST = 64 * 1024 * 1024

Query = Sequence[tuple[str, str]]
Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer: its JSON document, and the provider's id of the request, empty when it gave none."""

    body: Json
    request_id: str


class Connection:
    """Calls to the API server of one context of one kubeconfig. Belongs to one event loop. Loads nothing before the first call."""

    def __init__(self, path: Path, context: str, clock: Clock, environ: Mapping[str, str]) -> None:
        self._path, self._context, self._clock, self._environ = path, context, clock, environ
        self._pool: ThreadPoolExecutor | None = None
        self._session: _Session | None = None
        self._renewing = asyncio.Lock()
        self._meant: Kubeconfig | None = None

    @property
    def label(self) -> str:
        """Who answers: the context, and the host once it is known."""
        return redact(f"{self._context}@{self._meant.host}" if self._meant else self._context)

    async def call(
        self,
        method: str,
        path: str,
        what: str,
        *,
        query: Query = (),
        body: Json | None = None,
        repeatable: bool = True,
    ) -> Answer:
        """One call. `repeatable`: may be made again when its answer was lost or was a transient failure.

        Raises `StatusError` for an error that the server itself answered, `Trouble` for everything else.
        """
        renewed = False
        for attempt in range(ATTEMPTS + 1):
            session = await self._current(what)
            try:
                return await self._once(session, method, path, what, query, body)
            except StatusError as error:
                if error.cause is Cause.UNAUTHENTICATED and not renewed:
                    renewed = True  # it may have run out, or somebody logged in anew
                    self._drop(session)
                    continue
                if not (repeatable and error.transient) or attempt >= ATTEMPTS - 1:
                    raise
                wait = error.retry_after
            except Trouble as trouble:
                if not (repeatable and trouble.cause in TRANSIENT) or attempt >= ATTEMPTS - 1:
                    raise
                wait = None
            await self._clock.sleep(
                self._clock.backoff(attempt) if wait is None else min(wait, _LONGEST_WAIT)
            )
        raise AssertionError("the last attempt answers or raises")

    async def close(self) -> None:
        self._session = None
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    async def _once(
        self, session: _Session, method: str, path: str, what: str, query: Query, body: Json | None
    ) -> Answer:
        seconds = max(_LEAST_REAL, self._clock.real(DEADLINE))
        loop = asyncio.get_running_loop()
        try:
            # The limits of the socket hold between two packets; this one holds for the whole.
            async with asyncio.timeout(seconds):
                return await loop.run_in_executor(
                    self._threads(), session.send, method, path, query, body, seconds
                )
        except (StatusError, Trouble):
            raise
        except Exception as error:
            raise of_exception(error, what) from error

    async def _current(self, what: str) -> _Session:
        async with self._renewing:
            if self._session is not None and self._session.valid(self._clock.utc()):
                return self._session
            entry = await asyncio.get_running_loop().run_in_executor(
                self._threads(), read_entry, self._path, self._context
            )
            if self._meant is not None and (entry.public.server, entry.public.ca_fingerprint) != (
                self._meant.server,
                self._meant.ca_fingerprint,
            ):
                raise Trouble(
                    Cause.WRONG_SCOPE,
                    redact(
                        f"{self._path}: context {self._context!r} meant {self._meant.server} and now means"
                        f" {entry.public.server}"
                    ),
                )
            self._meant = entry.public
            login = await credential(entry, self._clock, self._environ)
            try:
                self._session = await asyncio.get_running_loop().run_in_executor(
                    self._threads(), _Session, entry, login, self._environ
                )
            except Trouble:
                raise
            except ImportError as error:
                raise Trouble(Cause.NO_CLIENT, "the Python package `kubernetes` is not installed") from error
            except Exception as error:
                raise of_exception(error, what) from error
            return self._session

    def _drop(self, session: _Session) -> None:
        if self._session is session:
            self._session = None

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="kubernetes")
        return self._pool


class _Session:
    """The official client, set up for one server and one credential. Its methods block."""

    def __init__(self, entry: Entry, login: Credential, environ: Mapping[str, str]) -> None:
        from kubernetes.client import ApiClient, Configuration

        configuration = Configuration(host=entry.public.server)
        configuration.client_side_validation = False
        self._client = ApiClient(configuration)
        self._client.rest_client.pool_manager = _pool_manager(entry, login, environ)
        self._headers = {"Accept": "application/json", "User-Agent": "npa-tui"}
        if login.authorization:
            self._headers["Authorization"] = login.authorization
        self._until = login.until

    def valid(self, now: datetime) -> bool:
        return self._until is None or now < self._until

    def send(self, method: str, path: str, query: Query, body: Json | None, seconds: float) -> Answer:
        """One request. Raises what the client raises, and `StatusError` for an answer that is an error."""
        from kubernetes.client.exceptions import ApiException

        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = self._client.call_api(
                path,
                method,
                query_params=list(query),
                header_params=headers,
                body=body,
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=(min(_CONNECT, seconds), seconds),
            )
        except ApiException as error:
            if not error.status:
                raise  # no answer at all: TLS failed, which is kept as its context
            content = error.body if isinstance(error.body, bytes) else str(error.body or "").encode()
            raise of_answer(int(error.status), dict(error.headers or {}), content) from None
        try:
            content = _content(response, f"{method} {path}", seconds)
        except BaseException:
            response.close()  # with the rest unread, the connection is of no further use
            raise
        response.release_conn()
        request_id = redact(response.headers.get("Audit-Id", ""))
        return Answer(_json(content, f"{method} {path}", request_id), request_id)


def _content(response: BaseHTTPResponse, what: str, seconds: float) -> bytes:
    """The body. The limit of the socket starts anew with each packet, so a server that trickles is stopped here."""
    end = time.monotonic() + seconds
    content = bytearray()
    while chunk := response.read1(64 * 1024):
        content += chunk
        if len(content) > _LARGEST:
            raise Trouble(Cause.MALFORMED, f"{what}: the answer is larger than {_LARGEST} bytes")
        if time.monotonic() > end:
            raise Trouble(Cause.TIMED_OUT, f"{what}: the answer does not end")
    return bytes(content)


def _json(content: bytes, what: str, request_id: str) -> Json:
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Trouble(Cause.MALFORMED, f"{what}: the answer is no JSON", request_id) from error
    if not isinstance(document, dict):
        raise Trouble(Cause.MALFORMED, f"{what}: the answer is no object", request_id)
    return document


def _pool_manager(entry: Entry, login: Credential, environ: Mapping[str, str]) -> PoolManager:
    """Connections with the TLS and the proxy of the kubeconfig, and without retries, which would sleep where we cannot look.

    Built here, because the client takes keys only as files that stay on disk, and proxies from the process, past NO_PROXY.
    """
    from urllib3 import PoolManager, ProxyManager, make_headers

    options: dict[str, object] = {"retries": False, "maxsize": _THREADS}
    if entry.public.server.startswith("https:"):
        options["ssl_context"] = _tls(entry, login)
        if entry.tls_server_name:
            options["server_hostname"] = entry.tls_server_name
            options["assert_hostname"] = entry.tls_server_name if entry.verify else False
    proxy = entry.proxy or _ambient_proxy(entry.public.server, environ)
    if not proxy:
        return PoolManager(**options)  # type: ignore[arg-type]
    parts = urlsplit(proxy)
    if parts.scheme not in ("http", "https"):
        raise Trouble(Cause.NO_CLIENT, f"a proxy of the kind {parts.scheme!r} is not supported")
    secret = f"{parts.username}:{parts.password or ''}" if parts.username else None
    return ProxyManager(proxy, proxy_headers=make_headers(proxy_basic_auth=secret), **options)  # type: ignore[arg-type]


def _ambient_proxy(server: str, environ: Mapping[str, str]) -> str:
    """The proxy that the environment names for this server; none for this machine and for what `no_proxy` lists."""
    proxies = {
        name.lower(): value for name, value in environ.items() if name.lower().endswith("_proxy") and value
    }
    parts = urlsplit(server)
    host = parts.hostname or ""
    direct = [entry.strip().lower().lstrip(".") for entry in proxies.get("no_proxy", "").split(",")]
    if is_loopback(server) or any(
        entry == "*" or host == entry or host.endswith(f".{entry}") for entry in direct if entry
    ):
        return ""
    return proxies.get(f"{parts.scheme}_proxy", "")


def _tls(entry: Entry, login: Credential) -> ssl.SSLContext:
    # Not `create_default_context`: since Python 3.13 that also asks for extensions that the CAs of many clusters lack.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not entry.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif entry.ca:
        try:
            context.load_verify_locations(cadata=entry.ca)
        except ssl.SSLError as error:
            raise Trouble(
                Cause.MALFORMED, f"{entry.public.path}: the CA certificate is unreadable"
            ) from error
    else:
        context.load_default_certs()
    if login.certificate:
        _load_key(context, login, entry)
    return context


def _load_key(context: ssl.SSLContext, login: Credential, entry: Entry) -> None:
    """OpenSSL takes a key only from a file: ours exists for this moment, readable by us alone."""
    descriptor, name = tempfile.mkstemp(prefix="npa-key-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{login.certificate}\n{login.key}\n")
        context.load_cert_chain(name)
    except (ssl.SSLError, ValueError) as error:
        raise Trouble(
            Cause.MALFORMED, f"{entry.public.path}: the client certificate and key do not work"
        ) from error
    finally:
        Path(name).unlink(missing_ok=True)
