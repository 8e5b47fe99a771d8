"""Starting: terminals, imports, themes, colours, keys from a file, and crashes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npa_tui import __main__ as start
from npa_tui.preferences import keymap
from npa_tui.themes import THEMES, choose, ink_colours

ROOT = Path(__file__).resolve().parents[2]

_APP = """
import sys, tempfile
from pathlib import Path
from npa_tui.__main__ import calm, color_system
import os
calm(os.environ)
from npa_tui.app import Console
from npa_tui.screenshots import world
from npa_tui.screenshots.staged import StagedSource
from npa_tui.themes import choose
with tempfile.TemporaryDirectory() as folder:
    source = StagedSource(Path(folder))
    source.write(world.running().entries)
    source.run()
    app = Console(source, project="ml-sandbox", theme=choose("", os.environ, color_system(os.environ)))
    app.run()
"""


def on_a_terminal(
    argv: list[str], *, keys: list[tuple[float, bytes]], environ: dict[str, str]
) -> tuple[str, int]:
    """Run a program on a pseudo terminal of 120x36, send keys at these seconds; what it wrote, and its exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(environ)
        os.execv(argv[0], argv)
    import fcntl
    import struct
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    said, began, waiting = b"", time.monotonic(), list(keys)
    while time.monotonic() - began < 20:
        if waiting and time.monotonic() - began > waiting[0][0]:
            os.write(fd, waiting.pop(0)[1])
        try:
            if select.select([fd], [], [], 0.05)[0]:
                said += os.read(fd, 65536)
        except OSError:
            break
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return said.decode(errors="replace"), os.waitstatus_to_exitcode(status)
    _, status = os.waitpid(pid, 0)
    return said.decode(errors="replace"), os.waitstatus_to_exitcode(status)


def environment(**more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "TERM": "xterm-256color",
        "COLORTERM": "truecolor", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT), **more,
    }  # fmt: skip


def test_without_a_terminal_it_refuses_and_names_the_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "npa_tui", "--demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert "needs a terminal" in done.stderr
    assert "--json" in done.stderr
    assert done.stdout == ""


def test_help_and_refusal_load_no_toolkit() -> None:
    code = "import sys; from npa_tui.__main__ import main\ntry: main(['--help'])\nexcept SystemExit: pass\nprint([m for m in sys.modules if m.split('.')[0] in ('textual', 'rich', 'pydantic')], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr.strip() == "[]"


def test_the_console_loads_no_sdk_and_no_markdown() -> None:
    code = "import npa_tui.app, sys, json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = set(json.loads(done.stdout))
    heavy = {
        "nebius",
        "grpc",
        "boto3",
        "botocore",
        "kubernetes",
        "sky",
        "hcl2",
        "pydantic",
        "yaml",
        "aiohttp",
        "markdown_it",
    }
    assert loaded & heavy == set()


@pytest.mark.parametrize(
    ("wanted", "environ", "system", "theme"),
    [
        ("", {}, "truecolor", "npa-dark"),
        ("", {}, "256", "npa-dark"),
        ("", {}, "standard", "npa-ansi"),
        ("", {}, None, "npa-ansi"),
        ("", {"NO_COLOR": "1"}, "truecolor", "npa-ansi"),
        ("", {"NO_COLOR": ""}, "truecolor", "npa-ansi"),
        ("", {"NPA_THEME": "light"}, "truecolor", "npa-light"),
        ("light", {"NPA_THEME": "ansi"}, "truecolor", "npa-light"),
        ("light", {"NO_COLOR": "1"}, "truecolor", "npa-light"),
        ("", {"NPA_THEME": "nonsense"}, "truecolor", "npa-dark"),
    ],
)
def test_the_theme_follows_what_the_terminal_can_show(
    wanted: str, environ: dict[str, str], system: str | None, theme: str
) -> None:
    assert choose(wanted, environ, system) == theme


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [t for t in THEMES if not t.ansi], ids=lambda t: t.name)
def test_every_text_colour_can_be_read(theme: object) -> None:
    colours = ink_colours(theme.name)  # type: ignore[attr-defined]
    back = theme.background  # type: ignore[attr-defined]
    texts = ("foreground", "muted", "faint", "st-done", "st-run", "st-ask", "st-held", "st-fail")
    for name in texts:
        assert _contrast(colours[name], back) >= 4.5, name
        if name != "faint":
            assert _contrast(colours[name], colours["block-cursor-background"]) >= 4.4, name


def test_no_color_writes_no_colour() -> None:
    said, code = on_a_terminal(
        [sys.executable, "-c", _APP],
        keys=[(2.0, b"x"), (2.8, b"\x1b"), (3.4, b"\x11"), (3.8, b"\t"), (4.0, b"\r")],
        environ=environment(NO_COLOR="1"),
    )
    assert code == 0
    assert "ml-sandbox" in said
    codes = re.findall(r"\x1b\[([0-9;]*)m", said)
    assert codes
    for sgr in codes:
        parts = [p for p in sgr.split(";") if p]
        assert not {"38", "48"} & set(parts), sgr
        assert not [p for p in parts if re.fullmatch(r"3[0-7]|4[0-7]|9[0-7]|10[0-7]", p)], sgr
    assert any("7" in sgr.split(";") or "1" in sgr.split(";") for sgr in codes)


def test_colours_are_written_where_they_are_wanted() -> None:
    said, _ = on_a_terminal(
        [sys.executable, "-c", _APP],
        keys=[(2.0, b"\x11"), (2.4, b"\t"), (2.6, b"\r")],
        environ=environment(),
    )
    assert "38;2;" in said


def test_keys_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.toml"
    assert keymap({"NPA_TUI_CONFIG": str(path)}) == {}
    path.write_text('[keys]\n"main.run-next" = "g"\n"no.such" = "z"\n"main.read" = 7\n')
    assert keymap({"NPA_TUI_CONFIG": str(path)}) == {"main.run-next": "g"}
    said = capsys.readouterr().err
    assert "no.such" in said
    assert "main.read" in said
    path.write_text("[keys")
    assert keymap({"NPA_TUI_CONFIG": str(path)}) == {}


async def test_a_remapped_key_acts_and_the_old_one_does_not(tmp_path: Path) -> None:
    from fake_source import FakeSource, Session

    from npa_tui.app import Console
    from npa_tui.screens.confirm import ConfirmScreen
    from npa_tui.screens.main import MainScreen
    from npa_tui.screenshots.staged import Still

    source, clock = FakeSource(tmp_path), Still()
    app = Console(source, project="ml-sandbox", moments=clock, keymap={"main.run-next": "g"})
    async with app.run_test(size=(120, 36)) as pilot:
        s = Session(pilot, app, source, clock)
        await s.settle()
        await s.press("x")
        assert isinstance(app.screen, MainScreen)
        await s.press("g")
        assert isinstance(app.screen, ConfirmScreen)


def test_a_crash_goes_to_a_file_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert start.crashed("Traceback: boom") == 70
    said = capsys.readouterr().err
    path = next(tmp_path.rglob("npa-tui-crash.log"))
    assert str(path) in said
    assert path.read_text() == "Traceback: boom"
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_bug_in_the_console_ends_it_and_keeps_the_traceback(tmp_path: Path) -> None:
    from fake_source import FakeSource

    from npa_tui.app import Console

    app = Console(FakeSource(tmp_path), project="ml-sandbox")

    def bug() -> None:
        raise ValueError("password=hunter2hunter2 leaked")

    with pytest.raises(ValueError, match="leaked"):
        async with app.run_test(size=(120, 36)) as pilot:
            app.call_later(bug)
            await pilot.pause(0.2)
    assert "ValueError" in app.crash
    assert "hunter2" not in app.crash
