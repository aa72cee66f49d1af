"""The board: what is remembered from one cycle to the next, and that nothing of it is believed too
long."""

from dataclasses import replace

import numpy as np

from gpupool.base.units import GIB
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.cards import CardStatus, HostColumns
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.gang_builders import gang, occupied, role, running
from tests.support.scheduling_builders import apply, cards, shape, snapshot, waiting, whole


def free(board: PlanningState) -> tuple[list[int], list[int]]:
    return board.free.milli.tolist(), board.free.size.tolist()


def test_a_cycle_leaves_the_board_as_it_was() -> None:
    before = snapshot("4x8xH200", waiting("a", "b"), gang("g", role("worker", whole(), 5)))
    board = PlanningState(before)
    was = free(board)
    assert len(cycle(before, 0, board=board).placements) == 7
    assert free(board) == was


def test_what_was_written_is_noted_and_looked_at_alone() -> None:
    heads = tuple(f"j{n:03}" for n in range(200))
    before = snapshot("100x8xH200", waiting(*heads, want=whole()))
    board = PlanningState(before)
    first = cycle(before, 0, limit=8, board=board)
    after = apply(before, first)
    second = cycle(after, 0, limit=8, board=board)
    assert second == cycle(after, 0, limit=8)
    assert (first.effort.rows, len(second.placements)) == (800 + 8 * 8, 8)
    assert second.effort.rows <= 2 * 8 + 9 * 8


def test_a_card_that_is_closed_begins_the_board_anew() -> None:
    before = snapshot("2x1xH200", waiting("a", want=whole()))
    board = PlanningState(before)
    closed = replace(before, cards=cards("2x1xH200", status={"node-1/0": CardStatus.DRAINING}))
    assert [placement.node for placement in cycle(closed, 0, board=board).placements] == ["node-2"]
    assert [placement.node for placement in cycle(before, 0, board=board).placements] == ["node-1"]


def test_another_policy_begins_the_board_anew() -> None:
    used = {"node-2/0": (500, GIB)}
    before = snapshot("2x2xH200", waiting("a"), used=used)
    board = PlanningState(before)
    assert cycle(before, 0, board=board).placements[0].node == "node-2"
    assert cycle(replace(before, policy="spread"), 0, board=board).placements[0].node == "node-1"


def test_processors_that_were_given_back_are_seen() -> None:
    def with_cpus(left: int) -> Snapshot:
        hosts = HostColumns(
            *(np.array([n], dtype=np.int64) for n in (8000, 64 * GIB, left, 64 * GIB))
        )
        asked = waiting("a", want=replace(shape(), cpu_milli=4000))
        return snapshot(replace(cards("1x1xH200"), hosts=hosts), asked)

    board = PlanningState(with_cpus(2000))
    assert cycle(with_cpus(2000), 0, board=board).placements == ()
    assert len(cycle(with_cpus(6000), 0, board=board).placements) == 1


def test_a_job_is_released_and_the_trial_undone() -> None:
    pool = cards("1x2xH200")
    job = running(pool, "old", "node-1/0", "node-1/1", want=whole(2))
    board = PlanningState(snapshot(occupied(pool, job)))
    mark = board.mark()
    board.release_job(job)
    assert board.get_ranking(whole(2)).fit.roomy.tolist() == [True]
    board.rollback(mark)
    assert board.get_ranking(whole(2)).fit.roomy.tolist() == [False]
    assert free(board) == ([0, 0], [0, 0])
