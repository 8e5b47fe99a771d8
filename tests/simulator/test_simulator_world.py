"""The world file: what it may say, how it is refused, and that every world that comes along makes sense."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import simulated
import yaml
from pydantic import BaseModel

from engine.simulator import world
from engine.simulator.simulation import Simulation
from engine.simulator.world import FOLDER, World, load

NAMES = sorted(p.stem for p in FOLDER.glob("*.yaml"))
SMALL: dict[str, Any] = {
    "description": "small", "projects": [{"alias": "demo", "id": "project-e00small", "tenant_id": "tenant-e00small"}],
}  # fmt: skip


def refused(folder: Path, change: dict[str, Any]) -> str:
    path = folder / "world.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **change}))
    with pytest.raises(ValueError) as caught:
        Simulation(load(str(path)), folder / "home", 1.0, 0, None)
    return str(caught.value)


def test_the_five_worlds_come_along() -> None:
    assert set(NAMES) >= {"after-a-crash", "busy", "clean-project", "full", "hostile"}


@pytest.mark.parametrize("name", NAMES)
def test_a_world_that_comes_along_says_what_it_is_for_and_can_be(name: str, tmp_path: Path) -> None:
    assert (FOLDER / f"{name}.yaml").read_text().startswith("# ")
    Simulation(load(name), tmp_path, 1.0, 0, None)
    assert list(tmp_path.iterdir()) == [], "nothing is written before it is started"


def test_every_field_of_our_own_is_described() -> None:
    models = [m for m in vars(world).values() if isinstance(m, type) and issubclass(m, BaseModel)]
    ours = [m for m in models if m.__module__ == world.__name__]
    bare = [
        f"{m.__name__}.{name}"
        for m in ours
        for name, field in m.model_fields.items()
        if not field.description
    ]
    assert len(ours) > 8
    assert bare == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sceds": {}}, "sceds: Extra inputs are not permitted"),
        ({"projects": []}, "projects: List should have at least 1 item"),
        ({"page_size": 0}, "page_size: Input should be greater than or equal to 1"),
        ({"projects": [*SMALL["projects"], *SMALL["projects"]]}, "alias given twice: demo"),
        ({"faults": [{"service": "smtp", "kind": "drop"}]}, "faults.0.service"),
        (
            {"projects": [{**SMALL["projects"][0], "extras": [{"kind": "vm", "id": "x", "name": "x"}]}]},
            "there is no kind 'vm'",
        ),
        (
            {
                "projects": [
                    {
                        **SMALL["projects"][0],
                        "extras": [{"kind": "network", "id": "x", "name": "default-network"}],
                    }
                ]
            },
            "network 'default-network' exists",
        ),
    ],
)
def test_a_world_that_makes_no_sense_is_refused_in_one_sentence(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    message = refused(tmp_path, change)
    assert says in message
    assert "\n" not in message


def test_broken_yaml_and_unknown_names_are_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("projects: [")
    with pytest.raises(ValueError, match=r"broken\.yaml: while parsing") as broken:
        load(str(tmp_path / "broken.yaml"))
    assert "\n" not in str(broken.value)
    with pytest.raises(ValueError, match=r"there is no world 'nowhere'.*clean-project"):
        load("nowhere")


def test_the_simulator_loads_nothing_of_the_engines() -> None:
    """A house of its own, and nobody who lives in the other one knows it."""
    code = (
        "import sys, engine.simulator.__main__\n"
        "print([m for m in sys.modules if m.startswith(('engine', 'npa_tui')) and not m.startswith('engine.simulator')])"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=simulated.ROOT
    )
    assert said.stdout.strip() == "['engine']"


def test_defaults_are_a_cloud_where_nothing_is_slow_or_wrong() -> None:
    made = World.model_validate(SMALL)
    assert (made.faults, made.stumbles, made.list_lag, made.get_lag) == ([], [], 0, 0)
    assert made.projects[0].agents == []
