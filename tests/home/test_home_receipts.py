"""Receipts: names, what may stand in them, whose an event is, and a fold that does not run backwards."""

from __future__ import annotations

import json
import multiprocessing
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.home.documents import Document
from engine.home.errors import Fault, RecordError
from engine.home.receipt_fold import SIGHTINGS, fold, phase_done, unresolved
from engine.home.receipt_rules import TERMINAL, check_identity, is_receipt_id, receipt_id_for, sanitize_event
from engine.home.receipts import (
    ReceiptEvent,
    edit_receipt,
    parse_receipt,
    read_receipt,
    read_receipts,
    write_receipt,
)
from engine.home.records import gather
from engine.home.roots import Roots, roots

Put = Callable[[str, str], Path]
V2 = "npa.teardown.receipt.v2"
CANARIES = {
    "AKIAABCDEFGHIJKLMNOP": "AKIAABCDEFGHIJKLMNOP",
    "hf_abcdefGHIJKL": "abcdefGHIJKL",
    "nvapi-abcdef_GHI": "abcdef_GHI",
    "ghp_abcdefGHIJKL1": "abcdefGHIJKL1",
    "https://user:pw77@host/x?sig=991": "host/x",
    "http://10.0.0.1/a": "10.0.0.1",
    "password: hunter2hunter2": "hunter2hunter2",
    "secret_key=abcdefgh": "abcdefgh",
    "Authorization: Bearer abcdefghij": "abcdefghij",
    '"api_key": "abcdefgh"': "abcdefgh",
    "token = 'abcdefgh'": "abcdefgh",
    "password: 'two words77'": "words77",
}
"""Text that must not be stored, and the part of it that must not be found."""


def receipt(receipt_id: str = "demo-35ca7d3f2427", **changes: Any) -> Document:
    return {
        "schema_version": V2, "receipt_id": receipt_id, "project_alias": "demo", "project_id": "project-e00demo",
        "created_at": "2026-12-01T05:00:00Z", "updated_at": "2026-12-01T05:00:00Z", "identity": {}, "events": [], **changes,
    }  # fmt: skip


def event(
    phase: str = "agent",
    resource: str = "x",
    state: str = "completed",
    at: str = "2026-12-01T05:00:00Z",
    **more: Any,
) -> Document:
    return sanitize_event(
        {"phase": phase, "resource": resource, "terminal_state": state, "recorded_at": at, **more}
    )


# --- names --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alias", "project_id", "expected"),
    [
        ("demo", "project-e00demo", "demo-35ca7d3f2427"),
        ("demo", "", "demo-2a97516c354b"),
        ("", "", "global-8001c2743965"),
        ("", "project-e00demo", "global-35ca7d3f2427"),
        ("a b/c", "project-e00demo", "a-b-c-35ca7d3f2427"),
        ("x" * 60, "project-e00demo", "x" * 48 + "-35ca7d3f2427"),
    ],
)
def test_receipt_ids_are_the_clis(alias: str, project_id: str, expected: str) -> None:
    assert receipt_id_for(alias, project_id) == expected and is_receipt_id(expected)


@pytest.mark.parametrize("text", ["", "../x", "a/b", ".lock", "/etc/passwd", "a" * 129, "a\n", "-x"])
def test_what_cannot_name_a_receipt_is_refused(home: Roots, text: str) -> None:
    assert not is_receipt_id(text)
    with pytest.raises(RecordError) as caught:
        read_receipt(home, text)
    assert caught.value.problem.fault is Fault.REFUSED


@given(st.text(), st.text())
def test_every_receipt_id_can_be_asked_for(alias: str, project_id: str) -> None:
    assert is_receipt_id(receipt_id_for(alias, project_id))


# --- sanitizing ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("canary", "core"), CANARIES.items())
def test_no_secret_survives_in_an_event(canary: str, core: str) -> None:
    stored = json.dumps(
        sanitize_event(
            {
                "phase": "agent", "resource": "x", "context": f"see {canary} there", "precheck": {"note": [canary, {"deep": canary}]},
                "action": canary, "verification": {"endpoint": "host.invalid", "access_key_ids": [core], "iam_key_ids": ["accesskey-1"]},
                "errors": [f"failed: {canary}"], "extra": canary,
            }
        )
    )  # fmt: skip
    assert core not in stored and "host.invalid" not in stored and "accesskey-1" in stored


@given(
    st.recursive(
        st.text(max_size=40) | st.sampled_from(sorted(CANARIES)),
        lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=10), v, max_size=3),
        max_leaves=6,
    )
)
def test_sanitizing_twice_is_sanitizing_once(value: Any) -> None:
    once = event(precheck={"v": value}, errors=[value], mine=value)
    assert sanitize_event(once) == once


def test_an_event_has_every_field_and_a_state_in_lower_case() -> None:
    stored = sanitize_event({"phase": "agent", "resource": "x", "terminal_state": "COMPLETED"})
    assert list(stored) == [
        "phase", "resource", "project_alias", "project_id", "context", "precheck", "action", "verification", "terminal_state", "errors",
        "recorded_at", "identity",
    ]  # fmt: skip
    assert stored["terminal_state"] == "completed"
    assert sanitize_event({"phase": "a", "resource": "b"})["terminal_state"] == "unknown"
    for broken in ({"phase": "", "resource": "x"}, {"phase": "agent"}):
        with pytest.raises(ValueError, match="phase and a resource"):
            sanitize_event(broken)


@pytest.mark.parametrize(
    "identity",
    [
        {"access_key_ids": ["accesskey-1"]}, {"storage_iam": {"secret": ""}}, {"credential_source": "x"}, {"agents": [{"agent_name": "hf_abcdefgh"}]},
        {"terraform_backends": [{"endpoint": "https://u:p@host"}]}, {"x": "https://host/a?sig=1"}, {"x": "https://host/#frag"}, {"presigned": "x"},
        ["not a mapping"],
    ],
)  # fmt: skip
def test_an_identity_with_a_secret_is_refused_and_not_shown(identity: Any) -> None:
    with pytest.raises(RecordError) as caught:
        check_identity(identity)
    assert "hf_abcdefgh" not in str(caught.value) and "sig=1" not in str(caught.value)
    with pytest.raises(RecordError):
        sanitize_event({"phase": "a", "resource": "b", "identity": identity})


def test_plain_identities_pass(state: Any) -> None:
    check_identity(
        {
            "terraform_backends": [{"endpoint": "https://storage.eu-north1.nebius.cloud"}],
            "storage_iam": {"iam_key_ids": ["accesskey-1"]},
        }
    )
    for found in read_receipts(state("forgotten-alias")).receipts:
        check_identity(found.identity)


# --- reading ------------------------------------------------------------------------------------------------------------------


def test_version_1_is_read_with_an_empty_identity_and_rewritten_as_version_2(state: Any) -> None:
    home = state("corrupt-receipts")
    old = read_receipt(home, "v1-legacy")
    assert old is not None and old.identity == {} and old.schema_version == "npa.teardown.receipt.v1"

    def append(document: Document | None) -> Document:
        assert document is not None and document["schema_version"] == V2 and document["identity"] == {}
        rows = document["events"]
        assert isinstance(rows, list)
        return {**document, "events": [*rows, event("cluster", "d")]}

    assert edit_receipt(home, "v1-legacy", append)
    new = read_receipt(home, "v1-legacy")
    assert new is not None and new.schema_version == V2 and [e.resource for e in new.events] == ["c", "d"]


@pytest.mark.parametrize(
    "document",
    [
        receipt(schema_version="npa.teardown.receipt.v3"), receipt(events=None), receipt(events={}), receipt(receipt_id="other"),
        receipt(events=[{"phase": "", "resource": "x"}]), receipt(events=["x"]), receipt(identity=[]),
        receipt(events=[{"phase": "a", "resource": "b", "project_id": "p", "identity": {"project_id": "q"}}]),
    ],
)  # fmt: skip
def test_a_receipt_that_is_not_one_is_a_problem(home: Roots, put: Put, document: Document) -> None:
    put("teardown-receipts/demo-35ca7d3f2427.json", json.dumps(document))
    put("teardown-receipts/fine.json", json.dumps(receipt("fine")))
    put("teardown-receipts/.half.json", "{")
    found = read_receipts(home)
    assert [r.receipt_id for r in found.receipts] == ["fine"] and len(found.problems) == 1


def test_events_belong_to_the_project_that_they_name(home: Roots, put: Put) -> None:
    rows = [event("cluster", "c", "deleted"), event("agent", "a", "deleted", project_id="project-b")]
    put(
        "teardown-receipts/global.json",
        json.dumps(receipt("global", project_id="", project_alias="", events=rows)),
    )
    put("teardown-receipts/a.json", json.dumps(receipt("a", project_id="project-a", events=rows)))
    # An unscoped event proves nothing for anybody; one that names another project is not the root's.
    assert set(gather(home, "project-a").receipt_states) == {("cluster", "c")}
    assert set(gather(home, "project-b").receipt_states) == {("agent", "a")}
    assert {r.receipt_id for r in gather(home, "project-b").receipts} == {"global", "a"}


def test_one_project_may_own_several_files(home: Roots, put: Put) -> None:
    for name, resource in (("demo-x", "a"), ("global-x", "b"), ("renamed-x", "c")):
        put(f"teardown-receipts/{name}.json", json.dumps(receipt(name, events=[event("agent", resource)])))
    assert set(gather(home, "project-e00demo").receipt_states) == {("agent", r) for r in "abc"}


# --- the fold -----------------------------------------------------------------------------------------------------------------

STATES = sorted(
    TERMINAL
    | SIGHTINGS
    | {"in_progress", "failed", "partial", "verification_failed", "unknown", "skipped_by_operator"}
)


def made(rows: list[tuple[str, str, str, int]]) -> list[ReceiptEvent]:
    return [
        ReceiptEvent("r", n, phase, resource, state, "p", "", "", f"2026-12-01T05:00:{second:02}Z", {})
        for n, (phase, resource, state, second) in enumerate(rows)
    ]


rows = st.lists(
    st.tuples(
        st.sampled_from(["agent", "cluster"]),
        st.sampled_from("xy"),
        st.sampled_from(STATES),
        st.integers(0, 59),
    ),
    max_size=12,
)


@given(rows, st.tuples(st.sampled_from(["agent", "cluster"]), st.sampled_from("xy"), st.sampled_from(STATES)))
def test_a_later_event_without_a_sighting_never_revives_a_resource(
    before: list[Any], later: tuple[str, str, str]
) -> None:
    old = fold(made(before))
    new = fold(made([*before, (*later, 59)]))
    for key, was in old.items():
        if key != later[:2]:
            assert new[key] == was
        elif was.terminal and later[2] not in SIGHTINGS:
            assert new[key].terminal
        else:
            assert new[key].state == later[2]


@given(rows, st.randoms())
def test_the_order_of_the_files_does_not_matter(found: list[Any], shuffle: random.Random) -> None:
    events = made(found)
    shuffled = list(events)
    shuffle.shuffle(shuffled)
    assert fold(shuffled) == fold(events)


def test_another_resource_of_the_phase_hides_nothing() -> None:
    """Turned round: the recorded CLI takes the newest event of a phase for all its resources."""
    states = fold(made([("agent", "x", "failed", 1), ("agent", "y", "verified_deleted", 2)]))
    assert [s.resource for s in unresolved(states.values())] == ["x"]
    assert phase_done(states.values(), "agent") is False and phase_done(states.values(), "bucket") is None


def test_a_finished_attempt_is_finished() -> None:
    """Turned round: the recorded CLI calls a resource unresolved for ever once an attempt on it was begun."""
    states = fold(
        made([("project_config", "demo", "in_progress", 1), ("project_config", "demo", "completed", 2)])
    )
    assert not unresolved(states.values()) and phase_done(states.values(), "project_config") is True


def test_fractions_of_a_second_count_as_time_and_not_as_text() -> None:
    events = [
        ReceiptEvent("r", 0, "a", "x", "verified_present", "p", "", "", "2026-12-01T05:00:08.500Z", {}),
        ReceiptEvent("r", 1, "a", "x", "deleted", "p", "", "", "2026-12-01T05:00:08Z", {}),
    ]
    assert not fold(events)[("a", "x")].terminal


# --- writing ------------------------------------------------------------------------------------------------------------------


def test_a_receipt_is_written_privately_under_the_shared_lock(home: Roots) -> None:
    assert write_receipt(home, "demo-35ca7d3f2427", receipt(events=[event()]))
    path = home.receipts / "demo-35ca7d3f2427.json"
    assert path.stat().st_mode & 0o777 == 0o600 and home.receipts.stat().st_mode & 0o777 == 0o700
    assert sorted(p.name for p in home.receipts.iterdir()) == [".lock", "demo-35ca7d3f2427.json"]
    assert not write_receipt(home, "demo-35ca7d3f2427", receipt(events=[event()]))


@pytest.mark.parametrize(
    "document",
    [
        receipt("other"), receipt(schema_version="npa.teardown.receipt.v1"), receipt(events=[{"phase": "a", "resource": ""}]),
        receipt(identity={"secret": "x"}), receipt(events=[{**event(), "errors": ["hf_abcdefghij"]}]),
        receipt(events=[{**event(), "identity": {"token": "x"}}]), receipt(events=[{**event(), "terminal_state": "COMPLETED"}]),
    ],
)  # fmt: skip
def test_what_is_no_clean_receipt_is_not_written(home: Roots, document: Document) -> None:
    with pytest.raises(RecordError) as caught:
        write_receipt(home, "demo-35ca7d3f2427", document)
    assert "hf_abcdefghij" not in str(caught.value)
    assert not list(home.receipts.glob("*.json"))


def test_what_others_wrote_is_passed_through_as_it_is(home: Roots, put: Put) -> None:
    theirs = {
        "phase": "agent",
        "resource": "x",
        "errors": ["see https://host.invalid/x"],
        "odd": {"token": "t"},
    }
    put(
        "teardown-receipts/demo-35ca7d3f2427.json",
        json.dumps(receipt(events=[theirs], identity={"credential_source": "saved"}, mine=1)),
    )

    def append(document: Document | None) -> Document:
        assert (
            document is not None
            and isinstance(document["events"], list)
            and isinstance(document["identity"], dict)
        )
        document["events"].append(event("bucket", "b"))
        document["identity"]["region"] = "r"
        return document

    assert edit_receipt(home, "demo-35ca7d3f2427", append)
    stored = json.loads((home.receipts / "demo-35ca7d3f2427.json").read_text())
    assert stored["events"][0] == theirs and stored["mine"] == 1
    assert stored["identity"] == {"credential_source": "saved", "region": "r"}

    def spoil(document: Document | None) -> Document:
        assert document is not None and isinstance(document["events"], list)
        document["events"][0]["errors"].append("hf_abcdefghij")
        return document

    with pytest.raises(RecordError):
        edit_receipt(home, "demo-35ca7d3f2427", spoil)


def test_a_receipt_that_cannot_be_read_is_not_replaced(state: Any) -> None:
    home = state("corrupt-receipts")
    for name in ("corrupt", "v9"):
        before = (home.receipts / f"{name}.json").read_bytes()
        with pytest.raises(RecordError):
            write_receipt(home, name, receipt(name))
        assert (home.receipts / f"{name}.json").read_bytes() == before


def test_a_linked_receipt_lock_or_folder_is_refused(home: Roots, put: Put, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    put("x", "")
    home.receipts.symlink_to(tmp_path / "real")
    with pytest.raises(RecordError):
        write_receipt(home, "demo-35ca7d3f2427", receipt())
    home.receipts.unlink()
    home.receipts.mkdir()
    home.receipts_lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecordError):
        write_receipt(home, "demo-35ca7d3f2427", receipt())
    assert not list((tmp_path / "real").iterdir()) and not (tmp_path / "elsewhere").exists()


def _append(user: str, worker: int) -> None:
    home = roots({"HOME": user})
    for number in range(8):

        def change(document: Document | None, number: int = number) -> Document:
            document = document or receipt()
            assert isinstance(document["events"], list)
            document["events"].append(event("agent", f"{worker}-{number}"))
            return document

        edit_receipt(home, "demo-35ca7d3f2427", change)


def test_concurrent_appends_lose_nothing(home: Roots) -> None:
    context = multiprocessing.get_context("fork")
    jobs = [context.Process(target=_append, args=(str(home.user), w)) for w in range(4)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    found = read_receipt(home, "demo-35ca7d3f2427")
    assert found is not None and len(found.events) == 32
    assert len({e.resource for e in found.events}) == 32
    assert sorted(p.name for p in home.receipts.iterdir()) == [".lock", "demo-35ca7d3f2427.json"]
    assert parse_receipt(json.loads(found.path.read_text()), found.path) == found
