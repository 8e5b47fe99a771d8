"""Which credentials to use, from what is already on the disk: nothing here logs anyone in, and no browser is ever opened.

The files are those of the provider's own command line tool: `~/.nebius/config.yaml` (profiles) and, for a federated login,
its token cache `~/.nebius/credentials.yaml`. The SDK's own way with federated profiles is not used: with less than two hours
left on the token it opens a browser behind a call that succeeds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from engine.clock import timestamp
from engine.settings import Settings
from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

CLOUD = "api.nebius.cloud:443"
MARGIN = timedelta(seconds=60)
"""A token with less than this left counts as expired: a call could outlive it."""


@dataclass(frozen=True, slots=True)
class Login:
    """How this program would authenticate. No secret is in it.

    profile     of the configuration; empty when a token of the environment does without
    hint        of whom: what the profile says, before anybody asked the provider
    expires_at  RFC 3339, or empty when the credential does not say or renews itself
    how         in a few words, for people
    endpoint    `HOST[:PORT]` that is asked
    parent_id, tenant_id  what the profile names; hints, never selectors
    """

    profile: str
    hint: str
    expires_at: str
    how: str
    endpoint: str
    parent_id: str = ""
    tenant_id: str = ""


class TokenSource(Protocol):
    """Where a token comes from. Read for each request, so that a login in another terminal is picked up at once."""

    def read(self) -> str:
        """The token. Raises `Trouble` (unauthenticated) when there is none that is valid."""
        ...


@dataclass(frozen=True, slots=True)
class Selected:
    """`source`: tokens that we read ourselves; None when the SDK must obtain them from the profile (`config_file`, `Login.profile`)."""

    login: Login
    source: TokenSource | None
    config_file: Path


def describe_login(settings: Settings) -> Login:
    """Which credentials would be used. Reads local files only. Raises `Trouble` (unauthenticated), with the command that helps."""
    return select(settings).login


def select(settings: Settings) -> Selected:
    """Choose credentials: a token of the environment if that is allowed, else the profile's own way.

    Raises `Trouble` (unauthenticated) when there is nothing to authenticate with, or only with somebody at a browser.
    """
    folder = Path(settings.environ.get("HOME") or Path.home()) / ".nebius"
    config_file = folder / "config.yaml"
    token = settings.environ.get("NEBIUS_IAM_TOKEN", "").strip() if settings.reuse_token else ""
    if not config_file.is_file():
        if token:
            anonymous = Login("", "", "", "token of the environment", _endpoint(settings, {}))
            return Selected(anonymous, _Fixed(token), config_file)
        raise _no_login("there is no ~/.nebius/config.yaml: run `nebius profile create`")
    name, profile = _profile(config_file, settings.nebius_profile)

    def login(how: str, hint: str = "", expires_at: str = "") -> Login:
        return Login(
            profile=name,
            hint=redact(hint),
            expires_at=expires_at,
            how=how,
            endpoint=_endpoint(settings, profile),
            parent_id=redact(_text(profile, "parent-id")),
            tenant_id=redact(_text(profile, "tenant-id")),
        )

    if token:
        return Selected(login("token of the environment"), _Fixed(token), config_file)
    impersonated = _text(profile, "impersonate-service-account-id")
    token_file = _text(profile, "token-file")
    if token_file:
        how = "token file"
        source = None if impersonated else _TokenFile(_expanded(token_file, settings))
        return Selected(login(how, impersonated), source, config_file)
    if _text(profile, "token-endpoint"):
        return Selected(login("metadata service", impersonated), None, config_file)
    match _text(profile, "auth-type"):
        case "federation" if impersonated:
            raise _no_login(
                f"profile {name!r} impersonates {impersonated} through a browser login: export what"
                " `nebius iam get-access-token` prints as NEBIUS_IAM_TOKEN, and NPA_REUSE_IAM_TOKEN=1"
            )
        case "federation":
            key = (
                f"federation/{_text(profile, 'federation-endpoint')}/{_text(profile, 'federation-id')}/{name}"
            )
            cached = _CachedLogin(folder / "credentials.yaml", key, name)
            return Selected(
                login("cached login", _text(profile, "federation-id"), cached.expires_at()),
                cached,
                config_file,
            )
        case "service account":
            account = impersonated or _text(profile, "service-account-id")
            return Selected(login("service account", account), None, config_file)
        case other:
            raise _no_login(f"profile {name!r} has an auth-type that this program does not know: {other!r}")


def _no_login(sentence: str) -> Trouble:
    return Trouble(Cause.UNAUTHENTICATED, redact(sentence))


def _endpoint(settings: Settings, profile: Mapping[str, object]) -> str:
    return settings.nebius_endpoint or _text(profile, "endpoint") or CLOUD


def _text(profile: Mapping[str, object], key: str) -> str:
    value = profile.get(key)
    return value.strip() if isinstance(value, str) else ""


def _expanded(path: str, settings: Settings) -> Path:
    home = settings.environ.get("HOME", "")
    return Path(home, path[2:]) if path.startswith("~/") and home else Path(path).expanduser()


def _profile(config_file: Path, wanted: str) -> tuple[str, Mapping[str, object]]:
    config = _yaml(config_file)
    profiles = config.get("profiles")
    if not isinstance(profiles, dict) or not profiles:
        raise _no_login(f"{config_file} has no profiles: run `nebius profile create`")
    names = ", ".join(sorted(map(str, profiles)))
    default = config.get("default")
    name = (
        wanted
        or (default if isinstance(default, str) else "")
        or (str(next(iter(profiles))) if len(profiles) == 1 else "")
    )
    if not name:
        raise _no_login(f"several profiles and no default ({names}): set NPA_NEBIUS_PROFILE")
    profile = profiles.get(name)
    if not isinstance(profile, dict):
        raise _no_login(f"profile {name!r} is not in {config_file}, which has: {names}")
    return name, {str(key): value for key, value in profile.items()}


def _yaml(path: Path) -> dict[str, object]:
    import yaml

    try:
        loaded: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _no_login(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # Without the parser's own words: they quote the line, and the line may be a token.
        raise _no_login(f"{path} is no valid YAML") from error
    return {str(key): value for key, value in loaded.items()} if isinstance(loaded, dict) else {}


@dataclass(frozen=True, slots=True, repr=False)
class _Fixed:
    token: str

    def read(self) -> str:
        return self.token


@dataclass(frozen=True, slots=True)
class _TokenFile:
    path: Path

    def read(self) -> str:
        try:
            token = self.path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _no_login(f"token file {self.path} cannot be read: {type(error).__name__}") from error
        if not token:
            raise _no_login(f"token file {self.path} is empty")
        return token


class _CachedLogin:
    """The token that the provider's command line tool keeps for a federated profile. Parsed again when the file changes."""

    def __init__(self, path: Path, key: str, profile: str) -> None:
        self._path = path
        self._key = key
        self._help = f"profile {profile!r} has no valid cached login: run `nebius iam get-access-token -p {profile}` once"
        self._lock = threading.Lock()  # read from the SDK's thread and from ours
        self._signature: tuple[int, int, int] | None = None
        self._token = ""
        self._until = datetime.min.replace(tzinfo=UTC)

    def read(self) -> str:
        with self._lock:
            self._refresh()
            if not self._token or self._until <= datetime.now(UTC) + MARGIN:
                raise _no_login(self._help)
            return self._token

    def expires_at(self) -> str:
        """Until when the token is valid. Raises `Trouble` when there is none."""
        self.read()
        return timestamp(self._until)

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
        except OSError as error:
            raise _no_login(self._help) from error
        signature = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if signature == self._signature:
            return
        tokens = _yaml(self._path).get("tokens")
        entry = tokens.get(self._key) if isinstance(tokens, dict) else None
        token, until = (
            (entry.get("token"), entry.get("expires_at")) if isinstance(entry, dict) else (None, None)
        )
        self._token = token if isinstance(token, str) else ""
        self._until = (
            datetime.fromtimestamp(until, UTC)
            if isinstance(until, int) and 0 < until < 1 << 33
            else datetime.min.replace(tzinfo=UTC)
        )
        self._signature = signature
