"""Private files below a home, the way the CLI leaves them: folders 0700, files 0600."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from engine.simulator.kinds import Doc

AT = "2026-11-20T08:00:00Z"
"""When everything in a laid home happened."""


class Folder:
    """A home that is being written. Paths are relative to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.npa = path / ".npa"

    def write(self, path: str, text: str) -> Path:
        """One file; the path of it."""
        target = self.path / path
        for parent in reversed(target.relative_to(self.path).parents):
            (self.path / parent).mkdir(mode=0o700, exist_ok=True)
        target.touch(mode=0o600)
        target.write_text(text, encoding="utf-8")
        return target

    def lock(self, path: str) -> None:
        """A lock file that nobody holds."""
        self.write(path, "")

    def yaml(self, path: str, document: Doc) -> Path:
        return self.write(path, yaml.safe_dump(document, sort_keys=False))

    def json(self, path: str, document: Doc) -> Path:
        return self.write(path, json.dumps(document, indent=2, sort_keys=True) + "\n")
