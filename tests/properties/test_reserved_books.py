"""Months close, whatever was reserved and whatever jobs used of it."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.allocations.store.tables import claims
from gpupool.billing.charging.marks import forget_charges
from gpupool.billing.charging.spending import SpendingOwner, read_spending
from gpupool.billing.charging.tables import reserved_hours
from gpupool.billing.documents.lines import compute_line_cost, read_lines
from gpupool.metering.books import MICRO
from gpupool.store.database import sqlite_url
from tests.support.billing_books import ADMIN, bill, settle
from tests.support.metering_books import HOUR, START_S, Pool, S
from tests.support.reservation_books import reserve

#: All of it happens in these hours.
HOURS = 4

reservations = st.lists(
    st.tuples(
        st.integers(0, 2 * HOUR),
        st.integers(60, 2 * HOUR),
        st.sampled_from([300, 1000]),
        st.sampled_from(["L40S", "T4", None]),
    ),
    max_size=3,
)
#: When a job starts, how long it runs, its card, its compute and memory, and its reservation.
jobs = st.lists(
    st.tuples(
        st.integers(0, 2 * HOUR),
        st.integers(1, HOUR),
        st.integers(0, 1),
        st.sampled_from([(1000, 46068), (250, 30000), (300, 1000)]),
        st.integers(0, 3),
    ),
    max_size=4,
)


@settings(max_examples=8, deadline=None)
@given(reservations, jobs, st.integers(1, 1000))
def test_a_month_closes_with_any_reservations_and_jobs(
    asked: list[tuple[int, int, int, str | None]],
    runs: list[tuple[int, int, int, tuple[int, int], int]],
    part: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pool = Pool(sqlite_url(Path(folder) / "books.db"))
        billing = bill(pool, reserved_milli=part)
        for number, (start, length, milli, model) in enumerate(asked):
            reserve(pool, f"r{number}", start, length, milli, model)
        run_jobs(pool, runs)
        pool.time.forward(START_S + HOURS * HOUR - pool.time.wall_ns // S)
        with pool.store.write():
            pass  # the ledger's time is now
        young = report_reserved(pool, START_S + HOURS * HOUR)
        settle(pool, billing)
        check_books(pool, asked)
        # What the books say to the second is what was recorded of the same hours.
        assert report_reserved(pool, START_S + HOURS * HOUR) == young
        with pool.store.write() as write:
            forget_charges(write, START_S)
        billing.charging.catch_up()
        check_books(pool, asked)
        pool.store.close()


def run_jobs(pool: Pool, runs: list[tuple[int, int, int, tuple[int, int], int]]) -> None:
    """Run the jobs in the order of their starts and ends, as far as there is room."""
    steps = [(one[0], number, True) for number, one in enumerate(runs)]
    steps += [(one[0] + one[1], number, False) for number, one in enumerate(runs)]
    held: dict[int, int] = {}
    for at_s, number, is_start in sorted(steps):
        pool.time.forward(START_S + at_s - pool.time.wall_ns // S)
        if not is_start:
            if number in held:
                pool.release(held.pop(number))
            continue
        _start, _length, card, (milli, memory_mib), reservation = runs[number]
        allocation = pool.grant(0, card, milli, memory_mib)
        if allocation is not None:
            held[number] = allocation
            with pool.store.write() as write:
                latest = write.execute(sa.select(sa.func.max(claims.c.id))).scalar_one()
                name = f"r{reservation}"
                write.execute(claims.update().where(claims.c.id == latest).values(reservation=name))


def report_reserved(pool: Pool, until_s: int) -> int:
    """Report up to an instant; check that it closes, and return the unused time of reservations."""
    report = pool.metering.make_report(ADMIN, START_S * S, until_s * S)
    assert report.closes
    by_card = pool.metering.make_report(ADMIN, START_S * S, until_s * S, ("card",))
    assert by_card.closes
    sums = dict.fromkeys(("tenant", "reserved", "idle", "overhead", "unmanaged"), 0)
    for row in report.rows:
        sums[row.kind] += row.card_milliseconds
    assert sum(sums.values()) == 2 * 1000 * (until_s - START_S)
    # A reservation names no card, so by card its time is idle.
    idle = sum(row.card_milliseconds for row in by_card.rows if row.kind == "idle")
    assert sums["reserved"] + sums["idle"] == idle
    return sums["reserved"]


def check_books(pool: Pool, asked: list[tuple[int, int, int, str | None]]) -> None:
    with pool.store.read() as connection:
        marks_s = START_S + (HOURS + 1) * HOUR
        lines = read_lines(connection, START_S, marks_s)
        c = reserved_hours.c
        parts = c.used_micro_seconds + c.unused_micro_seconds + c.missing_micro_seconds
        recorded = connection.execute(sa.select(sa.func.sum(parts))).scalar_one() or 0
        spent = read_spending(connection, SpendingOwner(2), START_S, marks_s)
    # The cards: every second is in one line, and so is its money at the price of the card.
    seconds = marks_s - START_S
    assert sum(line.card_milliseconds for line in lines) == 2 * 1000 * seconds
    assert sum(line.charged_micro_seconds for line in lines) == 2 * MICRO * seconds
    whole = Fraction((3_600_001 + 1_000_000) * seconds, HOUR)
    assert sum(line.list_micro for line in lines) == round(whole)
    # The report of the same time has the lines' reserved time; one of no money is not a line.
    reserved = sum(line.card_milliseconds for line in lines if line.kind == "reserved")
    assert report_reserved(pool, marks_s) == reserved
    # The reservations: used, unused and missing are what they reserved.
    assert recorded == sum(length * MICRO for _start, length, _milli, _model in asked)
    paid = [compute_line_cost(line) for line in lines if line.tenant == "vision"]
    assert spent.micro == sum(paid)
