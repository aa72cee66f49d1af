from dataclasses import replace

from gpupool.scheduling.scoring.node_types import find_node_types
from tests.support.scheduling_builders import cards


def test_makes_of_a_pool_are_worked_out_once_for_its_columns() -> None:
    pool = cards("2x2xT4+1x2xH200", hosts=(64_000, 1))
    assert find_node_types(pool) is find_node_types(replace(pool, free_milli=pool.free_milli - 100))
    assert find_node_types(pool) is not find_node_types(replace(pool, node=pool.node.copy()))
    assert find_node_types(pool).of_node.tolist() == [0, 0, 1]
