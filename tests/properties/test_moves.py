"""What holds of moves and of growth, whatever runs and is reserved: nothing that is held for others
is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB, WHOLE
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import Shape
from gpupool.model.reservation import Reservation
from gpupool.scheduling.filtering.capacity_columns import CapacityColumns, SeatAmounts
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.rebalancing.defragment import plan_defragmentation
from gpupool.scheduling.rebalancing.load_balance import plan_rebalancing
from gpupool.scheduling.rebalancing.workspace import Move
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.reservations import hold_all
from gpupool.scheduling.timeline.timeline import NEVER, Timeline
from gpupool.scheduling.timeline.unreserved_capacity import UnreservedCapacity
from tests.support.moving_builders import NOW, job, pool
from tests.support.time_builders import reserved, taken

often = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOW_S = NOW // SECOND


@st.composite
def reservations(draw: st.DrawFn) -> tuple[Reservation, ...]:
    """One or two that hold cards now, soon or later, for a while or until they are ended."""
    found = []
    for number in range(draw(st.integers(1, 2))):
        start = NOW_S + draw(st.sampled_from([-50, 0, 30, 500]))
        end = draw(st.sampled_from([None, start + 100, start + 1000]))
        want = draw(
            st.sampled_from(
                [Shape(WHOLE, 140 * GIB), Shape(400, 4 * GIB), Shape(WHOLE, 140 * GIB, 2)]
            )
        )
        every = draw(st.sampled_from([None, 2000])) if end is not None else None
        found.append(
            reserved(
                f"r{number}",
                start,
                end,
                want=want,
                replicas=draw(st.integers(1, 2)),
                every=every,
                tenant="owner",
            )
        )
    return tuple(found)


@st.composite
def pools(draw: st.DrawFn) -> Snapshot:
    layout, cards = draw(st.sampled_from([("2x2xH200", 4), ("3x2xH200", 6), ("2x4xH200", 8)]))
    jobs, room = list[RunningJob](), [WHOLE] * cards
    for row in range(cards):
        for _ in range(draw(st.integers(0, 2))):
            milli = draw(st.sampled_from([200, 300, 500, WHOLE]))
            if milli > room[row] or (milli == WHOLE and draw(st.booleans())):
                continue
            room[row] -= milli
            one = job(
                f"j{len(jobs)}",
                row,
                milli=milli,
                ran=draw(st.sampled_from([5, 60])),
                stays=draw(st.booleans()),
            )
            length = draw(st.sampled_from([None, 20, 90, 600]))
            jobs.append(replace(one, ends_ns=length and one.started_ns + length * SECOND))
    return replace(pool(layout, *jobs), reservations=draw(reservations()))


class Ledger:
    """What is free at every instant beside all that runs and is held, kept by taking and nothing
    else."""

    def __init__(self, before: Snapshot) -> None:
        self._free = FreeCapacity(before.cards)
        self._timeline = Timeline(before.cards, before.running, NOW)
        hold_all(self._timeline, self._free, before.reservations, before.running)
        self._at_first = self._least_ever()

    def take(self, more: SeatAmounts, until_ns: int) -> None:
        self._free.set_cards(
            more.rows,
            self._free.milli[more.rows] - more.milli,
            self._free.size[more.rows] - more.sizes,
        )
        self._timeline.add_end(more, until_ns)

    def nothing_held_was_taken(self) -> bool:
        now = self._least_ever()
        pairs = zip(now[:2], self._at_first[:2], strict=True)
        return all(bool((left >= np.minimum(before, 0)).all()) for left, before in pairs)

    def _least_ever(self) -> CapacityColumns:
        low = self._timeline.get_low(NOW, NEVER)
        return CapacityColumns(
            self._free.milli + low.milli, self._free.size + low.sizes, low.cpu_milli, low.host_bytes
        )


def length_of(one: RunningJob) -> int:
    return NEVER if one.ends_ns is None else NOW + one.ends_ns - one.started_ns


def moved(before: Snapshot, moves: Sequence[Move]) -> Ledger:
    """Every job on its new cards for as long as it runs, beside all that runs now."""
    ledger, running = Ledger(before), {one.job: one for one in before.running}
    for move in moves:
        one = running[move.job]
        ledger.take(taken(one.milli[0], one.sizes[0], *move.rows), length_of(one))
    return ledger


@often
@given(pools(), st.sampled_from([None, 1, 2]))
def test_no_move_that_clears_nodes_takes_what_is_reserved(
    before: Snapshot, block: int | None
) -> None:
    plan = plan_defragmentation(before, NOW, block=block)
    assert moved(before, plan.moves).nothing_held_was_taken()


@often
@given(pools(), st.booleans())
def test_no_move_that_spreads_load_takes_what_is_reserved(
    before: Snapshot, use_free_cards: bool
) -> None:
    plan = plan_rebalancing(before, NOW, step_milli=0, use_free_cards=use_free_cards)
    assert moved(before, plan.moves).nothing_held_was_taken()


@often
@given(pools(), st.integers(0, 20))
def test_no_job_that_grows_takes_what_is_reserved(before: Snapshot, which: int) -> None:
    if not before.running:
        return
    one = before.running[which % len(before.running)]
    free = FreeCapacity(before.cards)
    spare = UnreservedCapacity(before, free, NOW)
    until, row = spare.compute_end_in_place(one), one.rows[0]
    held = spare.sum_held_free(one, np.array([row]), until)
    ledger = Ledger(before)
    ledger.take(taken(int(free.milli[row]) - held[0], int(free.size[row]) - held[1], row), until)
    assert ledger.nothing_held_was_taken()
    more = taken(1, 1, row)
    if held != (0, 0):
        ledger.take(more, until)
        assert not ledger.nothing_held_was_taken(), "what is refused is held, and no more than that"


@often
@given(pools())
def test_what_a_reservation_holds_is_never_counted_as_gained(before: Snapshot) -> None:
    plan = plan_defragmentation(before, NOW)
    reserved_rows = set(
        np.flatnonzero(
            UnreservedCapacity(before, FreeCapacity(before.cards), NOW).reserved
        ).tolist()
    )
    assert plan.reserved.cards == len(reserved_rows)
    assert plan.gain.cards[1] <= len(before.cards) - len(reserved_rows)
