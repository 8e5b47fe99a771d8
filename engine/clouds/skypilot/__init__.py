"""The operator's SkyPilot: managed jobs, and the clusters in its records."""

from engine.clouds.skypilot.client import Sky
from engine.clouds.skypilot.jobs import CONTROLLER_PREFIX, Job, Queue, SkyCluster, is_terminal

__all__ = ["CONTROLLER_PREFIX", "Job", "Queue", "Sky", "SkyCluster", "is_terminal"]
