"""Numbers that are large, in few characters."""

from __future__ import annotations

_COUNTS = ((10**9, " G"), (10**6, " M"), (10**3, " k"))
_BYTES = tuple(
    (1 << (10 * n), f" {unit}iB") for n, unit in ((5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "K"))
)


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 object`, `912 objects`, `1.9 M objects`."""
    return f"{_scaled(number, _COUNTS, '')} {noun if number == 1 else plural or noun + 's'}"


def size(number: int) -> str:
    """`0 B`, `3.2 TiB`."""
    return _scaled(number, _BYTES, " B")


def _scaled(number: int, steps: tuple[tuple[int, str], ...], unit: str) -> str:
    for step, name in steps:
        if number >= step:
            return f"{number / step:.1f}".removesuffix(".0") + name
    return f"{number}{unit}"
