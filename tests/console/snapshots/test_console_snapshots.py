"""Every scene of the walkthrough, as a picture. Run without workers: unused pictures are only noticed then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from npa_tui.screenshots.scenes import SCENES, Scene, act, staged


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_scene(scene: Scene, snap_compare: Callable[..., bool], tmp_path: Path) -> None:
    staging = staged(scene, tmp_path)

    async def play(pilot: Pilot[int]) -> None:
        await act(scene, pilot, staging)

    assert snap_compare(staging.app, terminal_size=scene.size, run_before=play)
