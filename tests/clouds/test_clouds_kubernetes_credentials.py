"""Which server a kubeconfig means and who we are to it: no link, no other context, no terminal, no browser, no silence."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_server import Cluster, kubeconfig, serving

from engine.clock import Clock
from engine.clouds.kubernetes import Kubernetes, read_kubeconfig
from engine.words.presence import Cause
from engine.words.trouble import Trouble

FAST = Clock(0.01)
V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with serving(Cluster()) as running:
        yield running


def script(folder: Path, body: str, name: str = "plugin") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def token(value: str = "T", *, expires: datetime | None = None, version: str = V1) -> str:
    document: dict[str, Any] = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": value}}
    if expires:
        document["status"]["expirationTimestamp"] = expires.strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps(document)


def plugin(command: Path | str, *args: str, **more: Any) -> dict[str, Any]:
    return {"exec": {"apiVersion": V1, "command": str(command), "args": list(args), **more}}


async def reach(path: Path, environ: dict[str, str] | None = None, context: str = "mine") -> Any:
    async with Kubernetes(path, context, FAST, environ=os.environ | (environ or {})) as client:
        return await client.reachable()


# ---------------------------------------------------------------------------------------------------- kubeconfig


def test_a_kubeconfig_says_what_its_context_means(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://api.example:6443/")
    config = read_kubeconfig(path, "mine")
    assert (config.server, config.host, config.user) == ("https://api.example:6443", "api.example", "u")
    assert (config.context, config.ca_fingerprint, config.path) == ("mine", "", path)


def test_another_current_context_is_told_and_not_followed(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://mine", **{"current-context": "other"})
    config = read_kubeconfig(path, "mine")
    assert (config.server, config.current_context) == ("https://mine", "other")


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda d: d["contexts"].clear(), Cause.WRONG_SCOPE),
        (lambda d: d.pop("contexts"), Cause.WRONG_SCOPE),
        (lambda d: d["contexts"].append(d["contexts"][0]), Cause.MALFORMED),
        (lambda d: d["clusters"].append(d["clusters"][0]), Cause.MALFORMED),
        (lambda d: d["users"].append(d["users"][0]), Cause.MALFORMED),
        (lambda d: d["clusters"].clear(), Cause.MALFORMED),
        (lambda d: d["users"].clear(), Cause.MALFORMED),
        (lambda d: d["clusters"][0]["cluster"].pop("server"), Cause.MALFORMED),
        (lambda d: d["clusters"][0]["cluster"].update(server=7), Cause.MALFORMED),
        (lambda d: d["clusters"][0]["cluster"].update(server="ftp://x"), Cause.MALFORMED),
        (lambda d: d["clusters"][0]["cluster"].update(server="https://[x"), Cause.MALFORMED),
        (lambda d: d["clusters"][0]["cluster"].update(server="http://10.0.0.1"), Cause.WRONG_SCOPE),
        (
            lambda d: d["clusters"][0]["cluster"].update({"certificate-authority-data": "?"}),
            Cause.MALFORMED,
        ),
        (lambda d: d["users"][0]["user"].update({"as": "root"}), Cause.NO_CLIENT),
        (lambda d: d["users"][0]["user"].update({"auth-provider": {"name": "gcp"}}), Cause.NO_CLIENT),
        (lambda d: d["users"][0]["user"].update({"exec": {"args": []}}), Cause.MALFORMED),
    ],
)
def test_a_kubeconfig_that_is_not_clear_is_refused(tmp_path: Path, change: Any, cause: Cause) -> None:
    path = kubeconfig(tmp_path, "https://x")
    document = yaml.safe_load(path.read_text())
    change(document)
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(Trouble) as raised:
        read_kubeconfig(path, "mine")
    assert raised.value.cause is cause


@pytest.mark.parametrize("content", ["", "a: [b", "- 1", "\x00", "!!python/object:os.system {}"])
def test_what_is_no_kubeconfig_is_malformed_and_not_quoted(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content + "\n# token: sesame" if content else content)
    with pytest.raises(Trouble) as raised:
        read_kubeconfig(path, "mine")
    assert raised.value.cause is Cause.MALFORMED and "sesame" not in raised.value.detail


def test_links_folders_pipes_and_nothing_are_no_kubeconfig(tmp_path: Path) -> None:
    real = kubeconfig(tmp_path, "https://x")
    (tmp_path / "link").symlink_to(real)
    os.mkfifo(tmp_path / "pipe")
    causes = {}
    for name in ("link", "pipe", "nothing"):
        with pytest.raises(Trouble) as raised:
            read_kubeconfig(tmp_path / name, "mine")
        causes[name] = raised.value.cause
    assert causes == {"link": Cause.WRONG_SCOPE, "pipe": Cause.WRONG_SCOPE, "nothing": Cause.NO_CLIENT}
    with pytest.raises(Trouble):
        read_kubeconfig(tmp_path, "mine")


# ------------------------------------------------------------------------------------------------------ contexts


async def test_only_the_server_of_the_named_context_is_asked(cluster: Cluster, tmp_path: Path) -> None:
    async with serving(Cluster()) as other:
        path = kubeconfig(tmp_path, cluster.url)
        document = yaml.safe_load(path.read_text())
        document["clusters"].append({"name": "o", "cluster": {"server": other.url}})
        document["contexts"].append({"name": "other", "context": {"cluster": "o", "user": "u"}})
        for current in ("other", ""):
            path.write_text(yaml.safe_dump({**document, "current-context": current}))
            assert await reach(path, {"KUBECONFIG": str(tmp_path / "elsewhere")}) is None
        assert not other.seen and cluster.seen


async def test_a_context_that_comes_to_mean_another_server_is_not_followed(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with serving(Cluster(token="new")) as other:
        path = kubeconfig(tmp_path, cluster.url)
        async with Kubernetes(path, "mine", FAST, environ={}) as client:
            assert await client.reachable() is None
            kubeconfig(tmp_path, other.url, {"token": "new"})
            cluster.token = "changed"
            gap = await client.reachable()
        assert gap is not None and gap.cause is Cause.WRONG_SCOPE
        assert not other.seen


# ------------------------------------------------------------------------------------------------------- plugins


async def test_a_plugin_gives_the_token_and_is_asked_once(cluster: Cluster, tmp_path: Path) -> None:
    command = script(tmp_path, f"echo x >> {tmp_path}/runs; echo '{token()}'")
    async with Kubernetes(
        kubeconfig(tmp_path, cluster.url, plugin(command)), "mine", FAST, environ=os.environ
    ) as client:
        for _ in range(3):
            assert (await client.pods()).gap is None
    assert (tmp_path / "runs").read_text() == "x\n"


async def test_a_plugin_has_no_terminal_no_browser_and_no_stale_token(
    cluster: Cluster, tmp_path: Path
) -> None:
    command = script(
        tmp_path,
        f'{{ echo "$KUBERNETES_EXEC_INFO"; echo "$BROWSER"; echo "tok=$NEBIUS_IAM_TOKEN mine=$MINE $DISPLAY";'
        f" [ -t 0 ] && echo tty; cat; $BROWSER https://login.example; }} > {tmp_path}/seen 2>&1; echo '{token()}'",
    )
    user = plugin(command, env=[{"name": "MINE", "value": "yes"}], interactiveMode="Always")
    gap = await reach(kubeconfig(tmp_path, cluster.url, user), {"NEBIUS_IAM_TOKEN": "stale", "DISPLAY": ":0"})
    assert gap is None
    info, browser, rest = (tmp_path / "seen").read_text().strip().split("\n")
    assert json.loads(info) == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert (browser, rest.strip()) == ("true", "tok= mine=yes")


async def test_the_ambient_token_stays_when_it_is_to_be_used(cluster: Cluster, tmp_path: Path) -> None:
    command = script(tmp_path, f"echo \"$NEBIUS_IAM_TOKEN\" > {tmp_path}/seen; echo '{token()}'")
    path = kubeconfig(tmp_path, cluster.url, plugin(command))
    await reach(path, {"NEBIUS_IAM_TOKEN": "wanted", "NPA_REUSE_IAM_TOKEN": "1"})
    assert (tmp_path / "seen").read_text() == "wanted\n"


async def test_the_nebius_cli_is_told_to_open_no_browser(cluster: Cluster, tmp_path: Path) -> None:
    command = script(tmp_path, f"echo \"$@\" > {tmp_path}/seen; echo '{token()}'", "nebius")
    path = kubeconfig(tmp_path, cluster.url, plugin(command, "mk8s", "get-token", "--profile", "p"))
    assert await reach(path) is None
    assert (tmp_path / "seen").read_text() == "--no-browser mk8s get-token --profile p\n"


async def test_a_relative_plugin_is_that_of_the_kubeconfigs_folder(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin", f"echo '{token()}'")
    assert await reach(kubeconfig(tmp_path, cluster.url, plugin("./bin/plugin"))) is None


async def test_the_cluster_is_described_to_a_plugin_that_asks(cluster: Cluster, tmp_path: Path) -> None:
    command = script(tmp_path, f"echo \"$KUBERNETES_EXEC_INFO\" > {tmp_path}/seen; echo '{token()}'")
    await reach(kubeconfig(tmp_path, cluster.url, plugin(command, provideClusterInfo=True)))
    assert json.loads((tmp_path / "seen").read_text())["spec"]["cluster"]["server"] == cluster.url


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("echo 'auth expired, token=abcdefgh' >&2; exit 60", Cause.UNAUTHENTICATED),
        ("exec /nonexistent/helper", Cause.NO_CLIENT),
        ("echo not-json", Cause.MALFORMED),
        ("true", Cause.MALFORMED),
        (f"echo '{token(version='client.authentication.k8s.io/v1alpha1')}'", Cause.MALFORMED),
        (f"echo '{token(version='client.authentication.k8s.io/v1beta1')}'", Cause.MALFORMED),
        (f'echo \'{{"apiVersion":"{V1}","kind":"ExecCredential"}}\'', Cause.MALFORMED),
        (f"echo '{token('')}'", Cause.MALFORMED),
        (f"echo '{token('two words')}'", Cause.MALFORMED),
        (f'echo \'{{"apiVersion":"{V1}","kind":"Other","status":{{"token":"T"}}}}\'', Cause.MALFORMED),
        ("yes | head -c 1000000", Cause.MALFORMED),
    ],
)
async def test_a_plugin_that_fails_is_told_and_nothing_is_sent(
    cluster: Cluster, tmp_path: Path, body: str, cause: Cause
) -> None:
    gap = await reach(kubeconfig(tmp_path, cluster.url, plugin(script(tmp_path, body))))
    assert gap is not None and gap.cause is cause
    assert not cluster.seen, "no request goes out as nobody"
    assert "abcdefgh" not in gap.detail


async def test_a_missing_plugin_is_no_client(cluster: Cluster, tmp_path: Path) -> None:
    gap = await reach(kubeconfig(tmp_path, cluster.url, plugin("/nonexistent/nebius")))
    assert gap is not None and gap.cause is Cause.NO_CLIENT
    assert not cluster.seen


async def test_a_plugin_that_hangs_times_out_and_is_killed(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.clouds.kubernetes.credentials._LEAST_REAL", 0.3)
    command = script(tmp_path, f"echo $$ > {tmp_path}/pid; trap '' INT TERM; sleep 30")
    started = time.monotonic()
    gap = await reach(kubeconfig(tmp_path, cluster.url, plugin(command)))
    assert gap is not None and gap.cause is Cause.TIMED_OUT
    assert time.monotonic() - started < 3
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_credential_near_its_end_is_fetched_anew(cluster: Cluster, tmp_path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=10)
    command = script(tmp_path, f"echo x >> {tmp_path}/runs; echo '{token(expires=soon)}'")
    path = kubeconfig(tmp_path, cluster.url, plugin(command))
    async with Kubernetes(path, "mine", FAST, environ=os.environ) as client:
        await client.reachable()
        await client.reachable()
    assert (tmp_path / "runs").read_text() == "x\nx\n"


async def test_a_refused_credential_is_fetched_anew_once(cluster: Cluster, tmp_path: Path) -> None:
    held = tmp_path / "token"
    held.write_text(token())
    command = script(tmp_path, f"echo x >> {tmp_path}/runs; cat {held}")
    path = kubeconfig(tmp_path, cluster.url, plugin(command))
    async with Kubernetes(path, "mine", FAST, environ=os.environ) as client:
        assert await client.reachable() is None
        cluster.token = "rotated"
        held.write_text(token("rotated"))
        assert await client.reachable() is None
        cluster.token = "lost"
        gap = await client.reachable()
    assert gap is not None and gap.cause is Cause.UNAUTHENTICATED
    assert (tmp_path / "runs").read_text() == "x\n" * 3


async def test_the_other_ways_of_logging_in(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "token-file").write_text("T\n")
    assert await reach(kubeconfig(tmp_path, cluster.url, {"tokenFile": "token-file"})) is None
    cluster.token = None
    assert await reach(kubeconfig(tmp_path, cluster.url, {"username": "a", "password": "b"})) is None
    assert cluster.seen[-1].authorization == "Basic " + base64.b64encode(b"a:b").decode()


async def test_a_user_without_a_credential_is_unauthenticated(cluster: Cluster, tmp_path: Path) -> None:
    gap = await reach(kubeconfig(tmp_path, cluster.url, {}))
    assert gap is not None and gap.cause is Cause.UNAUTHENTICATED
    assert not cluster.seen


def test_secrets_are_in_no_representation(tmp_path: Path) -> None:
    from engine.clouds.kubernetes.kubeconfig import read_entry

    assert "sesame" not in repr(read_entry(kubeconfig(tmp_path, "https://x", {"token": "sesame"}), "mine"))


# ----------------------------------------------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Self-signed server and client certificates, made by OpenSSL's own tool."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl tool is not installed")
    folder = tmp_path_factory.mktemp("keys")
    for name in ("server", "client", "other"):
        command = (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30"
            f" -keyout {folder}/{name}.key -out {folder}/{name}.pem -subj /CN={name}"
            " -addext subjectAltName=IP:127.0.0.1"
        )
        subprocess.run(command.split(), check=True, capture_output=True)
    return folder


def tls(keys: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.pem", keys / "server.key")
    return context


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


async def test_the_ca_of_the_kubeconfig_is_the_only_one_trusted(keys: Path, tmp_path: Path) -> None:
    async with serving(Cluster(), tls(keys)) as cluster:
        path = kubeconfig(
            tmp_path, cluster.url, cluster={"certificate-authority-data": data(keys / "server.pem")}
        )
        assert await reach(path) is None
        der = ssl.PEM_cert_to_DER_cert((keys / "server.pem").read_text())
        assert read_kubeconfig(path, "mine").ca_fingerprint == hashlib.sha256(der).hexdigest()
        seen = len(cluster.seen)
        for wrong in ({"certificate-authority-data": data(keys / "other.pem")}, {}):
            gap = await reach(kubeconfig(tmp_path, cluster.url, cluster=wrong))
            assert gap is not None and gap.cause is Cause.WRONG_SCOPE
        assert len(cluster.seen) == seen, "nothing is sent to a server that is not the one"


async def test_a_client_certificate_logs_in_and_leaves_no_key_behind(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    server = tls(keys)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(keys / "client.pem")
    async with serving(Cluster(token=None), server) as cluster:
        ca = {"certificate-authority": str(keys / "server.pem")}
        user = {
            "client-certificate-data": data(keys / "client.pem"),
            "client-key": str(keys / "client.key"),
        }
        assert await reach(kubeconfig(tmp_path, cluster.url, user, cluster=ca)) is None
        gap = await reach(kubeconfig(tmp_path, cluster.url, cluster=ca))
        assert gap is not None and gap.cause is Cause.UNREACHABLE
        user["client-key"] = str(keys / "other.key")
        gap = await reach(kubeconfig(tmp_path, cluster.url, user, cluster=ca))
        assert gap is not None and gap.cause is Cause.MALFORMED
    assert not list(temporary.iterdir())


async def test_plain_http_behind_https_is_unreachable(cluster: Cluster, tmp_path: Path) -> None:
    gap = await reach(kubeconfig(tmp_path, cluster.url.replace("http:", "https:")))
    assert gap is not None and gap.cause is Cause.UNREACHABLE
