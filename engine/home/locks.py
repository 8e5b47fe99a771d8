"""The CLI's own lock files: an exclusive `flock` on an empty file that is never removed.

Never held while talking to a provider, with one exception: the lock of a project's lease, which is the right to change it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.home.errors import Kind
from engine.home.folders import check_regular, link_problem, opened_folder, unreadable


class Held(Exception):
    """Somebody else holds this lock."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is locked by another process")
        self.path = path


@contextmanager
def flocked(path: Path, *, root: Path, kind: Kind, wait: bool = True) -> Iterator[int]:
    """Hold the lock file `path`, somewhere below the folder `root`; both are made when missing. Gives its descriptor.

    wait   block until it is free; otherwise raise `Held` at once
    Raises `RecordError` for a link, a non-regular file or a foreign owner, `OSError` when it cannot be made.
    """
    with opened_folder(path.parent, root, kind, create=True) as folder:
        assert folder is not None
        handle = _open(path, folder, kind)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise Held(path) from None
        yield handle
    finally:
        os.close(handle)


def _open(path: Path, folder: int, kind: Kind) -> int:
    try:
        handle = os.open(
            path.name,
            os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
            0o600,
            dir_fd=folder,
        )
    except OSError as failure:
        if path.is_symlink():
            raise link_problem(path, kind) from None
        if isinstance(failure, IsADirectoryError):
            raise unreadable(path, kind, failure) from None
        raise
    try:
        check_regular(path, kind, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def is_held(path: Path) -> bool:
    """Whether an existing lock file is held now, found by asking for a shared lock for an instant. Creates nothing.

    Only for locks whose holders wait (a Terraform run's scratch folder); asking for a lease's lock that way could make the
    CLI, which does not wait there, believe that it is taken. Raises `OSError` when the file cannot be opened.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
