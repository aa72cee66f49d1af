"""The rules that the bench of MIG slots compares do what their descriptions say."""

from __future__ import annotations

from random import Random

from bench.mig_sequences import (
    OURS,
    RULES,
    compare_rules,
    draw_mix,
    place_least_fragmentation,
    score_fragmentation,
)
from bench.mig_streams import (
    CARDS,
    FixedGeometries,
    LeastLoss,
    count_calls_of_orderings,
    count_calls_with_placement,
    place_first_fit,
    run_stream,
)
from gpupool.model.partition import PartitionSlot


def test_a_card_with_fixed_geometries_keeps_its_geometry_until_it_is_empty() -> None:
    rule = FixedGeometries()
    layouts: list[list[PartitionSlot]] = [[]]
    place = rule(layouts, "2g.35gb")
    assert place is not None
    layouts[0].append(place[1])
    # The geometry has two more pieces of 2g and one of 1g, which a claim for 1g takes.
    assert rule(layouts, "3g.71gb") is None
    small = rule(layouts, "1g.18gb")
    assert small is not None
    assert small[1].start == 3
    layouts[0].clear()
    assert rule(layouts, "3g.71gb") is not None


def test_every_rule_gets_the_same_claims_and_never_places_more_than_came() -> None:
    results = [
        run_stream("all alike", rule, 42, claims=200)
        for rule in (LeastLoss("all alike"), place_first_fit, FixedGeometries())
    ]
    assert {one.claims for one in results} == {200}
    for one in results:
        assert 0 < one.fragmented <= one.refused < 200
        assert len(one.decision_us) == 200
    assert CARDS == 8


def test_a_layout_that_names_its_slots_needs_one_call_a_partition() -> None:
    mix = ("1g.18gb", "2g.35gb", "4g.71gb")
    assert count_calls_with_placement(mix) == 3
    # The first ordering puts 1g at unit 0, where the 4g must be.
    assert count_calls_of_orderings(mix) > 3


def test_the_fragmentation_score_counts_places_that_are_lost_although_memory_is_free() -> None:
    assert score_fragmentation(()) == 0
    # One unit at 0 leaves seven. Of each profile that seven hold, the places that begin at 0 are
    # lost: 1g at 0, 1g.2x at 0, 2g at 0, 3g at 0, 4g at 0. The 7g needs eight units.
    assert score_fragmentation((PartitionSlot(0, 1, "1g.18gb"),)) == 1 + 2 + 2 + 4 + 4
    assert score_fragmentation((PartitionSlot(0, 8, "7g.141gb"),)) == 0, "nothing is free"


def test_least_fragmentation_puts_a_small_partition_where_it_is_in_the_way_of_least() -> None:
    # At unit 6 lie no place of 2g and of 4g.
    assert place_least_fragmentation([[]], "1g.18gb") == (0, PartitionSlot(6, 1, "1g.18gb"))
    assert place_least_fragmentation([[PartitionSlot(0, 8, "7g.141gb")]], "1g.18gb") is None


def test_sequences_are_the_same_claims_under_every_rule_and_the_same_every_time() -> None:
    totals = compare_rules(20)
    assert set(totals) == set(RULES)
    assert len({one.claims for one in totals.values()}) == 1
    for one in totals.values():
        assert 0 < one.accepted < one.claims
        assert one.fragmented <= one.claims - one.accepted
        assert one.wins + one.ties <= 20
    assert (totals[OURS].wins, totals[OURS].ties) == (0, 20)
    assert totals[OURS].accepted >= totals["first fit"].accepted
    again = compare_rules(20)
    assert [one.accepted for one in again.values()] == [one.accepted for one in totals.values()]


def test_a_mix_asks_for_something() -> None:
    for seed in range(50):
        mix = draw_mix(Random(seed))
        assert mix
        assert all(often > 0 for often in mix.values())
