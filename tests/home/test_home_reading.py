"""Absent, malformed, unreadable and refused are four different answers, and none of them shows file contents."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from engine.home.config import read_config
from engine.home.credentials import read_credentials
from engine.home.documents import parse_json, parse_yaml
from engine.home.errors import Fault, Kind, RecordError
from engine.home.folders import read_file
from engine.home.receipts import read_receipts
from engine.home.records import gather
from engine.home.roots import Roots, roots
from engine.home.secret import Secret

Put = Callable[[str, str], Path]
CANARY = "hf_CANARYCANARY"


def fault_of(read: Callable[[Roots], object], home: Roots) -> Fault:
    with pytest.raises(RecordError) as caught:
        read(home)
    assert CANARY not in str(caught.value)
    assert caught.value.problem.remedy
    return caught.value.problem.fault


@pytest.mark.parametrize(
    "text",
    [
        f"projects: [{CANARY}",
        f"- {CANARY}",
        CANARY,
        f"a: 1\nb: {{x: {CANARY}}}\na: 2",
        f"a: &x {{b: *x, c: {CANARY}}}",
        f"a: !!python/object/apply:os.system ['{CANARY}']",
        f"? [a, b]\n: {CANARY}",
        f"? {{a: {CANARY}}}\n: 1",
        f"a: '\x01{CANARY}'",
        "1: 2",
        "[" * 20000,
    ],
)
def test_yaml_that_is_no_plain_mapping_is_malformed(home: Roots, put: Put, text: str) -> None:
    put("config.yaml", text)
    assert fault_of(read_config, home) is Fault.MALFORMED
    assert [p.kind for p in gather(home, "project-a").problems] == [Kind.CONFIG]


def test_empty_yaml_is_an_empty_store_and_no_file_is_none(home: Roots, put: Put) -> None:
    assert read_config(home) is None
    put("config.yaml", "# nothing yet\n")
    config = read_config(home)
    assert config is not None and not config.projects and not config.problems


@pytest.mark.parametrize("text", ["not json", "[]", '{"a": 1, "a": 2}', '{"a": ' * 100000, "\xff", '{"a": 1'])
def test_json_that_is_no_plain_object_is_malformed(text: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse_json(text.encode("latin-1"), Path("x.json"), Kind.RECEIPTS)
    assert caught.value.problem.fault is Fault.MALFORMED


def test_a_merge_key_is_no_repeated_key() -> None:
    found = parse_yaml(b"base: &b {r: 1, s: 2}\nd: {<<: *b, r: 3}\n", Path("x"), Kind.CONFIG)
    assert found["d"] == {"r": 3, "s": 2}


@pytest.mark.parametrize(
    "name", ["config.yaml", "credentials.yaml", "teardown-receipts/a.json", "operations/op/journal.json"]
)
def test_a_file_that_is_a_folder_a_pipe_or_a_dangling_link_is_a_problem(
    home: Roots, put: Put, name: str
) -> None:
    path = put(name, "")
    for make in (path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to("nowhere")):
        path.unlink()
        make()
        problems = gather(home, "project-a").problems
        assert [p.fault for p in problems] == [Fault.REFUSED], path
        if path.is_dir():
            path.rmdir()
            path.touch()


@pytest.mark.parametrize(
    "name", ["credentials.yaml", "teardown-receipts", "operations", "clusters", "operations/op", "clusters/x"]
)
def test_a_linked_store_or_folder_is_refused(home: Roots, put: Put, name: str, tmp_path: Path) -> None:
    put("config.yaml", "projects: {}\n")
    target = home.home / name
    target.parent.mkdir(exist_ok=True)
    real = tmp_path / "real"
    real.write_text("{}") if name.endswith(".yaml") else real.mkdir()
    target.symlink_to(real)
    problems = gather(home, "project-a").problems
    assert {(p.fault, p.path) for p in problems} == {(Fault.REFUSED, target)}
    # The leases lie below the journals: neither can be read.
    assert len(problems) == (2 if name == "operations" else 1)


def test_a_linked_root_is_refused(home: Roots, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "config.yaml").write_text("projects: {}\n")
    home.home.symlink_to(tmp_path / "real")
    assert fault_of(read_config, home) is Fault.REFUSED


def test_a_configuration_may_be_a_link_of_its_owner(home: Roots, tmp_path: Path) -> None:
    home.home.mkdir()
    (tmp_path / "dotfiles.yaml").write_text("projects: {a: {project_id: project-a}}\n")
    home.config_yaml.symlink_to(tmp_path / "dotfiles.yaml")
    config = read_config(home)
    assert config is not None and config.projects[0].project_id == "project-a"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
@pytest.mark.parametrize("name", ["config.yaml", "teardown-receipts", "config-link"])
def test_what_another_user_owns_is_refused(home: Roots, put: Put, name: str, tmp_path: Path) -> None:
    put("teardown-receipts/a.json", "{}")
    put("config.yaml", "projects: {}\n")
    read: Callable[[Roots], object] = read_config
    if name == "config-link":
        home.config_yaml.unlink()
        (tmp_path / "theirs.yaml").write_text("projects: {}\n")
        os.chown(tmp_path / "theirs.yaml", 65534, -1)
        home.config_yaml.symlink_to(tmp_path / "theirs.yaml")
    else:
        os.chown(home.home / name, 65534, -1)
        read = read_receipts if name == "teardown-receipts" else read_config
    with pytest.raises(RecordError) as caught:
        read(home)
    assert caught.value.problem.fault is Fault.REFUSED and "chown" in caught.value.problem.remedy


def test_unreadable_is_neither_absent_nor_malformed(
    as_another_user: Callable[[Callable[[], str]], str],
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="npa-unreadable-"))
    folder.chmod(0o777)

    def body() -> str:
        found = roots({"HOME": str(folder / "op")})
        found.home.mkdir(parents=True)
        found.config_yaml.write_text("projects: {}\n")
        found.config_yaml.chmod(0)
        found.receipts.mkdir(mode=0o000)
        return " ".join(f"{p.kind}:{p.fault}" for p in gather(found, "project-a").problems)

    try:
        assert as_another_user(body) == "config:unreadable receipts:unreadable"
    finally:
        shutil.rmtree(folder)


def test_an_oversized_file_is_not_read(home: Roots, put: Put) -> None:
    path = put("config.yaml", "")
    os.truncate(path, 1 << 40)
    assert fault_of(read_config, home) is Fault.REFUSED


def test_a_parent_that_is_a_file_is_a_problem(home: Roots, tmp_path: Path) -> None:
    home.home.write_text("")
    assert fault_of(read_config, home) is Fault.REFUSED
    assert read_file(tmp_path / "none" / "x", tmp_path, Kind.CONFIG) is None


def test_one_malformed_part_hides_no_other_part(home: Roots, put: Put) -> None:
    put(
        "config.yaml",
        yaml.safe_dump(
            {
                "projects": {
                    "a": {
                        "project_id": "project-a",
                        "agents": {"x": 5, "y": {"instance_id": "computeinstance-y"}},
                    },
                    "b": {"project_id": "project-b", "kubernetes": []},
                    "c": 7,
                }
            }
        ),
    )
    a, b = gather(home, "project-a"), gather(home, "project-b")
    assert [x.name for x in a.agents] == ["y"]
    # A stanza that is no mapping might be any project's; one of project-b is not project-a's trouble.
    assert [p.field for p in a.problems] == ["projects.a.agents.x", "projects.c"]
    assert [p.field for p in b.problems] == ["projects.b.kubernetes", "projects.c"]


def test_a_store_of_an_unknown_version_is_not_read(home: Roots, put: Put) -> None:
    put(
        "credentials.yaml",
        "project_credentials: {schema_version: npa.project-credentials.v3, projects: {p: {}}}\n"
        "storage_iam: {service_account_id: s, service_account_project_id: project-a}\n"
        "storage: {bucket: b, aws_access_key_id: k, aws_secret_access_key: hf_CANARYCANARY}\n",
    )
    credentials = read_credentials(home)
    assert credentials is not None
    assert [p.fault for p in credentials.problems] == [Fault.UNSUPPORTED] and not credentials.projects
    # Whose the legacy sections are cannot be said while the store is unread.
    assert credentials.storage_for("project-a") == ()
    assert CANARY not in repr(credentials) + str(credentials.problems)


def test_exposed_files_are_listed(home: Roots, put: Put) -> None:
    put("config.yaml", "projects: {}\n").chmod(0o644)
    put("credentials.yaml", "tokens: {}\n")
    assert gather(home, "project-a").exposed == (home.config_yaml,)


def test_a_secret_is_not_seen() -> None:
    secret = Secret(CANARY)
    assert secret.reveal() == CANARY and secret and not Secret() and secret == Secret(CANARY)
    assert CANARY not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
