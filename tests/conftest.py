"""What all tests share: no NO_COLOR, CI or real endpoints from the machine leak into a test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

_LEAKS = ("NPA_", "NEBIUS_", "SKYPILOT_", "AWS_", "NO_COLOR", "KUBECONFIG", "TF_", "CI", "COLORTERM")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if any(name == leak or (leak.endswith("_") and name.startswith(leak)) for leak in _LEAKS):
            monkeypatch.delenv(name)


@pytest.fixture
def states() -> Path:
    """The recorded `~/.npa` trees, where they are at hand."""
    path = ROOT.parent / "shared" / "states"
    if not (path / "materialize").exists():
        pytest.skip("the recorded states are not at hand")
    return path
