"""Strict access to a mapping that came from a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path

from engine.home.errors import Fault, Kind, RecordError, RecordProblem, repair_remedy
from engine.home.secret import Secret

_VERSION = re.compile(r"npa\.[a-z.-]{1,48}\.v[0-9]{1,4}")


class Fields:
    """One mapping of a record. Each accessor gives the value in its type, a default for a missing or null one, or raises
    `RecordError` that names file and field; values themselves never reach a message.

    path   the file         where   dotted name of this mapping in the file, empty for its root
    """

    __slots__ = ("_raw", "kind", "path", "scope", "where")

    def __init__(self, raw: object, *, kind: Kind, path: Path, where: str = "", scope: str = "") -> None:
        self.kind, self.path, self.where, self.scope = kind, path, where, scope
        if not isinstance(raw, Mapping):
            raise self.error("", f"must be a mapping, not {_shape(raw)}")
        for key in raw:
            if not isinstance(key, str):
                raise self.error("", f"has a key that is {_shape(key)}, not text: put it in quotes")
        self._raw: Mapping[str, object] = raw

    def scoped(self, project_id: str) -> Fields:
        """The same mapping, whose problems are known to concern this project."""
        return Fields(self._raw, kind=self.kind, path=self.path, where=self.where, scope=project_id)

    def name(self, key: str) -> str:
        return ".".join(part for part in (self.where, key) if part)

    def error(
        self, key: str, problem: str, *, fault: Fault = Fault.MALFORMED, remedy: str = ""
    ) -> RecordError:
        return RecordError(
            RecordProblem(
                self.path,
                self.name(key),
                problem,
                remedy or repair_remedy(self.path),
                self.kind,
                fault,
                self.scope,
            )
        )

    def __contains__(self, key: str) -> bool:
        return self._raw.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __bool__(self) -> bool:
        return bool(self._raw)

    def raw(self, key: str) -> object:
        return self._raw.get(key)

    def text(self, key: str, default: str = "", *, number: bool = False) -> str:
        """Text, stripped of nothing. A YAML timestamp is given as RFC 3339; with `number`, a whole number as its digits."""
        value = self._raw.get(key)
        if value is None:
            return default
        if isinstance(value, str):
            return value
        if isinstance(value, datetime):
            return value.isoformat().replace("+00:00", "Z")
        if isinstance(value, date):
            return value.isoformat()
        if number and isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self.error(key, f"must be text, not {_shape(value)}")

    def needed(self, key: str) -> str:
        """Text that must be there and not be empty."""
        value = self.text(key)
        if not value:
            raise self.error(key, "is missing or empty")
        return value

    def first(self, *keys: str) -> str:
        """The first of several alias names that holds non-empty text."""
        return next((value for key in keys if (value := self.text(key))), "")

    def secret(self, *keys: str) -> Secret:
        return Secret(self.first(*keys))

    def whole(self, key: str, default: int = 0) -> int:
        value = self._raw.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"must be a whole number, not {_shape(value)}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self._raw.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, not {_shape(value)}")
        return value

    def sequence(self, key: str) -> tuple[object, ...]:
        value = self._raw.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.error(key, f"must be a list, not {_shape(value)}")
        return tuple(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of text."""
        found = self.sequence(key)
        for number, value in enumerate(found):
            if not isinstance(value, str):
                raise self.error(f"{key}[{number}]", f"must be text, not {_shape(value)}")
        return tuple(str(value) for value in found)

    def child(self, key: str) -> Fields | None:
        """A mapping below; None when it is missing or null, which an empty mapping is not."""
        value = self._raw.get(key)
        return None if value is None else self._below(value, key)

    def block(self, key: str) -> Fields:
        """A mapping below, empty when it is missing."""
        return self.child(key) or self._below({}, key)

    def children(self, key: str) -> Iterator[tuple[str, object]]:
        """Names and raw values of a mapping below; `entry` opens one, so that one bad entry need not hide the others."""
        below = self.block(key)
        for name in below:
            yield name, below.raw(name)

    def entry(self, key: str, name: str) -> Fields:
        """One mapping of a mapping of mappings. A null entry is an empty one."""
        value = self.block(key).raw(name)
        return self._below({} if value is None else value, f"{key}.{name}")

    def items(self, key: str) -> tuple[Fields, ...]:
        """A list of mappings."""
        return tuple(
            self._below(value, f"{key}[{number}]") for number, value in enumerate(self.sequence(key))
        )

    def schema(self, key: str, *known: object) -> None:
        """Refuse a schema version that is not among `known`; a list entry of None accepts a missing one."""
        value = self._raw.get(key)
        if any(value == k and isinstance(value, bool) == isinstance(k, bool) for k in known):
            return
        # A version of the CLI's own making may be shown; anything else under this name is file contents.
        known_form = isinstance(value, str) and _VERSION.fullmatch(value)
        text = value if known_form or isinstance(value, int) else _shape(value)
        raise self.error(
            key,
            f"says {text}, a schema version that this program does not know",
            fault=Fault.UNSUPPORTED,
            remedy="use a version of this program that knows it; nothing that depends on it is touched",
        )

    def _below(self, value: object, key: str) -> Fields:
        return Fields(value, kind=self.kind, path=self.path, where=self.name(key), scope=self.scope)


class Problems:
    """Collects problems, so that one malformed part of a store does not hide the others."""

    def __init__(self) -> None:
        self._found: list[RecordProblem] = []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Run a part; a `RecordError` from it is noted and the part is left out."""
        try:
            yield
        except RecordError as failure:
            self._found.append(failure.problem)

    def add(self, *problems: RecordProblem) -> None:
        self._found.extend(problems)

    def __call__(self) -> tuple[RecordProblem, ...]:
        return tuple(dict.fromkeys(self._found))


def _shape(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    return "another kind of value"
