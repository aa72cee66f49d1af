"""Fragments of pools small enough to be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Shape
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes, select_typical
from gpupool.scheduling.scoring.fgd import FragmentModel as PolicyFragments
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.simulation.replay.fragments import (
    FragmentationMeter,
    compute_largest_milli,
    count_arrivals,
    count_whole_cards,
    list_class_names,
)
from gpupool.simulation.replay.world import build_card_table
from gpupool.simulation.traces.trace import JobArrival, TraceNode
from tests.support.simulation_builders import HALF, WHOLE, job, nodes


def test_fragments_are_counted_as_the_paper_counts_them() -> None:
    cards = build_card_table(nodes(2, 2))
    cards.free_milli[:] = [1000, 300, 600, 0]
    expected = ExpectedDemand((HALF, Shape(1000, count=2), Shape(0, None, 0)), (2, 1, 1))
    measure = FragmentationMeter(cards, expected)
    found = measure.measure_fragments(cards)
    # A half fits on 1000 and 600: 300 is too little. Two cards fit nowhere. Who asks for none can
    # use none.
    assert found.free_milli == 1900
    assert dict(zip(list_class_names(measure.classes), found.by_class, strict=True)) == {
        "0.5 GPU": 300,
        "2 cards": 1900,
        "no card": 1900,
    }
    assert found.amount_milli == (2 * 300 + 1900 + 1900) / 4


def test_fragments_are_those_that_the_policy_of_that_name_sees() -> None:
    cards = replace(
        build_card_table([TraceNode(f"n{n}", (("T4", GIB),) * 4, 8000 + n, GIB) for n in range(6)])
    )
    cards.free_milli[:] = [(137 * row) % 1001 for row in range(24)]
    shapes = (*(Shape(milli, cpu_milli=8003) for milli in (100, 400, 900)), Shape(1000, count=2))
    expected = ExpectedDemand(shapes, (5, 3, 2, 1))
    kinds = NodeKinds(cards)
    theirs = PolicyFragments(select_typical(build_classes(expected)), kinds)
    cells = np.sort(cards.free_milli.reshape(6, 4), axis=1)
    assert cards.hosts is not None
    amount = (
        theirs.compute_amount(cells, cards.hosts.free_cpu_milli, kinds.of_node).sum() / theirs.total
    )
    assert FragmentationMeter(cards, expected).measure_fragments(
        cards
    ).amount_milli == pytest.approx(float(amount))


def test_cards_of_another_model_and_nodes_without_processors_are_no_use() -> None:
    one, two = nodes(1), [TraceNode("t", (("T4", GIB),), 4000, GIB)]
    both = build_card_table([TraceNode("n0", one[0].cards, 1000, GIB), *two])
    look = FragmentationMeter(
        both, ExpectedDemand((Shape(500, model="T4|L4"), Shape(500, cpu_milli=2000)), (1, 1))
    ).measure_fragments(both)
    assert look.by_class == (1000, 1000)


def test_what_a_trace_asks_for_is_expected_members_counted_one_by_one() -> None:
    arrivals = [
        job("a", 0, 1),
        job("b", 1, 1, HALF),
        JobArrival("g", 2, WHOLE, NS, members=3, gang="g"),
    ]
    assert count_arrivals(arrivals) == ExpectedDemand((WHOLE, HALF), (4.0, 1.0))
    shapes = (HALF, WHOLE, Shape(1000, count=8, model="T4"), Shape(0, None, 0, cpu_milli=1500))
    assert list_class_names(build_classes(ExpectedDemand(shapes, (4, 3, 2, 1)))) == [
        "0.5 GPU",
        "1 card",
        "8 cards T4",
        "no card, 1.5 cores",
    ]


def test_the_largest_claim_is_whole_cards_of_a_node_or_else_a_share() -> None:
    cards = build_card_table(nodes(2, 3))
    assert compute_largest_milli(cards, count_whole_cards(cards)) == 3000
    cards.free_milli[:] = [200, 300, 700, 100, 0]
    assert compute_largest_milli(cards, count_whole_cards(cards)) == 700
