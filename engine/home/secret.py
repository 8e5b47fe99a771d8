"""A value that must not be seen."""

from __future__ import annotations


class Secret:
    """Wraps secret text. `repr`, `str` and formatting hide it; `reveal` gives it to the one client that needs it."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "Secret(<set>)" if self._text else "Secret(<empty>)"

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is not serialised")


NO_SECRET = Secret()
