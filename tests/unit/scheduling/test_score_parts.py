"""The parts of a score come to the score, and asking for them changes no plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from gpupool.model.claim import Shape
from gpupool.scheduling import policies
from gpupool.scheduling.board import Board
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.free import Free
from gpupool.scheduling.score_fragmentation import least_d
from gpupool.scheduling.snapshot import Expected, Scored
from gpupool.simulation.choosing import Chooser
from gpupool.simulation.replay import jobs_of
from gpupool.simulation.study import beginning
from gpupool.simulation.trace import Arrival, Node, Trace
from gpupool.simulation.world import World, columns_of

SHAPES = (
    Shape(300, None, 1, cpu_milli=2000),
    Shape(500, None, 1, "T4", cpu_milli=4000),
    Shape(700, None, 1, cpu_milli=1000),
    Shape(1000, None, 1, cpu_milli=4000),
    Shape(1000, None, 4, cpu_milli=8000),
    Shape(500, None, 2, cpu_milli=1000),
    Shape(0, None, 0, cpu_milli=1000),
)
NODES = tuple(
    Node(f"n{n}", (("T4" if n % 3 else "H100", 16 << 30),) * 4, 32000, 256 << 30, {"gpupool.dev/price-per-hour": "2"})
    for n in range(12)
)
EXPECTED = Expected(SHAPES, (50, 20, 30, 20, 9, 5, 2), returned_pct=0)
COUNTED = [None, False]
"""The kernel where there is one, and NumPy."""


def scored(policy: str, returned_pct: int, compiled: bool | None) -> list[tuple[Shape, Scored]]:
    """A pool that is filled until three quarters of the claims are placed."""
    chance, free = Random(7), None
    cards = columns_of(NODES)
    free = Free(cards, None, compiled)
    chooser = Chooser(policy, free, SHAPES, 42)
    chooser.expect(replace(EXPECTED, returned_pct=returned_pct))
    found = []
    for _ in range(60):
        number = chance.choices(range(len(SHAPES)), EXPECTED.counts)[0]
        seat = chooser.choose(number)
        if seat is not None:
            found.append((SHAPES[number], chooser.scored(number, seat)))
            chooser.take(number, seat)
    assert len(found) > 30
    return found


@pytest.mark.parametrize("compiled", COUNTED)
@pytest.mark.parametrize("returned_pct", [0, 100])
def test_the_parts_of_the_default_policy_add_up_to_its_score(returned_pct: int, compiled: bool | None) -> None:
    for _, one in scored(policies.DEFAULT, returned_pct, compiled):
        parts = dict(one.parts)
        step = parts.pop("step")
        assert abs(sum(parts.values()) / step - one.score - 0.5) < 0.51, one


@pytest.mark.parametrize("compiled", COUNTED)
def test_the_fragments_of_fgd_are_those_that_its_score_is_made_of(compiled: bool | None) -> None:
    steps = least_d(1000)
    for _, one in scored("fgd", 0, compiled):
        change = dict(one.parts)["fragments"]
        exact = int((steps <= -change * 1000).sum())
        assert abs(exact - one.score) <= 1, one


@pytest.mark.parametrize("policy", ["default+power", "fgd+power", "default+price", "fgd+price"])
def test_a_weighted_score_is_its_base_less_what_is_added(policy: str) -> None:
    for _, one in scored(policy, 0, None):
        parts = dict(one.parts)
        assert parts["points"] * parts["base"] - parts["weight_pct"] * parts["added"] == one.score
        assert {"watts", "price"} & set(parts)
        assert {"worth", "fragments"} & set(parts)


@pytest.mark.parametrize("policy", ["binpack", "best-fit", "random", "dot-product", "gpu-packing", "spread"])
def test_other_policies_have_a_score_alone(policy: str) -> None:
    assert {one.parts for _, one in scored(policy, 0, None)} == {()}


@pytest.mark.parametrize("policy", ["default", "fgd", "binpack", "default+power"])
def test_a_board_that_keeps_scores_plans_alike(policy: str) -> None:
    chance = Random(3)
    shapes = chance.choices(SHAPES[:6], EXPECTED.counts[:6], k=60)
    arrivals = tuple(
        Arrival(f"j{n}", 0, shape, 10**9, members=2 if n % 9 == 0 else 1) for n, shape in enumerate(shapes)
    )
    first = beginning(Trace("t", arrivals), NODES, policy)
    world = World(first)
    world.enqueue(job for one in arrivals for job in jobs_of((one,)))
    snapshot = world.snapshot(0)
    plain = cycle(snapshot, 0, board=Board(snapshot))
    kept = cycle(snapshot, 0, board=Board(snapshot, keeps_scores=True))
    assert all(one.scored is None for one in plain.placements)
    assert all(one.scored is not None for one in kept.placements)
    assert [replace(one, scored=None) for one in kept.placements] == list(plain.placements)
