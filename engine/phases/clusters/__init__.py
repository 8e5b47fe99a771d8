"""Phase clusters: takes down each cluster that the CLI made, with its nodes and network, and proves that it is gone."""

from engine.phases.clusters.phase import Clusters

__all__ = ["Clusters"]
