"""One context of one kubeconfig file: which server it means, and how its user proves who they are."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from engine.settings import is_loopback
from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

_LIMIT = 4 * 1024 * 1024
"""Bytes. A kubeconfig is a few kilobytes; what is larger is none."""

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """What a context means, without its secrets.

    server           URL of the API server
    ca_fingerprint   SHA-256, in hex, of the DER form of the first CA certificate; empty when the file names none
    user             name of the user entry
    current_context  what the file calls its current context. Never followed; a caller may hold it against `context`
    """

    path: Path
    context: str
    server: str
    ca_fingerprint: str
    user: str
    current_context: str = ""

    @property
    def host(self) -> str:
        """Host of the server, without its port."""
        return urlsplit(self.server).hostname or ""


@dataclass(frozen=True, slots=True)
class Plugin:
    """The `exec` of a user entry. A relative `command` is already resolved against the folder of the file."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    api_version: str
    provide_cluster_info: bool


@dataclass(frozen=True, slots=True)
class Login:
    """How the user of a context proves who they are; at most one of the ways is set. PEM texts are decoded."""

    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    plugin: Plugin | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A context with all that is needed to connect. `ca` is PEM text, empty for the machine's own roots."""

    public: Kubeconfig
    login: Login
    ca: str
    verify: bool
    tls_server_name: str
    proxy: str


def read_kubeconfig(path: Path, context: str) -> Kubeconfig:
    """What `context` means in the file, which must be a regular one and no symbolic link.

    Raises `Trouble`: NO_CLIENT when there is no such file, MALFORMED when it cannot be understood or names something twice,
    WRONG_SCOPE when it is a link, does not know the context, or would send credentials over a network in the clear.
    """
    return read_entry(path, context).public


def read_entry(path: Path, context: str) -> Entry:
    """The same, with the secrets."""
    document = _load(path)
    link = _named(document, "contexts", "context", context, path, missing=Cause.WRONG_SCOPE)
    cluster = _named(document, "clusters", "cluster", _text(link, "cluster", path), path)
    user_name = _text(link, "user", path)
    user = _named(document, "users", "user", user_name, path) if user_name else {}
    server = _text(cluster, "server", path).rstrip("/")
    parts = _split(server)
    if parts is None:
        raise Trouble(Cause.MALFORMED, f"{path}: context {context!r} has no usable server")
    scheme, _ = parts
    if scheme == "http" and not is_loopback(server):
        raise Trouble(
            Cause.WRONG_SCOPE,
            f"{path}: {redact(server)} would get the credentials over a network in the clear",
        )
    ca = _pem(cluster, "certificate-authority-data", "certificate-authority", path)
    return Entry(
        public=Kubeconfig(
            path=path,
            context=context,
            server=server,
            ca_fingerprint=fingerprint_of_pem(ca),
            user=user_name,
            current_context=_text(document, "current-context", path),
        ),
        login=_login(user, path),
        ca=ca,
        verify=cluster.get("insecure-skip-tls-verify") is not True,
        tls_server_name=_text(cluster, "tls-server-name", path),
        proxy=_text(cluster, "proxy-url", path),
    )


def fingerprint_of_pem(pem: str) -> str:
    """SHA-256, in hex, of the DER form of the first certificate in a PEM text; empty for an empty or unreadable one."""
    start, end = pem.find("-----BEGIN CERTIFICATE-----"), pem.find("-----END CERTIFICATE-----")
    if start < 0 or end < start:
        return ""
    with contextlib.suppress(ValueError):
        return hashlib.sha256(
            ssl.PEM_cert_to_DER_cert(pem[start : end + len("-----END CERTIFICATE-----")])
        ).hexdigest()
    return ""


def _split(server: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(server)
        return (
            (parts.scheme, parts.hostname) if parts.scheme in ("http", "https") and parts.hostname else None
        )
    except ValueError:
        return None


def _load(path: Path) -> Document:
    import yaml

    try:
        # Opened without following a link and judged by the open descriptor, so that nothing can be swapped in between. Without
        # blocking, because opening a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise Trouble(Cause.WRONG_SCOPE, f"{path} is a symbolic link, which is not followed") from error
        raise Trouble(Cause.NO_CLIENT, f"no kubeconfig at {path}: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Trouble(Cause.WRONG_SCOPE, f"{path} is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(_LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(content) > _LIMIT:
        raise Trouble(Cause.MALFORMED, f"{path} is too large for a kubeconfig")
    try:
        document: object = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        # Without the parser's own words, which quote the line and with it perhaps a token.
        raise Trouble(Cause.MALFORMED, f"{path} is no valid YAML") from error
    if not isinstance(document, dict):
        raise Trouble(Cause.MALFORMED, f"{path} is no kubeconfig")
    return document


def _named(
    document: Document,
    section: str,
    inner: str,
    name: str,
    path: Path,
    *,
    missing: Cause = Cause.MALFORMED,
) -> Document:
    """The one entry of that name. Two of a name are refused: tools disagree on which of them counts."""
    entries = document.get(section)
    found = [
        entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and entry.get("name") == name
    ]
    if not name or not found:
        raise Trouble(missing, f"{path} has no {inner} {name!r}")
    if len(found) > 1:
        raise Trouble(Cause.MALFORMED, f"{path} has {len(found)} entries for the {inner} {name!r}")
    body = found[0].get(inner)
    if body is None and inner == "user":
        return {}
    if not isinstance(body, dict):
        raise Trouble(Cause.MALFORMED, f"{path}: the {inner} {name!r} is empty")
    return body


def _text(mapping: Document, key: str, path: Path) -> str:
    value = mapping.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Trouble(Cause.MALFORMED, f"{path}: {key} is no text")
    return value


def _pem(mapping: Document, data_key: str, file_key: str, path: Path) -> str:
    """A PEM text given inside, base64 encoded, or as a file relative to the folder of the kubeconfig. Inside wins."""
    if data := _text(mapping, data_key, path):
        try:
            return base64.b64decode(data, validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise Trouble(Cause.MALFORMED, f"{path}: {data_key} is no base64 of PEM") from error
    if name := _text(mapping, file_key, path):
        try:
            return (path.parent / name).read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise Trouble(Cause.MALFORMED, f"{path}: {file_key} {name} cannot be read") from error
    return ""


def _login(user: Document, path: Path) -> Login:
    for key in ("as", "as-uid", "as-groups", "as-user-extra", "auth-provider"):
        if user.get(key):
            # Left out silently, the calls would be made by somebody else than the file says.
            raise Trouble(Cause.NO_CLIENT, f"{path}: {key!r} of a user is not supported")
    plugin = user.get("exec")
    if plugin is not None:
        if not isinstance(plugin, dict):
            raise Trouble(Cause.MALFORMED, f"{path}: exec is no mapping")
        return Login(plugin=_plugin(plugin, path))
    certificate = _pem(user, "client-certificate-data", "client-certificate", path)
    token_file = _text(user, "tokenFile", path)
    return Login(
        token=_text(user, "token", path),
        token_file=str(path.parent / token_file) if token_file else "",
        username=_text(user, "username", path),
        password=_text(user, "password", path),
        certificate=certificate,
        key=_pem(user, "client-key-data", "client-key", path) if certificate else "",
    )


def _plugin(plugin: Document, path: Path) -> Plugin:
    command = _text(plugin, "command", path)
    if not command:
        raise Trouble(Cause.MALFORMED, f"{path}: exec names no command")
    if os.sep in command and not Path(command).is_absolute():
        command = str(path.parent / command)
    arguments = plugin.get("args") or []
    environment = plugin.get("env") or []
    if not isinstance(arguments, list) or not isinstance(environment, list):
        raise Trouble(Cause.MALFORMED, f"{path}: args and env of exec are no lists")
    return Plugin(
        command=command,
        args=tuple(str(argument) for argument in arguments),
        env={
            str(pair.get("name")): str(pair.get("value") or "")
            for pair in environment
            if isinstance(pair, dict) and pair.get("name")
        },
        api_version=_text(plugin, "apiVersion", path),
        provide_cluster_info=plugin.get("provideClusterInfo") is True,
    )
