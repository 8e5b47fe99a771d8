"""`npa-tui`: starts the console on a terminal. Everything that is slow to import waits until that is certain."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import MutableMapping

OK, REFUSED, CRASHED = 0, 1, 70


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="npa-tui", description="Teardown console for Nebius AI Cloud projects."
    )
    made.add_argument(
        "--demo", action="store_true", help="run against a simulated cloud; nothing real is read or changed"
    )
    made.add_argument(
        "--project",
        default="",
        metavar="ALIAS|ID",
        help="what to aim at; without it, the only project there is",
    )
    made.add_argument(
        "--theme",
        default="",
        choices=["", "dark", "light", "ansi"],
        help="default: what the terminal can show",
    )
    made.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    made.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    made.add_argument("--version", action="store_true", help="print the version and leave")
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the console; the exit code: 0, 1 without a terminal, 70 after a crash."""
    args = parser().parse_args(argv)
    if args.version:
        from engine import __version__

        sys.stdout.write(f"npa-tui {__version__}\n")
        return OK
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        sys.stderr.write(
            "npa-tui needs a terminal: it reads keys from standard input and draws on standard error.\n"
            "Without one, use the commands: npa destroy --project ALIAS --all --json\n"
        )
        return REFUSED
    if args.demo:
        from npa_tui.demo import simulated

        try:
            with simulated() as env:
                os.environ.update(env)
                return run(args, os.environ)
        except OSError as error:
            sys.stderr.write(f"The simulator did not start: {error}\n")
            return REFUSED
    return run(args, os.environ)


def run(args: argparse.Namespace, environ: MutableMapping[str, str]) -> int:
    """Open the engine's desk and show it. A crash is written to the log; the screen says where."""
    calm(environ)
    from npa_tui import preferences

    try:
        from engine.run.desk import open_desk
        from npa_tui.app import Console
        from npa_tui.themes import choose

        console = Console(
            open_desk(environ),
            project=args.project,
            theme=choose(args.theme, environ, color_system(environ)),
            ascii_only=args.ascii or environ.get("NPA_ASCII") == "1" or not speaks_utf8(),
            keymap=preferences.keymap(environ),
        )
        code = console.run(mouse=not args.no_mouse)
    except Exception:  # the last line of defence: the terminal is given back, the details are kept
        return crashed()
    if console.crash:
        return crashed(console.crash)
    return OK if code is None else code


def calm(environ: MutableMapping[str, str]) -> None:
    """What the toolkit reads when it is imported: no motion, and fewer frames over SSH."""
    environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    environ.setdefault("TEXTUAL_SMOOTH_SCROLL", "0")
    if environ.get("SSH_CONNECTION"):
        environ.setdefault("TEXTUAL_FPS", "20")


def color_system(environ: MutableMapping[str, str]) -> str | None:
    """How many colours the terminal can show, as Rich tells it. NO_COLOR is another question."""
    from rich.console import Console as RichConsole

    env = {k: v for k, v in environ.items() if k != "NO_COLOR"}
    return RichConsole(force_terminal=True, _environ=env).color_system


def speaks_utf8() -> bool:
    import locale

    return locale.getpreferredencoding(False).lower().replace("-", "") == "utf8"


def crashed(trace: str = "") -> int:
    """Keep the traceback, say where it is, exit code 70."""
    import traceback

    from npa_tui.preferences import state_folder

    path = state_folder() / "npa-tui-crash.log"
    text = trace or traceback.format_exc()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(text)
        where = f"Details: {path}"
    except OSError:
        where = text
    sys.stderr.write(
        f"The console crashed. A run goes on without it: `npa watch` follows it, npa-tui shows it again.\n{where}\n"
    )
    return CRASHED


if __name__ == "__main__":
    sys.exit(main())
