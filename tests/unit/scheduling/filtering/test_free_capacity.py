import numpy as np

from gpupool.base.units import GIB
from gpupool.scheduling.filtering.free_capacity import NO_CARD, UNLIMITED, FreeCapacity
from gpupool.scheduling.filtering.node_order import build_mixed_order
from gpupool.scheduling.snapshot.cards import CardStatus
from tests.support.scheduling_builders import cards

NODES = np.arange(3)


def state(free: FreeCapacity) -> list[list[int]]:
    columns = (
        free.milli,
        free.size,
        free.cpu_milli,
        free.host_bytes,
        free.get_compute_grid(NODES[: len(free.cards.nodes)]),
    )
    return [column.reshape(-1).tolist() for column in columns]


def test_what_is_taken_and_given_back_leaves_no_trace_but_the_name_of_the_node() -> None:
    free = FreeCapacity(cards("3x2xT4", hosts=(8000, 32 * GIB)))
    before, began = state(free), free.get_cursor()
    free.take_seats(1, free.get_node_rows(1), 300, np.array([GIB, 2 * GIB]), 1500, GIB)
    assert free.get_compute_grid(NODES).tolist() == [[1000, 1000], [700, 700], [1000, 1000]]
    assert (free.size[2:4] // GIB).tolist() == [14, 13]
    assert (free.cpu_milli.tolist(), free.host_bytes[1] // GIB) == ([8000, 6500, 8000], 31)
    free.release_seats(1, free.get_node_rows(1), 300, np.array([GIB, 2 * GIB]), 1500, GIB)
    assert state(free) == before
    assert free.list_changed_nodes(began).tolist() == [1]


def test_columns_stay_where_they_are_so_that_a_view_of_them_stays_true() -> None:
    free = FreeCapacity(cards("2x1xT4", hosts=(8000, GIB)))
    views = free.milli, free.size, free.cpu_milli, free.host_bytes
    free.take_seats(1, free.get_node_rows(1), 400, np.array([GIB]), 1000, 5)
    free.rollback_trial(free.begin_trial())
    after = (free.milli, free.size, free.cpu_milli, free.host_bytes)
    assert all(view is column for view, column in zip(views, after, strict=True))
    assert views[0].tolist() == [1000, 600]


def test_a_trial_is_undone_exactly_and_trials_may_lie_inside_each_other() -> None:
    free = FreeCapacity(cards("3x2xT4", hosts=(8000, 32 * GIB)))
    outer, start = free.begin_trial(), state(free)
    free.take_seats(0, free.get_node_rows(0)[:1], 500, np.array([GIB]), 100, 7)
    inner, middle = free.begin_trial(), state(free)
    free.set_cards(np.array([3, 4]), np.array([250, 1000]), np.array([GIB, 15 * GIB]))
    free.set_hosts(NODES, np.array([1, 2, 3]), np.array([4, 5, 6]))
    free.rollback_trial(inner)
    assert state(free) == middle
    free.take_seats(2, free.get_node_rows(2)[1:], 1000, np.array([15 * GIB]))
    free.rollback_trial(outer)
    assert state(free) == start


def test_a_trial_that_is_kept_stays_and_nothing_is_remembered_of_it() -> None:
    free = FreeCapacity(cards("1x1xT4"))
    mark = free.begin_trial()
    free.take_seats(0, free.get_node_rows(0), 600, np.array([GIB]))
    free.commit_trial(mark)
    free.rollback_trial(free.begin_trial())
    assert free.milli.tolist() == [400]


def test_a_note_of_what_was_known_changes_no_node() -> None:
    free = FreeCapacity(cards("3x2xT4", hosts=(8000, GIB)))
    began = free.get_cursor()
    free.set_cards(np.array([0, 2, 5]), np.array([1000, 300, 1000]), np.array([15, 15, 15]) * GIB)
    free.set_hosts(NODES, np.array([8000, 8000, 5]), np.full(3, GIB))
    assert free.list_changed_nodes(began).tolist() == [1, 2]
    assert free.milli.tolist() == [1000, 1000, 300, 1000, 1000, 1000]


def test_places_without_an_open_card_are_not_in_the_grid() -> None:
    free = FreeCapacity(cards("1x3xT4+1x1xT4", status={"node-1/1": CardStatus.DRAINING}))
    assert free.get_compute_grid(np.array([0, 1])).tolist() == [
        [1000, NO_CARD, 1000],
        [1000, NO_CARD, NO_CARD],
    ]
    free.release_seats(0, free.get_node_rows(0)[1:2], 5, np.array([0]))
    assert free.get_compute_grid(np.array([0])).tolist() == [[1000, NO_CARD, 1000]]


def test_where_nothing_is_known_of_hosts_they_never_run_out() -> None:
    free = FreeCapacity(cards("1x1xT4"))
    free.take_seats(0, free.get_node_rows(0), 0, np.array([0]), 10**9, 10**15)
    assert free.cpu_milli[0] > UNLIMITED // 2
    assert free.host_bytes[0] > UNLIMITED // 2


def test_the_order_of_ties_is_a_permutation_that_a_further_node_does_not_stir() -> None:
    few, many = build_mixed_order(50).tolist(), build_mixed_order(60).tolist()
    assert sorted(few) == list(range(50))
    assert few != sorted(few)
    assert [node for node in many if node < 50] == few
    free = FreeCapacity(cards("3x1xT4"), order=np.array([2, 0, 1]))
    assert free.rank.tolist() == [1, 2, 0]


def test_cards_of_several_nodes_that_are_set_at_once_mark_each_of_them_and_are_undone_together() -> (
    None
):
    free = FreeCapacity(cards("3x2xT4"))
    before, began, mark = state(free), free.get_cursor(), free.begin_trial()
    rows = np.array([0, 1, 5])
    free.set_cards(rows, np.array([700, 1000, 0]), free.size[rows] - GIB)
    assert free.list_changed_nodes(began).tolist() == [0, 2]
    assert free.get_compute_grid(NODES).tolist() == [[700, 1000], [1000, 1000], [1000, 0]]
    free.rollback_trial(mark)
    assert state(free) == before
