"""Figures of lives small enough to be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.quota import UNLIMITED, Amount
from gpupool.scheduling.expected import Kinds, histogram, typical
from gpupool.scheduling.score_fragmentation import Fragments as PolicyFragments
from gpupool.scheduling.snapshot import Eviction, Expected, Snapshot, TenantView
from gpupool.simulation.fragments import Fragmentation, expected_of, largest_milli, names, whole_by_node
from gpupool.simulation.measure import POINTS, Figures, Meter, waits_of
from gpupool.simulation.replay import Outcome, Replay
from gpupool.simulation.trace import NS, Arrival, Node
from gpupool.simulation.world import World, columns_of

WHOLE, HALF = Shape(1000), Shape(500)


def nodes(*cards: int, model: str = "H200") -> list[Node]:
    return [Node(f"n{n}", ((model, 140 * GIB),) * number) for n, number in enumerate(cards)]


def figures(cards: int, *arrivals: Arrival, weights: dict[str, int] | None = None) -> Figures:
    known = weights or {"default": 1}
    tenants = {name: TenantView(UNLIMITED, Amount()) for name in known}
    world = World(Snapshot(0, columns_of(nodes(cards)), tenants, ()))
    meter = Meter(world, (arrivals[0].at_ns, arrivals[-1].at_ns), expected_of(arrivals), known)
    return meter.figures(world, Replay(world, [meter]).run(arrivals))


def job(name: str, at: int, seconds: int, shape: Shape = WHOLE, tenant: str = "default") -> Arrival:
    return Arrival(name, at * NS, shape, seconds * NS, tenant)


def test_allocation_is_card_time_held_while_work_arrives() -> None:
    found = figures(2, job("a", 0, 50), job("b", 0, 1000), job("last", 100, 1))
    assert found.allocation_pct == 75.0  # 50 + 100 of 2 cards for 100 s
    assert found.utilisation_pct == 75.0
    assert found.span_seconds == 1000


def test_waits_are_measured_by_kind_and_a_gang_waits_once() -> None:
    gang = Arrival("a", 0, WHOLE, 10 * NS, gang="g", members=2)
    found = figures(2, gang, job("card", 0, 5), job("share", 1, 5, HALF), job("wide", 2, 5, Shape(1000, count=2)))
    assert {kind: waits.jobs for kind, waits in found.waits.items()} == {
        "all": 4,
        "gang": 1,
        "card": 1,
        "share": 1,
        "cards": 1,
    }
    assert found.waits["gang"].p50 == 0
    assert found.waits["card"].p50 == 10


def test_percentiles_are_nearest_ranks_and_unknown_beyond_those_that_started() -> None:
    waits = [n * NS for n in range(1, 101)]
    told = waits_of(waits, 0)
    assert (told.p50, told.p95, told.p99, told.mean) == (50, 95, 99, 50.5)
    told = waits_of(waits[:96], 4)
    assert (told.jobs, told.p50, told.p95, told.p99, told.mean) == (100, 50, 95, None, None)
    assert waits_of([], 0).p50 is None


def test_tenants_get_their_part_of_card_time_beside_their_weight() -> None:
    found = figures(
        2,
        job("a", 0, 100, tenant="x"),
        job("b", 0, 50, tenant="y"),
        job("c", 100, 1, tenant="y"),
        weights={"x": 1, "y": 3},
    )
    assert found.tenants["x"].part_pct == pytest.approx(66.667)
    assert found.tenants["x"].weight_pct == 25
    assert found.tenants["y"].card_hours == pytest.approx(50 / 3600, abs=1e-3)


def test_what_an_eviction_lost_is_allocated_but_of_no_use() -> None:
    world = World(Snapshot(0, columns_of(nodes(1)), {"default": TenantView(UNLIMITED, Amount())}, ()))
    meter = Meter(world, (0, 100 * NS), Expected(), {"default": 1})
    replay = Replay(world, [meter], until_ns=40 * NS)
    replay.run([job("a", 0, 90)])
    running = world.running["a"]
    meter.evicted(running, Eviction("a", "b", 30, "for b"), 40 * NS)
    world.give_back("a", 40 * NS)
    found = meter.figures(world, Outcome(ended_ns=100 * NS))
    assert (found.allocation_pct, found.utilisation_pct, found.evictions) == (40, 10, 1)
    assert found.lost_card_hours == pytest.approx(30 / 3600, abs=1e-3)


def test_fragments_are_counted_as_the_paper_counts_them() -> None:
    cards = columns_of(nodes(2, 2))
    cards.free_milli[:] = [1000, 300, 600, 0]
    expected = Expected((HALF, Shape(1000, count=2), Shape(0, None, 0)), (2, 1, 1))
    measure = Fragmentation(cards, expected)
    found = measure.look(cards)
    # A half fits on 1000 and 600: 300 is too little. Two cards fit nowhere. Who asks for none can use none.
    assert found.free_milli == 1900
    assert dict(zip(names(measure.classes), found.by_class, strict=True)) == {
        "0.5 GPU": 300,
        "2 cards": 1900,
        "no card": 1900,
    }
    assert found.amount_milli == (2 * 300 + 1900 + 1900) / 4


def test_fragments_are_those_that_the_policy_of_that_name_sees() -> None:
    cards = replace(columns_of([Node(f"n{n}", (("T4", GIB),) * 4, 8000 + n, GIB) for n in range(6)]))
    cards.free_milli[:] = [(137 * row) % 1001 for row in range(24)]
    shapes = (*(Shape(milli, cpu_milli=8003) for milli in (100, 400, 900)), Shape(1000, count=2))
    expected = Expected(shapes, (5, 3, 2, 1))
    kinds = Kinds(cards)
    theirs = PolicyFragments(typical(histogram(expected)), kinds)
    cells = np.sort(cards.free_milli.reshape(6, 4), axis=1)
    assert cards.hosts is not None
    amount = theirs.amount(cells, cards.hosts.free_cpu_milli, kinds.of_node).sum() / theirs.total
    assert Fragmentation(cards, expected).look(cards).amount_milli == pytest.approx(float(amount))


def test_cards_of_another_model_and_nodes_without_processors_are_no_use() -> None:
    one, two = nodes(1), [Node("t", (("T4", GIB),), 4000, GIB)]
    both = columns_of([Node("n0", one[0].cards, 1000, GIB), *two])
    look = Fragmentation(both, Expected((Shape(500, model="T4|L4"), Shape(500, cpu_milli=2000)), (1, 1))).look(both)
    assert look.by_class == (1000, 1000)


def test_what_a_trace_asks_for_is_expected_members_counted_one_by_one() -> None:
    arrivals = [job("a", 0, 1), job("b", 1, 1, HALF), Arrival("g", 2, WHOLE, NS, members=3, gang="g")]
    assert expected_of(arrivals) == Expected((WHOLE, HALF), (4.0, 1.0))
    shapes = (HALF, WHOLE, Shape(1000, count=8, model="T4"), Shape(0, None, 0, cpu_milli=1500))
    assert names(histogram(Expected(shapes, (4, 3, 2, 1)))) == ["0.5 GPU", "1 card", "8 cards T4", "no card, 1.5 cores"]


def test_the_largest_claim_is_whole_cards_of_a_node_or_else_a_share() -> None:
    cards = columns_of(nodes(2, 3))
    assert largest_milli(cards, whole_by_node(cards)) == 3000
    cards.free_milli[:] = [200, 300, 700, 100, 0]
    assert largest_milli(cards, whole_by_node(cards)) == 700


def test_a_timeline_stays_small_however_long_the_pool_runs_dry() -> None:
    found = figures(1, job("a", 0, 10**7), job("b", POINTS * 10, 1))
    assert len(found.timeline) < 4 * POINTS
    steps = np.diff([one.at_ns for one in found.timeline])
    assert len(set(steps)) == 1
