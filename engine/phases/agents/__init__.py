"""Phase agents: each agent's VM with its disks, addresses and network parts, told by ids and operation labels."""

from engine.phases.agents.deciding import Facts, decide
from engine.phases.agents.phase import Agents

__all__ = ["Agents", "Facts", "decide"]
