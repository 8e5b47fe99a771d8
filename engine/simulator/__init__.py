"""A cloud on loopback: real protocols over a world from a file. Started as a process; imports nothing of the engine."""
