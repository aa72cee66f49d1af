"""Plans partitions for a demand: exact, with the least that must move, with numbers where it fails."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.model.partition import PartitionSlot, is_valid_set, list_slots
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.scheduling.rebalancing.partition_layout import (
    LayoutPlan,
    PartitionedCard,
    RunningPartition,
    plan_layout,
)

H200 = list_mig_profiles("H200")
A30 = list_mig_profiles("A30")
SIZES = {profile.name: profile.size for profile in (*H200, *A30)}


def card(name: str, *running: tuple[str, int], movable: bool = True) -> PartitionedCard:
    pieces = tuple(
        RunningPartition(PartitionSlot(start, SIZES[profile], profile), f"job-{start}", movable)
        for profile, start in running
    )
    return PartitionedCard(name, H200, pieces)


def test_a_demand_fills_one_card_from_the_high_end() -> None:
    found = plan_layout([card("a"), card("b")], {"1g.18gb": 1, "2g.35gb": 1, "4g.71gb": 1})
    assert found == LayoutPlan(
        {
            "a": (
                PartitionSlot(0, 4, "4g.71gb"),
                PartitionSlot(4, 2, "2g.35gb"),
                PartitionSlot(6, 1, "1g.18gb"),
            )
        }
    )


def test_cards_in_use_are_filled_before_empty_ones() -> None:
    found = plan_layout([card("a"), card("b", ("3g.71gb", 4))], {"3g.71gb": 1})
    assert list(found.added) == ["b"]


def test_nothing_moves_where_the_demand_fits() -> None:
    found = plan_layout([card("a", ("1g.18gb", 0)), card("b")], {"7g.141gb": 1})
    assert found.moves == ()
    assert found.added == {"b": (PartitionSlot(0, 8, "7g.141gb"),)}


def test_the_job_with_the_least_compute_moves_and_of_one_card_alone() -> None:
    cards = [
        card("a", ("3g.71gb", 0), ("1g.18gb", 4)),
        card("b", ("1g.18gb", 0), ("2g.35gb", 4)),
    ]
    found = plan_layout(cards, {"4g.71gb": 1})
    assert [(move.job, move.from_card) for move in found.moves] == [("job-0", "b")]
    assert found.added == {"b": (PartitionSlot(0, 4, "4g.71gb"),)}
    assert found.missing == {}


def test_a_job_may_move_within_its_card() -> None:
    found = plan_layout([card("a", ("1g.18gb", 0))], {"4g.71gb": 1})
    (move,) = found.moves
    assert (move.from_card, move.card, move.from_slot.start, move.slot.start) == ("a", "a", 0, 6)


def test_what_may_not_move_stays_and_the_rest_is_missing() -> None:
    found = plan_layout([card("a", ("1g.18gb", 0), movable=False)], {"4g.71gb": 1, "3g.71gb": 1})
    assert found.moves == ()
    assert found.missing == {"4g.71gb": 1}
    assert found.added == {"a": (PartitionSlot(4, 4, "3g.71gb"),)}
    assert found.is_exact


def test_a_profile_of_another_board_goes_to_that_board() -> None:
    cards = [card("a"), PartitionedCard("c", A30)]
    found = plan_layout(cards, {"1g.6gb": 5, "1g.18gb": 1})
    assert found.missing == {"1g.6gb": 1}
    assert len(found.added["c"]) == 4


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_plan_is_valid_and_complete_wherever_one_is_known_to_exist(data: st.DataObject) -> None:
    """The demand is what was taken away from valid layouts, so it fits without a move."""
    slots = list_slots(H200)
    cards = []
    demand: dict[str, int] = {}
    for number in range(data.draw(st.integers(1, 4))):
        layout: list[PartitionSlot] = []
        for slot in data.draw(st.permutations(slots)):
            if is_valid_set(H200, (*layout, slot)):
                layout.append(slot)
        kept = data.draw(st.integers(0, len(layout)))
        for slot in layout[kept:]:
            demand[slot.profile] = demand.get(slot.profile, 0) + 1
        running = tuple(
            RunningPartition(slot, f"j-{number}-{slot.start}") for slot in layout[:kept]
        )
        cards.append(PartitionedCard(f"card-{number}", H200, running))
    found = plan_layout(cards, demand)
    assert (found.missing, found.moves) == ({}, ())
    for one in cards:
        standing = [piece.slot for piece in one.running]
        assert is_valid_set(H200, [*standing, *found.added.get(one.name, ())])


def test_a_pool_of_64_cards_is_planned_in_seconds() -> None:
    cards = [card(f"card-{number:02}", ("1g.18gb", number % 7)) for number in range(64)]
    started = time.process_time()
    found = plan_layout(cards, {"1g.18gb": 40, "2g.35gb": 40, "3g.71gb": 40})
    assert found.missing == {}
    assert time.process_time() - started < 20
