"""Lays the home that the existing CLI would have left for a world: an independent writer that our readers meet."""

from engine.simulator.home.home import Home

__all__ = ["Home"]
