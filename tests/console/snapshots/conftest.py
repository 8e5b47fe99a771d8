"""Pictures are made on one Python only, and without anything of this machine in them."""

from __future__ import annotations

import sys

import pytest

MADE_WITH = (3, 11)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("update_snapshots", False) and sys.version_info[:2] != MADE_WITH:
        raise pytest.UsageError(f"snapshots are updated on Python {'.'.join(map(str, MADE_WITH))} only")
