import os
from pathlib import Path
from random import Random

import numpy as np
import pytest

from gpupool.base.errors import UnknownPolicy
from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.native_library import NativeLibrary
from gpupool.simulation.replay.demand_levels import DemandLevel
from gpupool.simulation.replay.protocol import (
    ALL,
    ProtocolResult,
    draw_arrivals,
    list_results,
    run_protocol,
    simulate_policy,
)
from gpupool.simulation.traces.openb import PodList, read_nodes, read_pods
from tests.support.scheduling_builders import cards

OPENB = Path(os.environ.get("GPUPOOL_OPENB", Path(__file__).parents[5] / "shared/data/openb"))


@pytest.fixture
def lists(tmp_path: Path) -> tuple[Path, Path]:
    """Three nodes with one card and processors for one pod each; pods that ask for half a card."""
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{n},1000,64,1,T4\n" for n in range(3))
    )
    pods.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1,1,500\np1,1000,1,1,500\n"
    )
    return pods, nodes


@pytest.mark.parametrize("policy", ALL)
def test_levels_by_hand(lists: tuple[Path, Path], policy: str) -> None:
    (result,) = run_protocol(*lists, [policy], [42], workers=1)
    # 1.3 x 3000 is 3900: seven pods of 500. Three are placed; then processors are out, half cards are fragments.
    levels = {level.arrived_pct: level for level in result.levels}
    assert list(levels) == [17, 33, 50, 67, 83, 100, 117]
    for placed, arrived in enumerate((17, 33, 50), start=1):
        fragment, idle = placed * 500, 3000 - placed * 500
        wanted = (placed * 500 / 30, fragment / 30, fragment / idle * 100)
        assert _rates(levels[arrived]) == pytest.approx(wanted)
    assert _rates(levels[117]) == pytest.approx((50, 50, 100))


def _rates(level: DemandLevel) -> tuple[float, float, float]:
    assert level.fragment_ratio_pct is not None
    return level.allocation_pct, level.fragment_pct, level.fragment_ratio_pct


def test_a_full_cluster_has_no_fragment_ratio(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,9000,64,1,T4\n")
    (tmp_path / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1,1,1000\n"
    )
    (result,) = run_protocol(
        tmp_path / "pods.csv", tmp_path / "nodes.csv", ["fgd"], [42], workers=1
    )
    assert result.levels == (DemandLevel(100, 100.0, 0.0, None),)


def test_a_list_below_130_percent_is_filled_up_and_the_last_pod_counts_with_one_card() -> None:
    pods = PodList(("a",), (Shape(1000, 0, 2),), np.array([0]))
    assert draw_arrivals(pods, 3000, Random(1)) == [
        0,
        0,
    ]  # 2000 + 1000 is below 3900; then 4000 + 1000 is not


def test_a_list_above_130_percent_is_thinned_out() -> None:
    pods = PodList(tuple("abcdefgh"), (Shape(1000, 0), Shape(0, 0, 0)), np.array([0] * 7 + [1]))
    left = draw_arrivals(pods, 3000, Random(1))
    assert left.count(0) == 3
    assert left.count(1) <= 1


def test_pods_are_taken_by_name_so_that_the_order_of_a_list_means_nothing() -> None:
    shapes = (Shape(100, 0), Shape(200, 0), Shape(300, 0))
    one = PodList(("a", "b", "c"), shapes, np.array([0, 1, 2]))
    other = PodList(("c", "a", "b"), shapes, np.array([2, 0, 1]))
    assert draw_arrivals(one, 4000, Random(7)) == draw_arrivals(other, 4000, Random(7))
    assert draw_arrivals(one, 4000, Random(7)) != draw_arrivals(one, 4000, Random(8))


def test_runs_come_by_policy_then_seed_and_are_the_same_on_one_core_and_on_two(
    lists: tuple[Path, Path],
) -> None:
    told: list[tuple[int, int]] = []
    alone = run_protocol(*lists, ["best-fit", "random"], [42, 43], workers=1)
    both = run_protocol(
        *lists, ["best-fit", "random"], [42, 43], lambda n, of, _: told.append((n, of)), workers=2
    )
    assert alone == both
    assert [(one.policy, one.seed) for one in both] == [
        ("best-fit", 42),
        ("best-fit", 43),
        ("random", 42),
        ("random", 43),
    ]
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    "sizes", [(190, 300, 500, 810), tuple(range(40, 980, 20))], ids=["few sizes", "many sizes"]
)
def test_learning_online_the_kernel_and_numpy_decide_the_same(
    kernel: NativeLibrary, sizes: tuple[int, ...]
) -> None:
    shapes = (
        *(Shape(size, 0, cpu_milli=8 * size) for size in sizes),
        Shape(1000, 0, 2, cpu_milli=9000),
    )
    pods = PodList(tuple(f"p{n:03}" for n in range(300)), shapes, np.arange(300) % len(shapes))
    pool = cards("14x4xT4", hosts=(64_000, GIB))
    compiled, plain = (
        simulate_policy(pool, pods, "default", 42, compiled=one) for one in (True, False)
    )
    assert compiled == plain
    assert compiled.knowledge == "online"
    assert compiled != simulate_policy(pool, pods, "default", 42, compiled=True, knowledge="oracle")


def test_an_unknown_policy_is_refused_before_anything_runs(lists: tuple[Path, Path]) -> None:
    with pytest.raises(UnknownPolicy):
        run_protocol(*lists, ["fdg"], [42])


def test_results_are_plain_data() -> None:
    level = {
        "arrived_pct": 3,
        "allocation_pct": 1.0,
        "fragment_pct": 2.0,
        "fragment_ratio_pct": None,
    }
    assert list_results(
        [ProtocolResult("fgd", 42, (DemandLevel(3, 1.0, 2.0, None),), "online")]
    ) == [{"policy": "fgd", "seed": 42, "levels": (level,), "knowledge": "online"}]


@pytest.mark.skipif(
    not OPENB.is_dir(), reason=f"the openb trace is not in {OPENB}; set GPUPOOL_OPENB"
)
def test_fgd_on_the_published_trace_is_where_the_paper_has_it() -> None:
    nodes = read_nodes(OPENB / "openb_node_list_gpu_node.csv")
    assert (len(nodes.nodes), len(nodes)) == (1213, 6212)
    result = simulate_policy(
        nodes, read_pods(OPENB / "openb_pod_list_default.csv"), "fgd", 42, knowledge="oracle"
    )
    (last,) = (level for level in result.levels if level.arrived_pct == 130)
    assert 94.9 < last.allocation_pct < 95.9
