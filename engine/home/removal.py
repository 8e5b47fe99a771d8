"""Removing a folder of this machine that a phase is done with: exactly that one, and nothing through a link."""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from pathlib import Path

from engine.home.errors import Fault, Kind, RecordError, RecordProblem
from engine.home.folders import check_owner, link_problem, opened_folder
from engine.home.residue import Residue, ResidueKind


def remove_tree(path: Path, *, root: Path, kind: Kind, seen: tuple[int, int] | None = None) -> bool:
    """Remove a folder or file of ours, somewhere below `root`. False when it was not there.

    seen   device and inode that it had when it was looked at: another thing in its place is left alone
    It is renamed first, so that a crash leaves no half of it under its own name. Raises `RecordError` for a link, a foreign owner or
    another thing in its place, `OSError` when it cannot be removed; `read_residue` then shows what is left of it.
    """
    with opened_folder(path.parent, root, kind) as folder:
        if folder is None:
            return False
        found = _check(path, folder, kind, seen)
        if found is None:
            return False
        quarantine = f".npa-cleanup-{found.st_ino}-{uuid.uuid4().hex}"
        os.rename(path.name, quarantine, src_dir_fd=folder, dst_dir_fd=folder)
        moved = os.stat(quarantine, dir_fd=folder, follow_symlinks=False)
        if (moved.st_dev, moved.st_ino) != (found.st_dev, found.st_ino):
            # Something else was put there between the look and the rename: give it its name back.
            os.rename(quarantine, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            raise _swapped(path, kind)
        if stat.S_ISDIR(moved.st_mode):
            shutil.rmtree(quarantine, dir_fd=folder)
        else:
            os.unlink(quarantine, dir_fd=folder)
        os.fsync(folder)
        return True


def remove_residue(item: Residue) -> bool:
    """Remove one thing that `read_residue` showed. False when it is gone already. Raises as `remove_tree` does.

    Refuses one with an obstacle. Of an empty folder only folders are removed: a file that came meanwhile stops it.
    """
    if item.obstacle:
        raise RecordError(
            RecordProblem(item.path, "", item.obstacle, "it is left as it is", Kind.RESIDUE, Fault.REFUSED)
        )
    if item.kind is not ResidueKind.EMPTY_FOLDER:
        return remove_tree(
            item.path, root=item.path.parent, kind=Kind.RESIDUE, seen=(item.device, item.inode)
        )
    with opened_folder(item.path.parent, item.path.parent, Kind.RESIDUE) as folder:
        if folder is None or _check(item.path, folder, Kind.RESIDUE, (item.device, item.inode)) is None:
            return False
        for here, _, _ in os.walk(item.path, topdown=False):
            Path(here).rmdir()
        os.fsync(folder)
        return True


def _check(path: Path, folder: int, kind: Kind, seen: tuple[int, int] | None) -> os.stat_result | None:
    try:
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise link_problem(path, kind)
    check_owner(path, kind, found)
    if seen is not None and (found.st_dev, found.st_ino) != seen:
        raise _swapped(path, kind)
    return found


def _swapped(path: Path, kind: Kind) -> RecordError:
    return RecordError(
        RecordProblem(
            path, "", "is another thing than the one that was looked at", "look again", kind, Fault.CONFLICT
        )
    )
