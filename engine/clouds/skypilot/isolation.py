"""The surroundings of the worker: the operator's SkyPilot configuration to read, and nothing of theirs to write."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "MIR_SOCKET")
_LINKED = ("config.yaml", "user_hash")
_COPIED = ("cookies.txt",)
"""Written by the client whenever the server sets a cookie, and through a link."""


def scratch_home(home: Path) -> Path:
    """A folder to be the worker's HOME, readable by us alone. Importing `sky` makes files there, and reading must write nothing
    into the operator's."""
    scratch = Path(tempfile.mkdtemp(prefix="npa-sky-"))
    (scratch / ".sky").mkdir(mode=0o700)
    for name in _LINKED:
        if (home / ".sky" / name).is_file():
            (scratch / ".sky" / name).symlink_to((home / ".sky" / name).resolve())
    for name in _COPIED:
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(home / ".sky" / name, scratch / ".sky" / name)
    for name in (".kube", ".nebius"):
        if (home / name).is_dir():
            (scratch / name).symlink_to((home / name).resolve())
    return scratch


def environment(
    environ: Mapping[str, str], scratch: Path, kubeconfig: Path | None, *, reuse_token: bool
) -> dict[str, str]:
    """Nothing is reported to anybody, no API server is started behind the operator's back (one that runs is used), no browser
    is opened, and a token that another login left behind is not used."""
    env = {name: value for name, value in environ.items() if name not in _DISPLAYS}
    if not reuse_token:
        env.pop("NEBIUS_IAM_TOKEN", None)
    env |= {
        "HOME": str(scratch),
        "NPA_SKYPILOT_SCRATCH": str(scratch),
        "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
        "SKYPILOT_DISABLE_LOCAL_API_SERVER": "1",
        "BROWSER": "true",  # the command that does nothing: to `webbrowser`, a browser that opened
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_COLOR": "1",
    }
    if kubeconfig is not None:
        env["KUBECONFIG"] = str(kubeconfig)
    return env
