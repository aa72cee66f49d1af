"""The rules that the bench of MIG slots compares do what their descriptions say."""

from __future__ import annotations

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
