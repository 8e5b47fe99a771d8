"""Projects that a person has set aside: shown, never torn down. `protected = ["alias", "project-id"]` in the configuration file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from engine.words.reasons import Reason, Refusal, Refused

APP = "npa-tui"


def config_file(environ: Mapping[str, str]) -> Path:
    """`$NPA_TUI_CONFIG`, else `config.toml` in the platform's configuration folder of `$HOME`."""
    if given := environ.get("NPA_TUI_CONFIG"):
        return Path(given)
    from platformdirs import user_config_path

    return user_config_path(APP) / "config.toml"


def protected(environ: Mapping[str, str]) -> frozenset[str]:
    """Aliases and ids that are protected. Raises `Refused` when the file cannot be read: it may protect what is asked for."""
    path = config_file(environ)
    try:
        with path.open("rb") as file:
            names = tomllib.load(file).get("protected", [])
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _unreadable(path, "`protected` is no list of aliases and project ids")
    return frozenset(names)


def _unreadable(path: Path, why: str) -> Refused:
    return Refused(
        Refusal(
            Reason.RECORD_UNREADABLE,
            f"{path}: {why}; it says which projects are protected",
            f"$EDITOR {path}",
        )
    )
