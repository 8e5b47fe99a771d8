"""One module in one scratch folder: initialise, read the state, destroy."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from engine.clock import Clock
from engine.clouds.child import LADDER, Child
from engine.clouds.terraform import events, lockfile
from engine.clouds.terraform.binary import Binary, platform_name
from engine.clouds.terraform.environment import child_environment, plugin_cache
from engine.clouds.terraform.events import TerraformEvent
from engine.clouds.terraform.failures import Diagnostic, Kind, TerraformTrouble, classify, from_text
from engine.clouds.terraform.scratch import Scratch, write_private
from engine.clouds.terraform.state import CLUSTER_TYPE, STATE, StateView, parse_state
from engine.words.intents import Intent, Stop
from engine.words.presence import Cause
from engine.words.redact import redact

INIT_SECONDS = 600.0
PULL_SECONDS = 120.0
DESTROY_SECONDS = 7200.0
HEARTBEAT_SECONDS = 15.0
LEAST_REAL_SECONDS = 10.0
"""Real seconds that a short command gets even when time is scaled down: Terraform itself is not."""
_STATE_LIMIT = 64 * 1024 * 1024
_ERRORED = "errored.tfstate"
_AFTER_INTERRUPT = LADDER[1:]


class Terraform:
    """Runs Terraform on a module. To be entered: its data directory lives as long as the context, whatever happens.

    scratch_root  where `run-XXXX` is made
    environ       the operator's environment; see `environment.child_environment` for what of it Terraform gets
    secrets       environment name -> value for the children, such as the keys of an S3 backend or `TF_VAR_iam_token`
    """

    def __init__(
        self,
        binary: Binary,
        module_dir: Path,
        scratch_root: Path,
        clock: Clock,
        *,
        environ: Mapping[str, str],
        context: str = "",
        reuse_token: bool = False,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._binary, self._dir, self._root, self._clock = binary, module_dir, scratch_root, clock
        self._environ, self._context, self._reuse = environ, context, reuse_token
        self._secrets = dict(secrets or {})
        self._platform = platform_name()
        self._scratch: Scratch | None = None

    async def __aenter__(self) -> Terraform:
        self._scratch = Scratch.make(self._root, self._dir, self._context, self._clock)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        scratch, self._scratch = self._scratch, None
        if scratch is None:
            return
        try:
            await scratch.remove()
        except TerraformTrouble as left:
            if error is None:
                raise
            error.add_note(left.detail)

    async def init(self) -> None:
        """Install providers and set up the backend, with the lock file read-only. Raises `TerraformTrouble`."""
        before = await asyncio.to_thread(lockfile.stamp, self._dir)
        status, said = await self._talk(["init", "-input=false", "-lockfile=readonly"], INIT_SECONDS, {})
        if await asyncio.to_thread(lockfile.stamp, self._dir) != before:
            raise TerraformTrouble(
                Kind.LOCK_FILE,
                Cause.CONFLICT,
                f"{self._dir / lockfile.LOCK} was changed while Terraform initialised",
            )
        if status:
            raise said.failure(self._dir, self._platform)

    async def state(self) -> StateView:
        """What the state holds, after `init`. One that does not exist is empty. Raises `Trouble` for anything else."""
        return parse_state(await self._pull())

    async def destroy(
        self,
        intent: Intent,
        progress: Callable[[TerraformEvent], None],
        *,
        variables: Mapping[str, str],
        recovery_dir: Path,
        timeout: float = DESTROY_SECONDS,
    ) -> None:
        """Destroy everything in the state, after `init`. Returns only when Terraform says that it removed it all.

        The state is first saved, mode 0600, to `recovery_dir`. When `intent.stop` is set, Terraform gets one interrupt and is
        waited for. After `timeout` nominal seconds it is stopped by the ladder.

        Raises `TerraformTrouble`; what was destroyed by then stays destroyed, and the state says so.
        """
        self._refuse_unsaved_state()
        text = await self._pull()
        state = parse_state(text)
        self._check(intent, state)
        if state.exists:
            await asyncio.to_thread(_save, text.encode(), recovery_dir, f"before-destroy-{state.serial}")
        status, said = await self._talk(
            ["destroy", "-auto-approve", "-input=false", "-lock-timeout=30s"],
            timeout,
            variables,
            progress=progress,
            stop=intent.stop,
        )
        if (self._dir / _ERRORED).exists():
            raise await self._rescue(recovery_dir)
        if said.timed_out:
            raise TerraformTrouble(
                Kind.TIMED_OUT,
                Cause.TIMED_OUT,
                f"the destroy was stopped after {timeout:g} s; last seen: {said.last}",
            )
        if status and said.interrupted:
            raise TerraformTrouble(
                Kind.INTERRUPTED,
                Cause.CONFLICT,
                "the destroy was interrupted on request; what is left is still in the state",
            )
        if status:
            raise said.failure(self._dir, self._platform)
        if "destroy" not in said.operations:
            raise TerraformTrouble(
                Kind.FAILED, Cause.MALFORMED, "Terraform ended with success without saying what it destroyed"
            )

    def _check(self, intent: Intent, state: StateView) -> None:
        """Compare the state with what the intent is about, right before the call."""
        if intent.ref.kind == STATE and intent.expect and intent.expect != state.fingerprint:
            raise TerraformTrouble(
                Kind.FAILED, Cause.CONFLICT, "the Terraform state changed since it was looked at"
            )
        foreign = sorted(set(state.cluster_ids) - {intent.ref.id})
        if intent.ref.kind == "cluster" and foreign:
            raise TerraformTrouble(
                Kind.FAILED,
                Cause.CONFLICT,
                f"the state in {self._dir} holds {', '.join(foreign)} ({CLUSTER_TYPE}), not only {intent.ref.id}",
            )

    def _refuse_unsaved_state(self) -> None:
        if (self._dir / _ERRORED).exists():
            raise TerraformTrouble(
                Kind.STATE_NOT_SAVED, Cause.CONFLICT, self._push_advice(self._dir / _ERRORED)
            )

    async def _rescue(self, recovery_dir: Path) -> TerraformTrouble:
        """A state that Terraform could not store lies in the module folder: keep a copy, and say how to push it."""
        data = await asyncio.to_thread((self._dir / _ERRORED).read_bytes)
        copy = await asyncio.to_thread(_save, data, recovery_dir, "errored")
        return TerraformTrouble(
            Kind.STATE_NOT_SAVED,
            Cause.CONFLICT,
            f"{self._push_advice(self._dir / _ERRORED)}. A copy is {copy}",
        )

    def _push_advice(self, path: Path) -> str:
        return (
            f"an earlier state could not be stored and lies in {path}; nothing may run before it is stored:"
            f" terraform -chdir={self._dir} state push {_ERRORED}, then remove that file"
        )

    async def _pull(self) -> str:
        async with await self._start(["state", "pull"], {}) as child:
            try:
                async with asyncio.timeout(max(self._clock.real(PULL_SECONDS), LEAST_REAL_SECONDS)):
                    text = await child.read_all(_STATE_LIMIT)
                    status = await child.wait()
            except TimeoutError:
                raise TerraformTrouble(
                    Kind.BACKEND_UNREACHABLE, Cause.TIMED_OUT, f"the state was not read in {PULL_SECONDS:g} s"
                ) from None
            if status == 0:
                return text
            errors = child.stderr_text
            raise classify(
                from_text(errors), module_dir=str(self._dir), platform=self._platform, fallback=errors[-400:]
            )

    async def _start(self, arguments: list[str], variables: Mapping[str, str]) -> Child:
        scratch = self._scratch
        if scratch is None:
            raise RuntimeError("Terraform runs inside its context only")
        env = child_environment(
            self._environ,
            module_dir=self._dir,
            data_dir=scratch.path,
            cache=plugin_cache(self._environ, self._platform),
            reuse_token=self._reuse,
            variables=variables,
            secrets=self._secrets,
        )
        return await Child.start(
            [*self._binary.argv, *arguments],
            env=env,
            cwd=self._dir,
            clock=self._clock,
            hold=(scratch.lock_fd,),
        )

    async def _talk(
        self,
        arguments: list[str],
        timeout: float,
        variables: Mapping[str, str],
        *,
        progress: Callable[[TerraformEvent], None] = lambda event: None,
        stop: Stop | None = None,
    ) -> tuple[int, _Said]:
        """Run a command with `-json` to its end; its exit status and what it said."""
        said = _Said(progress)
        async with await self._start([*arguments, "-json"], variables) as child:
            watch = asyncio.create_task(self._watch(child, said, timeout, stop))
            try:
                async for line in child.lines():
                    said.hear(line)
                status = await child.wait()
            finally:
                watch.cancel()
                await asyncio.wait({watch})
            said.errors = child.stderr_tail
        return status, said

    async def _watch(self, child: Child, said: _Said, timeout: float, stop: Stop | None) -> None:
        """Interrupt once when asked to, stop at the deadline, and give a sign of life when Terraform gives none."""
        began = time.monotonic()
        pause = min(0.2, self._clock.real(1.0))
        while child.running:
            await asyncio.sleep(pause)
            now = time.monotonic()
            if stop is not None and stop.is_set() and not said.interrupted:
                said.interrupted = True
                child.interrupt()
            if now - began >= self._clock.real(timeout):
                said.timed_out = child.running
                # A second interrupt would make Terraform leave at once, with its state half written.
                await child.stop(_AFTER_INTERRUPT if said.interrupted else None)
                return
            if now - said.heard >= self._clock.real(HEARTBEAT_SECONDS):
                said.beat((now - began) / self._clock.scale)


class _Said:
    """What one run of Terraform has said so far."""

    def __init__(self, progress: Callable[[TerraformEvent], None]) -> None:
        self._progress = progress
        self.complaints: list[Diagnostic] = []
        self.operations: set[str] = set()
        self.last = ""
        self.errors = ""
        self.heard = time.monotonic()
        self.interrupted = False
        self.timed_out = False
        self._noise = ""

    def hear(self, line: str) -> None:
        self.heard = time.monotonic()
        said = events.parse(line)
        if said is None:
            self._noise = line or self._noise
            return
        if said.complaint is not None:
            self.complaints.append(said.complaint)
        if said.operation:
            self.operations.add(said.operation)
        if said.event is not None:
            self.last = said.event.address or self.last
            self._progress(said.event)

    def beat(self, elapsed: float) -> None:
        self.heard = time.monotonic()
        self._progress(TerraformEvent("waiting", self.last, f"still at {self.last or 'the start'}", elapsed))

    def failure(self, module_dir: Path, platform: str) -> TerraformTrouble:
        fallback = redact(self.errors[-400:] or self._noise[-400:])
        return classify(
            [*self.complaints, *from_text(self.errors)],
            module_dir=str(module_dir),
            platform=platform,
            fallback=fallback,
        )


def _save(data: bytes, folder: Path, what: str) -> Path:
    """Keep a state; the same one is kept once."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{what}-{hashlib.sha256(data).hexdigest()[:12]}.tfstate"
    if not path.exists():
        write_private(path, data)
    return path
