"""The dependency lock file and its sidecar: whether every platform's checksums are tracked, before anything runs."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

LOCK = ".terraform.lock.hcl"
SIDECAR = ".terraform.lock.npa.json"
_HASHES = 4
_PROVIDER = re.compile(r'^provider\s+"([^"]+)"\s*\{(.*?)^\}', re.DOTALL | re.MULTILINE)


def lock_problem(module_dir: Path, platform: str) -> str:
    """Why the tracked checksums do not cover this machine, as a sentence, or an empty string when they do.

    The sidecar `.terraform.lock.npa.json` is `{version: 1, platforms: [..], lock_sha256}`; every provider needs at least
    four `h1:` hashes, one for each supported platform.
    """
    try:
        lock = (module_dir / LOCK).read_bytes()
        sidecar: object = json.loads((module_dir / SIDECAR).read_bytes())
    except FileNotFoundError as missing:
        return f"{Path(missing.filename).name} is missing in {module_dir}"
    except (OSError, ValueError) as error:
        return f"{LOCK} or {SIDECAR} in {module_dir} cannot be read: {error}"
    match sidecar:
        case {"version": 1, "platforms": list(platforms), "lock_sha256": str(digest)}:
            pass
        case _:
            return f"{SIDECAR} in {module_dir} is not of version 1"
    if digest != hashlib.sha256(lock).hexdigest():
        return f"{LOCK} in {module_dir} is not the one that {SIDECAR} describes"
    if platform not in platforms:
        return f"{SIDECAR} in {module_dir} does not cover {platform}"
    for name, body in _PROVIDER.findall(lock.decode(errors="replace")):
        if len(set(re.findall(r'"(h1:[^"]+)"', body))) < _HASHES:
            return f"{LOCK} in {module_dir} tracks fewer than {_HASHES} h1 checksums for {name}"
    return ""


def stamp(module_dir: Path) -> tuple[bytes, int] | None:
    """Bytes and modification time (ns) of the lock file, or None when there is none: to tell whether a run touched it."""
    path = module_dir / LOCK
    try:
        return path.read_bytes(), path.stat().st_mtime_ns
    except FileNotFoundError:
        return None
