from gpupool.base.units import GIB
from gpupool.scheduling.engine.cycle import cycle
from tests.support.cycle_builders import seated
from tests.support.scheduling_builders import cards, snapshot, waiting, whole


def test_binpack_takes_the_card_with_the_least_compute_left() -> None:
    used = {"node-1/1": (300, 8 * GIB), "node-1/2": (500, 8 * GIB), "node-1/3": (600, 8 * GIB)}
    plan = cycle(snapshot("4xL40S", waiting("a"), used=used), 0)
    assert seated(plan) == {"a": ("node-1/2",)}


def test_binpack_prefers_less_memory_left_among_cards_of_equal_compute() -> None:
    used = {"node-1/0": (300, 8 * GIB), "node-1/1": (300, 9 * GIB)}
    assert seated(cycle(snapshot("3xL40S", waiting("a"), used=used), 0)) == {"a": ("node-1/1",)}


def test_binpack_prefers_a_card_used_by_best_effort_to_a_smaller_untouched_one() -> None:
    pool = cards("mixed:T4,H200", used={"node-1/1": (0, 10 * GIB)})
    assert seated(cycle(snapshot(pool, waiting("a")), 0)) == {"a": ("node-1/1",)}


def test_binpack_fills_the_fullest_node_first() -> None:
    used = {"node-2/0": (400, 0)}
    plan = cycle(snapshot("3x2xH200", waiting("a", "b", "c"), used=used), 0)
    assert seated(plan) == {"a": ("node-2/0",), "b": ("node-2/1",), "c": ("node-2/1",)}


def test_whole_cards_go_to_the_node_with_the_fewest_whole_cards_that_fits() -> None:
    used = {"node-1/0": (100, GIB), "node-2/0": (100, GIB), "node-2/1": (100, GIB)}
    plan = cycle(snapshot("3x4xH200", waiting("a", want=whole(2)), used=used), 0)
    assert seated(plan) == {"a": ("node-2/2", "node-2/3")}
