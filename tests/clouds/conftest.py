"""What all tests of the clouds share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rehearsals on busy machines get more; here every server is in this process, and a hang is meant."""
    monkeypatch.setattr("engine.clouds.nebius.connection.SHORTEST", 2.0)
