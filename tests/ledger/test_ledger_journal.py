"""The journal survives a cut at every byte, refuses an altered middle, and folds the same however it is read."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
import toy
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.clock import Clock
from engine.ledger.events import Noted
from engine.ledger.journal import Altered, Journal, Tail, file_name, load, read


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    root = tmp_path_factory.mktemp("finished")
    asyncio.run(toy.destroy(root, toy.seed(root), "r1"))
    return (root / "journal.jsonl").read_bytes()


def test_a_cut_at_every_byte_drops_at_most_the_torn_line(tmp_path: Path, finished: bytes) -> None:
    path = tmp_path / "j.jsonl"
    ends = [i for i, b in enumerate(finished) if b == 0x0A]
    for cut in [*range(0, len(finished), 97), *ends, *(e + 1 for e in ends)]:
        path.write_bytes(finished[:cut])
        assert sum(1 for _ in read(path)) == finished[:cut].count(b"\n")


async def test_appending_after_a_cut_continues_the_chain(tmp_path: Path, finished: bytes) -> None:
    path = tmp_path / "j.jsonl"
    for cut in random.Random(1).sample(range(len(finished)), 40):
        path.write_bytes(finished[:cut])
        kept = finished[:cut].count(b"\n")
        journal = Journal(path, "r2", Clock())
        await journal.append(Noted("x", "y"))
        journal.close()
        assert [e.seq for e, _ in read(path)] == list(range(1, kept + 2))


@pytest.mark.parametrize("line", [1, 5, 20])
def test_an_altered_middle_is_refused_and_named(tmp_path: Path, finished: bytes, line: int) -> None:
    lines = finished.split(b"\n")
    doc = json.loads(lines[line - 1])
    doc["at"] = "2020-01-01T00:00:00.000Z"
    lines[line - 1] = json.dumps(doc, separators=(",", ":")).encode()
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(Altered) as caught:
        load(path)
    # A changed line still reads as itself; the next one no longer follows from it.
    assert caught.value.line == line + 1
    with pytest.raises(Altered):
        Journal(path, "r", Clock())


@pytest.mark.parametrize("damage", [b"", b"{}", b"not json", b'{"v":1}', b"\xff\xfe"])
def test_a_destroyed_middle_line_is_refused(tmp_path: Path, finished: bytes, damage: bytes) -> None:
    lines = finished.split(b"\n")
    lines[9] = damage
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(Altered) as caught:
        load(path)
    assert caught.value.line == 10


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_tail_sees_the_same_as_a_whole_read(
    tmp_path_factory: pytest.TempPathFactory, finished: bytes, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("tail") / "j.jsonl"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(finished)), max_size=8)))
    tail, seen = Tail(path), []
    for cut in [*cuts, len(finished)]:
        path.write_bytes(finished[:cut])
        seen += tail.poll()
    assert [e.seq for e in seen] == list(range(1, finished.count(b"\n") + 1))
    assert tail.state == load(path)


async def test_appends_of_one_tick_share_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    syncs = 0
    real = os.fdatasync

    def counted(fd: int) -> None:
        nonlocal syncs
        syncs += 1
        real(fd)

    monkeypatch.setattr(os, "fdatasync", counted)
    journal = Journal(tmp_path / "j.jsonl", "r", Clock())
    await asyncio.gather(*(journal.append(Noted("x", str(n))) for n in range(200)))
    assert syncs == 1
    assert sum(1 for _ in read(tmp_path / "j.jsonl")) == 200


async def test_a_failed_append_leaves_no_half_line_and_no_second_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    path = tmp_path / "j.jsonl"
    journal = Journal(path, "r", Clock())
    await journal.append(Noted("x", "1"))
    real = os.write

    def half(fd: int, data: bytes) -> int:
        if len(data) > 10:
            return real(fd, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            await journal.append(Noted("x", "2"))
    with pytest.raises(OSError, match="No space"):
        await journal.append(Noted("x", "3"))
    assert [e.seq for e, _ in read(path)] == [1]
    assert path.read_bytes().endswith(b"\n")


async def test_a_dry_journal_writes_nothing(tmp_path: Path) -> None:
    journal = Journal(None, "dry", Clock())
    await journal.append(Noted("x", "1"))
    assert list(tmp_path.iterdir()) == []
    assert journal.entries[0].seq == 1


def test_file_names_cannot_leave_their_folder() -> None:
    for evil in ("../../etc/passwd", "a/b", "..", "", "x" * 500, "ünï"):
        name = file_name(evil)
        assert "/" not in name
        assert name not in (".", "..")
        assert len(name) < 120
    assert file_name("project-a") != file_name("project_a")
