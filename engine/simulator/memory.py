"""What a simulation keeps beside the home it laid, in `DIR/.sim`, so that it can be started again as the same cloud."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SIM = ".sim"
"""Folder beside `.npa` that holds what is the simulation's own."""
FILE = "memory.json"


@dataclass
class Memory:
    """Ports by server, the valid token, ids that have gone, and the job queue (jobs as their specs; is there a controller).

    The contents of buckets and the pods of clusters are laid anew; what has gone stays gone with all that was in it.
    """

    ports: dict[str, int] = field(default_factory=dict)
    token: str = ""
    gone: list[str] = field(default_factory=list)
    jobs: list[dict[str, Any]] | None = None
    controller: bool = True

    @classmethod
    def load(cls, folder: Path) -> Memory:
        """What was kept. Raises `OSError` or `ValueError` when there is nothing to be read."""
        document = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return cls(**document)

    def save(self, folder: Path) -> None:
        """Replace what is kept: a reader sees the old or the new, whole."""
        folder.mkdir(mode=0o700, exist_ok=True)
        new = folder / f"{FILE}.new"
        new.write_text(json.dumps(asdict(self)), encoding="utf-8")
        new.chmod(0o600)
        new.replace(folder / FILE)
