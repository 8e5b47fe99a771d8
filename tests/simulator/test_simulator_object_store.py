"""boto3 judges the S3 server; what boto3 cannot say is said with requests that are signed here."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote
from xml.etree import ElementTree

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loopback_app import Site, serving

from engine.simulator.faults import Fault, Timetable
from engine.simulator.object_store import BucketSpec, LockSpec, ObjectStore
from engine.simulator.object_store.bucket import Bucket

KEY, SECRET, REGION = "EXAMPLEKEY", "example/secret+of the store", "eu-north1"


@dataclass
class Store:
    """A running server with a client of it."""

    store: ObjectStore
    timetable: Timetable
    site: Site
    client: Any

    def bucket(self, name: str, **spec: Any) -> str:
        made = Bucket.filled(BucketSpec(name=name, **spec))
        self.site.run(lambda: self.store.buckets.__setitem__(name, made))
        return name


def client(site: Site, key: str = KEY, secret: str = SECRET, **config: Any) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=site.at,
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, **config),
    )


@pytest.fixture(scope="module")
def running() -> Iterator[Store]:
    timetable = Timetable([])
    store = ObjectStore([], {KEY: SECRET}, timetable)
    with serving(store.app()) as [site]:
        yield Store(store, timetable, site, client(site))


@pytest.fixture
def s3(running: Store) -> Iterator[Store]:
    yield running
    running.site.run(running.timetable.end)
    running.site.run(running.store.buckets.clear)


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


# -- objects and versions ---------------------------------------------------------------------------------------------


def test_objects_are_written_read_and_deleted(s3: Store) -> None:
    b, c = s3.bucket("plain", files={"a/one.txt": "one"}), s3.client
    assert c.get_object(Bucket=b, Key="a/one.txt")["Body"].read() == b"one"
    put = c.put_object(Bucket=b, Key="two", Body=b"0123456789")
    assert put["ETag"].strip('"') == hashlib.md5(b"0123456789").hexdigest()
    assert "VersionId" not in put
    assert c.get_object(Bucket=b, Key="two", Range="bytes=2-4")["Body"].read() == b"234"
    assert c.get_object(Bucket=b, Key="two", Range="bytes=-3")["Body"].read() == b"789"
    assert c.head_object(Bucket=b, Key="two")["ContentLength"] == 10
    c.put_object(Bucket=b, Key="two", Body=b"again")
    assert c.get_object(Bucket=b, Key="two")["Body"].read() == b"again"
    with pytest.raises(ClientError) as full:
        c.delete_bucket(Bucket=b)
    assert code_of(full) == "BucketNotEmpty"
    for key in ("two", "a/one.txt"):
        c.delete_object(Bucket=b, Key=key)
    with pytest.raises(ClientError) as gone:
        c.get_object(Bucket=b, Key="two")
    assert code_of(gone) == "NoSuchKey"
    c.delete_bucket(Bucket=b)
    with pytest.raises(ClientError) as absent:
        c.head_bucket(Bucket=b)
    assert code_of(absent) == "404"
    assert not s3.store.has(b)


def test_buckets_and_what_they_say_of_themselves(s3: Store) -> None:
    b = s3.bucket("spoken")
    assert [row["Name"] for row in s3.client.list_buckets()["Buckets"]] == [b]
    assert s3.client.get_bucket_location(Bucket=b)["LocationConstraint"] is None
    assert "Status" not in s3.client.get_bucket_versioning(Bucket=b)
    with pytest.raises(ClientError) as none:
        s3.client.get_object_lock_configuration(Bucket=b)
    assert code_of(none) == "ObjectLockConfigurationNotFoundError"
    with pytest.raises(ClientError) as other:
        s3.client.get_bucket_lifecycle_configuration(Bucket=b)
    assert code_of(other) == "NotImplemented"


def test_versions_and_markers(s3: Store) -> None:
    b, c = s3.bucket("kept", versioning=True), s3.client
    first = c.put_object(Bucket=b, Key="k", Body=b"1")["VersionId"]
    second = c.put_object(Bucket=b, Key="k", Body=b"22")["VersionId"]
    marker = c.delete_object(Bucket=b, Key="k")
    assert marker["DeleteMarker"] is True
    with pytest.raises(ClientError) as hidden:
        c.get_object(Bucket=b, Key="k")
    assert code_of(hidden) == "NoSuchKey"
    assert hidden.value.response["ResponseMetadata"]["HTTPHeaders"]["x-amz-delete-marker"] == "true"
    with pytest.raises(ClientError) as no_object:
        c.get_object(Bucket=b, Key="k", VersionId=marker["VersionId"])
    assert code_of(no_object) == "MethodNotAllowed"
    assert c.get_object(Bucket=b, Key="k", VersionId=first)["Body"].read() == b"1"
    found = c.list_object_versions(Bucket=b)
    assert [(v["VersionId"], v["IsLatest"], v["Size"]) for v in found["Versions"]] == [
        (second, False, 2),
        (first, False, 1),
    ]
    assert [(m["VersionId"], m["IsLatest"]) for m in found["DeleteMarkers"]] == [(marker["VersionId"], True)]
    assert "Contents" not in c.list_objects_v2(Bucket=b)
    c.delete_object(Bucket=b, Key="k", VersionId=marker["VersionId"])
    assert c.get_object(Bucket=b, Key="k")["Body"].read() == b"22"
    c.delete_object(Bucket=b, Key="k", VersionId=second)
    assert c.get_object(Bucket=b, Key="k")["Body"].read() == b"1"


def test_suspended_versioning_keeps_one_version_without_an_id(s3: Store) -> None:
    b, c = s3.bucket("halted", versioning=True), s3.client
    kept = c.put_object(Bucket=b, Key="k", Body=b"1")["VersionId"]
    c.put_bucket_versioning(Bucket=b, VersioningConfiguration={"Status": "Suspended"})
    assert c.get_bucket_versioning(Bucket=b)["Status"] == "Suspended"
    for body in (b"2", b"3"):
        assert c.put_object(Bucket=b, Key="k", Body=body)["VersionId"] == "null"
    assert [v["VersionId"] for v in c.list_object_versions(Bucket=b)["Versions"]] == ["null", kept]
    c.delete_object(Bucket=b, Key="k")
    found = c.list_object_versions(Bucket=b)
    assert [m["VersionId"] for m in found["DeleteMarkers"]] == ["null"], "it took the place of the one before"
    assert [v["VersionId"] for v in found["Versions"]] == [kept]


def test_a_lock_file_is_written_once_and_by_a_condition(s3: Store) -> None:
    """As Terraform's S3 backend does with `use_lockfile`."""
    b, c = s3.bucket("states", versioning=True), s3.client
    c.put_object(Bucket=b, Key="s.tflock", Body=b"{}", IfNoneMatch="*")
    with pytest.raises(ClientError) as held:
        c.put_object(Bucket=b, Key="s.tflock", Body=b"{}", IfNoneMatch="*")
    assert code_of(held) == "PreconditionFailed"
    c.delete_object(Bucket=b, Key="s.tflock")
    etag = c.put_object(Bucket=b, Key="s.tflock", Body=b"{}", IfNoneMatch="*")["ETag"]
    c.put_object(Bucket=b, Key="s.tflock", Body=b"{1}", IfMatch=etag)
    with pytest.raises(ClientError) as stale:
        c.put_object(Bucket=b, Key="s.tflock", Body=b"{2}", IfMatch=etag)
    assert code_of(stale) == "PreconditionFailed"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("terraform"), reason="Terraform is not installed")
def test_terraform_keeps_its_state_here_and_locks_it(s3: Store, tmp_path: Path) -> None:
    b = s3.bucket("tf", versioning=True)
    (tmp_path / "main.tf").write_text(
        f"""
        terraform {{
          backend "s3" {{
            bucket = "{b}"
            key = "a/terraform.tfstate"
            region = "{REGION}"
            endpoints = {{ s3 = "{s3.site.at}" }}
            use_path_style = true
            use_lockfile = true
            skip_credentials_validation = true
            skip_requesting_account_id = true
            skip_metadata_api_check = true
            skip_region_validation = true
          }}
        }}
        resource "terraform_data" "one" {{ input = "x" }}
        """
    )
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "TMPDIR")}
    env = {
        **kept, "HOME": str(tmp_path), "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_MAX_ATTEMPTS": "1",
        "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "NO_PROXY": "*",
    }  # fmt: skip

    def terraform(*args: str) -> tuple[int, str]:
        done = subprocess.run(
            ["terraform", *args], cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False
        )
        return done.returncode, (done.stdout + done.stderr).decode()

    assert terraform("init", "-input=false")[0] == 0
    assert terraform("apply", "-auto-approve", "-input=false") == (0, mock.ANY)
    state = json.loads(s3.client.get_object(Bucket=b, Key="a/terraform.tfstate")["Body"].read())
    assert [r["type"] for r in state["resources"]] == ["terraform_data"]
    assert s3.store.usage(b).objects == 1, "the lock is gone"
    held = {
        "ID": "0",
        "Operation": "apply",
        "Info": "",
        "Who": "another",
        "Version": "1",
        "Created": "2026-11-20T08:00:00Z",
    }
    s3.client.put_object(
        Bucket=b, Key="a/terraform.tfstate.tflock", Body=json.dumps({**held, "Path": ""}).encode()
    )
    code, out = terraform("destroy", "-auto-approve", "-input=false")
    assert code == 1
    assert "PreconditionFailed" in out
    s3.client.delete_object(Bucket=b, Key="a/terraform.tfstate.tflock")
    assert terraform("destroy", "-auto-approve", "-input=false") == (0, mock.ANY)


def test_retention_holds_versions_and_yields_to_a_bypass_only_under_governance(s3: Store) -> None:
    locks = [LockSpec(objects=2), LockSpec(objects=1, mode="COMPLIANCE")]
    b, c = s3.bucket("locked", objects=5, locks=locks), s3.client
    assert (
        c.get_object_lock_configuration(Bucket=b)["ObjectLockConfiguration"]["ObjectLockEnabled"] == "Enabled"
    )
    until = c.get_object_retention(Bucket=b, Key="data/0000002")["Retention"]
    assert until["Mode"] == "COMPLIANCE"
    assert until["RetainUntilDate"] > datetime.now(UTC) + timedelta(days=6)
    assert c.head_object(Bucket=b, Key="data/0000000")["ObjectLockMode"] == "GOVERNANCE"
    rows = [
        {"Key": v["Key"], "VersionId": v["VersionId"]} for v in c.list_object_versions(Bucket=b)["Versions"]
    ]
    done = c.delete_objects(Bucket=b, Delete={"Objects": rows, "Quiet": True})
    assert "Deleted" not in done
    assert {(e["Key"], e["Code"]) for e in done["Errors"]} == {(r["Key"], "AccessDenied") for r in rows[:3]}
    done = c.delete_objects(Bucket=b, Delete={"Objects": rows[:3]}, BypassGovernanceRetention=True)
    assert [e["Key"] for e in done["Errors"]] == [rows[2]["Key"]]
    assert s3.store.usage(b).versions == 1
    with pytest.raises(ClientError) as useless:
        c.delete_object(Bucket=s3.bucket("free"), Key="k", BypassGovernanceRetention=True)
    assert code_of(useless) == "InvalidArgument"


def test_multipart_uploads_begin_end_and_are_aborted(s3: Store) -> None:
    b, c = s3.bucket("parts"), s3.client
    ids = [c.create_multipart_upload(Bucket=b, Key="whole")["UploadId"] for _ in range(2)]
    parts = [
        {"PartNumber": n, "ETag": c.upload_part(Bucket=b, Key="whole", UploadId=ids[0], PartNumber=n, Body=data)["ETag"]}
        for n, data in ((1, b"first "), (2, b"second"))
    ]  # fmt: skip
    assert [u["UploadId"] for u in c.list_multipart_uploads(Bucket=b)["Uploads"]] == sorted(ids)
    with pytest.raises(ClientError) as full:
        c.delete_bucket(Bucket=b)
    assert code_of(full) == "BucketNotEmpty", "uploads are contents too"
    c.complete_multipart_upload(Bucket=b, Key="whole", UploadId=ids[0], MultipartUpload={"Parts": parts})
    assert c.get_object(Bucket=b, Key="whole")["Body"].read() == b"first second"
    c.abort_multipart_upload(Bucket=b, Key="whole", UploadId=ids[1])
    with pytest.raises(ClientError) as gone:
        c.abort_multipart_upload(Bucket=b, Key="whole", UploadId=ids[1])
    assert code_of(gone) == "NoSuchUpload"
    assert "Uploads" not in c.list_multipart_uploads(Bucket=b)


# -- listings ---------------------------------------------------------------------------------------------------------

NASTY = [
    'a<b>&"c',
    "a b+c%2F",
    "ü/ñ/日本",
    "tab\tnew\nline\rend",
    "bell\x07",
    "]]>",
    "~dot.-_*'()!",
    "x" * 300,
]


@pytest.mark.parametrize("call", ["list_objects_v2", "list_objects"])
def test_keys_come_back_as_they_were_written(s3: Store, call: str) -> None:
    b = s3.bucket("nasty")
    for key in NASTY:
        s3.client.put_object(Bucket=b, Key=key, Body=b"x")
    rows = getattr(s3.client, call)(Bucket=b)["Contents"]
    assert [r["Key"] for r in rows] == sorted(NASTY)
    for key in NASTY:
        assert s3.client.get_object(Bucket=b, Key=key)["Body"].read() == b"x"


def test_keys_in_an_answer_about_a_batch_are_escaped(s3: Store) -> None:
    b = s3.bucket("escaped")
    keys = [k for k in NASTY if "\x07" not in k and "\r" not in k]
    for key in keys:
        s3.client.put_object(Bucket=b, Key=key, Body=b"x")
    done = s3.client.delete_objects(Bucket=b, Delete={"Objects": [{"Key": k} for k in keys]})
    assert [d["Key"] for d in done["Deleted"]] == keys
    assert s3.store.usage(b).empty


def test_pages_and_common_prefixes(s3: Store) -> None:
    files = dict.fromkeys(("a/1", "a/2", "b", "c/x/1", "c/x/2", "c/y", "d"), "")
    b, c = s3.bucket("tree", files=files), s3.client
    seen, token, pages = [], None, 0
    while True:
        more = {"ContinuationToken": token} if token else {}
        page = c.list_objects_v2(Bucket=b, Delimiter="/", MaxKeys=2, **more)
        found = [o["Key"] for o in page.get("Contents", [])] + [
            p["Prefix"] for p in page.get("CommonPrefixes", [])
        ]
        assert page["KeyCount"] == len(found) <= 2
        seen += sorted(found)
        pages += 1
        if not page["IsTruncated"]:
            break
        token = page["NextContinuationToken"]
    assert (seen, pages) == (["a/", "b", "c/", "d"], 2)
    inner = c.list_objects(Bucket=b, Prefix="c/", Delimiter="/", MaxKeys=1)
    assert ([p["Prefix"] for p in inner["CommonPrefixes"]], inner["NextMarker"]) == (["c/x/"], "c/x/")
    rest = c.list_objects(Bucket=b, Prefix="c/", Delimiter="/", Marker="c/x/")
    assert [o["Key"] for o in rest["Contents"]] == ["c/y"]
    assert "CommonPrefixes" not in rest, (
        "a page that ended with a prefix is followed by what is behind all of it"
    )
    assert [o["Key"] for o in c.list_objects_v2(Bucket=b, StartAfter="b")["Contents"]] == sorted(files)[3:]
    s3.store.buckets[b].versioning = "Enabled"
    c.delete_object(Bucket=b, Key="c/y")
    assert "Contents" not in c.list_objects_v2(Bucket=b, Prefix="c/", Delimiter="/"), "a marker hides it"
    versions = c.list_object_versions(Bucket=b, Prefix="c/", Delimiter="/")
    assert [m["Key"] for m in versions["DeleteMarkers"]] == ["c/y"]
    assert [p["Prefix"] for p in versions["CommonPrefixes"]] == ["c/x/"]


def test_a_marker_keeps_its_place_when_its_version_is_gone(s3: Store) -> None:
    b, c = s3.bucket("moving", versioning=True, objects=4, versions_each=3), s3.client
    every = [(v["Key"], v["VersionId"]) for v in c.list_object_versions(Bucket=b)["Versions"]]
    page = c.list_object_versions(Bucket=b, MaxKeys=5)
    marker = page["NextKeyMarker"], page["NextVersionIdMarker"]
    assert marker == every[4]
    for key, id in every[:5]:
        c.delete_object(Bucket=b, Key=key, VersionId=id)
    rest = c.list_object_versions(Bucket=b, KeyMarker=marker[0], VersionIdMarker=marker[1])
    assert [(v["Key"], v["VersionId"]) for v in rest["Versions"]] == every[5:]
    with pytest.raises(ClientError) as bad:
        c.list_object_versions(Bucket=b, KeyMarker="k", VersionIdMarker="no such id")
    assert code_of(bad) == "InvalidArgument"


def test_uploads_are_listed_in_pages(s3: Store) -> None:
    b, c = s3.bucket("many-uploads", uploads=7), s3.client
    pages = list(c.get_paginator("list_multipart_uploads").paginate(Bucket=b, MaxUploads=3))
    assert [len(p["Uploads"]) for p in pages] == [3, 3, 1]
    assert len({u["UploadId"] for p in pages for u in p["Uploads"]}) == 7


def test_a_versioned_bucket_is_emptied_while_it_is_listed(s3: Store) -> None:
    """2,500 keys with two versions each and 625 markers: at most six pages, as many batches, and nothing left."""
    b, c = (
        s3.bucket("full", versioning=True, objects=2500, versions_each=2, markers=625, bytes_each=10),
        s3.client,
    )
    before = s3.store.usage(b)
    assert (before.objects, before.versions, before.markers, before.bytes) == (1875, 5000, 625, 50_000)
    mark = len(s3.store.log)
    marker: dict[str, str] = {}
    while True:
        page = c.list_object_versions(Bucket=b, **marker)
        rows = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        c.delete_objects(
            Bucket=b,
            Delete={"Quiet": True, "Objects": [{"Key": r["Key"], "VersionId": r["VersionId"]} for r in rows]},
        )
        if not page["IsTruncated"]:
            break
        marker = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
    calls = [row["call"] for row in s3.store.log[mark:]]
    assert [calls.count("ListObjectVersions"), calls.count("DeleteObjects")] == [6, 6]
    assert s3.store.usage(b).empty
    c.delete_bucket(Bucket=b)


def test_big_buckets_are_served_fast(s3: Store) -> None:
    b = s3.bucket("big", versioning=True, objects=20_000, versions_each=2, markers=5_000)
    began = time.process_time()
    count, after, more = 0, ("", ""), True
    while more:
        page = s3.store.buckets[b].versions("", "", after, 1000)
        rows = [r for r in page.rows if not isinstance(r, str)]
        for v, _ in rows:
            s3.store.buckets[b].remove(v.key, v.id)
        count, more, after = count + len(rows), page.more, (rows[-1][0].key, rows[-1][0].id)
    assert count == 45_000
    assert s3.store.usage(b).empty
    assert time.process_time() - began < 2


class Model:
    """A bucket as a plain list, the newest write last."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, bool]] = []

    def rows(self) -> list[tuple[str, str, bool]]:
        order = {row[:2]: n for n, row in enumerate(self.writes)}
        return sorted(self.writes, key=lambda r: (r[0], -order[r[:2]]))


actions = st.lists(
    st.tuples(
        st.sampled_from(("put", "mark", "remove", "remove")), st.sampled_from("abcdef"), st.integers(0, 9)
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(actions, st.integers(1, 4), st.booleans())
def test_pages_put_together_are_the_whole_whatever_was_deleted_between(
    did: list[tuple[str, str, int]], size: int, deleting: bool
) -> None:
    """Pages show what there is, in order, never twice; what is deleted between two pages takes nothing else along."""
    bucket, model = Bucket("b", "Enabled"), Model()
    for what, key, n in did:
        if what == "remove":
            if model.writes:
                gone = model.writes.pop(n % len(model.writes))
                bucket.remove(*gone[:2])
            continue
        made = bucket.put(key, b"") if what == "put" else bucket.mark(key)
        model.writes.append((key, made.id, made.marker))
    expected = model.rows()
    seen: list[tuple[str, str, bool]] = []
    after, more = ("", ""), True
    while more:
        page = bucket.versions("", "", after, size)
        for row in page.rows:
            assert not isinstance(row, str)
            version, latest = row
            seen.append((version.key, version.id, version.marker))
            assert latest == (version is bucket.newest(version.key))
        if page.rows:
            after = seen[-1][:2]
            for key, id, _ in seen[-len(page.rows) :] if deleting else []:
                bucket.remove(key, id)
        more = page.more
    assert seen == expected
    assert bucket.usage().empty == (deleting or not expected)


def test_keys_that_are_deleted_in_any_order_and_written_again_keep_their_places() -> None:
    bucket, dice = Bucket("b"), random.Random(7)
    keys = [f"{n:05}" for n in range(5000)]
    for key in dice.sample(keys, len(keys)):
        bucket.put(key, b"")
    for key in dice.sample(keys, 4000):
        bucket.remove(key, "null")
    left = [v.key for v in bucket.objects("", "", "", 5000).rows if not isinstance(v, str)]
    assert (len(left), left) == (1000, sorted(left))
    for key in keys:
        bucket.put(key, b"")
    assert [v.key for v in bucket.objects("", "", "", 5000).rows if not isinstance(v, str)] == keys


# -- batches and faults -----------------------------------------------------------------------------------------------


def test_a_batch_says_what_became_of_each_object(s3: Store) -> None:
    b, c = s3.bucket("batch", versioning=True, objects=4), s3.client
    s3.site.run(
        lambda: s3.timetable.add(
            [
                Fault(
                    service="s3",
                    match=f"DeleteObjects/Item {b}/data/0000001",
                    kind="status",
                    status="InternalError",
                    message="try <again>",
                    times=1,
                )
            ]
        )
    )
    rows = [{"Key": f"data/{n:07}"} for n in range(3)]
    done = c.delete_objects(Bucket=b, Delete={"Objects": rows})
    assert [(e["Key"], e["Code"], e["Message"]) for e in done["Errors"]] == [
        ("data/0000001", "InternalError", "try <again>")
    ]
    assert [(d["Key"], d["DeleteMarker"]) for d in done["Deleted"]] == [
        (rows[0]["Key"], True),
        (rows[2]["Key"], True),
    ]
    again = c.delete_objects(Bucket=b, Delete={"Objects": rows[1:2], "Quiet": True})
    assert "Errors" not in again
    assert "Deleted" not in again
    assert s3.store.usage(b).markers == 3


@pytest.mark.parametrize(
    ("status", "code", "number"), [(503, "SlowDown", 503), ("InvalidAccessKeyId",) * 2 + (403,)]
)
def test_an_injected_error_has_its_code(s3: Store, status: int | str, code: str, number: int) -> None:
    b = s3.bucket("slow")
    s3.site.run(
        lambda: s3.timetable.add([Fault(service="s3", match=f"* {b}*", kind="status", status=status)])
    )
    with pytest.raises(ClientError) as caught:
        s3.client.list_objects_v2(Bucket=b)
    assert code_of(caught) == code
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == number
    with pytest.raises(ClientError) as head:
        s3.client.head_bucket(Bucket=b)
    assert code_of(head) == str(number)


def test_the_log_tells_operation_subject_principal_and_outcome(s3: Store) -> None:
    b, mark = s3.bucket("logged"), len(s3.store.log)
    s3.client.put_object(Bucket=b, Key="a/ü", Body=b"")
    s3.client.delete_object(Bucket=b, Key="a/ü")
    with pytest.raises(ClientError):
        client(s3.site, key="UNKNOWN").list_objects_v2(Bucket=b)
    rows = s3.store.log[mark:]
    assert [(r["call"], r["subject"], r["code"], r["principal"]) for r in rows] == [
        ("PutObject", f"{b}/a/ü", "200", KEY),
        ("DeleteObject", f"{b}/a/ü", "204", KEY),
        ("ListObjectsV2", b, "403", ""),
    ]


# -- signatures -------------------------------------------------------------------------------------------------------


@dataclass
class Request:
    """A request that is signed here, from the documentation of Signature Version 4 and not from the server's own code."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    key: str = KEY
    secret: str = SECRET
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    payload: str | None = None
    unsigned: tuple[str, ...] = ()

    def send(self, site: Site) -> tuple[int, str, ElementTree.Element | None]:
        """Status, code of the error, and the document."""
        import http.client

        host = site.at.removeprefix("http://")
        moment = self.at.strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(self.body).hexdigest() if self.payload is None else self.payload
        headers = {
            "host": host,
            "x-amz-content-sha256": digest,
            "x-amz-date": moment,
            **{k.lower(): v for k, v in self.headers.items()},
        }
        names = sorted(h for h in headers if h not in self.unsigned)
        canonical = "\n".join(
            [
                self.method, quote(self.path, safe="/-_.~"), self.query,
                "".join(f"{n}:{headers[n].strip()}\n" for n in names), ";".join(names), digest,
            ]
        )  # fmt: skip
        scope = f"{moment[:8]}/{REGION}/s3/aws4_request"
        signed = "\n".join(
            ["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()]
        )
        secret = b"AWS4" + self.secret.encode()
        for part in (moment[:8], REGION, "s3", "aws4_request"):
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(secret, signed.encode(), hashlib.sha256).hexdigest()
        if "authorization" not in headers:
            headers["authorization"] = (
                f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
            )
        connection = http.client.HTTPConnection(host, timeout=5)
        try:
            target = quote(self.path, safe="/-_.~") + (f"?{self.query}" if self.query else "")
            connection.request(self.method, target, self.body, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        root = ElementTree.fromstring(text) if text.startswith(b"<?xml") else None
        return answer.status, (root.findtext("Code") or "") if root is not None else "", root


def test_a_request_signed_by_the_book_is_accepted(s3: Store) -> None:
    b = s3.bucket("signed", files={"a b/ü+~": "x"})
    assert Request("GET", f"/{b}/a b/ü+~").send(s3.site)[0] == 200
    assert Request("GET", f"/{b}", "list-type=2&prefix=a%20b%2F").send(s3.site)[0] == 200
    assert Request("PUT", f"/{b}/unsigned", body=b"x", payload="UNSIGNED-PAYLOAD").send(s3.site)[0] == 200


@pytest.mark.parametrize(
    ("wrong", "status", "code"),
    [
        ({"secret": "another"}, 403, "SignatureDoesNotMatch"),
        ({"key": "UNKNOWN"}, 403, "InvalidAccessKeyId"),
        ({"at": datetime.now(UTC) - timedelta(minutes=20)}, 403, "RequestTimeTooSkewed"),
        ({"at": datetime.now(UTC) + timedelta(minutes=20)}, 403, "RequestTimeTooSkewed"),
        ({"headers": {"authorization": "AWS AKID:sig"}}, 400, "AuthorizationHeaderMalformed"),
        ({"headers": {"authorization": ""}}, 403, "AccessDenied"),
        ({"headers": {"x-amz-meta-a": "b"}, "unsigned": ("x-amz-meta-a",)}, 403, "AccessDenied"),
        ({"unsigned": ("host",)}, 403, "AccessDenied"),
        ({"payload": hashlib.sha256(b"other").hexdigest()}, 400, "XAmzContentSHA256Mismatch"),
        ({"headers": {"content-md5": "nonsense"}}, 400, "InvalidDigest"),
        ({"headers": {"content-md5": base64.b64encode(b"0" * 16).decode()}}, 400, "BadDigest"),
    ],
)
def test_a_request_that_does_not_hold_is_refused_and_changes_nothing(
    s3: Store, wrong: dict[str, Any], status: int, code: str
) -> None:
    b = s3.bucket("guarded")
    answer = Request("PUT", f"/{b}/k", body=b"x", **wrong).send(s3.site)
    assert answer[:2] == (status, code)
    assert s3.store.usage(b).empty


def test_a_skewed_clock_is_told_the_servers_time(s3: Store) -> None:
    root = Request("GET", "/", at=datetime.now(UTC) - timedelta(minutes=20)).send(s3.site)[2]
    assert root is not None
    told = datetime.strptime(root.findtext("ServerTime") or "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs(told - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_tampered_query_breaks_the_signature(s3: Store) -> None:
    b = s3.bucket("tampered", files={"k": "x"})
    seen: list[str] = []
    tampered = client(s3.site)
    tampered.meta.events.register(
        "before-send.s3", lambda request, **_: seen.append(request.url) or _turned(request)
    )
    with pytest.raises(ClientError) as caught:
        tampered.list_objects_v2(Bucket=b, Prefix="k")
    assert seen
    assert code_of(caught) == "SignatureDoesNotMatch"


def _turned(request: Any) -> None:
    request.url = request.url.replace("prefix=k", "prefix=")


def test_a_revoked_key_and_a_dropped_bucket_are_gone_at_once() -> None:
    store = ObjectStore([BucketSpec(name="b", objects=3)], {KEY: SECRET, "OTHER": SECRET}, Timetable([]))
    with serving(store.app()) as [site]:
        mine, other = client(site), client(site, key="OTHER")
        assert len(mine.list_objects_v2(Bucket="b")["Contents"]) == 3
        site.run(lambda: store.revoke(KEY))
        with pytest.raises(ClientError) as refused:
            mine.list_objects_v2(Bucket="b")
        assert code_of(refused) == "InvalidAccessKeyId"
        site.run(lambda: store.drop_bucket("b"))
        with pytest.raises(ClientError) as gone:
            other.list_objects_v2(Bucket="b")
        assert code_of(gone) == "NoSuchBucket"
        assert store.describe() == {}


def test_bodies_in_chunks_are_taken_without_their_framing(s3: Store) -> None:
    b = s3.bucket("chunked")
    framed = b"3;chunk-signature=0\r\nabc\r\n4;chunk-signature=0\r\ndefg\r\n0;chunk-signature=0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n"
    headers = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": "7"}
    for payload in ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"):
        assert (
            Request("PUT", f"/{b}/k", body=framed, headers=headers, payload=payload).send(s3.site)[0] == 200
        )
        assert s3.client.get_object(Bucket=b, Key="k")["Body"].read() == b"abcdefg"


@pytest.mark.parametrize(
    ("body", "checked", "code"),
    [
        (b"<Delete><Object><Key>k</Key></Object></Delete>", False, "InvalidRequest"),
        (b"<Delete><Object><Key>k</Key></Object>", True, "MalformedXML"),
        (b"<Delete></Delete>", True, "MalformedXML"),
        (b"<Delete>" + b"<Object><Key>k</Key></Object>" * 1001 + b"</Delete>", True, "MalformedXML"),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused_as_a_whole(
    s3: Store, body: bytes, checked: bool, code: str
) -> None:
    b = s3.bucket("sense", files={"k": "x"})
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    answer = Request("POST", f"/{b}", "delete=", body, {"content-md5": md5} if checked else {}).send(s3.site)
    assert answer[:2] == (400, code)
    assert s3.store.usage(b).objects == 1
