"""JSON and YAML files as mappings. A syntax error is told by line and column, never by the text found there."""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from engine.home.errors import Fault, Kind, RecordError, RecordProblem, repair_remedy
from engine.home.folders import check_owner, link_problem, opened_folder, read_file, refused

if TYPE_CHECKING:
    import yaml

Document = dict[str, object]

_TWICE = "has the same key twice"


def malformed(path: Path, kind: Kind, problem: str) -> RecordError:
    return RecordError(RecordProblem(path, "", problem, repair_remedy(path), kind, Fault.MALFORMED))


def read_json(path: Path, root: Path, kind: Kind) -> Document | None:
    """The JSON object in a file; None when the file is absent. Raises `RecordError`."""
    data = read_file(path, root, kind)
    return None if data is None else parse_json(data, path, kind)


def parse_json(data: bytes, path: Path, kind: Kind) -> Document:
    """A JSON object. Refuses a repeated key, since two readers could then read two different records."""
    try:
        found = json.loads(data, object_pairs_hook=lambda pairs: _once(pairs, path, kind))
    except json.JSONDecodeError as failure:
        raise malformed(path, kind, f"is not JSON at line {failure.lineno}, column {failure.colno}") from None
    except UnicodeDecodeError:
        raise malformed(path, kind, "is not UTF-8 text") from None
    except RecursionError:
        raise malformed(path, kind, "is nested too deeply") from None
    except ValueError:
        raise malformed(path, kind, "holds a number that no reader accepts") from None
    if not isinstance(found, dict):
        raise malformed(path, kind, "is not a JSON object")
    return found


def _once(pairs: list[tuple[str, object]], path: Path, kind: Kind) -> Document:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise malformed(path, kind, "has an object with the same key twice")
    return found


def write_json(document: object) -> bytes:
    """The CLI's own form: sorted keys, two spaces, a newline at the end."""
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def resolve_store(path: Path, kind: Kind, *, own_link: bool) -> Path:
    """The file that a YAML store really is.

    A link is refused, except with `own_link`: then a link of ours to a regular file of ours (a configuration kept in a dotfiles
    folder) is followed, so that a write replaces the target and the link stays. A dangling link is a problem, not absence.
    """
    if not path.is_symlink():
        return path
    if not own_link:
        raise link_problem(path, kind)
    check_owner(path, kind, path.lstat())
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise refused(
            path, kind, "is a link that leads nowhere", f"restore its target or remove the link: rm {path}"
        ) from None


def read_yaml(path: Path, root: Path, kind: Kind, *, own_link: bool = False) -> Document | None:
    """The YAML mapping in a file; None when the file is absent, an empty mapping for an empty file. Raises `RecordError`."""
    with opened_folder(path.parent, root, kind) as folder:
        if folder is None:
            return None
    target = resolve_store(path, kind, own_link=own_link)
    data = read_file(target, root if target == path else target.parent, kind)
    return None if data is None else parse_yaml(data, path, kind)


def parse_yaml(data: bytes, path: Path, kind: Kind) -> Document:
    """A YAML mapping with text keys at its root. Refuses repeated keys, cycles and tags."""
    import yaml

    try:
        found: object = yaml.load(data, Loader=_loader())
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        why = _TWICE if failure.problem == _TWICE else "is not YAML"
        raise malformed(path, kind, f"{why}{where}") from None
    except (yaml.YAMLError, ValueError):
        raise malformed(path, kind, "is not YAML") from None
    except RecursionError:
        raise malformed(path, kind, "is nested too deeply") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise malformed(path, kind, "is not a mapping at its top level")
    return found


def write_yaml(document: Document) -> bytes:
    """Block style, key order kept; comments are not part of a mapping and are lost, as with the CLI."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        document, Dumper=dumper, sort_keys=False, default_flow_style=False, allow_unicode=True
    )
    return text.encode()


@cache
def _loader() -> type[yaml.SafeLoader]:
    """The safe loader, in C where there is one, that refuses a key given twice and a node that contains itself."""
    import yaml

    base: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Strict(base):  # type: ignore[misc, valid-type]
        pass

    def construct(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[object, object]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            # A merge key may stand beside the keys that it brings: that is what it is for.
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key: object = loader.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(problem=_TWICE, problem_mark=key_node.start_mark)
            seen.add(key)
        loader.flatten_mapping(node)
        # Deep: built at once, so that a node that contains itself is refused instead of becoming a cycle.
        return loader.construct_mapping(node, deep=True)

    Strict.add_constructor("tag:yaml.org,2002:map", construct)
    return Strict
