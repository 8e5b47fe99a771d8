"""The agents' account: what is planned, and every reason to leave it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from account_cloud import PROJECT, TENANT, Cloud, gone, lay, part, records, stanza, target, there, thing

from engine.home.credentials import read_credentials
from engine.phases.accounts import AccountFacts
from engine.phases.agent_iam import AgentIam, Facts, decide
from engine.phases.shape import Cleared
from engine.words.plans import NOT_PROVEN
from engine.words.presence import Cause
from engine.words.reasons import Refusal

SA, KEY = "serviceaccount-e00agnt", "accesskey-e00agnt"
ACCOUNT = thing("service_account", SA, "npa-agent")
OWN_KEY = thing("access_key", KEY, "npa-agent-access-key", account_id=SA)
PARTS = (part("access_key", KEY), part("service_account", SA, "npa-agent"))
TARGET = target(f"agent_iam/{SA}", *PARTS, account_id=SA, name="npa-agent", tenant_id=TENANT)
READ = AccountFacts(ACCOUNT, (OWN_KEY,), "useraccount-e00me", TENANT)
FACTS = Facts(TARGET, there(*PARTS), READ)


def journal(created_by: str = "npa", key: str = "npa") -> dict[str, object]:
    made = {"project_id": PROJECT, "created_at": "2026-12-01T05:00:00Z"}
    resources = {
        "service_account": {"id": SA, "name": "npa-agent", "created_by": created_by, **made},
        "access_keys": {KEY: {"id": KEY, "created_by": key, **made}},
    }
    return {
        "agent_iam": {"version": 1, "projects": {PROJECT: {"status": "complete", "resources": resources}}}
    }


def agents(account: str) -> dict[str, object]:
    return stanza(agents={"agent": {"instance_id": "computeinstance-e00a", "service_account_id": account}})


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(FACTS, target=replace(TARGET, parts=(PARTS[0], part("service_account", SA, owned=NOT_PROVEN)))), "not_owned"),
        (replace(FACTS, account=replace(READ, gaps=("keys: denied",))), "cannot_see"),
        (replace(FACTS, gap="instances: denied"), "cannot_see"),
        (replace(FACTS, account=replace(READ, caller=SA)), "wrong_identity"),
        (replace(FACTS, account=replace(READ, account=thing("service_account", SA, "renamed"))), "wrong_identity"),
        (replace(FACTS, account=replace(READ, account=thing("service_account", SA, "npa-agent", "project-e00x"))), "wrong_identity"),
        (replace(FACTS, account=replace(READ, tenant="tenant-e00other")), "wrong_identity"),
        (replace(FACTS, account=replace(READ, keys=(thing("access_key", KEY, account_id="serviceaccount-e00x"),))), "wrong_identity"),
        (replace(FACTS, users=(thing("instance", "computeinstance-e00peer", "peer"),)), "in_use"),
    ],
)  # fmt: skip
def test_what_keeps_the_account(facts: Facts, reason: str) -> None:
    refused = decide(facts)
    assert isinstance(refused, Refusal)
    assert refused.reason == reason
    assert refused.sentence
    assert refused.next_command


def test_a_peer_that_no_record_knows_is_named() -> None:
    refused = decide(replace(FACTS, users=(thing("instance", "computeinstance-e00peer", "peer"),)))
    assert isinstance(refused, Refusal)
    assert "peer (computeinstance-e00peer)" in refused.sentence


def test_a_key_in_no_record_is_found_with_its_proof_and_shown() -> None:
    extra = thing("access_key", "accesskey-e00more", "more", account_id=SA)
    cleared = decide(replace(FACTS, account=replace(READ, keys=(OWN_KEY, extra))))
    assert isinstance(cleared, Cleared)
    (found,) = cleared.found
    assert (found.ref, found.owned.evidence, found.owned.record) == (extra.ref, "part_of", SA)
    assert any("accesskey-e00more" in line for line in cleared.touches)


def test_the_recorded_account_is_planned_with_its_keys_and_proof(tmp_path: Path) -> None:
    (planned,) = AgentIam(lay(tmp_path, credentials=journal()), Cloud()).plan(records(lay(tmp_path))).targets
    assert planned.key == f"agent_iam/{SA}"
    assert [(p.ref.id, p.owned.evidence) for p in planned.parts] == [
        (KEY, "setup_journal"),
        (SA, "setup_journal"),
    ]
    assert planned.parts[1].owned.field == f"agent_iam.projects.{PROJECT}.resources.service_account"


@pytest.mark.parametrize("created_by", ["pre_existing", ""])
def test_an_account_that_was_there_before_is_planned_without_proof(tmp_path: Path, created_by: str) -> None:
    r = lay(tmp_path, credentials=journal(created_by))
    (planned,) = AgentIam(r, Cloud()).plan(records(r)).targets
    assert not planned.parts[-1].owned


def test_an_account_that_only_a_configuration_names_is_held(tmp_path: Path) -> None:
    r = lay(tmp_path, config=agents("serviceaccount-e00else"), credentials=journal())
    planned = AgentIam(r, Cloud()).plan(records(r)).targets
    assert [(t.id, all(p.owned for p in t.parts)) for t in planned] == [
        (SA, True),
        ("serviceaccount-e00else", False),
    ]


def test_an_unreadable_store_is_told(tmp_path: Path) -> None:
    r = lay(tmp_path, config=stanza(), credentials={"agent_iam": []})
    assert AgentIam(r, Cloud()).plan(records(r)).unread


async def test_the_guard_reads_the_keys_by_account_and_the_users_by_project(tmp_path: Path) -> None:
    cloud = Cloud()
    cloud.put(ACCOUNT, OWN_KEY, thing("project", PROJECT, "demo", TENANT))
    phase = AgentIam(lay(tmp_path, credentials=journal()), cloud)
    sight = await phase.look(TARGET)
    assert isinstance(await phase.guard(TARGET, sight), Cleared)
    for blinded in ("access_key", "instance", PROJECT, SA):
        cloud.blind = {blinded: Cause.DENIED}
        refused = await phase.guard(TARGET, sight)
        assert isinstance(refused, Refusal), blinded
        assert refused.reason == "cannot_see"
    cloud.blind = {}
    cloud.put(thing("instance", "computeinstance-e00peer", "peer", service_account_id=SA))
    used = await phase.guard(TARGET, sight)
    assert isinstance(used, Refusal)
    assert used.reason == "in_use"


async def test_keys_of_an_account_that_is_gone_still_go(tmp_path: Path) -> None:
    cloud = Cloud()
    cloud.put(OWN_KEY)
    phase = AgentIam(lay(tmp_path, credentials=journal()), cloud)
    assert isinstance(await phase.guard(TARGET, await phase.look(TARGET)), Cleared)


async def test_the_record_goes_only_when_it_names_what_was_proven_gone(tmp_path: Path) -> None:
    r = lay(tmp_path, credentials={**journal(), "tokens": {"HF_TOKEN": "keep"}})
    phase = AgentIam(r, Cloud())
    other = target("agent_iam/x", part("service_account", "serviceaccount-e00x"))
    await phase.tidy(other, gone(other), None)  # type: ignore[arg-type]
    read = read_credentials(r)
    assert read is not None
    assert read.agent_account(PROJECT)
    await phase.tidy(TARGET, gone(TARGET), None)  # type: ignore[arg-type]
    read = read_credentials(r)
    assert read is not None
    assert not read.agent_account(PROJECT)
    assert "keep" in r.credentials_yaml.read_text()
