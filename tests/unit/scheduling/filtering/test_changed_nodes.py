import numpy as np

from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from tests.support.scheduling_builders import cards


def test_a_list_of_changes_never_grows_without_end() -> None:
    free = FreeCapacity(cards("2x1xT4"))
    began = free.get_cursor()
    for _ in range(10_000):
        free.take_seats(1, free.get_node_rows(1), 1, np.array([0]))
        free.release_seats(1, free.get_node_rows(1), 1, np.array([0]))
    assert free.list_changed_nodes(began).tolist() == [
        0,
        1,
    ]  # too long ago to be known: look at all of them
    assert free.get_cursor().position < 5000
