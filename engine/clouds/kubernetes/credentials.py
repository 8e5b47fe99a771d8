"""Who we are to the API server: a token, a password or a certificate, from the kubeconfig or from its plugin.

The official client runs plugins itself, on our terminal, without a deadline, and goes on anonymously when they fail. So we
run them: no terminal, no browser, a deadline, and a failure that is told.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path, PurePath
from urllib.parse import urlsplit

from engine.clock import Clock, parse
from engine.clouds.child import AT_ONCE, Child
from engine.clouds.kubernetes.kubeconfig import Entry, Login, Plugin
from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

PLUGIN_SECONDS = 20.0
"""Nominal seconds that a plugin may take."""

_LEAST_REAL = 2.0
_LIMIT = 256 * 1024
_SKEW = timedelta(seconds=30)
"""How long before its end a credential is given up, so that it does not run out on the way."""
_REREAD = timedelta(seconds=60)
"""How long the content of a token file is trusted: something else renews it."""
_TRUE = frozenset({"1", "true", "yes", "on"})
_API_VERSIONS = frozenset({"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"})
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "MIR_SOCKET")


@dataclass(frozen=True, slots=True)
class Credential:
    """What goes with each request. `certificate` and `key` are PEM texts. `until`: None when it does not run out."""

    authorization: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    until: datetime | None = None


async def credential(entry: Entry, clock: Clock, environ: Mapping[str, str]) -> Credential:
    """The credential of a context, by running its plugin when it has one.

    Raises `Trouble`: NO_CLIENT for a plugin that is not installed, UNAUTHENTICATED for one that fails and for a user without
    any credential, TIMED_OUT for one that hangs, MALFORMED for an answer that is no credential.
    """
    login = entry.login
    if login.plugin is not None:
        return await _from_plugin(login.plugin, entry, clock, environ)
    return _from_file(login, entry, clock)


def _from_file(login: Login, entry: Entry, clock: Clock) -> Credential:
    where = f"user {entry.public.user!r} of {entry.public.path}"
    if login.token_file:
        try:
            token = Path(login.token_file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Trouble(Cause.UNAUTHENTICATED, f"{where}: the token file cannot be read") from error
        return _bearer(token, where, until=clock.utc() + _REREAD)
    if login.token:
        return _bearer(login.token, where)
    if login.certificate:
        return Credential(certificate=login.certificate, key=login.key)
    if login.username:
        pair = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
        return Credential(authorization=f"Basic {pair}")
    raise Trouble(Cause.UNAUTHENTICATED, f"{where} has no credential")


def _bearer(token: str, where: str, *, until: datetime | None = None) -> Credential:
    if not token or any(ord(c) <= 32 or ord(c) >= 127 for c in token):
        raise Trouble(Cause.MALFORMED, f"{where}: the token is empty or no token")
    return Credential(authorization=f"Bearer {token}", until=until)


async def _from_plugin(plugin: Plugin, entry: Entry, clock: Clock, environ: Mapping[str, str]) -> Credential:
    name = PurePath(plugin.command).name
    what = f"credential plugin {name}"
    try:
        async with asyncio.timeout(max(_LEAST_REAL, clock.real(PLUGIN_SECONDS))):
            async with await Child.start(
                command_line(plugin), env=environment(plugin, entry, environ), ladder=AT_ONCE, clock=clock
            ) as child:
                answer = await child.read_all(_LIMIT)
                status = await child.wait()
                said = child.stderr_tail
    except TimeoutError as error:
        raise Trouble(
            Cause.TIMED_OUT,
            f"{what} gave no answer within {PLUGIN_SECONDS:g} s; it may be waiting for a login",
        ) from error
    if status in (126, 127):  # a shell or `env` in between found no such program
        raise Trouble(Cause.NO_CLIENT, redact(f"{what} cannot be started: {said}"))
    if status:
        raise Trouble(Cause.UNAUTHENTICATED, redact(f"{what} failed with status {status}: {said[-400:]}"))
    return decode(answer, plugin.api_version, what)


def command_line(plugin: Plugin) -> list[str]:
    """The plugin's command. The Nebius CLI opens a browser unless its very first argument forbids it."""
    arguments = list(plugin.args)
    if PurePath(plugin.command).name.removesuffix(".exe") == "nebius":
        arguments = ["--no-browser", *(a for a in arguments if a != "--no-browser")]
    return [plugin.command, *arguments]


def environment(plugin: Plugin, entry: Entry, environ: Mapping[str, str]) -> dict[str, str]:
    """What the plugin sees: our environment without what could open a window, and without a token that another login left
    behind, which the Nebius CLI would prefer to its own profile."""
    env = {name: value for name, value in environ.items() if name not in _DISPLAYS}
    if environ.get("NPA_REUSE_IAM_TOKEN", "").lower() not in _TRUE:
        env.pop("NEBIUS_IAM_TOKEN", None)
    env["BROWSER"] = "true"  # the command that does nothing: to `webbrowser`, a browser that opened
    env.update(plugin.env)
    spec: dict[str, object] = {"interactive": False}
    if plugin.provide_cluster_info:
        spec["cluster"] = _cluster(entry)
    env["KUBERNETES_EXEC_INFO"] = json.dumps(
        {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    )
    return env


def _cluster(entry: Entry) -> dict[str, object]:
    cluster: dict[str, object] = {"server": entry.public.server}
    if entry.ca:
        cluster["certificate-authority-data"] = base64.b64encode(entry.ca.encode()).decode()
    if entry.tls_server_name:
        cluster["tls-server-name"] = entry.tls_server_name
    if not entry.verify:
        cluster["insecure-skip-tls-verify"] = True
    if entry.proxy and not urlsplit(entry.proxy).password:
        cluster["proxy-url"] = entry.proxy
    return cluster


def decode(answer: str, api_version: str, what: str) -> Credential:
    """An `ExecCredential` document as a credential. Raises `Trouble(MALFORMED)`; never quotes the answer."""
    try:
        document: object = json.loads(answer)
    except ValueError as error:
        raise Trouble(Cause.MALFORMED, f"{what}: the answer is no JSON") from error
    if not isinstance(document, dict) or document.get("kind") != "ExecCredential":
        raise Trouble(Cause.MALFORMED, f"{what}: the answer is no ExecCredential")
    got = document.get("apiVersion")
    if got not in _API_VERSIONS or (api_version and got != api_version):
        raise Trouble(
            Cause.MALFORMED, redact(f"{what}: the answer is {got!r}, while {api_version!r} was asked for")
        )
    status = document.get("status")
    fields = status if isinstance(status, dict) else {}
    token, certificate, key, expiry = (
        value if isinstance(value := fields.get(name), str) else ""
        for name in ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
    )
    until = parse(expiry) if expiry else None
    if expiry and until is None:
        raise Trouble(Cause.MALFORMED, redact(f"{what}: expires at {expiry!r}, which is no time"))
    if until is not None:
        until -= _SKEW
    if certificate and key:
        header = _bearer(token, what).authorization if token else ""
        return Credential(authorization=header, certificate=certificate, key=key, until=until)
    if not token:
        raise Trouble(Cause.MALFORMED, f"{what}: the answer holds no credential")
    return _bearer(token, what, until=until)
