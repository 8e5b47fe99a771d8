"""Credentials: chosen without asking anybody, picked up when they change, and never a browser."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from nebius_server import Cloud, api, hang, home_with_token_file, metadata, refuse, serving, settings

from engine.clock import Clock
from engine.clouds.nebius.auth import describe_login
from engine.clouds.nebius.client import Nebius
from engine.settings import Settings, read
from engine.words.presence import Absent, Cause, Ref, Unknown
from engine.words.trouble import Trouble

ROOT = Path(__file__).resolve().parents[2]
BUCKET = Ref("bucket", "storagebucket-e00b1")
FEDERATION = {
    "endpoint": "api.nebius.cloud",
    "auth-type": "federation",
    "federation-endpoint": "auth.nebius.com",
    "federation-id": "federation-e00f",
    "parent-id": "project-e00p",
    "tenant-id": "tenant-e00t",
}
KEY = "federation/auth.nebius.com/federation-e00f/p"


def configure(home: Path, default: str | None = "p", **profiles: dict[str, str]) -> None:
    (home / ".nebius").mkdir(exist_ok=True)
    config: dict[str, Any] = {"profiles": profiles}
    if default:
        config["default"] = default
    (home / ".nebius/config.yaml").write_text(yaml.safe_dump(config))


def log_in(home: Path, seconds: float, token: str = "good") -> None:
    tokens = {KEY: {"token": token, "expires_at": int(time.time() + seconds)}}
    (home / ".nebius/credentials.yaml").write_text(yaml.safe_dump({"tokens": tokens}))


def environment(home: Path, **more: str) -> Settings:
    return read({"HOME": str(home), **more})


def refused(chosen: Settings) -> str:
    with pytest.raises(Trouble) as caught:
        describe_login(chosen)
    assert caught.value.cause is Cause.UNAUTHENTICATED
    return caught.value.detail


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with serving(Cloud()) as running:

        async def user(request: Any, context: Any) -> Any:
            v1 = api("iam.v1")
            tenant = v1.UserTenantInfo(tenant_id="tenant-e00t")
            attributes = v1.UserAttributes(email="ada@example.com", name="Ada")
            return v1.GetProfileResponse(
                user_profile=v1.UserProfile(id="useraccount-e00u", tenants=[tenant], attributes=attributes)
            )

        running.behaviours["ProfileService/Get"] = user
        yield running


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a browser would leave behind: Python's `webbrowser` starts what BROWSER names."""
    opened = tmp_path / "opened"
    script = tmp_path / "browser.sh"
    script.write_text(f"#!/bin/sh\ntouch '{opened}'\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER", str(script))
    return opened


def test_nothing_to_log_in_with(tmp_path: Path) -> None:
    assert "nebius profile create" in refused(environment(tmp_path))


def test_a_token_of_the_environment_counts_only_when_it_may(tmp_path: Path) -> None:
    refused(environment(tmp_path, NEBIUS_IAM_TOKEN="good"))
    login = describe_login(environment(tmp_path, NEBIUS_IAM_TOKEN="good", NPA_REUSE_IAM_TOKEN="1"))
    assert (login.profile, login.how, login.endpoint) == (
        "",
        "token of the environment",
        "api.nebius.cloud:443",
    )
    assert "good" not in repr(login)


def test_a_profile_that_does_not_exist_is_no_login(tmp_path: Path) -> None:
    configure(tmp_path, p=FEDERATION, q=FEDERATION)
    log_in(tmp_path, 3600)
    detail = refused(environment(tmp_path, NEBIUS_PROFILE="nope"))
    assert "'nope'" in detail
    assert "p, q" in detail


def test_which_profile(tmp_path: Path) -> None:
    files = {"auth-type": "x", "token-file": "/t"}
    configure(tmp_path, default="q", p=files, q=files, r=files)
    assert describe_login(environment(tmp_path)).profile == "q"
    assert describe_login(environment(tmp_path, NEBIUS_PROFILE="p")).profile == "p"
    assert describe_login(environment(tmp_path, NEBIUS_PROFILE="p", NPA_NEBIUS_PROFILE="r")).profile == "r"
    configure(tmp_path, default=None, p=files)
    assert describe_login(environment(tmp_path)).profile == "p"
    configure(tmp_path, default=None, p=files, q=files)
    assert "NPA_NEBIUS_PROFILE" in refused(environment(tmp_path))


@pytest.mark.parametrize("left", [None, -5, 30])
def test_a_federated_login_that_is_missing_or_over_names_the_command(
    tmp_path: Path, left: int | None
) -> None:
    configure(tmp_path, p=FEDERATION)
    if left is not None:
        log_in(tmp_path, left)
    assert "nebius iam get-access-token -p p" in refused(environment(tmp_path))


def test_what_is_known_of_a_federated_login(tmp_path: Path) -> None:
    configure(tmp_path, p=FEDERATION)
    log_in(tmp_path, 3600, token="sesame-sesame")
    login = describe_login(environment(tmp_path))
    assert (login.profile, login.hint, login.how) == ("p", "federation-e00f", "cached login")
    assert (login.parent_id, login.tenant_id, login.endpoint) == (
        "project-e00p",
        "tenant-e00t",
        "api.nebius.cloud",
    )
    assert login.expires_at.endswith("Z")
    assert "sesame" not in repr(login)


def test_an_impersonating_federated_profile_asks_for_a_token(tmp_path: Path) -> None:
    configure(tmp_path, p={**FEDERATION, "impersonate-service-account-id": "serviceaccount-e00i"})
    log_in(tmp_path, 3600)
    assert "NEBIUS_IAM_TOKEN" in refused(environment(tmp_path))


@pytest.mark.parametrize("text", ["[", "just text", "profiles: 7", "tokens: {a: sesame"])
def test_a_broken_configuration_is_no_login_and_is_not_quoted(tmp_path: Path, text: str) -> None:
    (tmp_path / ".nebius").mkdir()
    (tmp_path / ".nebius/config.yaml").write_text(text)
    assert "sesame" not in refused(environment(tmp_path))


async def test_who_am_i(cloud: Cloud, tmp_path: Path) -> None:
    home_with_token_file(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        principal = await nebius.whoami()
        assert (principal.id, principal.kind, principal.name) == (
            "useraccount-e00u",
            "user",
            "ada@example.com",
        )
        assert (principal.tenant_ids, principal.profile) == (("tenant-e00t",), "p")
        assert "useraccount-e00u" in (await nebius.look(BUCKET)).by


async def test_who_am_i_as_a_service_account_or_as_nobody(cloud: Cloud, tmp_path: Path) -> None:
    v1 = api("iam.v1")
    account = v1.ServiceAccount(metadata=metadata("serviceaccount-e00s", "project-e00p", "robot"))
    profiles = [
        v1.GetProfileResponse(service_account_profile=v1.ServiceAccountProfile(info=account)),
        v1.GetProfileResponse(),
    ]

    async def next_one(request: Any, context: Any) -> Any:
        return profiles.pop(0)

    cloud.behaviours["ProfileService/Get"] = next_one
    home_with_token_file(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        principal = await nebius.whoami()
        assert (principal.id, principal.kind, principal.name) == (
            "serviceaccount-e00s",
            "service_account",
            "robot",
        )
        with pytest.raises(Trouble) as caught:
            await nebius.whoami()
        assert caught.value.cause is Cause.UNAUTHENTICATED


async def test_a_missing_profile_is_never_absence(cloud: Cloud, tmp_path: Path) -> None:
    home_with_token_file(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port, NEBIUS_PROFILE="nope"), Clock(0.01)) as nebius:
        presence = (await nebius.look(BUCKET)).presence
        assert isinstance(presence, Unknown)
        assert presence.cause is Cause.UNAUTHENTICATED
        assert "not in" in presence.detail
        assert not (await nebius.list("bucket", "project-e00p")).proves_empty
    assert not cloud.calls


async def test_a_token_that_was_renewed_in_another_terminal_is_picked_up(
    cloud: Cloud, tmp_path: Path
) -> None:
    home_with_token_file(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        assert (await nebius.look(BUCKET)).presence == Absent()
        cloud.token = "renewed"
        presence = (await nebius.look(BUCKET)).presence
        assert isinstance(presence, Unknown)
        assert presence.cause is Cause.UNAUTHENTICATED
        (tmp_path / "token").write_text("renewed")
        assert (await nebius.look(BUCKET)).presence == Absent()


async def test_a_token_renewed_while_a_call_is_refused_saves_that_call(cloud: Cloud, tmp_path: Path) -> None:
    home_with_token_file(tmp_path)
    asked = 0

    async def renew_and_refuse(request: Any, context: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            cloud.token = "renewed"
            (tmp_path / "token").write_text("renewed")
            await refuse(context, "UNAUTHENTICATED", "expired just now")
        await cloud.missing(context, request.id)

    cloud.behaviours["BucketService/Get"] = renew_and_refuse
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        assert (await nebius.look(BUCKET)).presence == Absent()
    assert asked == 2


async def test_credentials_are_read_again_once_and_no_more(cloud: Cloud, tmp_path: Path) -> None:
    home_with_token_file(tmp_path)
    asked = 0

    async def renew_and_refuse(request: Any, context: Any) -> Any:
        nonlocal asked
        asked += 1
        cloud.token = f"renewed-{asked}"
        (tmp_path / "token").write_text(cloud.token)
        await refuse(context, "UNAUTHENTICATED", "never good enough")

    cloud.behaviours["BucketService/Get"] = renew_and_refuse
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        presence = (await nebius.look(BUCKET)).presence
        assert isinstance(presence, Unknown)
        assert presence.cause is Cause.UNAUTHENTICATED
    assert asked == 2


async def test_a_login_made_after_the_first_failure_counts(cloud: Cloud, tmp_path: Path) -> None:
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        presence = (await nebius.look(BUCKET)).presence
        assert isinstance(presence, Unknown)
        assert presence.cause is Cause.UNAUTHENTICATED
        home_with_token_file(tmp_path)
        assert (await nebius.look(BUCKET)).presence == Absent()


async def test_a_federated_login_about_to_end_opens_no_browser(
    cloud: Cloud, tmp_path: Path, browser: Path
) -> None:
    configure(tmp_path, p=FEDERATION)
    log_in(tmp_path, 20 * 60)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        assert (await nebius.whoami()).expires_at
        assert (await nebius.look(BUCKET)).presence == Absent()
        log_in(tmp_path, -5)
        presence = (await nebius.look(BUCKET)).presence
        assert isinstance(presence, Unknown)
        assert presence.cause is Cause.UNAUTHENTICATED
        assert "nebius iam get-access-token" in presence.detail
        await asyncio.sleep(0.3)
    assert not browser.exists()


async def test_without_plaintext_no_token_leaves_in_the_clear(cloud: Cloud, tmp_path: Path) -> None:
    home_with_token_file(tmp_path)
    chosen = environment(tmp_path, NEBIUS_ENDPOINT=f"127.0.0.1:{cloud.port}", NPA_TIME_SCALE="0.01")
    async with Nebius(chosen, Clock(0.01)) as nebius:
        presence = (await nebius.look(BUCKET)).presence
        assert isinstance(presence, Unknown)
        assert presence.cause is Cause.UNREACHABLE
    assert not cloud.calls


async def test_the_cloud_itself_is_the_endpoint_of_the_profile(tmp_path: Path) -> None:
    home_with_token_file(tmp_path)
    async with Nebius(environment(tmp_path), Clock()) as nebius:
        await nebius.open()  # makes the SDK with TLS; connects to nobody
        seen = await nebius.look(Ref("bucket", "a-name"))
        assert seen.by == "nebius api.nebius.cloud"


def service_account_profile(home: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    configure(
        home,
        p={
            "auth-type": "service account",
            "service-account-id": "serviceaccount-e00s",
            "public-key-id": "publickey-e00k",
            "private-key": key.decode(),
        },
    )


async def test_a_service_account_exchanges_its_key_for_a_token(cloud: Cloud, tmp_path: Path) -> None:
    async def exchange(request: Any, context: Any) -> Any:
        return api("iam.v1").CreateTokenResponse(access_token="good", token_type="Bearer", expires_in=3600)

    cloud.behaviours["TokenExchangeService/Exchange"] = exchange
    service_account_profile(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        assert (await nebius.look(BUCKET)).presence == Absent()
        assert len(cloud.called("TokenExchangeService/Exchange")) == 1


async def test_a_token_left_in_the_environment_does_not_replace_a_service_account(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def exchange(request: Any, context: Any) -> Any:
        return api("iam.v1").CreateTokenResponse(access_token="good", token_type="Bearer", expires_in=3600)

    monkeypatch.setenv("NEBIUS_IAM_TOKEN", "stale")
    monkeypatch.setenv("NEBIUS_PROFILE", "nope")
    cloud.behaviours["TokenExchangeService/Exchange"] = exchange
    service_account_profile(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        assert (await nebius.look(BUCKET)).presence == Absent()


async def test_a_not_found_of_the_token_exchange_is_no_absence(cloud: Cloud, tmp_path: Path) -> None:
    async def no_such_key(request: Any, context: Any) -> Any:
        await refuse(context, "NOT_FOUND", "no such key")

    cloud.behaviours["TokenExchangeService/Exchange"] = no_such_key
    service_account_profile(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        presence = (await nebius.look(BUCKET)).presence
        assert isinstance(presence, Unknown)
        assert presence.cause is Cause.UNAUTHENTICATED
        listing = await nebius.list("bucket", "project-e00p")
        assert listing.gap is not None
        assert listing.gap.cause is Cause.UNAUTHENTICATED
    assert not cloud.called("BucketService/Get")


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_importing_and_making_the_client_loads_no_sdk() -> None:
    done = run(
        "import sys\n"
        "from engine.clouds.nebius import auth, calls, client, kinds, prices\n"
        "from engine import clock, settings\n"
        "client.Nebius(settings.read({}), clock.Clock())\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('nebius', 'grpc', 'yaml', 'cryptography')])"
    )
    assert done.stdout.strip() == "[]", done.stderr


async def look_in_a_process(
    home: Path, cloud: Cloud, meanwhile: Callable[[], Awaitable[object]]
) -> tuple[bytes, bytes]:
    """What a process that looks once, and may be met `meanwhile`, leaves on stdout and on stderr."""
    code = (
        "import asyncio\n"
        "from engine import clock, settings\n"
        "from engine.clouds.nebius.client import Nebius\n"
        "from engine.words.presence import Ref\n"
        "async def main():\n"
        "    async with Nebius(settings.read(), clock.Clock(0.01)) as nebius:\n"
        f"        print((await nebius.look(Ref(*{tuple(BUCKET)!r}))).presence.cause)\n"
        "asyncio.run(main())"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        cwd=ROOT,
        env={**os.environ, **settings(home, cloud.port).environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    await meanwhile()
    return await process.communicate()


async def test_the_sdk_is_silent_on_stderr(cloud: Cloud, tmp_path: Path) -> None:
    async def no_such_key(request: Any, context: Any) -> Any:
        await refuse(context, "PERMISSION_DENIED", "no such key")

    cloud.behaviours["TokenExchangeService/Exchange"] = no_such_key
    service_account_profile(tmp_path)
    assert await look_in_a_process(tmp_path, cloud, lambda: asyncio.sleep(0)) == (b"unauthenticated\n", b"")


async def test_the_c_core_of_grpc_is_silent_on_stderr(tmp_path: Path) -> None:
    arrived = asyncio.Event()

    async def arrive_and_hang(request: Any, context: Any) -> Any:
        arrived.set()
        await hang(request, context)

    home_with_token_file(tmp_path)
    async with AsyncExitStack() as stack:
        cloud = await stack.enter_async_context(
            serving(Cloud(behaviours={"BucketService/Get": arrive_and_hang}))
        )

        async def go_away_in_mid_call() -> None:
            await arrived.wait()
            await stack.aclose()

        assert await look_in_a_process(tmp_path, cloud, go_away_in_mid_call) == (b"unreachable\n", b"")


async def test_a_proxy_of_the_environment_is_not_asked_for_loopback(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    home_with_token_file(tmp_path)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        assert (await nebius.look(BUCKET)).presence == Absent()


async def test_a_token_file_of_an_impersonating_profile_that_is_missing_is_no_login(
    cloud: Cloud, tmp_path: Path
) -> None:
    profile = {"token-file": str(tmp_path / "none"), "impersonate-service-account-id": "serviceaccount-e00i"}
    configure(tmp_path, p=profile)
    async with Nebius(settings(tmp_path, cloud.port), Clock(0.01)) as nebius:
        presence = (await nebius.look(BUCKET)).presence
        assert isinstance(presence, Unknown)
        assert presence.cause is Cause.UNAUTHENTICATED


def test_without_the_sdk_there_is_no_client_and_nothing_is_absent(tmp_path: Path) -> None:
    home_with_token_file(tmp_path)
    done = run(
        "import sys; sys.modules['nebius'] = None\n"
        "import asyncio\n"
        "from engine import clock, settings\n"
        "from engine.clouds.nebius.client import Nebius\n"
        "from engine.words.presence import Ref\n"
        "async def main():\n"
        "    async with Nebius(settings.read(), clock.Clock()) as nebius:\n"
        f"        print((await nebius.look(Ref(*{tuple(BUCKET)!r}))).presence.cause)\n"
        "asyncio.run(main())",
        HOME=str(tmp_path),
    )
    assert done.stdout.strip() == "no_client", done.stderr
