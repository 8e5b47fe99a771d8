"""The home that a simulation lays: what the CLI's recorded trees hold, private, and true of the cloud beside it."""

from __future__ import annotations

import hashlib
import json
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import simulated
import yaml

_VOLATILE = {
    "owner_pid",
    "attempt_id",
    "sky_bin",
    "access_key",
    "secret_key",
    "server",
    "size_bytes",
    "sha256",
}
"""Fields whose values belong to one machine, one moment, or are secrets."""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simulated.Simulation]:
    with simulated.simulation("full", tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simulated.Simulation]:
    with simulated.simulation("after-a-crash", tmp_path_factory.mktemp("home")) as running:
        yield running


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.suffix == ".yaml" else json.loads(path.read_text())


def plain(value: Any, home: str, name: str = "") -> Any:
    """A document without what belongs to a machine or a moment: paths, times, endpoints, process ids, keys."""
    if isinstance(value, dict):
        return {k: plain(v, home, k) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v, home, name) for v in value]
    if name in _VOLATILE or name.startswith("aws_"):
        return "*"
    if not isinstance(value, str):
        return value
    value = value.replace(home, "HOME").replace("__HOME__", "HOME")
    value = re.sub(r"https?://[^/\s]+", "URL", value)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "WHEN", value)


def files(root: Path, *parts: str) -> set[str]:
    """Paths of files below a folder, but for what a laid home need not hold."""
    skipped = ("skypilot-venv", "terraform-plugin-cache")
    found = {str(p.relative_to(root)) for p in root.joinpath(*parts).rglob("*") if p.is_file()}
    return {name for name in found if not any(s in name for s in skipped)}


def test_the_recorded_tree_and_the_laid_one_have_the_same_files(
    full: simulated.Simulation, states: Path
) -> None:
    assert files(full.home, ".npa") == files(states / "full", ".npa")


@pytest.mark.parametrize(
    "pattern",
    [
        "config.yaml",
        "credentials.yaml",
        "clusters/*/*.json",
        "operations/*/journal.json",
        "operations/.projects/*/lease.json",
        "workflow-submissions/*/*.json",
        "workflow-runs/*/*.json",
        "teardown-receipts/*.json",
    ],
)
def test_every_record_says_what_the_recorded_one_says(
    full: simulated.Simulation, states: Path, pattern: str
) -> None:
    recorded = states / "full/.npa"
    found = sorted(recorded.glob(pattern))
    assert found
    for path in found:
        ours = plain(read(full.home / ".npa" / path.relative_to(recorded)), str(full.home))
        assert ours == plain(read(path), "__HOME__"), path.name


def test_everything_is_private_and_nothing_is_a_link(full: simulated.Simulation) -> None:
    for root in (full.home / ".npa", full.home / ".nebius"):
        for path in (root, *root.rglob("*")):
            mode = path.lstat().st_mode
            assert not stat.S_ISLNK(mode), path
            assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), path


def test_every_id_on_record_is_in_the_cloud(full: simulated.Simulation) -> None:
    known = {id for ids in full.ids().values() for id in ids}
    text = "\n".join(
        (full.home / ".npa" / name).read_text()
        for name in [p.relative_to(full.home / ".npa") for p in (full.home / ".npa").rglob("*.json")]
    )
    text += (full.home / ".npa/config.yaml").read_text() + (full.home / ".npa/credentials.yaml").read_text()
    named = set(re.findall(r"\b(?:[a-z]+[a-z0-9]*-e00[a-z0-9]+)\b", text))
    assert len(named) > 12
    assert named <= known | {"npa-storage-object-editors-project-e00demo"}, named - known


def test_the_kubeconfigs_server_is_the_endpoint_that_the_provider_names(full: simulated.Simulation) -> None:
    (cluster,) = full.get("/state")["resources"]["cluster"]
    endpoint = cluster["doc"]["status"]["controlPlane"]["endpoints"]["publicEndpoint"]
    record = read(full.home / ".npa/clusters/demo-gpu/cluster.json")
    config = yaml.safe_load((full.home / ".npa/clusters/demo-gpu/kubeconfig").read_text())
    assert endpoint == record["endpoint"] == config["clusters"][0]["cluster"]["server"]
    assert endpoint.startswith("https://127.0.0.1:")


def test_the_kubeconfigs_command_prints_the_token(full: simulated.Simulation) -> None:
    config = yaml.safe_load((full.home / ".npa/clusters/demo-gpu/kubeconfig").read_text())
    run = config["users"][0]["user"]["exec"]
    assert run["interactiveMode"] == "IfAvailable"
    said = subprocess.run([run["command"], *run["args"]], capture_output=True, check=True, timeout=10).stdout
    assert json.loads(said)["status"]["token"] == (full.home / ".nebius/token").read_text().strip()


def test_preserved_states_have_the_hash_that_their_journal_names(crashed: simulated.Simulation) -> None:
    copies = 0
    for path in (crashed.home / ".npa/operations").glob("*/journal.json"):
        for copy in read(path).get("local_state_copies", []):
            body = (path.parent / copy["path"]).read_bytes()
            assert hashlib.sha256(body).hexdigest() == copy["sha256"]
            assert len(body) == copy["size_bytes"]
            assert json.loads(body)["version"] == 4
            copies += 1
    assert copies == 1


def test_the_half_done_destroy_is_recorded_as_the_cli_records_one(
    crashed: simulated.Simulation, states: Path
) -> None:
    recorded = next((states / "after-partial-destroy/.npa/operations").glob("project--demo-*/journal.json"))
    theirs = read(recorded)
    ours = read(next((crashed.home / ".npa/operations").glob("project--demo-*/journal.json")))
    for name in (
        "schema_version",
        "command",
        "resource_type",
        "phase",
        "lifecycle",
        "result",
        "ownership_source",
    ):
        assert ours[name] == theirs[name], name
    assert ours["last_error_type"] == theirs["last_error_type"] == "PartialProjectTeardown"
    plans = [journal["preflight_plan"]["topology"]["phases"] for journal in (ours, theirs)]
    assert [(row["phase"], row["requires"]) for row in plans[0]] == [
        (row["phase"], row["requires"]) for row in plans[1]
    ]
    verbs = [[[word for word in argv if re.fullmatch(r"-*[a-z-]+", word) and "demo" not in word and "crash" not in word]
              for argv in row["commands"]] for plan in plans for row in plan]  # fmt: skip
    assert verbs[: len(plans[0])] == verbs[len(plans[0]) :]


def test_the_lease_of_a_dead_process_names_the_operation_that_is_to_be_resumed(
    crashed: simulated.Simulation,
) -> None:
    folder = hashlib.sha256(crashed.project.encode()).hexdigest()
    lease = read(crashed.home / f".npa/operations/.projects/{folder}/lease.json")
    journal = read(crashed.home / f".npa/operations/{lease['operation_id']}/journal.json")
    assert lease["phase"] == journal["phase"] == "recovery-required"
    assert "released_at" not in lease
    assert not Path(f"/proc/{lease['owner_pid']}").exists()
    named = read(crashed.home / ".npa/config.yaml")["projects"][crashed.alias]["agents"]["agent"][
        "instance_id"
    ]
    assert named not in crashed.ids()["instance"], "the VM is gone"
    assert any("crashagent" in id for id in crashed.ids()["network"]), "and its network is not"


def test_buckets_hold_the_terraform_state_of_every_agent(crashed: simulated.Simulation) -> None:
    config = read(crashed.home / ".npa/config.yaml")["projects"][crashed.alias]
    buckets = crashed.get("/state")["object_store"]
    assert set(buckets) == {config["terraform_state"]["bucket"]}
