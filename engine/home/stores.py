"""Everything on this machine that is not filed by project, read once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from engine.home.clusters import Clusters, read_clusters
from engine.home.config import Config, read_config
from engine.home.credentials import Credentials, read_credentials
from engine.home.errors import RecordError, RecordProblem
from engine.home.operations import Operations, read_operations
from engine.home.receipts import Receipts, read_receipts
from engine.home.roots import Roots

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores; one that could not be read at all is None or empty, and its problem is in `problems`."""

    roots: Roots
    config: Config | None
    credentials: Credentials | None
    clusters: Clusters
    operations: Operations
    receipts: Receipts
    problems: tuple[RecordProblem, ...]


def read_stores(roots: Roots) -> Stores:
    """Read every store. Never raises for what is on disk: each store's failure is a problem. Writes nothing."""
    failed: list[RecordProblem] = []

    def attempt(read: Callable[[Roots], T], otherwise: T) -> T:
        try:
            return read(roots)
        except RecordError as failure:
            failed.append(failure.problem)
            return otherwise

    config: Config | None = attempt(read_config, None)
    credentials: Credentials | None = attempt(read_credentials, None)
    clusters = attempt(read_clusters, Clusters())
    operations = attempt(read_operations, Operations())
    receipts = attempt(read_receipts, Receipts())
    inner = (
        *(config.problems if config else ()),
        *(credentials.problems if credentials else ()),
        *clusters.problems,
        *operations.problems,
        *receipts.problems,
    )
    return Stores(roots, config, credentials, clusters, operations, receipts, (*failed, *inner))
