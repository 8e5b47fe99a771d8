"""What the CLI leaves on this machine besides records: caches, scratch folders, interrupted removals. Looked at, never changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine.home.documents import read_json
from engine.home.errors import Kind, RecordError
from engine.home.fields import Fields
from engine.home.locks import is_held
from engine.home.roots import Roots


class ResidueKind(StrEnum):
    SKYPILOT_VENV = "skypilot_venv"
    VENV_EXCHANGE = "skypilot_venv_exchange"
    PLUGIN_CACHE = "terraform_plugin_cache"
    SKY_STATE = "sky_state"
    TERRAFORM_SCRATCH = "terraform_scratch"
    SOURCE_CACHE = "terraform_source_cache"
    EMPTY_FOLDER = "empty_alias_folder"
    QUARANTINE = "interrupted_removal"


@dataclass(frozen=True, slots=True)
class Residue:
    """One thing that may be cleaned.

    own        this project's alone, so that cleaning it touches no other project
    obstacle   why it must not be removed, empty when it may
    device, inode   what it was when it was looked at: a removal compares them
    """

    kind: ResidueKind
    path: Path
    own: bool
    obstacle: str = ""
    device: int = 0
    inode: int = 0


_EXCHANGE = (".skypilot-venv.previous", ".skypilot-venv.bootstrap-journal.json")
_EXCHANGE_PREFIXES = (".skypilot-venv.staging-", ".skypilot-venv.uninstall-")
_QUARANTINE_PREFIX = ".npa-cleanup-"
_SOURCE_FILES = ("main.tf", "versions.tf", ".terraform.lock.hcl")
_SOURCE_CONTENTS = frozenset({"environment", "modules", "providers", "terraform.tfstate"})


def read_residue(
    roots: Roots,
    *,
    aliases: Iterable[str] = (),
    contexts: Iterable[str] = (),
    start: Path | None = None,
) -> tuple[Residue, ...]:
    """Everything that is there now.

    aliases    of one project and no other: their empty folders are its own
    contexts   of its clusters: their scratch folders are its own
    start      a folder in a checkout whose old provider cache is looked for
    """
    found: list[Residue] = []
    found += _whole(ResidueKind.SKYPILOT_VENV, roots.config / "skypilot-venv", roots.sky_venv)
    found += _exchange(roots.config)
    found += _plugin_caches(roots)
    found += _whole(ResidueKind.SKY_STATE, roots.sky_state)
    found += _scratch(roots, frozenset(contexts))
    found += _source_cache(start) if start else ()
    found += _empty_folders(roots, tuple(dict.fromkeys(aliases)))
    found += _quarantined(roots)
    return tuple(found)


def tree_bytes(path: Path) -> int:
    """Bytes of all regular files below a path, links not followed, unreadable ones left out."""
    total = 0
    pending = [path]
    while pending:
        here = pending.pop()
        try:
            found = here.lstat()
            if stat.S_ISDIR(found.st_mode):
                pending.extend(here.iterdir())
            elif stat.S_ISREG(found.st_mode):
                total += found.st_size
        except OSError:
            continue
    return total


def _item(kind: ResidueKind, path: Path, own: bool, obstacle: str = "") -> Residue | None:
    """What is at a path; None when nothing is. A link is shown and never removed."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    except OSError as failure:
        return Residue(kind, path, own, f"cannot be looked at: {failure.strerror}")
    if stat.S_ISLNK(found.st_mode):
        obstacle = "is a symbolic link"
    elif found.st_uid != os.geteuid():
        obstacle = f"is owned by user id {found.st_uid}"
    return Residue(kind, path, own, obstacle, found.st_dev, found.st_ino)


def _whole(kind: ResidueKind, *paths: Path) -> Iterator[Residue]:
    """Folders that all projects of this machine share."""
    for path in dict.fromkeys(paths):
        if item := _item(kind, path, own=False):
            yield item


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are compared, not opened
    except OSError:
        return []


def _exchange(folder: Path) -> Iterator[Residue]:
    for name in _names(folder):
        if name in _EXCHANGE or name.startswith(_EXCHANGE_PREFIXES):
            yield from _whole(ResidueKind.VENV_EXCHANGE, folder / name)


def _plugin_caches(roots: Roots) -> Iterator[Residue]:
    """Both places: the CLI writes below its home and cleans below its configuration root."""
    chosen = roots.origin.get("plugin_cache") == "TF_PLUGIN_CACHE_DIR"
    if chosen and (
        item := _item(
            ResidueKind.PLUGIN_CACHE,
            roots.plugin_cache,
            False,
            "was chosen by TF_PLUGIN_CACHE_DIR: other programs use it too",
        )
    ):
        yield item
    for path in (roots.home / "terraform-plugin-cache", roots.config / "terraform-plugin-cache"):
        if path != roots.plugin_cache or not chosen:
            yield from _whole(ResidueKind.PLUGIN_CACHE, path)
        if not roots.split:
            break


def _scratch(roots: Roots, contexts: frozenset[str]) -> Iterator[Residue]:
    kind = ResidueKind.TERRAFORM_SCRATCH
    for root in (roots.terraform_scratch / "active", roots.terraform_scratch):
        if root.is_symlink():
            if item := _item(kind, root, own=False):
                yield item
            continue
        for name in _names(root):
            if not name.startswith("run-"):
                continue
            path = root / name
            context, obstacle = _scratch_owner(path, roots)
            if item := _item(kind, path, context in contexts, obstacle):
                yield item


def _scratch_owner(path: Path, roots: Roots) -> tuple[str, str]:
    """The cluster context that a scratch folder belongs to, and why it must stay."""
    if path.is_symlink():
        return "", "is a symbolic link"
    try:
        document = read_json(path / ".npa-owned.json", roots.config, Kind.RESIDUE)
        if document is None:
            return "", "has no ownership marker"
        marker = Fields(document, kind=Kind.RESIDUE, path=path / ".npa-owned.json")
        marker.schema("version", 1)
        marker.schema("managed_by", "npa")
        marker.schema("kind", "cluster-terraform-data")
        context, named = marker.text("context"), marker.text("path")
    except RecordError:
        return "", "has an ownership marker that cannot be trusted"
    if named != str(path.resolve()):
        return context, "has an ownership marker for another place"
    try:
        # No lock file: left by an older version, which made none.
        held = is_held(path / ".npa-in-use.lock")
    except OSError:
        return context, "has a lock that cannot be looked at"
    return context, "is used by a Terraform run now" if held else ""


def _source_cache(start: Path) -> Iterator[Residue]:
    """The provider cache that older versions left in a checkout."""
    top = next((p for p in (start, *start.parents) if (p / ".git").exists()), None)
    if top is None:
        return
    module = top / "deploy" / "cluster"
    path = module / ".terraform"
    obstacle = ""
    if any(p.is_symlink() for p in (top, top / "deploy", module)):
        obstacle = "is reached through a symbolic link"
    elif not all((module / name).is_file() and not (module / name).is_symlink() for name in _SOURCE_FILES):
        obstacle = "does not lie beside the module that it would belong to"
    elif not _SOURCE_CONTENTS & set(_names(path)):
        obstacle = "holds nothing that a provider cache holds"
    if item := _item(ResidueKind.SOURCE_CACHE, path, False, obstacle):
        yield item


def _empty_folders(roots: Roots, aliases: tuple[str, ...]) -> Iterator[Residue]:
    for base in (roots.agents, roots.workbenches):
        if base.is_symlink():
            if item := _item(ResidueKind.EMPTY_FOLDER, base, own=False):
                yield item
            continue
        for name in _names(base):
            path = base / name
            hollow = path.is_symlink() or (path.is_dir() and _is_hollow(path))
            if (
                hollow
                and not name.startswith(".")
                and (item := _item(ResidueKind.EMPTY_FOLDER, path, name in aliases))
            ):
                yield item


def _is_hollow(folder: Path) -> bool:
    """Whether a folder holds nothing but folders that hold nothing; one that cannot be listed may hold anything."""
    try:
        return all(
            not entry.is_symlink() and entry.is_dir() and _is_hollow(entry) for entry in folder.iterdir()
        )
    except OSError:
        return False


def _quarantined(roots: Roots) -> Iterator[Residue]:
    """Removals that a crash interrupted: renamed already, not yet deleted, and found by no later run of the CLI."""
    folders = (
        roots.home,
        roots.config,
        roots.user,
        roots.agents,
        roots.workbenches,
        roots.terraform_scratch,
        roots.terraform_scratch / "active",
    )
    for folder in dict.fromkeys(folders):
        for name in _names(folder):
            if name.startswith(_QUARANTINE_PREFIX):
                yield from _whole(ResidueKind.QUARANTINE, folder / name)
