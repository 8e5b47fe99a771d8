"""Which keys an operator keeps: globs over whole keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


def keeper(patterns: Sequence[str]) -> Callable[[bytes], bool]:
    """Whether a key is kept. `*` and `?` stop at a slash, `**` does not, `[...]` is a set; everything else is itself."""
    if not patterns:
        return lambda key: False
    fits = re.compile("|".join(f"(?:{_translate(p)})" for p in patterns).encode(), re.DOTALL).fullmatch
    return lambda key: fits(key) is not None


def _translate(pattern: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            out.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            out.append(".*")
            at += 2
        elif pattern[at] == "*":
            out.append("[^/]*")
            at += 1
        elif pattern[at] == "?":
            out.append("[^/]")
            at += 1
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            inside = pattern[at + 1 : end].replace("\\", "\\\\")
            out.append(f"[{'^' + inside[1:] if inside.startswith('!') else inside}]")
            at = end + 1
        else:
            out.append(re.escape(pattern[at]))
            at += 1
    return "".join(out)
