"""The scratch data directory of one run: ours by a marker, in use by a lock, gone afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path

from engine.clock import Clock
from engine.clouds.terraform.failures import Kind, TerraformTrouble
from engine.words.presence import Cause

MARKER = ".npa-owned.json"
IN_USE = ".npa-in-use.lock"


class Scratch:
    """`<root>/run-XXXX`, mode 0700. `lock_fd` is an exclusive lock on it, to be held as long as Terraform may run."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path, self.lock_fd = path, lock_fd

    @classmethod
    def make(cls, root: Path, module_dir: Path, context: str, clock: Clock) -> Scratch:
        """Raises `TerraformTrouble(SCRATCH)` when it cannot be made, or when its root is a symbolic link."""
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if root.is_symlink():
                raise TerraformTrouble(
                    Kind.SCRATCH, Cause.CONFLICT, f"{root} is a symbolic link; it must be a folder"
                )
            path = Path(tempfile.mkdtemp(prefix="run-", dir=root)).resolve()
            # The lock comes before the marker: a cleanup takes only what has the marker, and then it finds the lock.
            fd = os.open(path / IN_USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            marker = {
                "version": 1,
                "managed_by": "npa",
                "kind": "cluster-terraform-data",
                "path": str(path),
                "terraform_dir": str(module_dir),
                "context": context,
                "created_at": clock.now(),
            }
            write_private(path / MARKER, json.dumps(marker).encode())
        except OSError as error:
            raise TerraformTrouble(
                Kind.SCRATCH, Cause.CONFLICT, f"no scratch folder below {root}: {error.strerror}"
            ) from error
        return cls(path, fd)

    async def remove(self) -> None:
        """Remove it. Raises `TerraformTrouble(SCRATCH)`, which names it, when it could not be removed."""
        try:
            await asyncio.to_thread(shutil.rmtree, self.path)
        except OSError as error:
            raise TerraformTrouble(
                Kind.SCRATCH,
                Cause.CONFLICT,
                f"the scratch folder {self.path} could not be removed ({error.strerror}): npa cleanup --full --yes removes it",
            ) from error
        finally:
            with contextlib.suppress(OSError):
                os.close(self.lock_fd)


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 whole or not at all, durably."""
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
