"""The board: what is remembered from one cycle to the next, and that nothing of it is believed too long."""

from dataclasses import replace

import numpy as np

from gpupool.base.units import GIB
from gpupool.scheduling.board import Board
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.snapshot import CardStatus, Hosts, Snapshot
from tests.support.gang_builders import gang, occupied, role, running
from tests.support.scheduling_builders import apply, cards, shape, snapshot, waiting, whole


def free(board: Board) -> tuple[list[int], list[int]]:
    return board.free.milli.tolist(), board.free.size.tolist()


def test_a_cycle_leaves_the_board_as_it_was() -> None:
    before = snapshot("4x8xH200", waiting("a", "b"), gang("g", role("worker", whole(), 5)))
    board = Board(before)
    was = free(board)
    assert len(cycle(before, 0, board=board).placements) == 7
    assert free(board) == was


def test_what_was_written_is_noted_and_looked_at_alone() -> None:
    heads = tuple(f"j{n:03}" for n in range(200))
    before = snapshot("100x8xH200", waiting(*heads, want=whole()))
    board = Board(before)
    first = cycle(before, 0, limit=8, board=board)
    after = apply(before, first)
    second = cycle(after, 0, limit=8, board=board)
    assert second == cycle(after, 0, limit=8)
    assert (first.effort.rows, len(second.placements)) == (800 + 8 * 8, 8)
    assert second.effort.rows <= 2 * 8 + 9 * 8


def test_a_card_that_is_closed_begins_the_board_anew() -> None:
    before = snapshot("2x1xH200", waiting("a", want=whole()))
    board = Board(before)
    closed = replace(before, cards=cards("2x1xH200", status={"node-1/0": CardStatus.DRAINING}))
    assert [placement.node for placement in cycle(closed, 0, board=board).placements] == ["node-2"]
    assert [placement.node for placement in cycle(before, 0, board=board).placements] == ["node-1"]


def test_another_policy_begins_the_board_anew() -> None:
    used = {"node-2/0": (500, GIB)}
    before = snapshot("2x2xH200", waiting("a"), used=used)
    board = Board(before)
    assert cycle(before, 0, board=board).placements[0].node == "node-2"
    assert cycle(replace(before, policy="spread"), 0, board=board).placements[0].node == "node-1"


def test_processors_that_were_given_back_are_seen() -> None:
    def with_cpus(left: int) -> Snapshot:
        hosts = Hosts(*(np.array([n], dtype=np.int64) for n in (8000, 64 * GIB, left, 64 * GIB)))
        asked = waiting("a", want=replace(shape(), cpu_milli=4000))
        return snapshot(replace(cards("1x1xH200"), hosts=hosts), asked)

    board = Board(with_cpus(2000))
    assert cycle(with_cpus(2000), 0, board=board).placements == ()
    assert len(cycle(with_cpus(6000), 0, board=board).placements) == 1


def test_a_job_is_released_and_the_trial_undone() -> None:
    pool = cards("1x2xH200")
    job = running(pool, "old", "node-1/0", "node-1/1", want=whole(2))
    board = Board(snapshot(occupied(pool, job)))
    mark = board.mark()
    board.release(job)
    assert board.ranking(whole(2)).fit.roomy.tolist() == [True]
    board.rollback(mark)
    assert board.ranking(whole(2)).fit.roomy.tolist() == [False]
    assert free(board) == ([0, 0], [0, 0])


def test_copies_count_claims_that_fit_side_by_side() -> None:
    pool = cards("1x3xT4+1x4xT4", used={"node-1/0": (600, GIB), "node-2/0": (0, 14 * GIB)})
    board = Board(snapshot(pool))
    assert board.copies(shape(300, GIB)).tolist() == [1 + 3 + 3, 1 + 9]
    assert board.copies(shape(300, GIB, 2)).tolist() == [3, 5]
    assert board.copies(shape(300, GIB, 3)).tolist() == [1, 3]
    assert board.copies(whole()).tolist() == [2, 3]
    assert board.copies(whole(2)).tolist() == [1, 1]


def test_copies_stop_at_the_processors_of_the_node() -> None:
    hosts = Hosts(
        *(np.array(column, dtype=np.int64) for column in ([8000, 8000], [GIB, GIB], [5000, 2000], [GIB, GIB]))
    )
    board = Board(snapshot(replace(cards("2x4xT4"), hosts=hosts)))
    assert board.copies(replace(whole(), cpu_milli=2000)).tolist() == [2, 1]
    assert board.copies(replace(whole(), cpu_milli=100, host_bytes=GIB)).tolist() == [1, 1]
    assert board.copies(replace(shape(), count=0, cpu_milli=1000)).tolist() == [5, 2]
