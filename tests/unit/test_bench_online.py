"""The bench of placement as a pool runs it: its families are made anew from a seed, its limits are
the issue's."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bench import churn, size_families, small_pools
from bench.figures import online
from bench.online_runs import FAMILIES, Run, _small, run
from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.simulation.replay.foreknowledge import ONLINE, ORACLE
from gpupool.simulation.traces.openb import PodList
from tests.support.scheduling_builders import cards

SIZES = {family.name: family for family in size_families.families()}


@pytest.mark.parametrize("name", SIZES)
def test_a_family_is_made_anew_from_its_seed_and_asks_for_130_percent(name: str) -> None:
    one, again, other = (size_families.made(SIZES[name], seed) for seed in (1, 1, 2))
    assert (one[0].shapes, one[1]) == (again[0].shapes, again[1])
    assert one[1] != other[1]
    asked = [shape.held_milli * shape.count for shape in one[0].shapes]
    total = sum(asked[number] for number in one[1])
    limit = len(size_families.pool(SIZES[name])) * WHOLE * size_families.ASKED_PCT // 100
    assert limit <= total < limit + 8 * WHOLE
    assert Counter(one[1]) == Counter(one[0].shape_numbers.tolist())


def test_sorted_families_arrive_in_order_of_their_sizes() -> None:
    for name, sign in (("sorted up", 1), ("sorted down", -1)):
        pods, arriving = size_families.made(SIZES[name], 3)
        sizes = [sign * pods.shapes[number].gpu_milli for number in arriving]
        assert sizes == sorted(sizes)


@pytest.mark.parametrize("case", small_pools.CASES)
def test_small_pools_are_made_anew_from_their_numbers(case: str) -> None:
    pools, again = (list(small_pools.pools(case)) for _ in range(2))
    assert pools == again
    assert len(pools) == small_pools.POOLS
    assert {len(pool.nodes) for pool in pools} == set(small_pools.CASES[case])
    one, same, other = (small_pools.made(pools[0], seed) for seed in (1, 1, 2))
    assert (one[0].shapes, one[1]) == (same[0].shapes, same[1])
    assert one[1] != other[1]


def test_a_small_pool_has_a_figure_at_levels_where_no_claim_ends() -> None:
    pool = next(small_pools.pools("2 and 3 nodes"))
    figures = _small(pool, Run(Path(), "small", "2 and 3 nodes", "binpack", ORACLE, 42))
    assert list(figures) == ["95", "100", "130"]
    assert 0 <= figures["130"] <= figures["100"] <= figures["95"] <= 100


def test_some_nodes_of_a_pool_keep_their_cards_and_hosts() -> None:
    pool = cards("6x4xT4+3x8xH200", hosts=(64_000, GIB))
    some = churn.some_nodes(pool, 4, 7)
    assert len(some.nodes) == 4
    assert set(some.nodes) < set(pool.nodes)
    for number, name in enumerate(some.nodes):
        mine = np.flatnonzero(some.node == number)
        theirs = np.flatnonzero(pool.node == pool.nodes.index(name))
        assert [some.uuids[row] for row in mine] == [pool.uuids[row] for row in theirs]
        assert some.model[mine].tolist() == pool.model[theirs].tolist()
    assert some.hosts is not None
    assert some.hosts.cpu_milli.tolist() == [64_000] * 4


def test_a_pool_that_learns_lives_the_same_claims_as_an_oracle() -> None:
    shapes = (Shape(500, 0, cpu_milli=100), Shape(WHOLE, 0, 8, cpu_milli=800))
    asked = PodList(("a", "b"), shapes, np.arange(2))
    pool = cards("20x8xT4", hosts=(64_000, GIB))
    oracle, learnt = (
        churn.live(pool, asked, "default", 1.2, 1, known) for known in (ORACLE, ONLINE)
    )
    assert oracle.large == learnt.large > 0
    assert learnt == churn.live(pool, asked, "default", 1.2, 1, ONLINE)


def test_every_run_gives_its_figures_for_every_policy() -> None:
    for policy, knowledge in (
        ("default", ONLINE),
        ("default", ORACLE),
        ("fgd", ORACLE),
        ("spread", ORACLE),
    ):
        one = Run(Path(), "sizes", "step 100 (9 sizes)", policy, knowledge, 42)
        _, figures = run(one, lambda _part: None)
        assert list(figures) == ["95", "100", "130"]
        assert 0 <= figures["130"] <= figures["100"] <= figures["95"] < 20


def test_a_family_that_is_not_there_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUPOOL_OPENB", str(tmp_path))
    monkeypatch.setenv("BENCH_ONLINE_FAMILIES", "lists sises")
    with pytest.raises(LookupError, match="sises; there are lists, mixes"):
        online.run(tmp_path)


def found_of(family: str, ours: float, papers: float, rival: float) -> online.Found:
    amounts = {("default", ONLINE): ours, ("default", ORACLE): ours, ("fgd", ORACLE): papers}
    amounts |= {(name, ORACLE): rival for name in online.RIVALS}
    return {(family, "one", *who): {"100": idle, "130": idle} for who, idle in amounts.items()}


@pytest.mark.parametrize(
    ("family", "ours", "papers", "rival", "holds"),
    [
        ("lists", 5.04, 5.0, 1.0, True),
        ("lists", 5.06, 5.0, 9.0, False),
        ("sizes", 5.09, 6.0, 5.0, True),
        ("sizes", 5.11, 6.0, 5.0, False),
        ("sizes", 5.11, 5.0, 6.0, False),
        ("mixes", 5.19, 6.0, 5.0, True),
        ("departures", 5.21, 6.0, 5.0, False),
        ("small", 5.19, 1.0, 5.0, True),
        ("small", 5.21, 1.0, 5.0, False),
    ],
)
def test_limits_are_those_of_the_issue(
    family: str, ours: float, papers: float, rival: float, holds: bool
) -> None:
    assert family in FAMILIES
    rows = list(
        online._rows((family, "one"), "one", found_of(family, ours, papers, rival), "command")
    )
    assert [row.holds for row in rows] == [holds, holds]


@pytest.mark.parametrize(("ours", "holds"), [(4.19, True), (4.21, False)])
def test_the_mean_of_the_lists_gains_eight_tenths(ours: float, holds: bool) -> None:
    cases = {("lists", "one"): "one"}
    rows = list(online._mean_of_lists(cases, found_of("lists", ours, 5.0, 9.0), "command"))
    assert [row.holds for row in rows] == [holds, holds]
