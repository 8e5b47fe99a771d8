"""`npa`: finds the command that is meant and runs it. What every command shares is in `engine.commands.shell`."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code. See `engine.words.reasons` for what the codes mean."""
    args = sys.argv[1:] if argv is None else argv
    if args in (["--version"], ["-V"]):
        from engine import __version__

        if sys.stdout is not None:  # it is None when the descriptor was closed before we started
            sys.stdout.write(f"npa-tui {__version__}\n")
        return 0
    from engine.commands.shell import run

    return run(args)


if __name__ == "__main__":
    sys.exit(main())
