"""The parts of a score come to the score, and asking for them changes no plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from gpupool.model.claim import Shape
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring import registry
from gpupool.scheduling.scoring.fgd import compute_thresholds
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.plan import PlacementScore
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.simulation.replay.arrival_jobs import build_jobs
from gpupool.simulation.replay.seat_chooser import SeatChooser
from gpupool.simulation.replay.world import SimulatedPool, build_card_table
from gpupool.simulation.studies.study import build_empty_pool
from gpupool.simulation.traces.trace import JobArrival, TraceNode, WorkloadTrace

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
    TraceNode(
        f"n{n}",
        (("T4" if n % 3 else "H100", 16 << 30),) * 4,
        32000,
        256 << 30,
        {"gpupool.dev/price-per-hour": "2"},
    )
    for n in range(12)
)
EXPECTED = ExpectedDemand(SHAPES, (50, 20, 30, 20, 9, 5, 2), returned_pct=0)
COUNTED = [None, False]
"""The kernel where there is one, and NumPy."""


def scored(
    policy: str, returned_pct: int, compiled: bool | None
) -> list[tuple[Shape, PlacementScore]]:
    """A pool that is filled until three quarters of the claims are placed."""
    chance, free = Random(7), None
    cards = build_card_table(NODES)
    free = FreeCapacity(cards, None, compiled)
    chooser = SeatChooser(policy, free, SHAPES, 42)
    chooser.set_expected(replace(EXPECTED, returned_pct=returned_pct))
    found = []
    for _ in range(60):
        number = chance.choices(range(len(SHAPES)), EXPECTED.counts)[0]
        seat = chooser.choose_seat(number)
        if seat is not None:
            found.append((SHAPES[number], chooser.compute_score(number, seat)))
            chooser.take_seat(number, seat)
    assert len(found) > 30
    return found


@pytest.mark.parametrize("compiled", COUNTED)
@pytest.mark.parametrize("returned_pct", [0, 100])
def test_the_parts_of_the_default_policy_add_up_to_its_score(
    returned_pct: int, compiled: bool | None
) -> None:
    for _, one in scored(registry.DEFAULT_POLICY, returned_pct, compiled):
        parts = dict(one.parts)
        step = parts.pop("step")
        assert abs(sum(parts.values()) / step - one.score - 0.5) < 0.51, one


@pytest.mark.parametrize("compiled", COUNTED)
def test_the_fragments_of_fgd_are_those_that_its_score_is_made_of(compiled: bool | None) -> None:
    steps = compute_thresholds(1000)
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


@pytest.mark.parametrize(
    "policy", ["binpack", "best-fit", "random", "dot-product", "gpu-packing", "spread"]
)
def test_other_policies_have_a_score_alone(policy: str) -> None:
    assert {one.parts for _, one in scored(policy, 0, None)} == {()}


@pytest.mark.parametrize("policy", ["default", "fgd", "binpack", "default+power"])
def test_a_board_that_keeps_scores_plans_alike(policy: str) -> None:
    chance = Random(3)
    shapes = chance.choices(SHAPES[:6], EXPECTED.counts[:6], k=60)
    arrivals = tuple(
        JobArrival(f"j{n}", 0, shape, 10**9, members=2 if n % 9 == 0 else 1)
        for n, shape in enumerate(shapes)
    )
    first = build_empty_pool(WorkloadTrace("t", arrivals), NODES, policy)
    world = SimulatedPool(first)
    world.enqueue_jobs(job for one in arrivals for job in build_jobs((one,)))
    snapshot = world.take_snapshot(0)
    plain = cycle(snapshot, 0, board=PlanningState(snapshot))
    kept = cycle(snapshot, 0, board=PlanningState(snapshot, keeps_scores=True))
    assert all(one.score is None for one in plain.placements)
    assert all(one.score is not None for one in kept.placements)
    assert [replace(one, score=None) for one in kept.placements] == list(plain.placements)
