"""What a person has set for the console: `[keys]` in its configuration file. Read once; a bad file is said and ignored."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from engine.run.protection import APP, config_file


def state_folder() -> Path:
    from platformdirs import user_state_path

    return user_state_path(APP)


def keymap(environ: Mapping[str, str]) -> dict[str, str]:
    """Command id -> keys, as Textual names keys. Unknown ids and values that are no text are left out, and named."""
    from npa_tui import commands

    path = config_file(environ)
    try:
        with path.open("rb") as file:
            table = tomllib.load(file).get("keys", {})
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{path}: not read: {error}\n")
        return {}
    if not isinstance(table, dict):
        sys.stderr.write(f"{path}: [keys] is no table\n")
        return {}
    good = {k: v for k, v in table.items() if isinstance(v, str) and k in commands.BY_ID}
    for name in table.keys() - good.keys():
        sys.stderr.write(f"{path}: keys.{name} is no command, or its value is no text\n")
    return good
