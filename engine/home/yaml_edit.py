"""One locked read, change and replacement of a YAML store, with unknown keys and key order kept."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

from engine.home.atomic import remove_private, write_private
from engine.home.documents import Document, read_yaml, resolve_store, write_yaml
from engine.home.errors import Kind
from engine.home.locks import flocked
from engine.home.roots import yaml_lock

Change = Callable[[Document], Document | None]
"""A pure function from a store to the store that it is to become; None: to no store at all. It may change its argument."""


def edit_yaml(path: Path, change: Change, *, kind: Kind, own_link: bool = False) -> bool:
    """Apply a change to a YAML store under the CLI's own lock. True when something was written.

    A change that changes nothing writes nothing, so comments and mode stay. A store that is absent and stays empty is not made.
    own_link   follow a link of the operator's own: the target is replaced, the link stays
    Raises `RecordError` for a store that cannot be read strictly, `OSError` when it cannot be written.
    """
    root = path.parent
    if not path.exists() and not path.is_symlink() and not change({}):
        return False
    with flocked(yaml_lock(path), root=root, kind=kind):
        before = read_yaml(path, root, kind, own_link=own_link)
        after = change(copy.deepcopy(before or {}))
        if after is None:
            return before is not None and remove_private(path, kind=kind, root=root)
        data = write_yaml(after)
        if data == write_yaml(before or {}):
            return False
        target = resolve_store(path, kind, own_link=own_link)
        write_private(target, data, kind=kind, root=target.parent)
        return True
