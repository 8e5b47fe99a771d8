"""The storage access marker: what it knows never falls, and it goes only when everything is proven gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from engine.home import writers
from engine.home.config import read_config
from engine.home.credentials import read_credentials
from engine.home.errors import RecordError
from engine.home.marker import RANK, merged_marker, reduced_marker
from engine.home.roots import Roots
from engine.home.storage_proofs import owned_ids, storage_candidates

DEMO = "project-e00demo"
observations = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from([*RANK, ""]),
        "ownership": st.sampled_from(["npa", "npa-recovery-attested", "unverified", ""]),
        "service_account_id": st.sampled_from(["serviceaccount-a", "serviceaccount-b", ""]),
        "access_key_ids": st.lists(st.sampled_from(["accesskey-1", "accesskey-2", "NAK1"]), max_size=3),
        "candidate_service_account_ids": st.lists(
            st.sampled_from(["serviceaccount-a", "serviceaccount-b"]), max_size=2
        ),
        "detail": st.text(max_size=5),
    },
)


@given(st.lists(observations, min_size=1, max_size=5))
def test_rank_ownership_and_ids_never_fall(seen: list[dict[str, Any]]) -> None:
    order = ["", "unverified", "npa-recovery-attested", "npa"]
    marker: dict[str, Any] = {}
    for observation in seen:
        after = merged_marker(marker, observation)
        assert RANK.get(str(after.get("status", "")), -1) >= RANK.get(str(marker.get("status", "")), -1)
        rank = {"": 0, "unverified": 0}
        value = [
            rank.get(str(m.get("ownership", "")), order.index(str(m.get("ownership", ""))))
            for m in (marker, after)
        ]
        assert value[0] <= value[1]
        for name in ("access_key_ids", "candidate_service_account_ids"):
            got = after.get(name, [])
            assert set(marker.get(name, [])) | set(observation.get(name, [])) == set(got)
            assert got == sorted(got)
        if observation.get("detail"):
            assert after["detail"] == observation["detail"]
        assert set(marker) <= set(after)
        if after.get("ownership") in ("npa", "npa-recovery-attested"):
            assert after["ownership_state"] == "owned"
        marker = after
    assert marker["schema_version"] == "npa.storage-iam-residue.v2"


def test_a_version_1_marker_becomes_version_2_and_keeps_its_id(state: Any) -> None:
    roots = state("iam-marker-blocks-forget")
    assert writers.put_marker(roots, "prod", {"status": "verification_failed", "detail": "timeout"})
    marker = yaml.safe_load(roots.config_yaml.read_text())["projects"]["prod"][
        "storage_iam_verification_required"
    ]
    assert marker == {
        "schema_version": "npa.storage-iam-residue.v2",
        "status": "present_unverified_ownership",
        "service_account_id": "serviceaccount-a",
        "detail": "timeout",
        "ownership_state": "pending-verification",
    }


def test_a_marker_goes_only_when_all_that_is_claimed_is_gone(state: Any) -> None:
    """Turned round: the recorded CLI clears the whole marker with the first of two accounts."""
    roots: Roots = state("two-iam-generations")
    writers.put_marker(
        roots,
        "demo",
        {
            "status": "present_owned",
            "ownership": "npa",
            "service_account_id": "serviceaccount-old",
            "candidate_service_account_ids": ["serviceaccount-old", "serviceaccount-e00demostor"],
            "access_key_ids": ["accesskey-old", "accesskey-e00demostor", "NAKEXAMPLEKEYID0001"],
        },
    )
    first = {"serviceaccount-old", "accesskey-old"}
    writers.drop_storage_generation(roots, DEMO, "serviceaccount-old", first)
    writers.clear_marker(roots, "demo", DEMO, first)
    config = read_config(roots)
    assert config is not None
    marker = config.projects[0].marker
    assert marker is not None and marker.account_ids == ("serviceaccount-e00demostor",)
    assert "accesskey-old" not in marker.access_key_ids
    second = {"serviceaccount-e00demostor", "accesskey-e00demostor", "accesspermit-e00demo"}
    writers.drop_storage_generation(roots, DEMO, "serviceaccount-e00demostor", second)
    writers.clear_marker(roots, "demo", DEMO, first | second)
    config = read_config(roots)
    # The group is still there, and the setup journal still says that it is the CLI's.
    assert config is not None and config.projects[0].marker is not None
    writers.drop_storage_generation(roots, DEMO, "serviceaccount-e00demostor", {*second, "group-e00demo"})
    writers.clear_marker(roots, "demo", DEMO, first | second | {"group-e00demo"})
    config = read_config(roots)
    assert config is not None and config.projects[0].marker is None
    credentials = read_credentials(roots)
    assert credentials is not None
    assert owned_ids(storage_candidates(credentials, (), (), DEMO), credentials.setup(DEMO)) == frozenset()
    assert writers.forget_project(roots, "demo", DEMO)


def test_a_marker_that_names_nothing_is_not_cleared_by_proofs_about_other_things() -> None:
    marker = {"status": "verification_failed"}
    assert reduced_marker(marker, {"serviceaccount-x"}, ()) == marker
    assert reduced_marker({"service_account_id": "serviceaccount-x"}, {"serviceaccount-x"}, ()) == {}


@pytest.mark.parametrize("text", ["projects: {a: {}}\n", "projects: {b: {project_id: p}}\n"])
def test_clearing_where_there_is_no_marker_changes_nothing(
    home: Roots, put: Callable[[str, str], Path], text: str
) -> None:
    put("config.yaml", text)
    assert not writers.clear_marker(home, "a", "project-a", {"x"})
    assert home.config_yaml.read_text() == text


def test_a_marker_is_not_cleared_while_the_credentials_cannot_be_read(state: Any) -> None:
    roots = state("iam-marker-blocks-forget")
    roots.credentials_yaml.write_text("storage_setup: [1]\n")
    with pytest.raises(RecordError):
        writers.clear_marker(roots, "prod", "project-a", {"serviceaccount-a"})
    config = read_config(roots)
    assert config is not None and config.projects[0].marker is not None
