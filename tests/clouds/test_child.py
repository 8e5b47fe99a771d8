"""Children: what they print, how they end, and that they never outlive us unattended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.clock import Clock
from engine.clouds.child import AT_ONCE, Child
from engine.words.presence import Cause
from engine.words.trouble import Trouble

ROOT = Path(__file__).resolve().parent.parent.parent
ENV = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"}

PATIENT = """
import os, signal, sys, time
def told(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")  # print is not reentrant
    if {leave}: sys.exit(7)
signal.signal(signal.SIGINT, told)
signal.signal(signal.SIGTERM, told)
print("up", flush=True)
time.sleep(0.05)
while True: time.sleep(0.05)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


@pytest.mark.parametrize("guardian", [True, False])
async def test_child_output_and_status(guardian: bool) -> None:
    code = "import sys; print('one'); print('two', end=''); sys.stderr.write('token=hunter2000 ' + 'x' * 5); sys.exit(3)"
    async with await Child.start(python(code), env=ENV, guardian=guardian) as child:
        assert [line async for line in child.lines()] == ["one", "two"]
        assert await child.wait() == 3
        assert "hunter2000" not in child.stderr_tail
        assert child.stderr_tail.endswith("xxxxx")


@pytest.mark.parametrize("guardian", [True, False])
async def test_child_that_cannot_be_started_is_no_client(guardian: bool, tmp_path: Path) -> None:
    with pytest.raises(Trouble) as caught:
        await Child.start([str(tmp_path / "nothing")], env=ENV, guardian=guardian)
    assert caught.value.cause is Cause.NO_CLIENT
    assert "No such file" in caught.value.detail


async def test_child_gets_exactly_the_environment_that_was_given() -> None:
    async with await Child.start(
        python("import os; print(sorted(os.environ))"), env={"ONLY": "this"}
    ) as child:
        (line,) = [line async for line in child.lines()]
    assert set(eval(line)) <= {"ONLY", "LC_CTYPE"}


async def test_child_reads_what_is_piped_to_it() -> None:
    code = "import sys\nfor line in sys.stdin: print(line.strip().upper(), flush=True)"
    async with await Child.start(python(code), env=ENV, pipe_stdin=True) as child:
        assert child.stdin is not None
        child.stdin.write(b"hello\n")
        assert await anext(child.lines()) == "HELLO"
        child.stdin.close()
        assert await child.wait() == 0


async def test_long_output_passes_whole_and_stderr_is_bounded() -> None:
    code = (
        "import sys\nfor i in range(20000): print('%06d' % i, 'y' * 90); sys.stderr.write('z' * 99 + chr(10))"
    )
    count = 0
    async with await Child.start(python(code), env=ENV) as child:
        async for line in child.lines():
            assert int(line[:6]) == count
            count += 1
        assert await child.wait() == 0
        assert 3000 < len(child.stderr_tail) <= 4096
        assert set(child.stderr_tail.split()) == {"z" * 99}
    assert count == 20000


@pytest.mark.parametrize("guardian", [True, False])
async def test_interrupt_is_one_sigint_to_the_child(guardian: bool) -> None:
    async with await Child.start(python(PATIENT.format(leave=True)), env=ENV, guardian=guardian) as child:
        lines = child.lines()
        assert await anext(lines) == "up"
        child.interrupt()
        assert [line async for line in lines] == ["SIGINT"]
        assert await child.wait() == 7


@pytest.mark.parametrize("guardian", [True, False])
async def test_stop_climbs_the_ladder_in_nominal_time(guardian: bool) -> None:
    clock = Clock(scale=0.005)  # 30 s and 10 s become 0.15 s and 0.05 s
    async with await Child.start(
        python(PATIENT.format(leave=False)), env=ENV, guardian=guardian, clock=clock
    ) as child:
        lines = child.lines()
        assert await anext(lines) == "up"
        began = time.monotonic()
        assert await child.stop() == -signal.SIGKILL
        assert 0.18 < time.monotonic() - began < 1.5
        assert [line async for line in lines] == ["SIGINT", "SIGTERM"]


async def test_leaving_the_context_ends_the_child() -> None:
    async with await Child.start(python("import time; time.sleep(60)"), env=ENV, ladder=AT_ONCE) as child:
        pid = child.pid
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_cancelled_wait_leaves_the_child_alone() -> None:
    async with await Child.start(python("import time; time.sleep(60)"), env=ENV, ladder=AT_ONCE) as child:
        waiting = asyncio.create_task(child.wait())
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert child.running


async def test_a_descendant_that_keeps_the_pipe_does_not_keep_us() -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)']); print('bye')"
    began = time.monotonic()
    async with await Child.start(python(code), env=ENV) as child:
        assert [line async for line in child.lines()] == ["bye"]
        assert await child.wait() == 0
    assert time.monotonic() - began < 7


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
async def test_the_loss_of_the_guardian_is_not_taken_for_the_end_of_the_child() -> None:
    async with await Child.start(python(PATIENT.format(leave=True)), env=ENV, clock=Clock(0.02)) as child:
        lines = child.lines()
        assert await anext(lines) == "up"
        os.kill(parent_of(child.pid), signal.SIGKILL)
        status = await child.wait()
        assert status != 0
        assert over(child.pid)


def over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


PARENT = """
import asyncio, os, sys
sys.path.insert(0, {root!r})
from engine.clock import Clock
from engine.clouds.child import Child
async def main():
    child = await Child.start([sys.executable, "-I", "-S", "-c", {code!r}], env=dict(os.environ), clock=Clock({scale}))
    print(await anext(child.lines()), child.pid, flush=True)
    {then}
    await asyncio.sleep(60)
asyncio.run(main())
"""

RECORDING = """
import os, signal, sys, time
def told(number, frame):
    with open({path!r}, "a") as out: out.write(signal.Signals(number).name + " ")
    if {leave}: sys.exit(1)
signal.signal(signal.SIGINT, told)
signal.signal(signal.SIGTERM, told)
print("up", flush=True)
while True: time.sleep(0.02)
"""


def orphan(
    tmp_path: Path,
    death: signal.Signals,
    *,
    leave: bool,
    scale: float = 1.0,
    then: str = "pass",
    wait: float = 0.0,
) -> str:
    """Kill a parent of a guarded child; which signals the child got until it was gone."""
    told = tmp_path / "told"
    code = RECORDING.format(path=str(told), leave=leave)
    script = PARENT.format(root=str(ROOT), code=code, scale=scale, then=then)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline().split()[1])
        time.sleep(wait)
        parent.send_signal(death)
        parent.wait()
    deadline = time.monotonic() + 5
    while not over(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert over(pid), "the child outlived its guardian's ladder"
    return told.read_text() if told.exists() else ""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
class TestOrphans:
    @pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
    def test_a_child_is_interrupted_when_its_parent_dies(self, tmp_path: Path, death: signal.Signals) -> None:
        assert orphan(tmp_path, death, leave=True) == "SIGINT "

    def test_an_orphan_that_ignores_the_interrupt_is_ended(self, tmp_path: Path) -> None:
        assert orphan(tmp_path, signal.SIGKILL, leave=False, scale=0.005) == "SIGINT SIGTERM "

    def test_an_interrupt_that_was_sent_before_is_not_sent_again(self, tmp_path: Path) -> None:
        told = orphan(
            tmp_path,
            signal.SIGKILL,
            leave=False,
            scale=0.01,
            then="child.interrupt(); await asyncio.sleep(0.05)",
            wait=0.1,
        )
        assert told == "SIGINT SIGTERM "

    def test_ctrl_c_of_the_terminal_does_not_reach_the_child(self, tmp_path: Path) -> None:
        """The terminal signals the foreground process group; neither the child nor its guardian is in ours."""
        told = tmp_path / "told"
        script = PARENT.format(
            root=str(ROOT), code=RECORDING.format(path=str(told), leave=False), scale=0.01, then="signal_me()"
        ).replace(
            "async def main",
            "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('parent', flush=True))\n"
            "def signal_me(): os.killpg(0, signal.SIGINT)\nasync def main",
        )
        with subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as parent:
            assert parent.stdout is not None
            first = parent.stdout.readline()
            assert first.startswith("up ")
            assert parent.stdout.readline() == "parent\n"
            time.sleep(0.1)
            assert not told.exists()
            parent.kill()
