"""Worths and decisions where claims ask for more memory than compute, and none else where they do
not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench import memory_mixes
from gpupool.base.units import GIB, MIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_library import NativeLibrary
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes, is_memory_relevant
from gpupool.scheduling.scoring.host_resource import MAIN_MEMORY
from gpupool.scheduling.scoring.ranking import NodeRankings
from gpupool.scheduling.scoring.registry import POLICIES
from gpupool.scheduling.scoring.stream_fill.model import StreamFillModel
from gpupool.scheduling.scoring.stream_fill.value_memory import (
    FULL,
    GRAIN,
    MemoryNextClaimValueModel,
    MemoryStreamValueModel,
)
from gpupool.scheduling.scoring.stream_fill.value_stream import NUMBER
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.simulation.replay.protocol import count_pods, simulate_policy
from tests.support.scheduling_builders import cards

SERVED, COMPUTES = Shape(100, 8 * GIB), Shape(500, 2 * GIB)


def two_cards() -> CardTable:
    """On nodes of their own, 16 GiB each."""
    sizes = np.array([16, 16]) * GIB
    return replace(cards("2x1xT4"), memory_bytes=sizes, free_bytes=sizes)


def part(milli: int, memory: int) -> int:
    return milli * GRAIN + memory


def values(*shapes: Shape) -> MemoryStreamValueModel:
    classes = build_classes(ExpectedDemand(shapes, (1,) * len(shapes)), by_memory=True)
    return MemoryStreamValueModel(classes, NodeKinds(two_cards(), classes))


def usable(*shapes: Shape) -> MemoryNextClaimValueModel:
    classes = build_classes(ExpectedDemand(shapes, (1,) * len(shapes)), by_memory=True)
    return MemoryNextClaimValueModel(classes, NodeKinds(two_cards(), classes))


def test_compute_beside_memory_that_is_gone_is_worth_nothing() -> None:
    of = values(SERVED)
    assert (
        of.get_value(of.build_state(0, 0, [FULL])) == 200 * NUMBER
    )  # two of 8 GiB, whatever is left of compute
    assert of.get_value(of.build_state(0, 0, [part(900, 500)])) == 100 * NUMBER
    assert of.get_value(of.build_state(0, 0, [part(900, 499)])) == 0


def test_the_next_claim_could_use_what_memory_is_enough_for() -> None:
    of = usable(SERVED, COMPUTES)
    assert of.get_value(of.build_state(0, 0, [FULL])) == 200 + 1000
    assert of.get_value(of.build_state(0, 0, [part(900, 500)])) == 100 + 900
    assert (
        of.get_value(of.build_state(0, 0, [part(400, 1000), part(600, 100)])) == 200
    )  # halves need 125 thousandths


def test_memory_that_no_claim_could_use_makes_no_other_value() -> None:
    of = values(COMPUTES)
    assert (
        of.get_value(of.build_state(0, 0, [part(600, 150)]))
        == of.get_value(of.build_state(0, 0, [part(600, 900)]))
        == 500 * NUMBER
    )


def test_a_claim_takes_memory_with_compute() -> None:
    of = values(SERVED, COMPUTES)
    before = of.build_state(0, 9000, [FULL, part(700, 600)])
    seat = of.measure_seat(SERVED, 0)
    assert seat == part(100, 500)
    assert of.cut_card(before, 0, 9000, part(700, 600), seat) == of.build_state(
        0, 9000, [FULL, part(600, 100)]
    )
    assert of.cut_card(before, 0, 9000, FULL, seat) == of.build_state(
        0, 9000, [part(900, 500), part(700, 600)]
    )
    both = of.build_state(0, 9000, [part(900, 500), part(600, 100)])
    assert of.place_claim(before, 0, 9000, 2, seat) == both
    whole = of.measure_seat(Shape(1000), 0)
    assert of.place_claim(before, 0, 9000, 1, whole) == of.build_state(0, 9000, [part(700, 600)])


def test_memory_matters_where_somebody_asks_for_more_of_it_than_of_compute() -> None:
    def matters(*shapes: Shape, pool: str = "1x1xT4+1x1xH200") -> bool:
        return is_memory_relevant(ExpectedDemand(shapes, (1,) * len(shapes)), cards(pool))

    assert matters(Shape(500), SERVED)
    assert not matters(Shape(500), COMPUTES, Shape(1000, GIB), Shape(0, 0, 0, cpu_milli=5))
    assert not matters(Shape(100, 12 * GIB), pool="1x1xH200")  # of 141 GiB it is less than a tenth
    assert not matters(Shape(100, 12 * GIB, model="H200"))
    assert not matters(Shape(100, 20 * GIB), pool="1x1xT4")  # it fits nowhere
    assert matters(Shape(100, 20 * GIB), pool="1x1xT4+1x1xL40S")


def placed(
    pool: CardTable, expected: ExpectedDemand, *arriving: Shape, compiled: bool = False
) -> list[int | None]:
    free = FreeCapacity(pool, np.arange(len(pool.nodes)), compiled)
    rater = POLICIES["default"].start_rater(free, expected, 0)
    rankings, went = NodeRankings(free, rater), list[int | None]()
    for shape in arriving:
        ranking = rankings.get_ranking(shape)
        node = ranking.find_best()
        went.append(node)
        if node is not None:
            rows = ranking.order_cards(node)[: shape.count]
            free.take_seats(
                node,
                rows,
                shape.held_milli,
                ranking.fit.need[rows],
                shape.cpu_milli,
                shape.host_bytes,
            )
    return went


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("returned_pct", [0, 100])
def test_a_claim_to_memory_goes_beside_one_to_compute(
    kernel: NativeLibrary, compiled: bool, returned_pct: int
) -> None:
    small, large = Shape(200, 10 * GIB), Shape(800, 4 * GIB)
    expected = ExpectedDemand((small, large), (1, 1), returned_pct)
    # The third claim finds room by compute on either card; only beside the claim to compute is
    # there memory for it.
    went = placed(two_cards(), expected, large, small, large, small, compiled=compiled)
    assert went == [0, 0, 1, 1]
    blind = placed(
        two_cards(),
        ExpectedDemand((Shape(200, 0), Shape(800, 0)), (1, 1), returned_pct),
        large,
        small,
    )
    assert blind == [0, 0]
    # Two that compute little would spoil a card for the served one: they share the card that has no
    # memory left.
    spoiled = replace(
        two_cards(), free_milli=np.array([800, 1000]), free_bytes=np.array([4, 16]) * GIB
    )
    assert placed(spoiled, expected, large, small, compiled=compiled) == [0, 1]


@pytest.mark.parametrize("returned_pct", [0, 100])
@pytest.mark.parametrize("seed", range(3))
def test_where_memory_follows_compute_every_decision_is_as_without_memory(
    kernel: NativeLibrary, seed: int, returned_pct: int
) -> None:
    chance = np.random.default_rng(seed)
    pool = cards("6x4xT4+4x8xL40S+3x2xH200")
    shapes = [
        Shape(int(milli), None, 1, None, cpu_milli=1000) for milli in (100, 250, 470, 810, 1000)
    ]
    shapes.append(Shape(1000, None, 4))
    counts = tuple(chance.integers(1, 50, size=len(shapes)).tolist())
    arriving = [
        int(n) for n in chance.choice(len(shapes), size=250, p=np.array(counts) / sum(counts))
    ]
    went = []
    modest = [replace(shape, memory_bytes=shape.gpu_milli * 12 * MIB) for shape in shapes]
    for asked in (shapes, modest, [replace(shape, memory_bytes=0) for shape in shapes]):
        expected = ExpectedDemand(tuple(asked), counts, returned_pct)
        for compiled in (False, True):
            went.append(placed(pool, expected, *(asked[n] for n in arriving), compiled=compiled))
    assert all(one == went[0] for one in went)
    assert None in went[0]


@pytest.mark.parametrize("seed", [4100, 4101])
def test_the_kernel_decides_as_numpy_does_where_memory_matters(
    kernel: NativeLibrary, seed: int
) -> None:
    pool = cards("6x4xL40S+4x8xH200+mixed:T4,L40S")
    _, pods = memory_mixes.made(seed, pool)
    assert is_memory_relevant(count_pods(pods), pool)
    for returned_pct in (0, 100):
        expected = replace(count_pods(pods), returned_pct=returned_pct)
        arriving = [
            pods.shapes[n]
            for n in np.random.default_rng(seed).permutation(pods.shape_numbers).tolist()
        ]
        decided = [
            placed(pool, expected, *arriving, compiled=compiled) for compiled in (True, False)
        ]
        assert decided[0] == decided[1]
        assert None in decided[0]


def test_the_kernel_decides_as_numpy_does_where_both_memories_matter(kernel: NativeLibrary) -> None:
    pool = cards("6x4xL40S+4x8xH200+mixed:T4,L40S", hosts=(10**6, 256 * GIB))
    _, pods = memory_mixes.made(4100, pool)
    shapes = tuple(
        replace(shape, host_bytes=shape.count * shape.gpu_milli * 72 * MIB) for shape in pods.shapes
    )
    expected = replace(count_pods(replace(pods, shapes=shapes)), returned_pct=0)
    assert StreamFillModel.choose(FreeCapacity(pool), expected).resource is MAIN_MEMORY
    arriving = [
        shapes[n] for n in np.random.default_rng(7).permutation(pods.shape_numbers).tolist()
    ]
    decided = [placed(pool, expected, *arriving, compiled=compiled) for compiled in (True, False)]
    assert decided[0] == decided[1]
    assert None in decided[0]


def test_less_lies_idle_than_under_a_rule_that_does_not_know_memory(kernel: NativeLibrary) -> None:
    pool = memory_mixes.cluster()
    _, pods = memory_mixes.made(4102, pool)
    idle = {}
    for policy in ("default", "fgd"):
        result = simulate_policy(pool, pods, policy, 42)
        idle[policy] = {level.arrived_pct: 100 - level.allocation_pct for level in result.levels}
    assert idle["default"][100] < idle["fgd"][100] - 1
    assert idle["default"][130] < idle["fgd"][130] - 1
