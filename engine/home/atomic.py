"""Replacing a private file so that a crash, a full disk or a second writer leaves the old one or the new one, never a part."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from engine.home.errors import Kind
from engine.home.folders import check_regular, link_problem, opened_folder


def write_private(path: Path, data: bytes, *, kind: Kind, root: Path | None = None) -> None:
    """Replace `path` by a file of mode 0600 with these bytes, durably. Missing folders are made with mode 0700.

    root   every folder from here down to the file must be a real folder of ours; the file's own folder when not given
    Raises `RecordError` for a link, a non-regular file or a foreign owner in its way, and `OSError` (no space, no permission)
    with the old file untouched and no temporary file left.
    """
    with opened_folder(path.parent, root or path.parent, kind, create=True) as folder:
        assert folder is not None
        _check_replaceable(path, folder, kind)
        # Not `*.json`: other readers of these folders take every such file for a record.
        temporary = f".{path.name}.{secrets.token_hex(6)}.tmp"
        handle = os.open(
            temporary,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
            dir_fd=folder,
        )
        try:
            try:
                os.fchmod(handle, 0o600)
                _write_all(handle, data)
                os.fsync(handle)
            finally:
                os.close(handle)
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)


def remove_private(path: Path, *, kind: Kind, root: Path | None = None) -> bool:
    """Remove a regular file of ours, durably. False when it was not there. Raises as `write_private` does."""
    with opened_folder(path.parent, root or path.parent, kind) as folder:
        if folder is None or not _check_replaceable(path, folder, kind):
            return False
        os.unlink(path.name, dir_fd=folder)
        os.fsync(folder)
        return True


def _check_replaceable(path: Path, folder: int, kind: Kind) -> bool:
    """Whether there is a file; refuses one that must not be replaced."""
    try:
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(found.st_mode):
        raise link_problem(path, kind)
    check_regular(path, kind, found)
    return True


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
