"""The credentials: whose a secret is, what proves an account, and that a secret that goes is gone everywhere."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from engine.home import credential_edits, writers
from engine.home.config import read_config
from engine.home.credentials import Credentials, parse_credentials, read_credentials
from engine.home.errors import Fault
from engine.home.project_index import load_project_index
from engine.home.records import gather
from engine.home.roots import Roots
from engine.home.storage_proofs import Source, storage_candidates

Put = Callable[[str, str], Path]
DEMO, OLD, NEW = "project-e00demo", "serviceaccount-old", "serviceaccount-e00demostor"
SECRET = "example-secret-not-real"
RECOVERY = {
    "schema_version": "npa.storage-iam-recovery.v1", "service_account_id": "serviceaccount-a", "service_account_name": "lerobot-training",
    "project_alias": "prod", "project_id": "project-a", "tenant_id": "tenant-a", "profile": "active", "provider_verified": True,
    "verified_at": "2026-12-01T05:16:30+00:00", "attested_by": "operator@example", "attested_at": "2026-12-01T05:16:30+00:00", "reason": "ticket 12",
}  # fmt: skip
ACCOUNT = {
    "service_account_id": "serviceaccount-a",
    "service_account_name": "lerobot-training",
    "service_account_project_id": "project-a",
}


def parsed(document: dict[str, Any]) -> Credentials:
    return parse_credentials(document, Path("credentials.yaml"))


def store(**projects: dict[str, Any]) -> dict[str, Any]:
    rows = {
        name.replace("_", "-"): {"project_id": name.replace("_", "-"), **row}
        for name, row in projects.items()
    }
    return {
        "project_credentials": {
            "schema_version": "npa.project-credentials.v2",
            "current_project_id": next(iter(rows), ""),
            "projects": rows,
        }
    }


def keys(bucket: str, secret: str = "sk") -> dict[str, Any]:
    return {
        "bucket": f"s3://{bucket}/",
        "aws_access_key_id": "AK",
        "aws_secret_access_key": secret,
        "endpoint_url": "e",
    }


# --- reading ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "owned"),
    [
        ({"service_account_managed_by": "npa"}, True),
        ({"service_account_managed_by": "npa", "service_account_name": "any"}, True),
        ({"service_account_managed_by": "npa", "service_account_name": ""}, False),
        ({"service_account_managed_by": "npa", "service_account_project_id": ""}, False),
        ({"service_account_managed_by": ""}, False),
        ({"service_account_managed_by": "terraform"}, False),
        ({"service_account_managed_by": "npa-recovery-attested"}, False),
        ({"service_account_managed_by": "npa-recovery-attested", "recovery": RECOVERY}, True),
        ({"service_account_managed_by": "npa-recovery-attested", "service_account_name": "x", "recovery": RECOVERY}, False),
        *[
            ({"service_account_managed_by": "npa-recovery-attested", "recovery": {**RECOVERY, name: value}}, False)
            for name, value in [
                ("schema_version", "npa.storage-iam-recovery.v2"), ("service_account_id", "serviceaccount-b"), ("project_id", "project-b"),
                ("provider_verified", False), ("reason", " "), ("attested_by", ""), ("attested_at", ""), ("verified_at", ""),
            ]
        ],
    ],
)  # fmt: skip
def test_what_proves_a_storage_account(change: dict[str, Any], owned: bool) -> None:
    read = parsed({"storage_iam": {**ACCOUNT, **change}})
    assert read.top_account is not None and read.top_account.owned is owned


def test_a_record_under_another_projects_key_is_a_conflict() -> None:
    document = store(project_a={"storage": keys("b")})
    document["project_credentials"]["projects"]["project-a"]["project_id"] = "project-b"
    read = parsed(document)
    assert read.projects == () and [p.fault for p in read.problems] == [Fault.CONFLICT]


@pytest.mark.parametrize(
    ("document", "owner"),
    [
        ({"storage_iam": {"service_account_id": "s", "service_account_project_id": "project-a"}}, "project-a"),
        ({"nebius": {**ACCOUNT, "service_account_managed_by": "npa"}}, "project-a"),
        ({"nebius": ACCOUNT}, ""),
        ({"storage_setup": {"version": 1, "projects": {"project-a": {"status": "complete", "bucket_name": "b"}}}}, "project-a"),
        ({"storage_setup": {"version": 1, "projects": {"project-a": {"status": "partial", "bucket_name": "b"}}}}, ""),
        ({"storage_setup": {"version": 1, "projects": {"project-a": {"status": "complete", "bucket_name": "c"}}}}, ""),
        (
            {"storage_setup": {"projects": {p: {"status": "complete", "bucket_name": "b"} for p in ("project-a", "project-b")}}},
            "",
        ),
        (
            {
                "storage_iam": {"service_account_id": "s", "service_account_project_id": "project-b"},
                "storage_setup": {"projects": {"project-a": {"status": "complete", "bucket_name": "b"}}},
            },
            "",
        ),
        ({}, ""),
    ],
)  # fmt: skip
def test_whose_a_file_without_a_store_is(document: dict[str, Any], owner: str) -> None:
    read = parsed({"storage": keys("b"), **document})
    assert read.legacy_owner == owner
    for project_id in ("project-a", "project-b", ""):
        assert bool(read.storage_for(project_id)) is (bool(owner) and project_id == owner)


def test_with_a_store_the_sections_are_nobodys_but_its() -> None:
    document = {
        **store(project_a={"storage": keys("b")}),
        "storage": keys("b"),
        "storage_iam": {**ACCOUNT, "service_account_project_id": "project-b"},
    }
    read = parsed(document)
    assert [k.field for k in read.storage_for("project-a")] == [
        "project_credentials.projects.project-a.storage"
    ]
    assert read.storage_for("project-b") == ()


def test_all_sources_of_one_account_are_collected(state: Any) -> None:
    credentials = read_credentials(state("two-iam-generations"))
    found = storage_candidates(credentials, (), (), DEMO)
    assert [c.source for c in found] == [Source.STORE, Source.STORE, Source.TOP_LEVEL, Source.SETUP]
    assert storage_candidates(credentials, (), (), "project-other") == ()


@pytest.mark.parametrize("field", ["created_by", "project_id", "attempt_id"])
def test_a_setup_entry_without_its_attempt_proves_nothing(state: Any, field: str) -> None:
    roots = state("full")
    document = yaml.safe_load(roots.credentials_yaml.read_text())
    document["storage_setup"]["projects"][DEMO]["resources"]["service_account"][field] = (
        "other" if field != "attempt_id" else ""
    )
    setup = [c for c in storage_candidates(parsed(document), (), (), DEMO) if c.source is Source.SETUP]
    assert len(setup) == 1 and not setup[0].owned


def test_an_agent_account_needs_creator_project_name_and_id(state: Any) -> None:
    document = yaml.safe_load(state("full").credentials_yaml.read_text())
    for change in (
        {"created_by": "pre_existing"},
        {"project_id": "project-b"},
        {"name": "other"},
        {"id": ""},
    ):
        altered = copy.deepcopy(document)
        altered["agent_iam"]["projects"][DEMO]["resources"]["service_account"].update(change)
        account = parsed(altered).agent_account(DEMO)
        assert account is not None and not account.owned
    document["agent_iam"]["projects"][DEMO]["resources"]["access_keys"]["accesskey-x"] = {
        "id": "accesskey-x",
        "created_by": "other",
    }
    account = parsed(document).agent_account(DEMO)
    assert account is not None and account.owned and account.foreign_key_ids == ("accesskey-x",)


# --- pruning a bucket's secrets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["full", "two-iam-generations", "storage-only"])
def test_after_a_bucket_is_gone_no_secret_of_it_is_on_disk(state: Any, name: str) -> None:
    """Turned round: the recorded CLI leaves the live secret in the store, and brings it back with its next write."""
    roots: Roots = state(name)
    project_id, bucket, secret = (
        ("project-a", "npa-bucket-a", "SKEX") if name == "storage-only" else (DEMO, "npa-bucket-demo", SECRET)
    )
    assert writers.storage_secrets_left(roots, project_id, bucket)
    assert writers.prune_storage_secrets(roots, project_id, bucket)
    assert writers.storage_secrets_left(roots, project_id, bucket) == ()
    text = roots.config_yaml.read_text() + roots.credentials_yaml.read_text()
    assert secret not in text and "NAKEXAMPLEKEYID0001" not in text and "AKEX" not in text
    config, credentials = read_config(roots), read_credentials(roots)
    assert config is not None and config.projects[0].buckets == ()
    assert credentials is not None and credentials.storage_for(project_id) == () and not credentials.problems
    assert any(c.owned for c in storage_candidates(credentials, (), (), project_id)), (
        "the accounts stay proven"
    )
    assert not writers.prune_storage_secrets(roots, project_id, bucket)


def test_pruning_covers_every_alias_name_and_keeps_unknown_fields() -> None:
    document = {
        **store(
            project_a={
                "storage": {**keys("b"), "mine": 1},
                "terraform_state": {"bucket": "b", "access_key": "a", "secret_key": "s"},
                "x": 1,
            }
        ),
        **{n: {**keys("b"), "region": "r"} for n in ("storage", "s3", "object-storage", "object_storage")},
        "tokens": {"HF_TOKEN": "t"},
    }
    assert credential_edits.prune_storage(document, "project-a", "b") == {
        **store(project_a={"storage": {"mine": 1}, "x": 1}),
        **{n: {"region": "r"} for n in ("storage", "s3", "object-storage", "object_storage")},
        "tokens": {"HF_TOKEN": "t"},
    }


def test_pruning_leaves_another_bucket_and_another_project() -> None:
    document = {
        **store(
            project_a={"storage": keys("other"), "terraform_state": {"bucket": "b", "secret_key": "s"}},
            project_b={"storage": keys("b")},
        ),
        "storage": keys("other"),
    }
    before = copy.deepcopy(document)
    after = credential_edits.prune_storage(document, "project-a", "b")
    del before["project_credentials"]["projects"]["project-a"]["terraform_state"]
    assert after == before


def test_the_last_thing_in_a_file_takes_the_file_with_it(home: Roots, put: Put) -> None:
    put("credentials.yaml", yaml.safe_dump({**store(project_a={"storage": keys("b")}), "storage": keys("b")}))
    assert writers.prune_storage_secrets(home, "project-a", "b")
    assert not home.credentials_yaml.exists()


# --- dropping a generation ----------------------------------------------------------------------------------------------------


def test_dropping_the_old_generation_leaves_the_new_one_whole(state: Any) -> None:
    roots = state("two-iam-generations")
    before = yaml.safe_load(roots.credentials_yaml.read_text())
    assert writers.drop_storage_generation(roots, DEMO, OLD, {OLD, "accesskey-old"})
    after = yaml.safe_load(roots.credentials_yaml.read_text())
    del before["project_credentials"]["projects"][DEMO]["storage_iam"]["generations"][0]
    assert after == before and list(after) == list(before)


def test_dropping_the_active_generation_makes_the_other_one_active(state: Any) -> None:
    roots = state("two-iam-generations")
    gone = {NEW, "accesskey-e00demostor", "group-e00demo", "accesspermit-e00demo"}
    assert writers.drop_storage_generation(roots, DEMO, NEW, gone)
    after = yaml.safe_load(roots.credentials_yaml.read_text())
    access = after["project_credentials"]["projects"][DEMO]["storage_iam"]
    assert access["service_account_id"] == access["active_service_account_id"] == OLD
    assert [g["service_account_id"] for g in access["generations"]] == [OLD]
    assert after["storage_iam"] == {k: v for k, v in access.items() if k.startswith("service_account")}
    assert (
        after["project_credentials"]["projects"][DEMO]["nebius"]
        == after["nebius"]
        == {"service_account_id": OLD}
    )
    assert list(after["storage_setup"]["projects"][DEMO]["resources"]) == ["bucket"]


@pytest.mark.parametrize("left", ["accesskey-e00demostor", "group-e00demo", "accesspermit-e00demo"])
def test_a_generation_stays_while_it_is_the_only_record_of_something(state: Any, left: str) -> None:
    roots = state("two-iam-generations")
    document = yaml.safe_load(roots.credentials_yaml.read_text())
    del document["storage_setup"]
    gone = {NEW, "accesskey-e00demostor", "group-e00demo", "accesspermit-e00demo"} - {left}
    after = credential_edits.drop_storage_generation(document, DEMO, NEW, gone)
    assert after is not None
    generations = after["project_credentials"]["projects"][DEMO]["storage_iam"]["generations"]  # type: ignore[index]
    assert [g["service_account_id"] for g in generations] == [OLD, NEW]


def test_a_legacy_account_goes_from_the_top_level(state: Any) -> None:
    roots = state("storage-only")
    assert writers.drop_storage_generation(roots, "project-a", "serviceaccount-a", {"serviceaccount-a"})
    assert list(yaml.safe_load(roots.credentials_yaml.read_text())) == ["storage"]
    assert not writers.drop_storage_generation(roots, "project-a", "serviceaccount-a", ())


def test_an_account_of_another_project_at_the_top_level_stays() -> None:
    document = {"storage_iam": {**ACCOUNT, "service_account_managed_by": "npa"}}
    assert (
        credential_edits.drop_storage_generation(copy.deepcopy(document), "project-b", "serviceaccount-a", ())
        == document
    )


def test_after_both_phases_and_forgetting_only_the_operators_own_is_left(state: Any) -> None:
    roots = state("two-iam-generations")
    mine = {
        k: v
        for k, v in yaml.safe_load(roots.credentials_yaml.read_text()).items()
        if k in ("tokens", "ngc", "ssh")
    }
    writers.prune_storage_secrets(roots, DEMO, "npa-bucket-demo")
    writers.drop_storage_generation(roots, DEMO, OLD, {OLD, "accesskey-old"})
    everything = {NEW, "accesskey-e00demostor", "group-e00demo", "accesspermit-e00demo"}
    writers.drop_storage_generation(roots, DEMO, NEW, everything)
    writers.drop_agent_iam(roots, DEMO)
    assert yaml.safe_load(roots.credentials_yaml.read_text()) == mine


# --- forgetting a project, tokens ---------------------------------------------------------------------------------------------


def test_forgetting_one_project_leaves_the_other_and_none_of_its_text() -> None:
    document = {
        **store(
            project_a={"storage": keys("a", "SECRET-A"), "nebius": {"service_account_id": "sa-a"}},
            project_b={"storage": keys("b", "SECRET-B")},
        ),
        "storage_setup": {"version": 1, "projects": {"project-a": {"status": "complete"}, "project-b": {}}},
        "agent_iam": {"version": 1, "projects": {"project-a": {}}},
        "storage": keys("a", "SECRET-A"),
        "nebius": {"service_account_id": "sa-a"},
        "tokens": {"HF_TOKEN": "t"},
    }
    after = credential_edits.forget_credentials(document, "project-a")
    assert "SECRET-A" not in str(after) and "project-a" not in str(after) and "sa-a" not in str(after)
    assert after == {
        "project_credentials": {
            "schema_version": "npa.project-credentials.v2",
            "current_project_id": "project-b",
            "projects": {"project-b": {"project_id": "project-b", "storage": keys("b", "SECRET-B")}},
        },
        "storage_setup": {"version": 1, "projects": {"project-b": {}}},
        "storage": keys("b", "SECRET-B"),
        "tokens": {"HF_TOKEN": "t"},
    }


def test_forgetting_takes_a_legacy_file_only_when_it_is_provably_the_projects(state: Any) -> None:
    roots = state("storage-only")
    before = roots.credentials_yaml.read_bytes()
    assert not writers.forget_credentials(roots, "project-b")
    assert roots.credentials_yaml.read_bytes() == before
    assert writers.forget_credentials(roots, "project-a")
    assert not roots.credentials_yaml.exists()


def test_only_known_tokens_go(state: Any) -> None:
    roots = state("credentials-with-service-tokens")
    assert writers.drop_known_tokens(roots)
    assert yaml.safe_load(roots.credentials_yaml.read_text()) == {
        "tokens": {"CUSTOM_VENDOR_TOKEN": "keep"},
        "ngc": {"extra": "keep"},
        "huggingface": {"cache": "keep"},
        "token_factory": {"endpoint": "keep"},
        "ssh": {"host": "example.invalid"},
    }


leaf = st.integers() | st.text(max_size=6)
block = st.dictionaries(
    st.sampled_from(["bucket", "aws_secret_access_key", "mine", "other"]),
    st.sampled_from(["b", "s3://b/", "c", "v"]),
    max_size=4,
)
record = st.fixed_dictionaries({}, optional={"storage": block, "terraform_state": block, "unknown": leaf})
documents = st.fixed_dictionaries(
    {},
    optional={
        "tokens": st.dictionaries(st.text(min_size=1, max_size=5), leaf, max_size=3),
        "vendor": leaf,
        "ssh": st.dictionaries(st.text(min_size=1, max_size=5), leaf, max_size=2),
        "storage": block,
    },
)


@given(documents, record, record)
def test_edits_of_one_project_touch_nothing_else(
    other: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any]
) -> None:
    document = {**other, **store(project_a=mine, project_b=theirs)}
    for edit in (
        lambda d: credential_edits.prune_storage(d, "project-a", "b"),
        lambda d: credential_edits.drop_agent_iam(d, "project-a"),
        lambda d: credential_edits.drop_storage_generation(d, "project-a", "serviceaccount-a", ()),
        lambda d: credential_edits.forget_credentials(d, "project-a"),
    ):
        after = edit(copy.deepcopy(document))
        assert after is not None
        unrelated = [k for k in document if k not in ("storage", "project_credentials")]
        assert [(k, v) for k, v in after.items() if k in unrelated] == [(k, document[k]) for k in unrelated]
        projects = after["project_credentials"]["projects"]
        assert projects["project-b"] == document["project_credentials"]["projects"]["project-b"]
        if "unknown" in mine and "project-a" in projects:
            assert projects["project-a"]["unknown"] == mine["unknown"]
    pruned = credential_edits.prune_storage(copy.deepcopy(document), "project-a", "b")
    assert pruned is not None
    assert not [
        k
        for k in parsed(pruned).storage_for("project-a")
        if k.bucket in ("", "b") and (k.secret_key or k.bucket)
    ]


# --- receipts as a source -----------------------------------------------------------------------------------------------------


def receipt_of(project_id: str, **row: Any) -> str:
    base = {
        "service_account_id": "serviceaccount-r",
        "service_account_name": "lerobot-training",
        "iam_key_ids": ["accesskey-r"],
    }
    access = {**base, **row, "generations": [{**base, **row}]}
    return json.dumps({
        "schema_version": "npa.teardown.receipt.v2", "receipt_id": "r", "project_alias": project_id, "project_id": project_id,
        "events": [], "identity": {"project_id": project_id, "agents": [{"project_id": "project-other"}], "storage_iam": access},
    })  # fmt: skip


@pytest.mark.parametrize(("ownership", "owned"), [("npa", True), ("unverified", False), ("", False)])
def test_a_receipt_proves_an_account_only_as_the_clis(
    home: Roots, put: Put, ownership: str, owned: bool
) -> None:
    put("teardown-receipts/r.json", receipt_of("project-a", ownership=ownership))
    (found,) = gather(home, "project-a").storage_candidates
    assert (found.source, found.owned, found.access_key_ids) == (Source.RECEIPT, owned, ("accesskey-r",))
    assert (found.record, found.field) == ("teardown-receipts/r.json", "identity.storage_iam.generations[0]")
    # The receipt mentions the other project, but its account is not that one's.
    other = gather(home, "project-other")
    assert other.receipts and other.storage_candidates == ()


def test_a_project_id_in_the_place_of_an_alias_is_no_forgotten_alias(home: Roots, put: Put) -> None:
    put("teardown-receipts/r.json", receipt_of("project-a"))
    assert load_project_index(home).forgotten == ()
