"""The SkyPilot API server's REST surface, as much of it as SkyPilot's own SDK needs to read, cancel and take down."""

from engine.simulator.skypilot.server import SkyServer
from engine.simulator.skypilot.spec import JobSpec, SkyClusterSpec, SkySpec

__all__ = ["JobSpec", "SkyClusterSpec", "SkyServer", "SkySpec"]
