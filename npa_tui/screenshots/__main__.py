"""`python -m npa_tui.screenshots [--check] [NAME ...]`: draw the walkthrough's pictures, or say which ones are stale."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from pathlib import Path

from npa_tui.screenshots.scenes import Scene, named, played

FOLDER = Path(__file__).resolve().parents[2] / "screenshots"


async def draw(scene: Scene) -> str:
    """A scene as SVG: no fonts from elsewhere, and ids that do not change from run to run."""
    async with played(scene) as (pilot, _):
        return tidy(pilot.app.export_screenshot(title=scene.title))


def tidy(svg: str) -> str:
    svg = re.sub(r"\s*@font-face\s*\{.*?\}", "", svg, flags=re.S)
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    svg = svg.replace("Fira Code", "JetBrains Mono, Fira Code, DejaVu Sans Mono")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def stale(scenes: tuple[Scene, ...], folder: Path) -> list[str]:
    """Names of pictures that differ from what the program draws now, or are missing."""
    return [s.name for s in scenes if _stored(folder / f"{s.name}.svg") != asyncio.run(draw(s))]


def _stored(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m npa_tui.screenshots", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only pictures whose name contains this")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a picture is stale")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    args = parser.parse_args(argv)
    os.environ.pop("NO_COLOR", None)
    scenes = named(args.names)
    if args.check:
        old = stale(scenes, args.folder)
        sys.stdout.write("".join(f"stale: {name}\n" for name in old))
        return 1 if old else 0
    args.folder.mkdir(parents=True, exist_ok=True)
    for scene in scenes:
        (args.folder / f"{scene.name}.svg").write_text(asyncio.run(draw(scene)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
