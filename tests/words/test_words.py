"""The tables are total, the folds and merges obey their laws, and no secret passes the redactor."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.words.consent import Consent
from engine.words.identity import CONFLICT_FIELDS, Identity, merge
from engine.words.outcomes import CONVERGED, Outcome, Status, Verdict, exit_code, fold_phase
from engine.words.phases import PHASES, ROWS, STAGES, after, needs, unblocks
from engine.words.plans import NOT_PROVEN, Evidence, Ownership, Part, PhasePlan, Plan, Target
from engine.words.presence import Absent, Cause, Observation, Present, Ref, Unknown, gone, unknown
from engine.words.reasons import EXIT, Reason
from engine.words.redact import LIMIT, redact, visible
from engine.words.vocabulary import (
    DESTROY_PHASE,
    DESTROY_STATE,
    RECEIPT_PHASE,
    TERMINAL_STATES,
    result_word,
    terminal_state,
)

# -- exit codes ---------------------------------------------------------------------------------------------------------


def test_every_reason_has_exactly_one_exit_code() -> None:
    assert set(EXIT) == set(Reason)
    assert set(EXIT.values()) == {1, 2, 64, 70, 130}


@pytest.mark.parametrize(
    ("statuses", "reasons", "code"),
    [
        ([Status.COMPLETED], [], 0),
        ([Status.PLANNED, Status.COMPLETED], [], 0),
        ([Status.DEGRADED], [], 2),
        ([Status.PARTIAL], [], 2),
        ([Status.REFUSED], [Reason.NOT_OWNED], 2),
        ([Status.COMPLETED, Status.BLOCKED], [], 2),
        ([Status.KEPT], [], 2),
        ([Status.PARTIAL], [Reason.INTERNAL], 70),
        ([Status.CANCELLED, Status.PARTIAL], [Reason.INTERNAL], 130),
        ([], [], 0),
    ],
)
def test_the_exit_code_of_a_run(statuses: list[Status], reasons: list[Reason], code: int) -> None:
    assert exit_code(statuses, reasons) == code


def test_kept_is_fine_only_when_that_was_said() -> None:
    assert exit_code([Status.KEPT, Status.COMPLETED], kept_is_fine=True) == 0
    assert exit_code([Status.KEPT, Status.PARTIAL], kept_is_fine=True) == 2


# -- folds --------------------------------------------------------------------------------------------------------------

VERDICTS = st.lists(st.sampled_from(list(Verdict)), max_size=6)


def out(verdict: Verdict, *, acted: bool = False, residue: str = "") -> Outcome:
    return Outcome("p/x", verdict, acted, residue=residue)


@given(VERDICTS)
def test_a_phase_is_completed_only_when_every_target_is_done(verdicts: list[Verdict]) -> None:
    status = fold_phase(out(v) for v in verdicts)
    assert (status is Status.COMPLETED) == all(v is Verdict.DONE for v in verdicts)


@given(VERDICTS)
def test_one_undone_target_never_lets_a_dependant_start(verdicts: list[Verdict]) -> None:
    bad = {Verdict.LEFT, Verdict.UNKNOWN, Verdict.HELD, Verdict.STOPPED}
    if bad & set(verdicts):
        assert fold_phase(out(v) for v in verdicts) not in CONVERGED


@given(VERDICTS)
def test_an_unread_record_rules_out_completed_and_what_leans_on_it(verdicts: list[Verdict]) -> None:
    status = fold_phase((out(v) for v in verdicts), ["credentials.yaml"])
    assert status not in (Status.COMPLETED, Status.DEGRADED)


def test_residue_makes_degraded_and_untried_holds_make_refused() -> None:
    assert fold_phase([out(Verdict.DONE), out(Verdict.DONE, residue="x")]) is Status.DEGRADED
    assert fold_phase([out(Verdict.HELD)]) is Status.REFUSED
    assert fold_phase([out(Verdict.HELD, acted=True)]) is Status.PARTIAL
    assert fold_phase([out(Verdict.HELD), out(Verdict.DONE)]) is Status.PARTIAL


# -- sights -------------------------------------------------------------------------------------------------------------

PRESENCES = st.one_of(
    st.builds(Present, st.text(max_size=3)),
    st.just(Absent()),
    st.builds(Unknown, st.sampled_from(list(Cause))),
)


@given(st.lists(PRESENCES, max_size=5))
def test_gone_needs_an_answer_for_every_part_and_every_answer_absent(
    presences: list[Present | Absent | Unknown],
) -> None:
    sight = [Observation(Ref("k", str(n)), p, "t", "b") for n, p in enumerate(presences)]
    assert gone(sight) == (bool(presences) and all(isinstance(p, Absent) for p in presences))
    if unknown(sight):
        assert not gone(sight)


def test_a_lost_login_is_named_before_other_causes() -> None:
    causes = [Cause.TIMED_OUT, Cause.UNAUTHENTICATED]
    sight = [Observation(Ref("k", c), Unknown(c), "t", "b") for c in causes]
    found = unknown(sight)
    assert found is not None
    assert found.cause is Cause.UNAUTHENTICATED


# -- the phase table ----------------------------------------------------------------------------------------------------


def test_edges_point_backwards_in_the_table_and_name_phases() -> None:
    order = [r.name for r in ROWS]
    for row in ROWS:
        for edge, why in {**row.needs, **row.after}.items():
            assert order.index(edge) < order.index(row.name)
            assert why
        assert len(row.label) <= 22, "the console never cuts a name"
    assert len(set(order)) == len(order)
    assert {r.stage for r in ROWS} == set(STAGES)


def test_edges_of_a_plan_name_only_its_phases() -> None:
    assert needs("bucket", ["clusters"]) == {"clusters": PHASES["bucket"].needs["clusters"]}
    assert after("final_audit", ["bucket"]) == {"bucket": PHASES["final_audit"].after["bucket"]}
    assert "bucket" in unblocks("clusters", PHASES)


# -- identity -----------------------------------------------------------------------------------------------------------

FIELDS = st.dictionaries(
    st.sampled_from([*CONFLICT_FIELDS[:5], "note"]), st.sampled_from(["", "a", "b"]), max_size=5
)


@given(FIELDS, FIELDS, FIELDS)
def test_the_order_of_sources_fills_gaps_and_never_decides_a_conflict(
    flags: dict[str, str], receipt: dict[str, str], live: dict[str, str]
) -> None:
    ranked = [("explicit_exact_arguments", flags), ("receipt:r", receipt), ("live_configuration", live)]
    got = merge(*ranked)
    for name in CONFLICT_FIELDS:
        values = {d[name] for _, d in ranked if d.get(name)}
        assert (name in dict(got.conflicts)) == (len(values) > 1)
        if len(values) == 1:
            assert got.values[name] == values.pop()
    clashes = {frozenset(dict(merge(*p).conflicts)) for p in itertools.permutations(ranked)}
    assert len(clashes) == 1, "a conflict is one whatever the order"


# -- plans --------------------------------------------------------------------------------------------------------------

PLAN = Plan(
    Identity("project-1", "demo", "tenant-1", "eu"),
    (
        PhasePlan(
            "agents",
            (
                Target(
                    "agents/i-1",
                    "agent",
                    (Part(Ref("instance", "i-1"), "vm", Ownership(Evidence.CREATE_RESPONSE, "r", "f")),),
                ),
            ),
        ),
        PhasePlan("bucket"),
    ),
)


def test_the_digest_ignores_prose_and_follows_intent() -> None:
    t = PLAN.phases[0].targets[0]

    def changed(target: Target) -> str:
        return replace(PLAN, phases=(replace(PLAN.phases[0], targets=(target,)), PLAN.phases[1])).digest

    assert changed(replace(t, name="another name")) == PLAN.digest
    assert (
        replace(PLAN, identity=replace(PLAN.identity, region="us", sources={"x": "y"})).digest == PLAN.digest
    )
    different = {
        changed(replace(t, parts=(replace(t.parts[0], owned=NOT_PROVEN),))),
        changed(replace(t, parts=(replace(t.parts[0], ref=Ref("instance", "i-2")),))),
        changed(replace(t, detail={"context": "x"})),
        replace(PLAN, phases=PLAN.phases[::-1]).digest,
        replace(PLAN, identity=replace(PLAN.identity, project_id="project-2")).digest,
        replace(PLAN, phases=(replace(PLAN.phases[0], options={"purge": "now"}), PLAN.phases[1])).digest,
    }
    assert PLAN.digest not in different
    assert len(different) == 6


def test_numbers_are_fixed_for_a_plan() -> None:
    assert [PLAN.number(p) for p in ("agents", "bucket", "clusters")] == [1, 2, 0]


def test_consent_without_a_list_covers_the_plan_and_its_contents() -> None:
    consent = Consent("d", ("agents",), 2, "me")
    assert consent.objection("agents", Ref("disk", "found-live"), Present("f")) is None
    assert consent.objection("bucket", Ref("bucket", "b"), None) is Reason.NO_CONSENT


# -- vocabularies -------------------------------------------------------------------------------------------------------


def test_vocabularies_are_total() -> None:
    assert set(RECEIPT_PHASE) == set(DESTROY_PHASE) == set(PHASES)
    assert set(DESTROY_STATE) == set(Status)
    for phase, verdict, acted, residue in itertools.product(PHASES, Verdict, (True, False), ("", "left")):
        outcome = out(verdict, acted=acted, residue=residue)
        assert result_word(outcome)
        terminal = terminal_state(phase, outcome) in TERMINAL_STATES
        assert terminal == (verdict is Verdict.DONE and not residue), (
            "the CLI may take nothing else for an end"
        )


def test_only_a_completed_phase_reads_as_ended_to_the_cli() -> None:
    assert {s for s, word in DESTROY_STATE.items() if word in TERMINAL_STATES} == {Status.COMPLETED}


# -- redaction ----------------------------------------------------------------------------------------------------------

CANARIES = [
    "AKIAABCDEFGHIJKLMNOP",
    "hf_abcdefghijKLMNOP",
    "nvapi-abcdefghij-KLMN",
    "ghp_abcdefghijklmnopqrst",
    "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIx.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("secret", CANARIES)
@pytest.mark.parametrize(
    "around", ["{}", "error: {} refused", 'x="{}"', "https://h/p?sig={}", "Bearer {}", "token: {}"]
)
def test_secret_shapes_never_pass(secret: str, around: str) -> None:
    assert secret not in redact(around.format(secret))


@pytest.mark.parametrize(
    "text",
    [
        "secret_key=hunter2hunter2",
        '"aws_secret_access_key": "hunter2hunter2"',
        "password: hunter2hunter2",
        "Authorization: Bearer hunter2hunter2",
        "https://user:hunter2hunter2@host/path",
        "https://host/path?X-Amz-Signature=hunter2hunter2",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2hunter2\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_named_secrets_never_pass(text: str) -> None:
    assert "hunter2hunter2" not in redact(text)


@given(st.text(max_size=2000))
def test_redacted_text_is_one_short_line_that_cannot_steer_a_terminal(text: str) -> None:
    got = redact(text)
    assert len(got) <= LIMIT
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in got)


@pytest.mark.parametrize("unit", ["a", "a_", "=", "https://", "token", '"'])
def test_redaction_of_a_megabyte_takes_no_time(unit: str) -> None:
    began = time.process_time()
    redact(unit * (1_000_000 // len(unit)))
    assert time.process_time() - began < 1.0


def test_names_keep_their_letters_and_lose_their_controls() -> None:
    assert visible("训练-集群 🧪") == "训练-集群 🧪"
    assert visible("a\x1b[31mb\nc") == "a\\x1b[31mb\\x0ac"
