"""Who we are to an object store, and where it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


class Secret:
    """A string that neither `repr`, `str` nor a format shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """An endpoint (`https://HOST[:PORT]`, no path), a region, and a key pair. Buckets are addressed by path."""

    endpoint: str
    region: str
    access_key_id: str
    secret: Secret
    addressing: Literal["path"] = "path"
    session_token: Secret | None = None
