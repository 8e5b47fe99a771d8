"""What all commands share: the command line, the modes of output, and one answer whatever happens."""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from engine.commands.output import Output, internal_error
from engine.home.errors import RecordError
from engine.words.reasons import EXIT, Reason, Refusal, Refused

Run = Callable[[argparse.Namespace, Output], int]


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its words, the module that has `add_arguments` and `run`, and one line of help."""

    words: tuple[str, ...]
    module: str
    help: str


COMMANDS: tuple[Command, ...] = (
    Command(("destroy",), "engine.commands.destroy", "plan the teardown of one project; with --yes, run it"),
    Command(
        ("cleanup",), "engine.commands.cleanup", "report what remains, with the exact runbook; list receipts"
    ),
    Command(("watch",), "engine.commands.watch", "follow a run from its journal"),
    Command(("stop",), "engine.commands.watch", "ask a run to stop at a safe point"),
    Command(("simulate",), "engine.commands.simulate", "start a simulated cloud and lay a matching home"),
)


class Unparsable(Exception):
    """The command line makes no sense."""


class Parser(argparse.ArgumentParser):
    """argparse that raises instead of exiting: exit codes and stdout are not its business."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # What a script spells short today could mean another option tomorrow.
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise Unparsable(f"{message}\n\n{self.format_usage().strip()}")


def run(argv: list[str]) -> int:
    """Run one command line; the exit code. One document on stdout under `--json`, also on a crash and on Ctrl-C."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    output = Output("json" if "--json" in own else "events" if "--events" in own else "text")
    try:
        return _dispatch(argv, output)
    except Refused as refused:
        return output.refuse(refused.refusal)
    except RecordError as unusable:
        return output.refuse(Refusal(Reason.RECORD_UNREADABLE, str(unusable.problem), ""))
    except Unparsable as wrong:
        return output.refuse(Refusal(Reason.USAGE, str(wrong), "npa --help"))
    except KeyboardInterrupt:
        return output.refuse(Refusal(Reason.INTERRUPTED, "interrupted; the journal is intact", ""))
    except BrokenPipeError:
        return EXIT[Reason.INTERRUPTED]
    except Exception as bug:
        return output.refuse(internal_error(_log(), f"{type(bug).__name__}"))


def _dispatch(argv: list[str], output: Output) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        output.line(usage())
        return 0
    command = _find(argv)
    if command is None:
        words = " ".join(w for w in argv[:2] if not w.startswith("-"))
        raise Refused(
            Refusal(
                Reason.USAGE,
                f"`npa {words}` is not one of this program's commands: it belongs to the npa CLI itself."
                " This program only tears down; `npa --help` lists what it has",
                "npa --help",
            )
        )
    module = importlib.import_module(command.module)
    parser = Parser(prog="npa " + " ".join(command.words), description=command.help, add_help=False)
    parser.add_argument("-h", "--help", action="store_true", help="show this help")
    module.add_arguments(parser, command.words)
    rest = argv[len(command.words) :]
    if "-h" in rest or "--help" in rest[: rest.index("--") if "--" in rest else None]:
        output.line(parser.format_help().rstrip())
        return 0
    args = parser.parse_args(rest)
    args.words = command.words
    return int(module.run(args, output))


def _find(argv: list[str]) -> Command | None:
    fits = [c for c in COMMANDS if tuple(argv[: len(c.words)]) == c.words]
    return max(fits, key=lambda c: len(c.words), default=None)


def usage() -> str:
    """The list of commands."""
    width = max(len(" ".join(c.words)) for c in COMMANDS)
    lines = [f"  npa {' '.join(c.words):{width}}  {c.help}" for c in COMMANDS]
    return "\n".join(
        [
            "npa: tears down one Nebius AI Cloud project and proves that it is gone.",
            "",
            *lines,
            "",
            "Each has --help and --json. `npa-tui` is the same as a console.",
            "Exit codes: 0 verified, plan or report; 1 did not begin; 2 something is left or not verified; 64 usage; 70 internal; 130 interrupted.",
        ]
    )


def _log() -> str:
    """Write the traceback where a bug report can find it; the path. Falls back to stderr."""
    import tempfile

    text = traceback.format_exc()
    try:
        from engine.words.redact import redact

        with tempfile.NamedTemporaryFile("w", prefix="npa-error-", suffix=".log", delete=False) as file:
            file.write("\n".join(redact(line, 2000) for line in text.splitlines()))
        return str(Path(file.name))
    except OSError:
        sys.stderr.write(text)
        return "stderr"
