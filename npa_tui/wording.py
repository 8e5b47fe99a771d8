"""English, as far as the nouns of the phase table need it."""

from __future__ import annotations


def plural(noun: str) -> str:
    """`runs`, `registries`, `boxes`."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def nouns(n: int, noun: str) -> str:
    """`1 run`, `3 runs`."""
    return f"{n} {noun if n == 1 else plural(noun)}"
