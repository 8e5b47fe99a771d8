"""Both roots, and every override of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.home.roots import roots, yaml_lock


def test_the_default_roots() -> None:
    found = roots({"HOME": "/home/op"})
    base = Path("/home/op/.npa")
    assert (found.home, found.config, found.split) == (base, base, False)
    assert found.receipts == base / "teardown-receipts" and found.operations == base / "operations"
    assert found.uninstall == base / "uninstall-receipts" and found.sky_state == Path("/home/op/.sky")
    assert found.sky_venv == base / "skypilot-venv" and found.ours == base / "teardown"
    assert set(found.origin.values()) == {"HOME"}


def test_the_configuration_root_moves_alone() -> None:
    found = roots({"HOME": "/home/op", "NPA_CONFIG_DIR": "~/elsewhere"})
    assert found.config == Path("/home/op/elsewhere") and found.home == Path("/home/op/.npa") and found.split
    assert found.clusters == Path("/home/op/elsewhere/clusters") and found.agents == Path(
        "/home/op/.npa/agents"
    )
    assert found.sky_venv == Path("/home/op/elsewhere/skypilot-venv")
    assert (
        found.origin["config"] == found.origin["sky_venv"] == "NPA_CONFIG_DIR"
        and found.origin["home"] == "HOME"
    )


def test_npa_home_stands_in_where_nothing_narrower_is_set() -> None:
    found = roots({"HOME": "/home/op", "NPA_HOME": "/srv/npa", "NPA_OPERATION_JOURNAL_DIR": "/srv/ops"})
    assert found.home == found.config == Path("/srv/npa") and found.ours == Path("/srv/npa/teardown")
    assert found.receipts == Path("/srv/npa/teardown-receipts") and found.operations == Path("/srv/ops")
    assert (
        found.origin["receipts"] == "NPA_HOME" and found.origin["operations"] == "NPA_OPERATION_JOURNAL_DIR"
    )
    assert found.sky_state == Path("/home/op/.sky")


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("NPA_TEARDOWN_RECEIPT_DIR", "receipts"),
        ("NPA_OPERATION_JOURNAL_DIR", "operations"),
        ("NPA_UNINSTALL_RECEIPT_DIR", "uninstall"),
        ("NPA_SKY_STATE_DIR", "sky_state"),
        ("NPA_SKYPILOT_VENV_PATH", "sky_venv"),
        ("TF_PLUGIN_CACHE_DIR", "plugin_cache"),
    ],
)
def test_each_override_moves_its_root_only(variable: str, name: str) -> None:
    plain = roots({"HOME": "/home/op"})
    moved = roots({"HOME": "/home/op", variable: "~/x"})
    empty = roots({"HOME": "/home/op", variable: ""})
    assert getattr(moved, name) == Path("/home/op/x") and moved.origin[name] == variable
    others = [
        f for f in ("home", "config", "receipts", "operations", "uninstall", "sky_state", "ours") if f != name
    ]
    assert [getattr(moved, f) for f in others] == [getattr(plain, f) for f in others]
    assert empty == plain


def test_lock_and_lease_paths() -> None:
    found = roots({"HOME": "/home/op"})
    assert found.lease_lock("project-e00demo") == Path(
        "/home/op/.npa/operations/.projects/35ca7d3f2427a50520ac329aa8829a29e639fadcba07133ece4f6b85593d324f/.lock"
    )
    assert yaml_lock(found.config_yaml) == Path("/home/op/.npa/config.yaml.lock")
    assert found.agent_lock("demo", "agent") == Path("/home/op/.npa/locks/agents/demo.agent.lock")
    assert found.execution_lock("x") == Path("/home/op/.npa/operations/x/.execution.lock")
