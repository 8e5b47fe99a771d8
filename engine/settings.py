"""The environment, read once: endpoints, binaries, time scale, profile. Roots of the disk are `engine.home.roots`."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from engine.words.reasons import Reason, Refusal, Refused

_TRUE = {"1", "true", "yes", "on"}


def is_loopback(endpoint: str) -> bool:
    """Whether `HOST:PORT` or a URL names this machine and nothing else. A name that needs DNS does not, but `localhost` does."""
    host = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}").hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says. Secrets are not in it, except that a token from it may be used (`reuse_token`)."""

    environ: Mapping[str, str] = field(repr=False)
    nebius_endpoint: str
    nebius_plaintext: bool
    nebius_profile: str
    reuse_token: bool
    sky_endpoint: str
    sky_bin: str
    terraform_bin: str
    time_scale: float
    non_interactive: bool

    def refuse_time_scale(self, endpoints: Mapping[str, str]) -> None:
        """Refuse a time scale other than 1 unless every endpoint in use (`what it is` -> endpoint) is loopback."""
        if self.time_scale == 1.0:
            return
        for what, endpoint in endpoints.items():
            if not is_loopback(endpoint):
                raise Refused(
                    Refusal(
                        Reason.ENDPOINT_REFUSED,
                        f"NPA_TIME_SCALE is {self.time_scale:g}, but the {what} endpoint {endpoint or 'of the cloud'} is not on this"
                        " machine: shortened waits are for rehearsals only",
                        "unset NPA_TIME_SCALE",
                    )
                )


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the environment. Raises `Refused` for a value that makes no sense or would send a token over a network in the clear."""
    env = dict(os.environ if environ is None else environ)
    endpoint = env.get("NEBIUS_ENDPOINT", "")
    plaintext = env.get("NPA_NEBIUS_PLAINTEXT", "").lower() in _TRUE
    if plaintext and not is_loopback(endpoint):
        raise Refused(
            Refusal(
                Reason.ENDPOINT_REFUSED,
                f"NPA_NEBIUS_PLAINTEXT is set, but NEBIUS_ENDPOINT {endpoint or 'is not'} {'is not on this machine' if endpoint else 'set'}",
                "unset NPA_NEBIUS_PLAINTEXT",
            )
        )
    text = env.get("NPA_TIME_SCALE", "") or "1"
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale < 1000:
        raise Refused(
            Refusal(
                Reason.ENDPOINT_REFUSED,
                f"NPA_TIME_SCALE is {text!r}, which is no positive number below 1000",
                "unset NPA_TIME_SCALE",
            )
        )
    return Settings(
        environ=env,
        nebius_endpoint=endpoint,
        nebius_plaintext=plaintext,
        nebius_profile=env.get("NPA_NEBIUS_PROFILE") or env.get("NEBIUS_PROFILE") or "",
        reuse_token=env.get("NPA_REUSE_IAM_TOKEN", "").lower() in _TRUE,
        sky_endpoint=env.get("SKYPILOT_API_SERVER_ENDPOINT", ""),
        sky_bin=env.get("NPA_SKYPILOT_BIN", ""),
        terraform_bin=env.get("NPA_TERRAFORM_BIN", ""),
        time_scale=scale,
        non_interactive=bool(env.get("CI")),
    )
