"""The pictures beside the documentation are what the program draws now."""

from __future__ import annotations

from pathlib import Path

import pytest

from npa_tui.screenshots.__main__ import FOLDER, main, tidy
from npa_tui.screenshots.scenes import BY_NAME, WALKTHROUGH


@pytest.mark.slow
def test_no_picture_is_stale(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out


def test_no_picture_is_left_over() -> None:
    assert {p.stem for p in FOLDER.glob("*.svg")} == set(WALKTHROUGH)


def test_the_check_finds_what_is_stale_or_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "too-small-50x12"
    assert name in BY_NAME
    assert main(["--check", "--folder", str(tmp_path), name]) == 1
    assert main(["--folder", str(tmp_path), name]) == 0
    assert main(["--check", "--folder", str(tmp_path), name]) == 0
    path = tmp_path / f"{name}.svg"
    path.write_text(path.read_text().replace("window", "pane"))
    assert main(["--check", "--folder", str(tmp_path), name]) == 1
    assert capsys.readouterr().out.count(f"stale: {name}") == 2


def test_pictures_load_nothing_from_elsewhere() -> None:
    svg = tidy("<style>@font-face { src: url(x) }</style><g class='terminal-123-r1'/>")
    assert "font-face" not in svg
    assert "terminal-r1" in svg
