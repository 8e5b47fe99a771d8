"""Rows as text: exactly what is read on the screen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from engine.run.faces import ProjectLine, RunnerInfo
from engine.run.narration import Line
from engine.words.phases import ROWS
from engine.words.presence import Ref
from npa_tui import commands
from npa_tui.moments import moment
from npa_tui.phases import Circumstances, PhaseView, fold
from npa_tui.question import Question
from npa_tui.render import dialog
from npa_tui.render.detail import phase_detail
from npa_tui.render.footer import MOST, fitting, footer
from npa_tui.render.glyphs import SIGNS, Glyphs
from npa_tui.render.help import help_text
from npa_tui.render.ink import Ink, hang
from npa_tui.render.inventory import Head, grouped, head_row, item_row, matching
from npa_tui.render.log import log_rows
from npa_tui.render.masthead import masthead
from npa_tui.render.notice import notice
from npa_tui.render.numbers import age, amount, elapsed, money, span
from npa_tui.render.plan import NAME, phase_row, stage_row, stages
from npa_tui.render.projects import project_rows
from npa_tui.render.receipt import markdown, receipt
from npa_tui.screenshots import world
from npa_tui.stands import Stand
from npa_tui.state import Seen, View, view
from npa_tui.trail import Trail

INK = Ink()
ASCII = Ink(Glyphs(ascii=True))
NOW = moment(world.NOW) or datetime.now(UTC)
RUNNER = RunnerInfo(1, "", "npa destroy", world.RUN)


def made(script: world.Script | None = None, **changed: object) -> View:
    base = Seen(
        now=NOW, since=NOW - timedelta(hours=1), projects=world.PROJECTS, aimed=world.ALIAS, plan=world.PLAN,
        trail=Trail.of(script.entries if script else []), inventory=world.inventory(), account=world.ACCOUNT,
        first=world.inventory(at="2026-03-04T14:00:00Z"),
    )  # fmt: skip
    return view(replace(base, **changed))


def phase(name: str, script: world.Script | None = None, **around: object) -> PhaseView:
    trail = Trail.of(script.entries if script else [])
    run = trail.state.newest
    return next(v for v in fold(world.PLAN, run, trail, Circumstances(**around)) if v.name == name)


# -- numbers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usd", "text"),
    [(None, "n/a"), (0.0, "$0.00"), (412.68, "$412.68"), (999.99, "$999.99"), (1290.1, "$1,290")],
)
def test_money(usd: float | None, text: str) -> None:
    assert money(usd) == text


@pytest.mark.parametrize(("hour", "text"), [(None, "n/a"), (0.0, "·"), (6.4, "153.60"), (0.00001, "·")])
def test_a_rows_price_is_a_dot_for_nothing_and_never_zero_for_unknown(hour: float | None, text: str) -> None:
    assert amount(hour, "·") == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (48, "0:48"), (836, "13:56"), (7391, "2:03:11"), (-5, "0:00")]
)
def test_spans(seconds: int, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("of", "text"),
    [(timedelta(seconds=12), "12 s"), (timedelta(minutes=5), "5 min"), (timedelta(hours=3), "3 h"), (timedelta(days=9), "9 d")],
)  # fmt: skip
def test_ages(of: timedelta, text: str) -> None:
    assert age(of) == text


def test_what_has_not_begun_has_no_time() -> None:
    assert elapsed("", "", NOW) == ""


# -- the tree -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "width", "text"),
    [
        (phase("workflows"), 43, "◆ 01 Cancel workflow runs          confirm"),
        (phase("workflows"), 70, "◆ 01 Cancel workflow runs               needs your confirmation  enter"),
        (phase("clusters"), 43, "· 05 Take down clusters           after 04"),
        (phase("bucket"), 43, "· 07 Delete bucket            after 02, 05"),
        (phase("agents", world.running(), alive=True), 43, "● 02 Destroy agent VMs   ━━━─── 1/2   0:51"),
        (phase("agents", world.running(), alive=True), 60, "● 02 Destroy agent VMs              ━━━━━━────── 1/2   0:51"),
        (phase("agents", world.running(), alive=True), 34, "● 02 Destroy agent VMs  ━━━─── 1/2"),
        (phase("agents", world.running()), 45, "? 02 Destroy agent VMs      outcome not known"),
        (phase("clusters", world.failed()), 45, "✗ 05 Take down clusters     1/2 failed   6:52"),
        (phase("clusters", world.failed()), 38, "✗ 05 Take down clusters     1/2 failed"),
        (phase("bucket", world.failed()), 43, "· 07 Delete bucket           blocked by 05"),
        (phase("agents", world.failed()), 42, "◇ 02 Destroy agent VMs     leftovers  2:14"),
        (phase("workflows", world.finished()), 42, "✓ 01 Cancel workflow runs       done  0:38"),
    ],
)  # fmt: skip
def test_phase_rows(row: PhaseView, width: int, text: str) -> None:
    shown = phase_row(row, "", INK, width, NOW)
    assert shown.plain.split() == text.split()
    assert shown.cell_len == width


@given(st.sampled_from(ROWS), st.integers(36, 120), st.booleans())
def test_names_are_never_cut_where_there_is_room_for_them(row: object, width: int, done: bool) -> None:
    script = world.finished() if done else None
    for one in fold(world.PLAN, None, Trail(), Circumstances()) if script is None else _views(script):
        shown = phase_row(one, "", INK, width + 12, NOW)
        assert one.row.label in shown.plain
        assert shown.cell_len == width + 12
        assert len(one.row.label) <= NAME


def _views(script: world.Script) -> tuple[PhaseView, ...]:
    trail = Trail.of(script.entries)
    return fold(world.PLAN, trail.state.newest, trail, Circumstances())


def test_relations_stand_beside_the_glyph() -> None:
    assert phase_row(phase("workflows"), "needed", INK, 40, NOW).plain.startswith("◆‹01")
    assert phase_row(phase("clusters"), "unblocked", ASCII, 40, NOW).plain.startswith(".>05")


def test_a_finished_stage_says_so() -> None:
    groups = stages(_views(world.finished()))
    assert list(groups) == ["Work", "Clusters", "Storage", "Project", "This machine", "Proof"]
    assert stage_row("Work", groups["Work"], False, INK, 24).plain == "▸ Work          ✓ 3 of 3"
    assert stage_row("Work", groups["Work"], True, ASCII, 24).plain == "v Work          + 3 of 3"


def test_the_detail_spells_the_relations_out_and_wraps_what_goes() -> None:
    text = phase_detail(phase("bucket", world.failed()), made(world.failed()), INK, 44).plain
    assert "02 Destroy agent VMs ◇ leftovers" in text
    assert "05 Take down clusters ✗ failed" in text
    assert "1 bucket: ml-sandbox-state" in text
    failed = phase_detail(phase("clusters", world.failed()), made(world.failed()), INK, 44).plain
    assert "no eviction" in " ".join(failed.split())
    assert "enter tries the 1 that is left" in failed


# -- the inventory --------------------------------------------------------------------------------------------------------


def test_the_inventory_is_grouped_with_sums() -> None:
    lines = grouped(made().items)
    first = lines[0]
    assert isinstance(first, Head)
    assert head_row(first, INK, 40).plain == " Instances  5                    363.84 "


@pytest.mark.parametrize(
    ("width", "has_id", "has_age"),
    [(47, False, False), (73, False, False), (74, True, False), (88, True, True)],
)
def test_rows_get_the_id_and_the_age_when_there_is_room(width: int, has_id: bool, has_age: bool) -> None:
    item = made().items[0]
    row = item_row(item, (), INK, width, NOW)
    assert row.cell_len == width
    assert (item.row.ref.id in row.plain) == has_id
    assert ("12 d" in row.plain) == has_age


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("gpu kind:disk", ["gpu-a-0-boot", "gpu-a-1-boot"]),
        ("kind:cluster", ["mk8s-train", "mk8s-eval"]),
        ("phase:2 kind:inst", ["agent-trainer", "agent-notebook"]),
        ("phase:bucket", ["ml-sandbox-state"]),
        ("id:e00w2sd8", ["ml-sandbox-state"]),
        ("state:detached", ["scratch-nvme"]),
        ("name:subnet", []),
        ("GPU-B", ["gpu-b-0"]),
    ],
)
def test_the_filters_grammar(query: str, names: list[str]) -> None:
    assert [i.row.name for i in matching(made().items, query)] == names


def test_kinds_are_written_as_words() -> None:
    assert head_row(Head("service_account", 2, 0.0), INK, 30).plain.startswith(" Service accounts  2")
    assert head_row(Head("registry", 2, 0.0), INK, 30).plain.startswith(" Registries  2")


# -- the masthead ---------------------------------------------------------------------------------------------------------


@given(st.integers(60, 200))
def test_the_projects_id_is_never_cut(width: int) -> None:
    for one in (made(), made(world.running(), runner=RUNNER), made(world.finished())):
        first, second = masthead(one, INK, width).plain.split("\n")
        assert world.PROJECT in second
        assert world.ALIAS in second
        assert len(first) == width
        assert str(one.mode) in first


def test_parts_are_dropped_whole_from_the_right() -> None:
    wide = masthead(made(), INK, 140).plain.split("\n")[1]
    assert [p.strip() for p in wide.split("   ") if p.strip()][-5:] == [
        "$420.32/day", "! 2 hazards", "24 resources", "inventory 12 s old", "plan " + world.PLAN.digest[:8],
    ]  # fmt: skip
    assert masthead(made(), INK, 70).plain.split("\n")[1].rstrip().endswith("$420.32/day   ! 2 hazards")


def test_a_floor_is_called_one() -> None:
    rows = tuple(replace(r, per_hour=None) if r.name == "gpu-a-0" else r for r in world.inventory().rows)
    assert (
        "at least $266.72/day"
        in masthead(made(inventory=replace(world.inventory(), rows=rows)), INK, 140).plain
    )


# -- projects, log, receipt, notices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "spend", "width", "rows"),
    [
        (world.PROJECTS[0], (412.68, 2), 26, ["› ml-sandbox       $412.68", "  ! 2 hazards · eu-north1"]),
        (world.PROJECTS[4], (2204.7, 11), 26, ["› prod-serving      $2,205", "  = protected · ! 11"]),
        (world.PROJECTS[6], None, 26, ["› legacy-import        n/a", "  record unreadable"]),
        (world.PROJECTS[3], None, 26, ["› demo-gtc             n/a", "  forgotten"]),
    ],
)
def test_project_rows(
    line: ProjectLine, spend: tuple[float, int] | None, width: int, rows: list[str]
) -> None:
    spends = {line.key: spend} if spend else {}
    assert project_rows(line, spends, True, INK, width).plain.split("\n") == rows


def test_a_log_line_wraps_under_its_message() -> None:
    line = Line(
        "2026-03-04T14:02:31.498Z", "call", "agent-trainer", "delete instance computeinstance-e00y3vv8k1c7w2b"
    )
    wide = [r.plain for r in log_rows(line, (), INK, 120)]
    assert wide == [
        "14:02:31  call  agent-trainer            delete instance computeinstance-e00y3vv8k1c7w2b"
    ]
    narrow = [r.plain for r in log_rows(line, (), INK, 72)]
    assert narrow[1].startswith(" " * 35 + "computeinstance")
    slim = [r.plain for r in log_rows(line, (), INK, 44)]
    assert slim[0].startswith("14:02:31  call  agent-trainer delete")
    assert all(len(r) <= 44 for r in slim)


def test_the_receipt_counts_what_is_gone_held_and_left() -> None:
    text = receipt(made(world.failed()), INK, 46).plain
    assert "✗ 05 Take down clusters       2    1    ·    1" in text
    assert "complete" not in text
    assert "✓ complete, verified" in receipt(made(world.finished()), INK, 46).plain


def test_the_markdown_receipt_says_complete_only_when_it_is() -> None:
    assert "Not complete." in markdown(made(world.failed()))
    assert "Complete, verified." in markdown(made(world.finished()))
    assert world.PROJECT in markdown(made(world.finished()))


def test_an_error_says_what_was_changed_and_what_to_press() -> None:
    half = world.inventory(failed="compute")
    text = " ".join(notice(made(inventory=half, reports=half.sources), INK, 70).plain.split())
    assert "Compute could not be read" in text
    assert "PERMISSION_DENIED" in text
    assert "request 6f2e0b1c-77ad-4a0e" in text
    assert "Nothing was changed. 6 of 7 sources were read" in text
    assert "r read again" in text


# -- the dialog -----------------------------------------------------------------------------------------------------------


@given(st.integers(40, 80), st.sampled_from([r.name for r in ROWS if r.tier]))
def test_identities_and_what_goes_are_never_cut(width: int, name: str) -> None:
    question = Question(world.preview(world.PLAN, name))
    for text, whole in (
        (dialog.things(question, INK, width), [v for t in question.things for v in (t.name, t.id)]),
        (
            dialog.identities(question, made(), False, INK, width),
            [world.PROJECT, world.ALIAS, world.IDENTITY.tenant_id, world.ACCOUNT.id, world.PLAN.digest],
        ),
    ):
        rows = text.plain.split("\n")
        assert all(len(r) <= width for r in rows)
        squeezed = "".join(text.plain.split())
        assert all("".join(w.split()) in squeezed for w in whole)
        assert "…" not in text.plain


def test_warnings_come_first_and_changes_push_everything_else_aside() -> None:
    question = Question(world.preview(world.PLAN, "bucket"))
    rows = dialog.touches(question, made(), (), INK, 80).plain.split("\n")
    assert [r[0] for r in rows] == ["!", "!", "·"]
    assert rows[-1] == "· unblocks 08 Delete storage access"
    changed = dialog.touches(question, made(), ("88 objects are new",), INK, 80).plain
    assert changed == "! 88 objects are new.\n  Press r to look again."


def test_a_gone_target_and_an_empty_phase_are_said() -> None:
    ids = [p.ref.id for t in world.TARGETS["bucket"] for p in t.parts]
    question = Question(world.preview(world.PLAN, "bucket", gone=ids))
    assert "nothing" in dialog.things(question, INK, 80).plain
    assert "is gone already" in dialog.touches(question, made(), (), INK, 80).plain


# -- everywhere -----------------------------------------------------------------------------------------------------------


def test_every_stand_has_a_sign_of_one_cell_that_is_told_apart_without_colour() -> None:
    assert set(SIGNS) == set(Stand)
    for set_ in (Glyphs(), Glyphs(ascii=True)):
        assert len({set_.of(s) for s in Stand}) == len(Stand)
        assert all(Text(set_.of(s)).cell_len == 1 for s in Stand)
    assert all(Glyphs(ascii=True).of(s).isascii() for s in Stand)


def test_ascii_means_ascii() -> None:
    one = made(world.running(), runner=RUNNER)
    for text in (
        masthead(one, ASCII, 120),
        receipt(one, ASCII, 46),
        help_text(commands.ALL, ASCII, 94),
        dialog.touches(Question(world.preview(world.PLAN, "bucket")), one, (), ASCII, 80),
        *(phase_row(p, "needed", ASCII, 60, NOW) for p in one.phases),
        *(item_row(i, (), ASCII, 90, NOW) for i in one.items),
        Text("\n").join(project_rows(p, {}, True, ASCII, 26) for p in world.PROJECTS),
    ):
        assert text.plain.isascii(), text.plain


@given(st.text(max_size=200), st.integers(12, 60))
def test_hanging_loses_no_word(words: str, width: int) -> None:
    text = Text.assemble("Name     ", " ".join(words.split()))
    rows = hang(text, width, 9)
    assert "".join(rows.plain.split()) == "".join(text.plain.split())


@given(st.integers(0, 200))
def test_the_footer_fits(width: int) -> None:
    many = [c for c in commands.ALL if c.key]
    assert footer(many, INK, width).cell_len <= width
    assert len(fitting(many, width)) <= MOST


def test_a_row_with_no_name_shows_its_id() -> None:
    row = replace(world.ROWS_THERE[0], name="", ref=Ref("instance", "computeinstance-x"))
    item = replace(made().items[0], row=row)
    assert "computeinstance-x" in item_row(item, (), INK, 47, NOW).plain
