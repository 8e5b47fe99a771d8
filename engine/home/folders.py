"""Opening what is below a store's root without ever passing through a link or into somebody else's folder.

Each component is opened relative to its parent, so that nothing can be swapped between the check and the use.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.home.errors import Fault, Kind, RecordError, RecordProblem

MOST_BYTES = 64 * 1024 * 1024
"""No record of the CLI comes near this; a larger one is not read into memory."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, so that a named pipe in place of a file cannot make the reader wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def refused(path: Path, kind: Kind, problem: str, remedy: str) -> RecordError:
    return RecordError(RecordProblem(path, "", problem, remedy, kind, Fault.REFUSED))


def unreadable(path: Path, kind: Kind, failure: OSError) -> RecordError:
    why = failure.strerror or type(failure).__name__
    return RecordError(
        RecordProblem(
            path,
            "",
            f"cannot be read: {why}",
            f"check its owner and mode: ls -ld {path}",
            kind,
            Fault.UNREADABLE,
        )
    )


def check_owner(path: Path, kind: Kind, found: os.stat_result) -> None:
    """Refuse what another user owns: as root with somebody's HOME too, where a write would leave it owned by root."""
    me = os.geteuid()
    if found.st_uid != me:
        raise refused(
            path,
            kind,
            f"is owned by user id {found.st_uid}, this program runs as {me}",
            f"run as its owner, or: sudo chown -R {me} {path}",
        )


def link_problem(path: Path, kind: Kind) -> RecordError:
    return refused(
        path, kind, "is a symbolic link", f"put the real file or folder there instead: ls -l {path}"
    )


@contextmanager
def opened_folder(folder: Path, root: Path, kind: Kind, *, create: bool = False) -> Iterator[int | None]:
    """A descriptor of `folder`, which is `root` or below it; None when it, or a folder above it, is absent.

    With `create`, missing folders are made with mode 0700, the ones above `root` too.
    Raises `RecordError` for a link, a non-folder or a foreign owner anywhere from `root` down, and for what cannot be opened.
    """
    if create:
        root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_home(root, kind)
    here, handle = root, -1
    try:
        step = _open_step(None, root, str(root), kind, create)
        if step is None:
            yield None
            return
        handle = step
        for name in folder.relative_to(root).parts:
            here = here / name
            step = _open_step(handle, here, name, kind, create)
            if step is None:
                yield None
                return
            os.close(handle)
            handle = step
        yield handle
    finally:
        if handle >= 0:
            os.close(handle)


def _check_home(root: Path, kind: Kind) -> None:
    """As root in somebody's home folder, a new store would belong to root and lock its user out."""
    home = root.parent.stat()
    if os.geteuid() == 0 and home.st_uid != 0 and not root.exists():
        raise refused(
            root.parent,
            kind,
            f"belongs to user id {home.st_uid}, and this program runs as root",
            "run it as that user, without sudo",
        )


def _open_step(parent: int | None, path: Path, name: str, kind: Kind, create: bool) -> int | None:
    if create:
        _make(parent, path, name)
    try:
        handle = os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        return None
    except NotADirectoryError as failure:
        raise _not_a_folder(parent, path, name, kind, failure) from None
    except OSError as failure:
        raise (
            link_problem(path, kind) if _is_link(parent, name) else unreadable(path, kind, failure)
        ) from None
    try:
        check_owner(path, kind, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _make(parent: int | None, path: Path, name: str) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return
    sync_folder(path.parent) if parent is None else os.fsync(parent)


def _is_link(parent: int | None, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _not_a_folder(parent: int | None, path: Path, name: str, kind: Kind, failure: OSError) -> RecordError:
    if _is_link(parent, name):
        return link_problem(path, kind)
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return unreadable(path, kind, failure)
    return refused(path, kind, "is not a folder", f"move it aside: mv {path} {path}.aside")


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def names_in(folder: Path, root: Path, kind: Kind) -> tuple[str, ...]:
    """Sorted names in a folder; empty when it is absent. Raises `RecordError`."""
    with opened_folder(folder, root, kind) as handle:
        if handle is None:
            return ()
        try:
            return tuple(sorted(os.listdir(handle)))  # noqa: PTH208 - a descriptor
        except OSError as failure:
            raise unreadable(folder, kind, failure) from None


def read_file(path: Path, root: Path, kind: Kind) -> bytes | None:
    """The bytes of a regular file of ours in a folder from `root` down; None when it is absent.

    Raises `RecordError` for a link, a non-regular file, a foreign owner, an unreadable or an oversized file.
    """
    with opened_folder(path.parent, root, kind) as folder:
        if folder is None:
            return None
        try:
            handle = os.open(path.name, _FILE, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as failure:
            raise (
                link_problem(path, kind) if _is_link(folder, path.name) else unreadable(path, kind, failure)
            ) from None
        try:
            found = os.fstat(handle)
            check_regular(path, kind, found)
            return _drain(handle, path, kind, found.st_size)
        finally:
            os.close(handle)


def check_regular(path: Path, kind: Kind, found: os.stat_result) -> None:
    """Refuse what is no regular file, or is somebody else's."""
    if not stat.S_ISREG(found.st_mode):
        raise refused(path, kind, "is not a regular file", f"move it aside: mv {path} {path}.aside")
    check_owner(path, kind, found)


def _drain(handle: int, path: Path, kind: Kind, size: int) -> bytes:
    if size > MOST_BYTES:
        raise refused(
            path, kind, f"is larger than {MOST_BYTES} bytes", f"move it aside: mv {path} {path}.aside"
        )
    parts: list[bytes] = []
    total = 0
    try:
        while chunk := os.read(handle, 1 << 20):
            parts.append(chunk)
            total += len(chunk)
            if total > MOST_BYTES:
                raise refused(path, kind, "grows while it is read", "try again when its writer is done")
    except OSError as failure:
        raise unreadable(path, kind, failure) from None
    return b"".join(parts)
