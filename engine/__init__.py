"""The engine: tears down one cloud project and proves that it is gone."""

__version__ = "0.1.0"
