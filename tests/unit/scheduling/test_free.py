import numpy as np

from gpupool.base.units import GIB
from gpupool.scheduling.free import NO_CARD, UNLIMITED, Free, mixed_order
from gpupool.scheduling.snapshot import CardStatus
from tests.support.scheduling_builders import cards

NODES = np.arange(3)


def state(free: Free) -> list[list[int]]:
    columns = (free.milli, free.size, free.cpu_milli, free.host_bytes, free.grid(NODES[: len(free.cards.nodes)]))
    return [column.reshape(-1).tolist() for column in columns]


def test_what_is_taken_and_given_back_leaves_no_trace_but_the_name_of_the_node() -> None:
    free = Free(cards("3x2xT4", hosts=(8000, 32 * GIB)))
    before, began = state(free), free.now()
    free.take(1, free.of_node(1), 300, np.array([GIB, 2 * GIB]), 1500, GIB)
    assert free.grid(NODES).tolist() == [[1000, 1000], [700, 700], [1000, 1000]]
    assert (free.size[2:4] // GIB).tolist() == [14, 13]
    assert (free.cpu_milli.tolist(), free.host_bytes[1] // GIB) == ([8000, 6500, 8000], 31)
    free.give(1, free.of_node(1), 300, np.array([GIB, 2 * GIB]), 1500, GIB)
    assert state(free) == before
    assert free.changed(began).tolist() == [1]


def test_columns_stay_where_they_are_so_that_a_view_of_them_stays_true() -> None:
    free = Free(cards("2x1xT4", hosts=(8000, GIB)))
    views = free.milli, free.size, free.cpu_milli, free.host_bytes
    free.take(1, free.of_node(1), 400, np.array([GIB]), 1000, 5)
    free.rollback(free.mark())
    after = (free.milli, free.size, free.cpu_milli, free.host_bytes)
    assert all(view is column for view, column in zip(views, after, strict=True))
    assert views[0].tolist() == [1000, 600]


def test_a_trial_is_undone_exactly_and_trials_may_lie_inside_each_other() -> None:
    free = Free(cards("3x2xT4", hosts=(8000, 32 * GIB)))
    outer, start = free.mark(), state(free)
    free.take(0, free.of_node(0)[:1], 500, np.array([GIB]), 100, 7)
    inner, middle = free.mark(), state(free)
    free.set(np.array([3, 4]), np.array([250, 1000]), np.array([GIB, 15 * GIB]))
    free.set_hosts(NODES, np.array([1, 2, 3]), np.array([4, 5, 6]))
    free.rollback(inner)
    assert state(free) == middle
    free.take(2, free.of_node(2)[1:], 1000, np.array([15 * GIB]))
    free.rollback(outer)
    assert state(free) == start


def test_a_trial_that_is_kept_stays_and_nothing_is_remembered_of_it() -> None:
    free = Free(cards("1x1xT4"))
    mark = free.mark()
    free.take(0, free.of_node(0), 600, np.array([GIB]))
    free.keep(mark)
    free.rollback(free.mark())
    assert free.milli.tolist() == [400]


def test_a_note_of_what_was_known_changes_no_node() -> None:
    free = Free(cards("3x2xT4", hosts=(8000, GIB)))
    began = free.now()
    free.set(np.array([0, 2, 5]), np.array([1000, 300, 1000]), np.array([15, 15, 15]) * GIB)
    free.set_hosts(NODES, np.array([8000, 8000, 5]), np.full(3, GIB))
    assert free.changed(began).tolist() == [1, 2]
    assert free.milli.tolist() == [1000, 1000, 300, 1000, 1000, 1000]


def test_a_list_of_changes_never_grows_without_end() -> None:
    free = Free(cards("2x1xT4"))
    began = free.now()
    for _ in range(10_000):
        free.take(1, free.of_node(1), 1, np.array([0]))
        free.give(1, free.of_node(1), 1, np.array([0]))
    assert free.changed(began).tolist() == [0, 1]  # too long ago to be known: look at all of them
    assert free.now().position < 5000


def test_places_without_an_open_card_are_not_in_the_grid() -> None:
    free = Free(cards("1x3xT4+1x1xT4", status={"node-1/1": CardStatus.DRAINING}))
    assert free.grid(np.array([0, 1])).tolist() == [[1000, NO_CARD, 1000], [1000, NO_CARD, NO_CARD]]
    free.give(0, free.of_node(0)[1:2], 5, np.array([0]))
    assert free.grid(np.array([0])).tolist() == [[1000, NO_CARD, 1000]]


def test_where_nothing_is_known_of_hosts_they_never_run_out() -> None:
    free = Free(cards("1x1xT4"))
    free.take(0, free.of_node(0), 0, np.array([0]), 10**9, 10**15)
    assert free.cpu_milli[0] > UNLIMITED // 2
    assert free.host_bytes[0] > UNLIMITED // 2


def test_the_order_of_ties_is_a_permutation_that_a_further_node_does_not_stir() -> None:
    few, many = mixed_order(50).tolist(), mixed_order(60).tolist()
    assert sorted(few) == list(range(50))
    assert few != sorted(few)
    assert [node for node in many if node < 50] == few
    free = Free(cards("3x1xT4"), order=np.array([2, 0, 1]))
    assert free.rank.tolist() == [1, 2, 0]


def test_cards_of_several_nodes_that_are_set_at_once_mark_each_of_them_and_are_undone_together() -> None:
    free = Free(cards("3x2xT4"))
    before, began, mark = state(free), free.now(), free.mark()
    rows = np.array([0, 1, 5])
    free.set(rows, np.array([700, 1000, 0]), free.size[rows] - GIB)
    assert free.changed(began).tolist() == [0, 2]
    assert free.grid(NODES).tolist() == [[700, 1000], [1000, 1000], [1000, 0]]
    free.rollback(mark)
    assert state(free) == before
