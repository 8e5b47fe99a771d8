"""Atomic private writes, lock files, and locked edits of YAML stores."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import resource
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from engine.home import atomic
from engine.home.atomic import remove_private, write_private
from engine.home.documents import Document, parse_yaml, write_yaml
from engine.home.errors import Fault, Kind, RecordError
from engine.home.locks import Held, flocked, is_held
from engine.home.roots import Roots, roots, yaml_lock
from engine.home.yaml_edit import edit_yaml

Put = Callable[[str, str], Path]
KIND = Kind.CONFIG


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- one private file ---------------------------------------------------------------------------------------------------------


def test_a_write_makes_private_folders_and_a_private_file(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        write_private(tmp_path / "a" / "b" / "c.json", b"{}", kind=KIND, root=tmp_path / "a")
    finally:
        os.umask(old)
    assert (tmp_path / "a" / "b" / "c.json").read_bytes() == b"{}"
    assert [mode(tmp_path / n) for n in ("a", "a/b", "a/b/c.json")] == [0o700, 0o700, 0o600]


def test_a_write_repairs_the_mode_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new", kind=KIND)
    assert path.read_text() == "new" and mode(path) == 0o600 and names(tmp_path) == ["x"]


@pytest.mark.parametrize(
    "what", ["link", "dangling", "folder", "pipe", "linked-parent", "linked-grandparent"]
)
def test_a_write_goes_through_nothing_but_real_folders(tmp_path: Path, what: str) -> None:
    (tmp_path / "real").mkdir()
    root = tmp_path / "root"
    path = root / "sub" / "x"
    if what == "linked-grandparent":
        root.symlink_to(tmp_path / "real")
    elif what == "linked-parent":
        root.mkdir()
        (root / "sub").symlink_to(tmp_path / "real")
    else:
        (root / "sub").mkdir(parents=True)
        target = tmp_path / "target"
        if what == "link":
            target.write_text("theirs")
        {
            "link": lambda: path.symlink_to(target),
            "dangling": lambda: path.symlink_to(target),
            "folder": path.mkdir,
            "pipe": lambda: os.mkfifo(path),
        }[what]()
    for act in (
        lambda: write_private(path, b"x", kind=KIND, root=root),
        lambda: remove_private(path, kind=KIND, root=root),
    ):
        with pytest.raises(RecordError) as caught:
            act()
        assert caught.value.problem.fault is Fault.REFUSED
    assert names(tmp_path / "real") == []
    if what == "link":
        assert (tmp_path / "target").read_text() == "theirs"
    if what == "dangling":
        assert not (tmp_path / "target").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
@pytest.mark.parametrize("name", ["x", "."])
def test_a_write_replaces_nothing_of_another_user(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "x").write_text("theirs")
    os.chown(folder / name, 65534, -1)
    with pytest.raises(RecordError) as caught:
        write_private(folder / "x", b"ours", kind=KIND)
    assert "owned by user id 65534" in caught.value.problem.problem
    assert (folder / "x").read_text() == "theirs" and names(folder) == ["x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which it is about")
def test_root_makes_no_store_in_somebodys_home(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, -1)
    with pytest.raises(RecordError, match="runs as root"):
        write_private(tmp_path / ".npa" / "x", b"", kind=KIND, root=tmp_path / ".npa")
    assert names(tmp_path) == []


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "x"
    path.write_text("old")

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(atomic.os, call, full)
        with pytest.raises(OSError) as caught:
            write_private(path, b"new", kind=KIND)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_text() == "old" and names(tmp_path) == ["x"]


def test_a_write_that_the_kernel_cuts_short_leaves_the_old_file(
    as_another_user: Callable[[Callable[[], str]], str],
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="npa-short-"))
    folder.chmod(0o777)

    def body() -> str:
        ours = folder / "ours"
        ours.mkdir()
        write_private(ours / "x", b"old", kind=KIND)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            write_private(ours / "x", b"n" * 100_000, kind=KIND)
        except OSError as failure:
            return f"{errno.errorcode[failure.errno or 0]} {(ours / 'x').read_text()} {names(ours)}"
        return "written"

    try:
        assert as_another_user(body) == "EFBIG old ['x']"
    finally:
        shutil.rmtree(folder)


def test_a_folder_without_permission_raises_and_changes_nothing(
    as_another_user: Callable[[Callable[[], str]], str],
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="npa-denied-"))
    folder.chmod(0o777)

    def body() -> str:
        ours = folder / "ours"
        ours.mkdir()
        (ours / "x").write_text("old")
        ours.chmod(0o500)
        try:
            write_private(ours / "x", b"new", kind=KIND)
        except OSError as failure:
            ours.chmod(0o700)
            return f"{errno.errorcode[failure.errno or 0]} {(ours / 'x').read_text()} {names(ours)}"
        return "written"

    try:
        assert as_another_user(body) == "EACCES old ['x']"
    finally:
        shutil.rmtree(folder)


def test_removing_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    assert not remove_private(tmp_path / "x", kind=KIND)
    assert not remove_private(tmp_path / "no" / "x", kind=KIND)
    (tmp_path / "x").touch()
    assert remove_private(tmp_path / "x", kind=KIND) and not (tmp_path / "x").exists()


# --- locks --------------------------------------------------------------------------------------------------------------------


def test_a_lock_that_is_not_waited_for_says_so(tmp_path: Path) -> None:
    path = tmp_path / "store" / ".lock"
    with flocked(path, root=path.parent, kind=KIND):
        assert mode(path) == 0o600 and mode(path.parent) == 0o700 and is_held(path)
        with pytest.raises(Held) as caught, flocked(path, root=path.parent, kind=KIND, wait=False):
            pass
        assert caught.value.path == path
    assert path.exists() and not is_held(path)
    with flocked(path, root=path.parent, kind=KIND, wait=False):
        pass


def test_a_lock_waits_for_its_holder(tmp_path: Path) -> None:
    path, order = tmp_path / ".lock", []
    entered = threading.Event()

    def second() -> None:
        entered.set()
        with flocked(path, root=tmp_path, kind=KIND):
            order.append("second")

    with flocked(path, root=tmp_path, kind=KIND):
        thread = threading.Thread(target=second)
        thread.start()
        entered.wait()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_is_the_flock_that_the_other_program_takes(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with pytest.raises(Held), flocked(tmp_path / ".lock", root=tmp_path, kind=KIND, wait=False):
            pass


@pytest.mark.parametrize("what", ["link", "folder"])
def test_a_lock_that_is_no_regular_file_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / ".lock"
    path.symlink_to(tmp_path / "target") if what == "link" else path.mkdir()
    with pytest.raises(RecordError), flocked(path, root=tmp_path, kind=KIND):
        pass
    assert not (tmp_path / "target").exists()


def test_looking_at_a_lock_makes_none(tmp_path: Path) -> None:
    assert not is_held(tmp_path / ".lock") and not (tmp_path / ".lock").exists()


# --- YAML edits ---------------------------------------------------------------------------------------------------------------


def _set_fields(user: str, names: list[str]) -> None:
    home = roots({"HOME": user})
    for name in names:

        def change(document: Document, name: str = name) -> Document:
            return {**document, name: name}

        edit_yaml(home.config_yaml, change, kind=KIND)


def test_concurrent_edits_keep_every_field(home: Roots) -> None:
    home.home.mkdir()
    context = multiprocessing.get_context("fork")
    jobs = [
        context.Process(target=_set_fields, args=(str(home.user), [f"f{w}_{n}" for n in range(8)]))
        for w in range(4)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert len(yaml.safe_load(home.config_yaml.read_text())) == 32
    assert names(home.home) == ["config.yaml", "config.yaml.lock"]


def test_an_edit_that_changes_nothing_writes_nothing(home: Roots, put: Put, picture: Any) -> None:
    path = put("config.yaml", "# mine\nb: {z: 1, a: [1, 2]}\na: text\n")
    put("config.yaml.lock", "")
    before = picture(home.user)
    assert not edit_yaml(path, lambda document: document, kind=KIND)
    assert picture(home.user) == before


def test_an_edit_of_nothing_to_nothing_makes_no_file(home: Roots) -> None:
    assert not edit_yaml(home.credentials_yaml, lambda d: d or None, kind=Kind.CREDENTIALS)
    assert not home.home.exists()


def test_an_edit_may_remove_the_file(home: Roots, put: Put) -> None:
    path = put("credentials.yaml", "a: 1\n")
    assert edit_yaml(path, lambda _: None, kind=Kind.CREDENTIALS)
    assert not path.exists() and yaml_lock(path).exists()


def test_an_edit_does_not_touch_what_it_cannot_read(home: Roots, put: Put) -> None:
    path = put("config.yaml", "a: [unterminated\n")
    with pytest.raises(RecordError):
        edit_yaml(path, lambda d: {**d, "b": 1}, kind=KIND)
    assert path.read_text() == "a: [unterminated\n"


def test_an_edit_goes_through_the_owners_link_and_keeps_it(home: Roots, tmp_path: Path) -> None:
    """Turned round: the recorded CLI refuses a linked configuration. The operator's dotfiles are the operator's choice."""
    home.home.mkdir()
    target = tmp_path / "dotfiles" / "npa.yaml"
    target.parent.mkdir(mode=0o755)
    target.write_text("a: 1\n")
    home.config_yaml.symlink_to(target)
    assert edit_yaml(home.config_yaml, lambda d: {**d, "b": 2}, kind=KIND, own_link=True)
    assert home.config_yaml.is_symlink() and yaml.safe_load(target.read_text()) == {"a": 1, "b": 2}
    assert names(target.parent) == ["npa.yaml"] and mode(target.parent) == 0o755
    with pytest.raises(RecordError):
        edit_yaml(home.config_yaml, lambda d: {**d, "c": 3}, kind=KIND)


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(allow_nan=False)
keys = st.text(min_size=1, max_size=12)
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(keys, v, max_size=3), max_leaves=8
)


@given(st.dictionaries(keys, values, max_size=6))
def test_a_document_survives_writing_and_reading_in_order(document: dict[str, Any]) -> None:
    again = parse_yaml(write_yaml(document), Path("x"), KIND)
    assert again == document and _order(again) == _order(document)


def _order(node: object) -> object:
    if isinstance(node, dict):
        return [(key, _order(value)) for key, value in node.items()]
    return [_order(value) for value in node] if isinstance(node, list) else None
