"""Storage accounts: what is planned from which record, and every reason to leave one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from account_cloud import PROJECT, TENANT, Cloud, gone, lay, part, records, stanza, target, there, thing

from engine.home.config import read_config
from engine.home.credentials import read_credentials
from engine.home.records import gather
from engine.home.roots import roots
from engine.phases.accounts import AccountFacts
from engine.phases.shape import Cleared
from engine.phases.storage_iam import Facts, StorageIam, decide
from engine.phases.storage_iam.deciding import SavedBucket
from engine.words.plans import NOT_PROVEN
from engine.words.presence import Cause, Ref
from engine.words.reasons import Refusal

SA, KEY, GROUP, PERMIT, MEMBER = (
    "serviceaccount-e00s",
    "accesskey-e00s",
    "group-e00s",
    "accesspermit-e00s",
    "groupmembership-e00s",
)
OLD = "serviceaccount-e00old"
PARTS = (
    part("access_key", KEY), part("access_permit", PERMIT), part("group", GROUP, "editors"), part("service_account", SA, "lerobot-training"),
)  # fmt: skip
TARGET = target(
    f"storage_iam/{SA}", *PARTS, account_id=SA, name="lerobot-training", groups=GROUP, tenant_id=TENANT
)
READ = AccountFacts(
    thing("service_account", SA, "lerobot-training"),
    (thing("access_key", KEY, account_id=SA),),
    "useraccount-e00me",
    TENANT,
)


def membership(member: str, id: str = MEMBER, group: str = GROUP) -> Any:
    return thing("group_membership", id, parent=group, member_id=member)


FACTS = Facts(
    TARGET, there(*PARTS), READ, (thing("group", GROUP, "editors"),), (thing("access_permit", PERMIT, parent=GROUP),), (membership(SA),),
)  # fmt: skip


def generation(id: str, *keys: str, group: str = "", **more: str) -> dict[str, object]:
    row: dict[str, object] = {
        "service_account_id": id, "service_account_name": "lerobot-training", "service_account_project_id": PROJECT,
        "service_account_managed_by": "npa", "access_key_ids": list(keys), **more,
    }  # fmt: skip
    if group:
        row["binding"] = {
            "group_id": group, "group_name": "editors", "access_permit_id": f"accesspermit-of-{group}", "group_managed_by": "npa",
            "access_permit_managed_by": "npa",
        }  # fmt: skip
    return row


def store(*generations: dict[str, object], active: str = "", **more: object) -> dict[str, Any]:
    access = {"active_service_account_id": active, "generations": list(generations)}
    record = {"project_id": PROJECT, "storage_iam": access, **more}
    return {
        "project_credentials": {
            "schema_version": "npa.project-credentials.v2", "current_project_id": PROJECT, "projects": {PROJECT: record},
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(FACTS, target=replace(TARGET, parts=(part("service_account", SA, owned=NOT_PROVEN),))), "not_owned"),
        (replace(FACTS, gaps=("group: denied",)), "cannot_see"),
        (replace(FACTS, account=replace(READ, gaps=("keys: denied",))), "cannot_see"),
        (replace(FACTS, account=replace(READ, caller=SA)), "wrong_identity"),
        (replace(FACTS, account=replace(READ, account=thing("service_account", SA, "mine"))), "wrong_identity"),
        (replace(FACTS, account=replace(READ, tenant="tenant-e00x")), "wrong_identity"),
        (replace(FACTS, account=replace(READ, keys=(thing("access_key", KEY, account_id=OLD),))), "wrong_identity"),
        (replace(FACTS, groups=(thing("group", GROUP, "renamed"),)), "wrong_identity"),
        (replace(FACTS, groups=(thing("group", GROUP, "editors", "project-e00x"),)), "wrong_identity"),
        (replace(FACTS, permits=(thing("access_permit", PERMIT, parent="group-e00x"),)), "wrong_identity"),
        (replace(FACTS, buckets=(SavedBucket("npa-bucket", "is active"),)), "evidence_needed"),
        (replace(FACTS, memberships=(membership(SA), membership("useraccount-e00a", "groupmembership-e00b"))), "in_use"),
    ],
)  # fmt: skip
def test_what_keeps_an_account(facts: Facts, reason: str) -> None:
    refused = decide(facts)
    assert isinstance(refused, Refusal)
    assert refused.reason == reason
    assert refused.next_command


def test_the_refusals_say_what_to_do() -> None:
    unproven = decide(
        replace(FACTS, target=replace(TARGET, parts=(part("service_account", SA, owned=NOT_PROVEN),)))
    )
    assert isinstance(unproven, Refusal)
    assert (
        unproven.next_command == f"npa storage service-account reconcile --project demo --id {SA} --dry-run"
    )
    first = decide(replace(FACTS, buckets=(SavedBucket("npa-bucket", "is active"),)))
    assert isinstance(first, Refusal)
    assert first.next_command == "npa storage bucket delete --project demo --yes --wait"


def test_memberships_and_other_permits_of_our_group_go_with_it() -> None:
    more = thing("access_permit", "accesspermit-e00more", parent=GROUP)
    left = membership("serviceaccount-e00dead", "groupmembership-e00dead")
    facts = replace(
        FACTS, permits=(*FACTS.permits, more), memberships=(*FACTS.memberships, left), departed=frozenset({"serviceaccount-e00dead"})
    )  # fmt: skip
    cleared = decide(facts)
    assert isinstance(cleared, Cleared)
    assert {p.ref.id: p.owned.evidence for p in cleared.found} == {
        more.ref.id: "part_of", MEMBER: "part_of", left.ref.id: "part_of"
    }  # fmt: skip


def test_a_group_that_is_not_ours_loses_our_member_and_nothing_else() -> None:
    parts = (PARTS[0], PARTS[3])
    other = membership("useraccount-e00a", "groupmembership-e00b")
    facts = replace(
        FACTS,
        target=replace(TARGET, parts=parts),
        there=there(*parts),
        permits=(),
        memberships=(membership(SA), other),
    )
    cleared = decide(facts)
    assert isinstance(cleared, Cleared)
    assert [p.ref.id for p in cleared.found] == [MEMBER]


def test_a_group_waits_for_another_account_of_ours() -> None:
    facts = replace(FACTS, memberships=(membership(OLD),), siblings=frozenset({OLD}))
    assert isinstance(decide(facts), Cleared)
    assert facts.waits_for_siblings
    assert Ref("group_membership", MEMBER) not in facts.live


def plan(tmp_path: Path, **documents: Any) -> dict[str, Any]:
    r = lay(tmp_path, **documents)
    return {t.id: t for t in StorageIam(r, Cloud()).plan(records(r)).targets}


def test_each_generation_is_a_target_and_a_shared_group_goes_with_the_one_in_use(tmp_path: Path) -> None:
    rows = (generation(SA, KEY, group=GROUP), generation(OLD, "accesskey-e00old", group=GROUP))
    found = plan(tmp_path, config=stanza(), credentials=store(*rows, active=SA))
    assert [p.ref.id for p in found[SA].parts] == [KEY, f"accesspermit-of-{GROUP}", GROUP, SA]
    assert [p.ref.id for p in found[OLD].parts] == ["accesskey-e00old", OLD]
    assert all(p.owned and p.owned.record == "credentials.yaml" for t in found.values() for p in t.parts)
    assert found[OLD].detail["groups"] == GROUP


@pytest.mark.parametrize(
    "change",
    [
        {"service_account_managed_by": ""},
        {"service_account_managed_by": "operator"},
        {"service_account_name": ""},
    ],
)
def test_a_saved_id_without_its_proof_is_planned_and_held(tmp_path: Path, change: dict[str, str]) -> None:
    found = plan(tmp_path, config=stanza(), credentials=store({**generation(SA, KEY), **change}))
    assert not any(p.owned for p in found[SA].parts)


def test_a_marker_alone_names_a_candidate(tmp_path: Path) -> None:
    marker = {"schema_version": "npa.storage-iam-residue.v1", "status": "present_unverified_ownership", "service_account_id": SA, "access_key_ids": [KEY, "NAKEXAMPLE"]}  # fmt: skip
    found = plan(tmp_path, config=stanza(storage_iam_verification_required=marker))
    assert {(p.ref.id, bool(p.owned)) for p in found[SA].parts} == {(SA, False), (KEY, False)}


def test_keys_that_a_marker_adds_to_a_proven_account_go_with_it(tmp_path: Path) -> None:
    marker = {"status": "present_owned", "service_account_id": SA, "access_key_ids": ["accesskey-e00more"]}
    found = plan(
        tmp_path,
        config=stanza(storage_iam_verification_required=marker),
        credentials=store(generation(SA, KEY)),
    )
    assert {(p.ref.id, p.owned.evidence) for p in found[SA].parts} == {
        (KEY, "create_response"), ("accesskey-e00more", "part_of"), (SA, "create_response")
    }  # fmt: skip


def test_what_a_setup_journal_still_has_of_an_account_that_is_gone_is_a_target(tmp_path: Path) -> None:
    made = {"created_by": "npa", "project_id": PROJECT, "attempt_id": "a" * 32}
    resources = {
        "iam_group": {"id": GROUP, "name": "editors", **made},
        "iam_permit": {"id": PERMIT, "group_id": GROUP, **made},
    }
    setup = {"storage_setup": {"version": 1, "projects": {PROJECT: {"version": 1, "resources": resources}}}}
    found = plan(tmp_path, config=stanza(), credentials=setup)
    assert [p.ref.id for p in found[GROUP].parts] == [PERMIT, GROUP]
    assert all(p.owned.evidence == "setup_journal" for p in found[GROUP].parts)


def test_an_agents_account_is_no_storage_account(tmp_path: Path) -> None:
    document = {**store(generation(SA, KEY)), "nebius": {"service_account_id": "serviceaccount-e00agnt"}}
    assert list(plan(tmp_path, config=stanza(), credentials=document)) == [SA]


@pytest.mark.parametrize(
    ("state", "project", "owned"),
    [
        ("full", "project-e00demo", {"serviceaccount-e00demostor": True}),
        ("two-iam-generations", "project-e00demo", {"serviceaccount-old": True, "serviceaccount-e00demostor": True}),
        ("legacy-storage-record", "project-a", {"serviceaccount-a": False}),
        ("storage-only", "project-a", {"serviceaccount-a": True}),
        ("iam-marker-blocks-forget", "project-a", {"serviceaccount-a": False}),
    ],
)  # fmt: skip
def test_recorded_states(
    tmp_path: Path, states: Path, state: str, project: str, owned: dict[str, bool]
) -> None:
    subprocess.run([sys.executable, str(states / "materialize"), state, str(tmp_path)], check=True)
    r = roots({"HOME": str(tmp_path)})
    planned = StorageIam(r, Cloud()).plan(gather(r, project, "")).targets
    assert {t.id: all(p.owned for p in t.parts) for t in planned} == owned


async def test_saved_keys_hold_the_account_until_the_bucket_is_seen_gone(tmp_path: Path) -> None:
    keys = {
        "bucket": "s3://npa-bucket/",
        "aws_access_key_id": "NAKEXAMPLE",
        "aws_secret_access_key": "example",
    }
    r = lay(tmp_path, config=stanza(), credentials=store(generation(SA, KEY), storage=keys))
    cloud = Cloud()
    bucket = thing("bucket", "storagebucket-e00b", "npa-bucket")
    cloud.put(READ.account, *READ.keys, thing("project", PROJECT, "demo", TENANT), bucket)  # type: ignore[arg-type]
    phase = StorageIam(r, cloud)
    (planned,) = phase.plan(records(r)).targets
    sight = await phase.look(planned)
    for blind in ({}, {"bucket": Cause.TIMED_OUT}):
        cloud.blind = blind
        held = await phase.guard(planned, sight)
        assert isinstance(held, Refusal)
        assert held.reason == "evidence_needed"
        cloud.things.pop(bucket.ref, None)
    cloud.blind = {}
    assert isinstance(await phase.guard(planned, sight), Cleared)


async def test_the_marker_goes_with_the_last_generation(tmp_path: Path) -> None:
    marker = {
        "status": "present_owned",
        "service_account_id": SA,
        "candidate_service_account_ids": [OLD, SA],
        "access_key_ids": [KEY],
    }
    credentials = {
        **store(generation(SA, KEY), generation(OLD, "accesskey-e00old"), active=SA),
        "tokens": {"HF_TOKEN": "keep"},
    }
    r = lay(tmp_path, config=stanza(storage_iam_verification_required=marker), credentials=credentials)
    phase = StorageIam(r, Cloud())
    first, second = phase.plan(records(r)).targets
    await phase.tidy(first, gone(first), None)  # type: ignore[arg-type]
    config, read = read_config(r), read_credentials(r)
    assert config is not None
    assert config.projects[0].marker, "another generation may still be there"
    assert read is not None
    assert [c.service_account_id for c in read.projects[0].generations] == [second.id]
    await phase.tidy(second, gone(second), None)  # type: ignore[arg-type]
    config, read = read_config(r), read_credentials(r)
    assert config is not None
    assert config.projects[0].marker is None
    assert read is not None
    assert read.projects == ()
