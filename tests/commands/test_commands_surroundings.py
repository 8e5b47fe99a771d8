"""What the machine may lack: Terraform, space, a network. A clear answer, nothing lost, and the next run converges."""

from __future__ import annotations

import json
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import simulated

RETAINED = {"project", "tenant", "registry", "artifact", "network", "subnet", "securitygroup", "routetable"}


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simulated.Simulation]:
    with simulated.simulation("clean-project", tmp_path_factory.mktemp("home")) as running:
        yield running


def program(folder: Path, text: str) -> Path:
    path = folder / "terraform"
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "no such program"),
        ('print(\'{"terraform_version": "1.5.7"}\')', "1.5.7"),
        ("print('Terraform v1.5.7')", "Terraform"),
        ("raise SystemExit(3)", "Terraform"),
    ],
    ids=["missing", "too-old", "no-json", "fails"],
)
def test_a_terraform_that_will_not_do_is_told_before_anything_is_changed(
    sim: simulated.Simulation, tmp_path: Path, text: str | None, says: str
) -> None:
    path = program(tmp_path, text) if text else tmp_path / "terraform"
    before = sim.tree()
    done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json", NPA_TERRAFORM_BIN=str(path))
    assert done.code == 1, done.out
    assert done.document["reason_code"] == "preflight_failed"
    assert str(path) in done.document["message"] or says in done.document["message"]
    assert done.document["next_command"]
    assert not done.document["mutated"]
    assert sim.changes() == []
    assert sim.tree() == before


def test_endpoints_that_nobody_answers_at_prove_nothing(tmp_path: Path) -> None:
    with simulated.simulation("clean-project", tmp_path) as sim:
        before = sim.ids()
        done = sim.npa(
            "destroy", "--project", sim.alias, "--all", "--yes", "--json", NEBIUS_ENDPOINT="127.0.0.1:9", timeout=240,
        )  # fmt: skip
        assert done.code == 2, done.out + done.err
        assert "Traceback" not in done.err
        assert done.document["deleted"] == [] or {d["kind"] for d in done.document["deleted"]} == {"run"}
        kinds = {k: v for k, v in sim.ids().items() if k not in ("job", "run")}
        assert kinds == {k: v for k, v in before.items() if k not in ("job", "run")}
        assert done.document["still_costing"] is None or not done.document["still_costing"]["complete"]


@pytest.mark.slow
def test_a_disk_that_fills_up_loses_nothing(tmp_path: Path) -> None:
    """Files may grow to a limit and no further, which is how a full disk fails; each run gets some further than the last."""
    with simulated.simulation("clean-project", tmp_path) as sim:
        for limit in (0, 6_000, 12_000, 24_000):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "engine",
                    "destroy",
                    "--project",
                    sim.alias,
                    "--all",
                    "--yes",
                    "--json",
                ],
                env={**sim.environ(), "PYTHONDONTWRITEBYTECODE": "1"},
                cwd=sim.home,
                capture_output=True,
                text=True,
                check=False,
                timeout=240,
                preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
            )
            assert done.returncode in (1, 2, 70), (limit, done.stdout, done.stderr)
            document = json.loads(done.stdout)
            assert document["exit_code"] == done.returncode
            assert "Traceback" not in done.stderr
            there = {id for ids in sim.ids().values() for id in ids}
            assert not {d["id"] for d in document.get("deleted", [])} & there
            if limit == 0:
                assert sim.changes() == []
        done = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json", timeout=240)
        assert done.code == 0, done.out + done.err
        assert set(sim.ids()) <= RETAINED


def test_a_plan_loads_no_client(sim: simulated.Simulation) -> None:
    """Planning reads local records: it must stay quick on a tired machine, and able where a client is broken."""
    code = (
        "import sys\n"
        "from engine.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(' '.join(sorted(m.partition('.')[0] for m in sys.modules)), file=sys.stderr)\n"
    )
    for args in (["destroy", "--project", sim.alias, "--all", "--json"], ["cleanup", "--json"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *args],
            env=sim.environ(), cwd=sim.home, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        loaded = set(done.stderr.split())
        assert sim.alias in done.stdout
        for heavy in (
            "nebius",
            "grpc",
            "kubernetes",
            "boto3",
            "botocore",
            "textual",
            "rich",
            "sky",
            "aiohttp",
            "hcl2",
        ):
            assert heavy not in loaded, f"{args[0]} loads {heavy}"


def test_the_version_loads_almost_nothing(sim: simulated.Simulation) -> None:
    code = "import sys\nfrom engine.__main__ import main\ntry: main()\nexcept SystemExit: pass\nprint(' '.join(sys.modules), file=sys.stderr)\n"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        env=sim.environ(), cwd=sim.home, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"pydantic", "yaml", "nebius", "textual", "rich", "asyncio"}


@pytest.mark.parametrize("by", ["alias", "id"])
def test_a_protected_project_is_shown_and_never_torn_down(
    sim: simulated.Simulation, tmp_path: Path, by: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f'protected = ["{sim.alias if by == "alias" else sim.project}"]\n')
    plan = sim.npa("destroy", "--project", sim.alias, "--all", "--json", NPA_TUI_CONFIG=str(path))
    assert (plan.code, plan.document["protected"]) == (0, True)
    run = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json", NPA_TUI_CONFIG=str(path))
    assert (run.code, run.document["reason_code"], run.document["mutated"]) == (1, "protected", False)
    assert sim.changes() == []
    path.write_text("protected = [unclosed")
    broken = sim.npa("destroy", "--project", sim.alias, "--all", "--yes", "--json", NPA_TUI_CONFIG=str(path))
    assert (broken.code, broken.document["reason_code"]) == (1, "record_unreadable")
    assert sim.changes() == []
