"""Where a simulation's servers are: what the records of a home have to say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Endpoints:
    """URLs of a simulation. `kubernetes`: by context, the URL and the CA's certificate (PEM in base64)."""

    s3: str
    control: str
    kubernetes: Mapping[str, tuple[str, str]]
