"""A promised start that moves far is announced, once for each move."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from gpupool.allocations.cache.start_moves import (
    EVENT,
    LEAST_MOVE_NS,
    PAUSE_NS,
    StartMove,
    StartMoves,
    StartNotice,
    is_move,
)
from gpupool.allocations.cache.start_records import StartRecords
from gpupool.allocations.store.hold_tables import broken_promises, promises
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.claim import Shape
from gpupool.scheduling import LEEWAY_NS, Plan, PlannedStart
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.store.tables import events
from tests.support.house import House

MINUTE = 60 * NANOS_PER_SECOND
HOUR = 60 * MINUTE


@pytest.mark.parametrize(
    ("notice", "after", "expected"),
    [
        (StartNotice(HOUR), HOUR + 10 * MINUTE, False),
        (StartNotice(HOUR), HOUR + 11 * MINUTE, True),
        (StartNotice(HOUR), HOUR - 11 * MINUTE, True),
        # A tenth of what is left counts where it is more than ten minutes.
        (StartNotice(10 * HOUR), 10 * HOUR + 59 * MINUTE, False),
        (StartNotice(10 * HOUR), 10 * HOUR + 61 * MINUTE, True),
        (StartNotice(HOUR, moved_ns=-9 * MINUTE), 9 * HOUR, False),
        (StartNotice(HOUR, moved_ns=-10 * MINUTE), 9 * HOUR, True),
    ],
)
def test_a_move_is_far_from_the_last_notice(
    notice: StartNotice, after: int, expected: bool
) -> None:
    assert is_move(notice, after, now_ns=0) is expected


def run_cycles(cycles: list[tuple[int, int]], first_ns: int) -> list[tuple[int, StartMove]]:
    """Run plans that promise one claim a start; return the moves with their instants.

    Args:
        cycles: For each plan, the time since the last one and the promised start.
    """
    known = StartMoves()
    known.restore({"j-1": StartNotice(first_ns)})
    found = list[tuple[int, StartMove]]()
    now_ns = 0
    for seconds, at_ns in cycles:
        now_ns += seconds * NANOS_PER_SECOND
        known.note_plan({"j-1": at_ns}, now_ns)
        if known.is_urgent:
            stand, moves = known.judge({"j-1"}, {}, now_ns)
            known.confirm(stand)
            found += [(now_ns, move) for move in moves]
    return found


CYCLES = st.lists(
    st.tuples(st.integers(0, 900), st.integers(0, 20 * 60).map(lambda n: n * MINUTE)),
    max_size=60,
)


@given(CYCLES, st.integers(0, 20 * 60).map(lambda n: n * MINUTE))
def test_a_storm_of_cycles_tells_each_far_move_once(
    cycles: list[tuple[int, int]], first_ns: int
) -> None:
    found = run_cycles(cycles, first_ns)
    last = first_ns
    before_ns = None
    for now_ns, move in found:
        # Each begins where the one before ended, and is far.
        assert move.before_ns == last
        left_ns = max(0, last - now_ns)
        assert abs(move.after_ns - last) > max(LEAST_MOVE_NS, left_ns // 10)
        assert before_ns is None or now_ns - before_ns >= PAUSE_NS
        last, before_ns = move.after_ns, now_ns
    # At the end every far move is announced, except within the pause.
    if cycles:
        now_ns = sum(seconds for seconds, _ in cycles) * NANOS_PER_SECOND
        assert not is_move(StartNotice(last, before_ns), cycles[-1][1], now_ns)


@given(st.lists(st.integers(-10, 10), max_size=60))
def test_a_start_that_trembles_tells_nothing(minutes: list[int]) -> None:
    cycles = [(1, 5 * HOUR + n * MINUTE) for n in minutes]
    assert run_cycles(cycles, 5 * HOUR) == []


def test_a_thousand_plans_that_say_the_same_tell_one_move() -> None:
    found = run_cycles([(1, 3 * HOUR)] * 1000, HOUR)
    assert found == [(NANOS_PER_SECOND, StartMove("j-1", HOUR, 3 * HOUR))]


def moves_of(house: House) -> list[dict[str, object]]:
    with house.store.read() as connection:
        query = sa.select(events.c.subject, events.c.data).where(events.c.kind == EVENT)
        return [{"job": row.subject, **row.data} for row in connection.execute(query)]


def test_a_promise_that_was_broken_and_made_anew_is_a_move_of_its_job(house: House) -> None:
    house.submit(1000, None, name="holder", count=2, max_seconds=3600)
    house.submit(1000, None, name="next", count=2, max_seconds=60)
    house.allocations.placer.run_cycle()
    assert moves_of(house) == []
    # The instant of its notice has passed.
    with house.store.write() as write:
        write.execute(sa.update(promises).values(at_ns=1, notice_ns=1))
    house.restart()
    for _ in range(3):
        house.allocations.placer.run_cycle()
    with house.store.read() as connection:
        row = connection.execute(sa.select(promises)).one()
    job = house.job("next").id
    assert row.claim == job
    expected = {
        "job": job,
        "name": "next",
        "before_ns": 1 + LEEWAY_NS,
        "after_ns": row.notice_ns + LEEWAY_NS,
    }
    assert moves_of(house) == [expected]
    house.restart()
    house.allocations.placer.run_cycle()
    assert len(moves_of(house)) == 1


def test_a_broken_promise_that_returns_plans_later_is_a_move(house: House) -> None:
    job = house.submit(1000, None, name="next", max_seconds=60).id
    house.submit(1000, None, name="gone", max_seconds=60)
    gone = house.job("gone").id
    waiting = {job, gone}
    first_ns = house.store.clock.now_ns()
    memory = list[StartRecords]()

    def run_plan(starts: dict[str, int], hours: int, *, restart: bool = False) -> None:
        """Save a plan as of some hours later, in memory of its own after a restart."""
        if restart:
            memory[:] = [StartRecords()]
            with house.store.read() as connection:
                memory[0].load_records(connection, waiting.__contains__)
        (records,) = memory
        firm = {
            ClassKey("default", number, Shape(1000)): PlannedStart(
                first_ns + at_ns, reserved=True, claim=claim, firm=True
            )
            for number, (claim, at_ns) in enumerate(starts.items())
        }
        plan = Plan(1, (), {}, starts=firm)
        records.record_plan(plan, first_ns + hours * HOUR, waiting.__contains__)
        with house.store.write() as write:
            records.save_changes(write)

    def claims(table: sa.Table) -> list[str]:
        with house.store.read() as connection:
            return sorted(connection.execute(sa.select(table.c.claim)).scalars())

    run_plan({job: HOUR, gone: HOUR}, 0, restart=True)
    # The hour passes without a start, and the plan promises nothing.
    run_plan({}, 2)
    assert (claims(promises), claims(broken_promises)) == ([], sorted(waiting))
    run_plan({}, 3, restart=True)
    assert moves_of(house) == []
    waiting.remove(gone)
    run_plan({job: 8 * HOUR}, 4, restart=True)
    (move,) = moves_of(house)
    assert (move["job"], move["before_ns"]) == (job, first_ns + HOUR + LEEWAY_NS)
    assert move["after_ns"] == first_ns + 8 * HOUR + LEEWAY_NS
    assert (claims(promises), claims(broken_promises)) == ([job], [])
    run_plan({job: 8 * HOUR}, 5, restart=True)
    assert len(moves_of(house)) == 1
