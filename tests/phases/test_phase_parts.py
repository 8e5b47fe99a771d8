"""The order in which parts go: laws over every mix of parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.phases.agent_iam import ORDER as AGENT_IAM
from engine.phases.agents.deciding import ORDER as AGENTS
from engine.phases.parts import Order, free
from engine.phases.storage_iam.phase import ORDER as STORAGE_IAM
from engine.words.presence import Present, Ref

orders = st.sampled_from([AGENTS, AGENT_IAM, STORAGE_IAM])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Order, dict[Ref, Present]]:
    order = draw(orders)
    refs = draw(
        st.lists(
            st.tuples(st.sampled_from([*sorted(order), "agent_operation"]), st.integers(0, 3)), unique=True
        )
    )
    return order, {Ref(kind, f"{kind}-{n}"): Present("f", leaving=draw(st.booleans())) for kind, n in refs}


@given(worlds())
def test_nothing_is_asked_twice_or_before_what_holds_it(world: tuple[Order, dict[Ref, Present]]) -> None:
    order, there = world
    for ref in free(there, order):
        assert not there[ref].leaving
        assert not any(other.kind in order[ref.kind] for other in there)


@given(worlds())
def test_round_by_round_everything_that_may_be_asked_is_asked_once(
    world: tuple[Order, dict[Ref, Present]],
) -> None:
    order, there = world
    left = {ref: seen for ref, seen in there.items() if ref.kind in order}
    asked: list[Ref] = []
    for _ in range(len(order) + 1):
        now = free(left, order)
        asked += now
        left = {ref: seen for ref, seen in left.items() if ref not in now and not seen.leaving}
    assert left == {}
    assert sorted(asked) == sorted(
        ref for ref, seen in there.items() if ref.kind in order and not seen.leaving
    )
