"""Stdout has one owner. `--json` is one document whatever happens; text on a pipe is one line per event; the rest is stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from engine.words.reasons import EXIT, Reason, Refusal

SCHEMA = "npa.teardown.document.v1"

Document = dict[str, Any]


class Output:
    """What a command may say. `mode` is `text`, `json` or `events`."""

    def __init__(self, mode: str = "text", out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.mode = mode
        # Both are None when the descriptor was closed before we started.
        self._out = out or sys.stdout or _sink()
        self._err = err or sys.stderr or _sink()
        self._said = False
        self.identity: Mapping[str, Any] = {}
        """The identity fields of what this command is about, once they are known: a refusal carries them."""
        self.mutated = False
        """Whether something was changed, for a command that ends by a refusal after all."""

    @property
    def is_terminal(self) -> bool:
        try:
            return self.mode == "text" and self._out.isatty()
        except ValueError:  # closed
            return False

    def line(self, text: str = "") -> None:
        """A line of text for a person; nothing under `--json` and `--events`."""
        if self.mode == "text":
            self._write(text + "\n")

    def note(self, text: str) -> None:
        """A line on stderr, in every mode."""
        try:
            self._err.write(text + "\n")
            self._err.flush()
        except (OSError, ValueError):
            pass  # nobody listens; what happened is in the journal

    def event(self, event: Mapping[str, Any]) -> None:
        """One JSON line under `--events`."""
        if self.mode == "events":
            self._write(json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n")

    def document(self, document: Document) -> None:
        """The one document of a `--json` run; the closing line of an `--events` run."""
        if self._said:
            raise RuntimeError("one document was said already")
        if self.mode == "json":
            self._said = True
            self._write(json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
        elif self.mode == "events":
            self._said = True
            self._write(
                json.dumps({"type": "document", **document}, separators=(",", ":"), ensure_ascii=False) + "\n"
            )

    @property
    def said(self) -> bool:
        return self._said

    def refuse(self, refusal: Refusal, identity: Mapping[str, Any] | None = None) -> int:
        """Say why not: one document, or sentence and next command on stderr. The exit code."""
        code = refusal.exit_code
        result = "cancelled" if refusal.reason is Reason.DECLINED else str(refusal.reason)
        if self.mode == "text":
            self.note(refusal.sentence)
            if refusal.next_command:
                self.note(f"  {refusal.next_command}")
        elif not self._said:
            self.document(
                {
                    **(identity or self.identity),
                    "schema_version": SCHEMA,
                    "result": result,
                    "reason_code": str(refusal.reason),
                    "message": refusal.sentence,
                    "next_command": refusal.next_command,
                    "mutated": self.mutated,
                    "exit_code": code,
                }
            )
        return code

    def _write(self, text: str) -> None:
        """Write all of it, or find out that nobody reads: then be quiet for good and let the work go on."""
        try:
            self._out.write(text)
            self._out.flush()
        except (BrokenPipeError, ValueError, OSError):
            self._out = _nowhere()


def _sink() -> TextIO:
    return open(os.devnull, "w")  # noqa: PTH123 - lives as long as the process


def _nowhere() -> TextIO:
    sink = _sink()
    try:
        # The interpreter flushes the real stdout at exit and would complain about the broken pipe.
        os.dup2(sink.fileno(), 1)
    except OSError:
        pass
    return sink


def internal_error(log: str, what: str) -> Refusal:
    """What is said about a bug of ours."""
    return Refusal(Reason.INTERNAL, f"internal error: {what}; details are in {log}", "")


assert EXIT[Reason.INTERNAL] == 70
