"""What holds for every placement policy, whatever was taken and given back before."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.gpu_clustering import GpuClusteringRater
from gpupool.scheduling.scoring.policy import NodeRater
from gpupool.scheduling.scoring.ranking import NodeRanking, NodeRankings
from gpupool.scheduling.scoring.registry import POLICIES
from gpupool.scheduling.scoring.stream_fill.policy import StreamFillRater
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints
from tests.support.scheduling_builders import cards

often = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

SHAPES = (
    Shape(300, GIB, cpu_milli=1500),
    Shape(810, 2 * GIB, cpu_milli=3152, host_bytes=GIB),
    Shape(500, None, model="T4|H200"),
    Shape(1000, None, cpu_milli=4000),
    Shape(1000, None, 2, cpu_milli=2000, host_bytes=8 * GIB),
    Shape(400, GIB, 2),
    Shape(0, 0, 0, cpu_milli=2500),
)
EXPECTED = ExpectedDemand(SHAPES, (5, 9, 2, 6, 3, 1, 4))

names = st.sampled_from(sorted(POLICIES))
lasting = st.sampled_from(sorted(set(POLICIES) - {"random"}))
"""Those whose answer is the same when they are asked again."""
futures = st.sampled_from([EXPECTED, replace(EXPECTED, returned_pct=100)])
"""A pool that only fills, and one in which claims end."""
pools = st.sampled_from(["4x2xT4", "2x4xH200+3x1xT4", "1x8xL40S+2x2xT4+mixed:T4,H200", "5x1xT4"])
steps = st.lists(
    st.tuples(st.sampled_from(["take"] * 4 + ["give"]), st.integers(0, 99)), max_size=40
)


def pool_of(text: str) -> CardTable:
    return cards(text, hosts=(12_000, 24 * GIB))


@dataclass
class Placed:
    shape: Shape
    node: int
    rows: Ints
    sizes: Ints


@dataclass
class Game:
    """A policy at work: every step places a shape where the policy wants it, or ends what was
    placed."""

    free: FreeCapacity
    rater: NodeRater
    expected: ExpectedDemand = EXPECTED
    running: list[Placed] = field(default_factory=list)
    told: list[tuple[int, tuple[int, ...]] | None] = field(default_factory=list)

    @classmethod
    def begin(cls, pool: CardTable, name: str, expected: ExpectedDemand = EXPECTED) -> "Game":
        free = FreeCapacity(pool)
        return cls(free, POLICIES[name].start_rater(free, expected, 42), expected)

    def __post_init__(self) -> None:
        self.rankings = NodeRankings(self.free, self.rater)

    def play(self, moves: Sequence[tuple[str, int]]) -> "Game":
        for what, number in moves:
            if what == "take":
                self.take(SHAPES[number % len(SHAPES)])
            elif self.running:
                self.give(self.running.pop(number % len(self.running)))
        return self

    def take(self, shape: Shape) -> None:
        ranking = self.rankings.get_ranking(shape)
        node = ranking.find_best()
        if node is None:
            self.told.append(None)
            return
        rows = ranking.order_cards(node)[: shape.count]
        one = Placed(shape, node, rows, ranking.fit.need[rows])
        self.free.take_seats(
            node, rows, shape.held_milli, one.sizes, shape.cpu_milli, shape.host_bytes
        )
        self.rater.on_take(shape, node)
        self.running.append(one)
        self.told.append((node, tuple(rows.tolist())))

    def give(self, one: Placed) -> None:
        shape = one.shape
        self.free.release_seats(
            one.node, one.rows, shape.held_milli, one.sizes, shape.cpu_milli, shape.host_bytes
        )
        self.rater.on_release(shape, one.node)

    def order_of(self, ranking: NodeRanking) -> list[int]:
        """All feasible nodes, best first."""
        left = np.ones(len(self.free.cards.nodes), dtype=np.bool_)
        found: list[int] = []
        while (node := ranking.find_best(left)) is not None:
            found.append(node)
            left[node] = False
        return found


@often
@given(names, pools, steps)
def test_no_policy_takes_more_than_there_is(
    name: str, pool: str, moves: list[tuple[str, int]]
) -> None:
    game = Game.begin(pool_of(pool), name).play(moves)
    for column in (game.free.milli, game.free.size, game.free.cpu_milli, game.free.host_bytes):
        assert (column >= 0).all()
    for one in game.running:
        assert len(set(one.rows.tolist())) == one.shape.count
        assert set(game.free.cards.node[one.rows].tolist()) <= {one.node}


@often
@given(names, pools, steps)
def test_what_is_feasible_is_placed_by_every_policy(
    name: str, pool: str, moves: list[tuple[str, int]]
) -> None:
    game = Game.begin(pool_of(pool), name).play(moves)
    for shape in SHAPES:
        ranking = game.rankings.get_ranking(shape)
        assert (ranking.find_best() is not None) == bool(ranking.fit.roomy.any())


@often
@given(names, pools, steps)
def test_the_same_moves_lead_to_the_same_places(
    name: str, pool: str, moves: list[tuple[str, int]]
) -> None:
    one, other = (Game.begin(pool_of(pool), name).play(moves) for _ in range(2))
    assert one.told == other.told


@often
@given(names, pools, steps)
def test_renaming_nodes_changes_nothing_but_names(
    name: str, pool: str, moves: list[tuple[str, int]]
) -> None:
    before = pool_of(pool)
    after = replace(before, nodes=tuple(f"z{len(node)}-{node[::-1]}" for node in before.nodes))
    assert Game.begin(before, name).play(moves).told == Game.begin(after, name).play(moves).told


@often
@given(lasting, pools, steps, futures)
def test_kept_scores_are_those_worked_out_from_scratch(
    name: str, pool: str, moves: list[tuple[str, int]], expected: ExpectedDemand
) -> None:
    game = Game.begin(pool_of(pool), name, expected)
    for shape in SHAPES:
        game.rankings.get_ranking(shape).find_best()
    game.play(moves)
    for shape in SHAPES:
        kept = game.order_of(game.rankings.get_ranking(shape))
        assert kept == game.order_of(NodeRanking(shape, game.free, _fresh(game, name)))


def _fresh(game: Game, name: str) -> NodeRater:
    """A rater that has seen nothing, in the same circumstances: what lies where, and what is
    dear."""
    fresh = POLICIES[name].start_rater(game.free, game.expected, 42)
    if isinstance(fresh, StreamFillRater) and isinstance(game.rater, StreamFillRater):
        fresh._prices.price[:] = game.rater._prices.price
        fresh._prices.toll[:] = game.rater._prices.toll
    if isinstance(fresh, GpuClusteringRater):
        for one in game.running:
            fresh.on_take(one.shape, one.node)
    return fresh


@often
@given(lasting, pools, steps, steps)
def test_a_trial_that_is_undone_leaves_no_trace_in_what_is_decided(
    name: str, pool: str, moves: list[tuple[str, int]], trial: list[tuple[str, int]]
) -> None:
    plain, tried = (Game.begin(pool_of(pool), name).play(moves) for _ in range(2))
    mark, running, told = tried.free.begin_trial(), list(tried.running), len(tried.told)
    for what, number in trial:
        if what == "take":
            tried.take(SHAPES[number % len(SHAPES)])
    heard = [one for one in tried.running if not any(one is known for known in running)]
    tried.free.rollback_trial(mark)
    for one in reversed(heard):
        tried.rater.on_release(one.shape, one.node)
    tried.running = running
    assert tried.told[:told] == plain.told
    for column in ("milli", "size", "cpu_milli", "host_bytes", "cells"):
        assert getattr(tried.free, column).tolist() == getattr(plain.free, column).tolist()
    if isinstance(tried.rater, StreamFillRater) and isinstance(plain.rater, StreamFillRater):
        return  # when prices are set anew depends on the way, not on the place
    for shape in SHAPES:
        assert tried.order_of(tried.rankings.get_ranking(shape)) == plain.order_of(
            plain.rankings.get_ranking(shape)
        )
