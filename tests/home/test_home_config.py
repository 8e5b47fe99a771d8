"""The configuration: its records, and the changes that a teardown makes to it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from engine.home import config_edits, writers
from engine.home.config import Config, read_config
from engine.home.controller_owner import fingerprint
from engine.home.errors import Fault, RecordError
from engine.home.project_index import load_project_index
from engine.home.roots import Roots

Put = Callable[[str, str], Path]
OWNER = {"project_alias": "a", "project_id": "project-a", "cluster_id": "mk8scluster-a", "context": "ctx"}


def config_of(home: Roots, put: Put, document: dict[str, Any]) -> Config:
    put("config.yaml", yaml.safe_dump(document, sort_keys=False))
    config = read_config(home)
    assert config is not None
    return config


def test_the_fingerprint_of_an_owner() -> None:
    assert fingerprint("project-e00demo", "mk8scluster-e00demo", "demo-gpu").startswith("0f832ce9dc5e24e3")


def test_the_global_owner_comes_before_a_projects_own(home: Roots, put: Put) -> None:
    other = {**OWNER, "project_id": "project-b", "project_alias": "b"}
    config = config_of(
        home, put, {"projects": {"b": {"controller_owner": other}}, "skypilot": {"controller_owner": OWNER}}
    )
    assert config.controller_owner is not None and config.controller_owner.project_id == "project-a"
    assert not config.controller_owner.legacy and config.controller_owner.namespace == "sky-system"
    config = config_of(home, put, {"projects": {"b": {"controller_owner": other}}})
    assert config.controller_owner is not None and config.controller_owner.legacy


def test_two_different_legacy_owners_are_a_conflict(home: Roots, put: Put) -> None:
    other = {**OWNER, "cluster_id": "mk8scluster-b"}
    config = config_of(
        home, put, {"projects": {"a": {"controller_owner": OWNER}, "b": {"controller_owner": other}}}
    )
    assert config.controller_owner is None and [p.fault for p in config.problems] == [Fault.CONFLICT]


@pytest.mark.parametrize("missing", sorted(OWNER))
def test_an_incomplete_owner_is_a_problem_and_not_nobody(home: Roots, put: Put, missing: str) -> None:
    owner = {k: v for k, v in OWNER.items() if k != missing}
    config = config_of(home, put, {"skypilot": {"controller_owner": owner}})
    assert config.controller_owner is None
    assert [p.field for p in config.problems] == [f"skypilot.controller_owner.{missing}"]


def test_an_owner_whose_ids_were_changed_is_a_problem(home: Roots, put: Put) -> None:
    print_ = fingerprint("project-a", "mk8scluster-a", "ctx")
    good = config_of(home, put, {"skypilot": {"controller_owner": {**OWNER, "context_fingerprint": print_}}})
    assert good.controller_owner is not None and not good.problems
    bad = config_of(
        home,
        put,
        {"skypilot": {"controller_owner": {**OWNER, "context": "other", "context_fingerprint": print_}}},
    )
    assert bad.controller_owner is None and bad.problems[0].fault is Fault.CONFLICT


def test_an_agent_of_another_project_than_its_stanza_is_a_conflict(home: Roots, put: Put) -> None:
    config = config_of(
        home,
        put,
        {"projects": {"a": {"project_id": "project-a", "agents": {"x": {"project_id": "project-b"}}}}},
    )
    assert config.projects[0].agents == () and config.problems[0].fault is Fault.CONFLICT


def test_the_index_tells_shared_names_apart(home: Roots, put: Put) -> None:
    config_of(
        home,
        put,
        {
            "projects": {
                "a": {"project_id": "project-a"},
                "b": {"project_id": "project-a"},
                "old": {"project_id": "project-new"},
            },
            "default_project": "a",
        },
    )
    put(
        "teardown-receipts/old-x.json",
        '{"schema_version": "npa.teardown.receipt.v2", "receipt_id": "old-x", "project_alias": "old", "project_id": "project-old", "events": []}',
    )
    index = load_project_index(home)
    assert index.shared_ids == {"project-a": ("a", "b")}
    assert index.shared_aliases == {"old": ("project-new", "project-old")}
    assert index.default == "a" and index.sole == "" and index.ids_of("nope") == ()


# --- edits --------------------------------------------------------------------------------------------------------------------


def test_forgetting_one_of_several_moves_the_default(home: Roots, put: Put) -> None:
    put(
        "config.yaml",
        yaml.safe_dump(
            {
                "mine": {"keep": [1]},
                "projects": {
                    "a": {"project_id": "project-a", "terraform_state": {"bucket": "b", "secret_key": "sk"}},
                    "b": {"project_id": "project-b", "x": 1},
                },
                "default_project": "a",
                "skypilot": {"sky_bin": "/s", "controller_owner": OWNER},
            },
            sort_keys=False,
        ),
    )
    assert writers.forget_project(home, "a", "project-a")
    assert yaml.safe_load(home.config_yaml.read_text()) == {
        "mine": {"keep": [1]},
        "projects": {"b": {"project_id": "project-b", "x": 1}},
        "default_project": "b",
        "skypilot": {"sky_bin": "/s"},
    }
    assert writers.forget_project(home, "b", "project-b")
    assert not writers.forget_project(home, "b", "project-b")
    assert yaml.safe_load(home.config_yaml.read_text()) == {
        "mine": {"keep": [1]}, "projects": {}, "skypilot": {"sky_bin": "/s"},
    }  # fmt: skip


def test_the_owner_stays_with_another_project_or_another_alias_of_the_same() -> None:
    def document() -> dict[str, Any]:
        return {
            "projects": {
                "a": {"project_id": "project-a"},
                "b": {"project_id": "project-b"},
                "a2": {"project_id": "project-a"},
            },
            "skypilot": {"controller_owner": dict(OWNER)},
        }

    assert "skypilot" in config_edits.forget_project(document(), "b", "project-b")
    once = config_edits.forget_project(document(), "a", "project-a")
    assert "skypilot" in once
    assert "skypilot" not in config_edits.forget_project(once, "a2", "project-a")


def test_forgetting_refuses_a_standing_marker_and_a_reused_alias(state: Any, home: Roots, put: Put) -> None:
    roots = state("iam-marker-blocks-forget")
    before = roots.config_yaml.read_bytes()
    with pytest.raises(RecordError, match="storage access may be left"):
        writers.forget_project(roots, "prod", "project-a")
    assert roots.config_yaml.read_bytes() == before
    put("config.yaml", "projects: {prod: {project_id: project-new}}\n")
    with pytest.raises(RecordError, match="names another project"):
        writers.forget_project(home, "prod", "project-a")


def test_an_owner_is_cleared_only_with_all_three_ids() -> None:
    def document() -> dict[str, Any]:
        return {
            "projects": {"a": {"controller_owner": dict(OWNER)}},
            "skypilot": {"sky_bin": "/s", "controller_owner": dict(OWNER)},
        }

    for wrong in (
        ("x", "mk8scluster-a", "ctx"),
        ("project-a", "x", "ctx"),
        ("project-a", "mk8scluster-a", "x"),
    ):
        assert config_edits.clear_controller_owner(document(), *wrong) == document()
    cleared = config_edits.clear_controller_owner(document(), "project-a", "mk8scluster-a", "ctx")
    assert cleared == {"projects": {"a": {}}, "skypilot": {"sky_bin": "/s"}}


def test_clearing_sky_bin_keeps_the_owner(state: Any) -> None:
    roots = state("full")
    assert writers.clear_sky_bin(roots)
    config = read_config(roots)
    assert config is not None and config.sky_bin == "" and config.controller_owner is not None


def test_dropping_an_agent_keeps_its_sibling() -> None:
    document: dict[str, Any] = {"projects": {"a": {"agents": {"x": {}, "y": {"k": 1}}}}}
    document = config_edits.drop_agent(document, "a", "x")
    assert document == {"projects": {"a": {"agents": {"y": {"k": 1}}}}}
    assert config_edits.drop_agent(document, "a", "y") == {"projects": {"a": {}}}
    assert config_edits.drop_agent(document, "none", "y") == document


def test_dropping_a_bucket_leaves_other_buckets_and_other_projects() -> None:
    document: dict[str, Any] = {
        "projects": {
            "a": {
                "project_id": "project-a",
                "terraform_state": {"bucket": "b", "secret_key": "s"},
                "storage": {"bucket": "s3://b/", "access_key": "k", "mine": 1},
            },
            "a2": {"project_id": "project-a", "terraform_state": {"bucket": "other", "secret_key": "s"}},
            "c": {"project_id": "project-c", "terraform_state": {"bucket": "b", "secret_key": "s"}},
        }
    }
    kept = copy.deepcopy(document["projects"])
    assert config_edits.drop_bucket(document, "project-a", "b") == {
        "projects": {
            "a": {"project_id": "project-a", "storage": {"mine": 1}},
            "a2": kept["a2"],
            "c": kept["c"],
        }
    }


def test_an_edit_of_a_part_that_is_no_mapping_stops() -> None:
    with pytest.raises(RecordError, match=r"projects\.a\.agents"):
        config_edits.drop_agent({"projects": {"a": {"agents": [1]}}}, "a", "x")


plain = st.text(min_size=1, max_size=8)
leaf = st.integers() | st.text(max_size=8) | st.booleans() | st.none()
stanza = st.fixed_dictionaries(
    {},
    optional={
        "project_id": st.sampled_from(["project-a", "project-b"]),
        "agents": st.dictionaries(plain, st.dictionaries(plain, leaf, max_size=2), max_size=2),
        "unknown": leaf,
    },
)


@given(
    st.dictionaries(
        plain.filter(lambda k: k not in ("projects", "skypilot", "default_project")), leaf, max_size=4
    ),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), stanza, max_size=4),
    st.sampled_from(["a", "b", "c", "d", "none"]),
)
def test_forgetting_keeps_every_unrelated_key_and_the_order(
    other: dict[str, Any], projects: dict[str, Any], alias: str
) -> None:
    document = {**other, "projects": projects, "default_project": "a"}
    before = copy.deepcopy(document)
    project_id = projects.get(alias, {}).get("project_id", "")
    after = config_edits.forget_project(document, alias, project_id)
    left = {k: v for k, v in before["projects"].items() if k != alias}
    assert list(after["projects"].items()) == list(left.items())
    assert [(k, v) for k, v in after.items() if k in other] == list(other.items())
    assert after.get("default_project") == (
        "a" if alias != "a" or "a" not in before["projects"] else next(iter(left), None)
    )
