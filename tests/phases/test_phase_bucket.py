"""The bucket: what is planned from which record, every reason to leave it, and what is written before and after."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from account_cloud import (
    PROJECT,
    Cloud,
    gone,
    lay,
    leaving,
    made,
    part,
    records,
    stanza,
    target,
    there,
    thing,
)
from toy import Projector

from engine.clock import Clock, timestamp
from engine.clouds.object_store import Held, PurgeProgress, PurgeReport
from engine.home.config import read_config
from engine.home.records import gather
from engine.home.roots import Roots, roots
from engine.home.secret import Secret
from engine.home.storage_keys import StorageKeys
from engine.ledger.journal import Journal
from engine.ledger.state import State
from engine.phases.bucket import Bucket, Facts, adopted, decide
from engine.phases.bucket.amounts import count, size
from engine.phases.bucket.deciding import Dependent, contents
from engine.phases.bucket.phase import Provider
from engine.phases.shape import Cleared
from engine.run.runner import Opening, Pace, Runner
from engine.words.consent import Consent
from engine.words.identity import Identity
from engine.words.intents import Intent
from engine.words.outcomes import Outcome
from engine.words.plans import NOT_PROVEN, Plan, Target
from engine.words.presence import Absent, Cause, Observation, Present, Ref
from engine.words.reasons import Refusal
from engine.words.trouble import Trouble

ID, NAME, SECRET = "storagebucket-e00b", "npa-bucket-demo", "example-secret-not-real"
BUCKET = thing("bucket", ID, NAME, objects="1900000", versions="3", bytes=str(int(3.2 * 2**40)))
PARTS = (part("bucket", ID, NAME),)
TARGET = target(f"bucket/{ID}", *PARTS, bucket=NAME)
KEYS = StorageKeys("storage", NAME, access_key_id=Secret("NAKEXAMPLE"), secret_key=Secret(SECRET))
FACTS = Facts(TARGET, there(*PARTS), BUCKET, keys=(KEYS,))
SA, ATTEMPT = "serviceaccount-e00s", "a" * 32


def setup(created_by: str = "npa", id: str = ID) -> dict[str, Any]:
    row = {"id": id, "name": NAME, "created_by": created_by, "project_id": PROJECT, "attempt_id": ATTEMPT}
    entry = {
        "version": 1,
        "status": "complete",
        "phase": "credentials_committed",
        "attempt_id": ATTEMPT,
        "bucket_name": NAME,
    }
    return {"storage_setup": {"version": 1, "projects": {PROJECT: {**entry, "resources": {"bucket": row}}}}}


def store(**more: Any) -> dict[str, Any]:
    keys = {
        "bucket": f"s3://{NAME}/",
        "aws_access_key_id": "NAKEXAMPLE",
        "aws_secret_access_key": SECRET,
        "endpoint_url": "http://127.0.0.1:1",
    }
    account = {
        "service_account_id": SA, "service_account_name": "lerobot-training", "service_account_project_id": PROJECT,
        "service_account_managed_by": "npa", "access_key_ids": ["accesskey-e00s"],
    }  # fmt: skip
    record = {"project_id": PROJECT, "storage": keys, "storage_iam": {"generations": [account]}}
    return {
        "project_credentials": {
            "schema_version": "npa.project-credentials.v2", "current_project_id": PROJECT, "projects": {PROJECT: record},
        },
        "storage": keys, **more,
    }  # fmt: skip


def backend(**more: Any) -> dict[str, Any]:
    return {"bucket": NAME, "access_key": "NAKEXAMPLE", "secret_key": SECRET, **more}


# -- deciding --


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(FACTS, target=replace(TARGET, parts=(part("bucket", ID, owned=NOT_PROVEN),))), "not_owned"),
        (replace(FACTS, gaps=("config.yaml",)), "cannot_see"),
        (replace(FACTS, claims=("project-e00x (config.yaml: projects.x.terraform_state)",)), "shared"),
        (replace(FACTS, dependents=(Dependent("agent a", "npa agent destroy"),)), "evidence_needed"),
        (replace(FACTS, bucket=replace(BUCKET, name="other")), "wrong_identity"),
        (replace(FACTS, bucket=replace(BUCKET, parent="project-e00x")), "wrong_identity"),
    ],
)
def test_what_keeps_a_bucket(facts: Facts, reason: str) -> None:
    refused = decide(facts)
    assert isinstance(refused, Refusal)
    assert refused.reason == reason
    assert refused.next_command


def test_the_dialog_says_what_is_in_it() -> None:
    cleared = decide(FACTS)
    assert isinstance(cleared, Cleared)
    assert cleared.touches == ("1.9 M objects, 3 older versions, 3.2 TiB",)
    blind = decide(replace(FACTS, bucket=replace(BUCKET, attrs={}), keys=()))
    assert isinstance(blind, Cleared)
    assert all(line.startswith("!") for line in blind.touches)
    assert len(blind.touches) == 2


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 objects"),
        (1, "1 object"),
        (999, "999 objects"),
        (1000, "1 k objects"),
        (1_900_000, "1.9 M objects"),
    ],
)
def test_counts(number: int, said: str) -> None:
    assert count(number, "object") == said


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (3 << 40, "3 TiB"), (3 << 29, "1.5 GiB")],
)
def test_sizes(number: int, said: str) -> None:
    assert size(number) == said


def test_contents_of_an_empty_bucket() -> None:
    assert contents(replace(BUCKET, attrs={"objects": "0", "bytes": "0"})) == "0 objects, 0 B"


# -- planning --


def plan(tmp_path: Path, **documents: Any) -> tuple[Target, ...]:
    r = lay(tmp_path, **documents)
    return phase(r).plan(records(r)).targets


def evidence(t: Target) -> tuple[str, str, str]:
    (p,) = t.parts
    return p.ref.kind, p.ref.id, str(p.owned.evidence)


CREATED = {"op": {"resource_type": "storage", "resources": [made("storage_bucket", ID, NAME)]}}


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ({"credentials": setup()}, ("bucket", ID, "setup_journal")),
        ({"credentials": setup("pre_existing")}, ("bucket", ID, "none")),
        ({"journals": CREATED}, ("bucket", ID, "create_response")),
        ({"journals": CREATED, "credentials": setup("pre_existing")}, ("bucket", ID, "none")),
        ({"journals": {"op": {"resources": [made("storage_bucket", ID, NAME, ownership="adopted")]}}}, ("bucket", ID, "none")),
        ({"journals": {"op": {"resources": [made("storage_bucket", ID, NAME, ownership_source="storage-write-probe")]}}}, ("bucket", ID, "none")),
        ({"config": stanza(terraform_state=backend())}, ("bucket_name", NAME, "none")),
        ({"config": stanza(terraform_state=backend()), "credentials": setup()}, ("bucket", ID, "setup_journal")),
        ({"journals": {"op": {"backend": {"bucket": NAME, "state_key": "k"}}}}, ("bucket_name", NAME, "none")),
    ],
)  # fmt: skip
def test_what_proves_a_bucket_ours(
    tmp_path: Path, documents: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    (planned,) = plan(tmp_path, **documents)
    assert evidence(planned) == expected
    assert planned.detail["bucket"] == NAME


def test_history_names_no_bucket_beside_a_live_one(tmp_path: Path) -> None:
    (planned,) = plan(
        tmp_path,
        credentials=setup(),
        journals={"op": {"backend": {"bucket": "an-old-one", "state_key": "k"}}},
    )
    assert planned.id == ID


def test_an_adopted_bucket_goes_under_its_id(tmp_path: Path) -> None:
    (named,) = plan(tmp_path, config=stanza(terraform_state=backend()))
    ours = adopted(named, ID, "--adopted-bucket")
    assert (ours.key, evidence(ours)) == (f"bucket/{ID}", ("bucket", ID, "attestation"))
    assert ours.detail == named.detail


@pytest.mark.parametrize(
    ("state", "project"),
    [("full", "project-e00demo"), ("storage-only", "project-a"), ("forgotten-alias", "project-e00demo")],
)
def test_recorded_states(tmp_path: Path, states: Path, state: str, project: str) -> None:
    subprocess.run([sys.executable, str(states / "materialize"), state, str(tmp_path)], check=True)
    r = roots({"HOME": str(tmp_path)})
    (planned,) = phase(r).plan(gather(r, project, "")).targets
    assert bool(planned.parts[0].owned) == (state != "storage-only")


# -- the phase --


@dataclass
class S3:
    """A store that answers with one report."""

    report: PurgeReport = field(default_factory=lambda: PurgeReport(emptied=True))
    presence: Present | Absent = field(default_factory=Absent)
    purged: list[str] = field(default_factory=list)
    cloud: Cloud | None = None

    async def look(self, bucket: str) -> Observation:
        return Observation(Ref("s3_bucket", bucket), self.presence, "t", "s3")

    async def purge(self, intent: Intent, bucket: str, *, progress: Any) -> PurgeReport:
        self.purged.append(bucket)
        progress(PurgeProgress(10, 10, 0, 2048, 0, 0, 1, True))
        if self.report.emptied and isinstance(self.cloud, Picky):
            self.cloud.full = False
        return self.report


@dataclass
class Picky(Cloud):
    """Refuses to delete a bucket that is not empty, and notes what the marker said at that time."""

    full: bool = True
    roots: Roots | None = None
    markers: list[Any] = field(default_factory=list)
    purge_after: list[float | None] = field(default_factory=list)

    async def delete(self, intent: Intent, *, purge_after: float | None = None) -> None:
        if self.roots:
            config = read_config(self.roots)
            self.markers.append(config.projects[0].marker if config else None)
        self.purge_after.append(purge_after)
        if self.full:
            raise Trouble(Cause.CONFLICT, "BucketNotEmpty")
        await super().delete(intent)


def phase(r: Roots, cloud: Provider | None = None, s3: S3 | None = None) -> Bucket:
    return Bucket(r, cloud or Cloud(), lambda keys: s3 or S3(), Clock(0.001), State)


async def destroy(
    tmp_path: Path, r: Roots, cloud: Cloud, s3: S3, only: Target | None = None
) -> tuple[Outcome, Journal]:
    clock = Clock(0.001)
    journal = Journal(tmp_path / "journal.jsonl", "run-1", clock)
    bucket = Bucket(r, cloud, lambda keys: s3, clock, lambda: journal.state)
    phase_plan = bucket.plan(records(r))
    if only:
        phase_plan = replace(phase_plan, targets=(only,))
    whole = Plan(Identity(PROJECT, "demo"), (phase_plan,))
    runner = Runner(
        whole,
        {"bucket": bucket},
        clock,
        journal,
        Projector(),
        Opening("destroy"),
        pace=Pace(grace=4, blind=10),
    )
    await runner.open()
    await runner.consent(Consent(whole.digest, ("bucket",), 3, "test"))
    await runner.run()
    journal.close()
    (outcome,) = journal.state.outcomes.values()
    return outcome, journal


def home(tmp_path: Path, **more: Any) -> Roots:
    return lay(
        tmp_path,
        config=stanza(terraform_state=backend()),
        credentials=store(**setup(), tokens={"HF_TOKEN": "keep"}),
        **more,
    )


async def test_tombstone_refusal_emptying_deletion_and_no_secret_left(tmp_path: Path) -> None:
    r = home(tmp_path)
    cloud = Picky(roots=r)
    cloud.put(BUCKET)
    s3 = S3(cloud=cloud)
    outcome, journal = await destroy(tmp_path, r, cloud, s3)
    assert (outcome.verdict, outcome.residue) == ("done", ""), outcome
    assert [i.verb for i in journal.state.intents.values()] == ["delete", "purge", "delete"]
    assert s3.purged == [NAME]
    assert cloud.purge_after == [60.0, 60.0]
    marker = cloud.markers[0]
    assert (marker.bucket_name, marker.bucket_cleanup_state, marker.status) == (
        NAME,
        "pending",
        "present_owned",
    )
    assert (marker.service_account_id, marker.access_key_ids) == (SA, ("accesskey-e00s",))
    after = read_config(r)
    assert after is not None
    assert after.projects[0].terraform_state is None
    assert after.projects[0].marker is not None
    assert after.projects[0].marker.bucket_cleanup_state == "complete"
    everything = (
        r.credentials_yaml.read_text() + r.config_yaml.read_text() + (tmp_path / "journal.jsonl").read_text()
    )
    assert SECRET not in everything
    assert "NAKEXAMPLE" not in everything
    assert "keep" in everything
    assert SA in r.credentials_yaml.read_text(), "the account's own proof outlives the bucket"
    said = [e.event for e in journal.entries if getattr(e.event, "what", "") == "purge"]
    assert [getattr(e, "data", {}).get("done") for e in said] == ["10"]


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (PurgeReport(held=(Held("k", "v", "AccessDenied"),), held_total=11, retain_until="2026-12-31T00:00:00Z"), "11 versions held by the store until 2026-12-31"),
        (PurgeReport(writing=True, still_written="runs/"), "somebody keeps writing to it below runs/"),
        (PurgeReport(unremoved=2), "2 entries stayed"),
    ],
)  # fmt: skip
async def test_what_cannot_be_emptied_is_told_and_kept(
    tmp_path: Path, report: PurgeReport, words: str
) -> None:
    r = home(tmp_path)
    cloud = Picky(roots=r)
    cloud.put(BUCKET)
    outcome, _ = await destroy(tmp_path, r, cloud, S3(report, cloud=cloud))
    assert (outcome.verdict, outcome.reason) == ("held", "content_held")
    assert words in outcome.detail
    assert SECRET in r.credentials_yaml.read_text()


async def test_another_bucket_in_its_place_is_not_emptied(tmp_path: Path) -> None:
    r = home(tmp_path)

    cloud, s3 = Picky(roots=r), S3()
    bucket = phase(r, cloud, s3)
    cloud.put(replace(BUCKET, presence=Present("another@2", "ACTIVE")))
    with pytest.raises(Trouble, match="changed since"):
        await bucket._same(Intent("k", Ref("bucket", ID), f"{ID}@1", _Stop()))
    assert s3.purged == []


class _Stop:
    def is_set(self) -> bool:
        return False


async def test_no_deletion_without_a_tombstone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = home(tmp_path)
    cloud = Picky(full=False)
    cloud.put(BUCKET)

    def full_disk(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine.phases.bucket.phase.put_marker", full_disk)
    outcome, _ = await destroy(tmp_path, r, cloud, S3())
    assert (outcome.verdict, outcome.reason) == ("held", "not_writable")
    assert cloud.purge_after == []


async def test_without_an_account_there_is_no_marker_that_could_never_go(tmp_path: Path) -> None:
    r = lay(tmp_path, config=stanza(terraform_state=backend()), credentials=setup())
    cloud = Picky(full=False, roots=r)
    cloud.put(BUCKET)
    outcome, _ = await destroy(tmp_path, r, cloud, S3())
    assert outcome.verdict == "done"
    assert cloud.markers == [None]


async def test_a_scheduled_deletion_is_waited_for_and_a_far_one_is_ended(tmp_path: Path) -> None:
    r = home(tmp_path)
    for days, asked in ((0, []), (7, [0.0])):
        cloud = Picky(full=False)
        due = timestamp(Clock().utc() + timedelta(days=days))
        cloud.put(leaving(BUCKET, due))
        folder = tmp_path / str(days)
        folder.mkdir()
        await destroy(folder, r, cloud, S3())
        assert cloud.purge_after[:1] == asked


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ({"config": {"projects": {**stanza(terraform_state=backend())["projects"], "x": {"project_id": "project-e00x", "terraform_state": backend()}}}}, "shared"),
        ({"receipts": {"x-1": {"project_id": "project-e00x", "identity": {"terraform_backends": [{"bucket": NAME}]}}}}, "shared"),
        ({"journals": {"op": {"resource_type": "agent", "requested_name": "a", "backend": {"bucket": NAME, "state_key": "k"}, "resources": [made("compute_instance", "computeinstance-e00a")]}}}, "evidence_needed"),
        ({"journals": {"op": {"phase": "recovery-required", "resource_type": "agent", "requested_name": "a", "backend": {"bucket": NAME, "state_key": "k"}}}}, "evidence_needed"),
    ],
)  # fmt: skip
async def test_who_else_needs_it_is_read_when_it_is_asked_for(
    tmp_path: Path, documents: dict[str, Any], reason: str
) -> None:
    cloud = Cloud()
    cloud.put(BUCKET, thing("instance", "computeinstance-e00a"))
    r = lay(tmp_path, **{"config": stanza(), "credentials": store(**setup()), **documents})
    held = await phase(r, cloud).guard(TARGET, await phase(r, cloud).look(TARGET))
    assert isinstance(held, Refusal)
    assert held.reason == reason
    if "phase" in str(documents):
        return
    cloud.things.pop(Ref("instance", "computeinstance-e00a"))
    if reason == "evidence_needed":
        assert isinstance(await phase(r, cloud).guard(TARGET, await phase(r, cloud).look(TARGET)), Cleared)


async def test_a_name_is_looked_for_in_the_project_and_never_inferred_gone(tmp_path: Path) -> None:
    r = lay(tmp_path, config=stanza(terraform_state=backend()), credentials=store())
    cloud, s3 = Cloud(), S3()
    bucket = phase(r, cloud, s3)
    (named,) = bucket.plan(records(r)).targets
    cloud.put(BUCKET)
    assert isinstance((await bucket.look(named))[0].presence, Present)
    held = await bucket.guard(named, await bucket.look(named))
    assert isinstance(held, Refusal)
    assert held.next_command == f"npa storage bucket delete --project demo --adopted-bucket {NAME} --yes"
    cloud.things.clear()
    assert isinstance((await bucket.look(named))[0].presence, Absent)
    cloud.blind = {"bucket": Cause.DENIED}
    assert (await bucket.look(named))[0].presence == Trouble(Cause.DENIED).unknown
    cloud.blind = {}
    s3.presence = Present("elsewhere")
    assert isinstance((await bucket.look(named))[0].presence, Present), (
        "saved keys still open it, in another project"
    )


async def test_keys_that_come_back_are_residue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = home(tmp_path)
    monkeypatch.setattr("engine.phases.bucket.phase.prune_storage_secrets", lambda *_: False)
    with pytest.raises(Exception, match="saved again by another program"):
        await phase(r).tidy(TARGET, gone(TARGET), None)  # type: ignore[arg-type]
