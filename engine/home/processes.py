"""Whether a process that a record names still lives on this machine."""

from __future__ import annotations

import os


def alive(pid: int) -> bool:
    """Whether some process has this id now. A reused id counts as alive: the doubt goes to the holder."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
