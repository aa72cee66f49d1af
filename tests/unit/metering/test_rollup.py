"""Folding the books: idempotent, killable anywhere, and small after a year."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.clock import LedgerClock
from gpupool.metering import rollup
from gpupool.metering.rollup import read_marks, roll_up
from gpupool.metering.tables import delivered, intervals, job_usage, usage_days, usage_hours
from gpupool.store.database import Store, connect, sqlite_url
from gpupool.wire.report import ReportOut
from gpupool.wire.samples import JobSample
from tests.support.metering_books import ADMIN, CARD_MIB, DAY, HOUR, START_S, Pool, S

pytest_plugins = ["tests.support.postgres_fixtures"]


def everything(pool: Pool) -> ReportOut:
    """The whole of the books to a day of UTC: a range that every age of them can answer."""
    end = pool.now_s() - pool.now_s() % DAY
    return pool.metering.make_report(ADMIN, 0, end * S, ["user"])


def totals(answer: ReportOut) -> list[tuple[Any, ...]]:
    return [
        (row.kind, row.user, row.card_milliseconds, row.memory_mib_seconds) for row in answer.rows
    ]


def busy(pool: Pool) -> None:
    """Three days with short, long and open seats, measured ones among them."""
    pool.grant(0, 0, 333, 4096)
    for person in (0, 1, 2, 1):
        held = pool.grant(person, 1, 250, 8192)
        pool.metering.record_samples(
            [JobSample(job="j-0000000001", gpu_milliseconds=pool.now_s() - START_S)]
        )
        pool.time.forward(17 * HOUR + 0.5)
        assert held is not None
        pool.release(held)
    pool.health(1, "failed")
    pool.time.forward(HOUR)
    pool.health(1, "ok")


def test_nothing_is_folded_while_it_is_young(pool: Pool) -> None:
    pool.grant(0, 0, 333, 4096)
    pool.time.forward(2 * DAY - 1)
    assert roll_up(pool.store)
    assert (pool.count(usage_hours), pool.oldest_interval_s()) == (0, START_S)


def test_an_open_seat_is_cut_exactly_at_whole_hours(pool: Pool) -> None:
    pool.time.forward(1800.5)
    pool.grant(0, 0, 333, 4096)
    pool.time.forward(2 * DAY + 2 * HOUR)
    assert roll_up(pool.store)
    with pool.store.read() as connection:
        kept = connection.execute(
            sa.select(usage_hours.c.hour_s, usage_hours.c.card_milliseconds)
        ).all()
    assert kept == [(START_S, 333 * 1800), (START_S + HOUR, 333 * 3600)]
    assert pool.oldest_interval_s() == START_S + 2 * HOUR
    assert len(pool.held()) == 1


def test_folding_again_changes_nothing(any_pool: Pool) -> None:
    busy(any_pool)
    any_pool.time.forward(40 * DAY)
    assert roll_up(any_pool.store)
    once = [
        any_pool.count(table)
        for table in (intervals, usage_hours, usage_days, delivered, job_usage)
    ]
    told = totals(everything(any_pool))
    assert roll_up(any_pool.store)
    assert [
        any_pool.count(table)
        for table in (intervals, usage_hours, usage_days, delivered, job_usage)
    ] == once
    assert totals(everything(any_pool)) == told


def test_a_report_is_the_same_between_any_two_steps(
    any_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "CHUNK", 2)
    monkeypatch.setattr(rollup, "HOURS_CHUNK", 5)
    busy(any_pool)
    any_pool.time.forward(40 * DAY)
    expected, count = totals(everything(any_pool)), 0
    while not roll_up(any_pool.store, 1):
        count += 1
        if count % 7 == 1:
            assert totals(everything(any_pool)) == expected
    assert totals(everything(any_pool)) == expected
    assert count > 50


class Killed(BaseException):
    """Stands for the power going: no handler of Exception sees it."""


def test_a_death_before_any_statement_loses_and_doubles_nothing(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "CHUNK", 3)
    monkeypatch.setattr(rollup, "HOURS_CHUNK", 5)
    busy(pool)
    pool.time.forward(36 * DAY)
    expected = totals(everything(pool))
    left = 0

    def die(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    deaths, left, done = 0, 3, False
    while not done:
        left = 3 + deaths % 40  # at least one statement further than the opening of the transaction
        sa.event.listen(pool.engine, "before_cursor_execute", die)
        try:
            done = roll_up(pool.store)
        except Killed:
            deaths += 1
        finally:
            sa.event.remove(pool.engine, "before_cursor_execute", die)
        if deaths % 5 == 0 or done:
            assert totals(everything(pool)) == expected
    assert deaths > 30


KILLED = """
import os, signal, sys
import sqlalchemy as sa
from gpupool.base.clock import LedgerClock
from gpupool.metering import rollup
from gpupool.server import schema
from gpupool.store.database import Store, connect
url, now_ns, after = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rollup.CHUNK, rollup.HOURS_CHUNK = 3, 20
store = Store(connect(url), LedgerClock(wall=lambda: now_ns, boot=lambda: 0))
store.take("child")
count = 0
def die(*_):
    global count
    count += 1
    if count == after:
        os.kill(os.getpid(), signal.SIGKILL)
sa.event.listen(store.engine, "after_cursor_execute", die)
rollup.roll_up(store)
"""


@pytest.mark.parametrize("after", [3, 17, 64, 151])
def test_a_server_killed_while_it_folds_leaves_books_that_close(pool: Pool, after: int) -> None:
    busy(pool)
    pool.time.forward(36 * DAY)
    expected = totals(everything(pool))
    command = [
        sys.executable,
        "-c",
        KILLED,
        str(pool.engine.url),
        str(pool.time.wall_ns),
        str(after),
    ]
    child = subprocess.run(
        command, check=False, capture_output=True, text=True, env=dict(os.environ)
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert totals(everything(pool)) == expected
    pool.store.take("test")
    assert roll_up(pool.store)
    assert totals(everything(pool)) == expected
    assert pool.count(usage_days) > 0


# Size ----------------------------------------------------------------------------------------

CARDS, DAYS = 3, 400


@pytest.fixture(scope="module", params=[2, 24])
def year(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pool, int]]:
    """More than a year of a busy pool, so many jobs per card and day, folded."""
    per_day: int = request.param
    pool = Pool(sqlite_url(tmp_path_factory.mktemp("year") / "gpupool.db"), cards=CARDS)
    length = DAY // per_day
    owner = {"tenant_id": 2, "project_id": 2, "gpu_milli": 500, "memory_mib": 1000}
    rows = [
        {
            "allocation_id": number * 10 + device,
            "device_id": device,
            "job_id": number * 10 + device,
            **owner,
        }
        | {
            "user_id": 10 + number % 2,
            "start_s": START_S + number * length,
            "end_s": START_S + (number + 1) * length,
        }
        for number in range(DAYS * per_day)
        for device in range(1, CARDS + 1)
    ]
    with pool.store.write() as write:
        write.execute(intervals.insert(), rows)
    pool.time.forward(DAYS * DAY)
    assert roll_up(pool.store)
    yield pool, per_day
    pool.engine.dispose()


def test_a_year_takes_rows_by_days_and_cards_and_users_not_by_jobs(year: tuple[Pool, int]) -> None:
    pool, per_day = year
    assert pool.count(intervals) <= CARDS * (2 * per_day + per_day // 24 + 1)
    assert pool.count(usage_hours) <= CARDS * 36 * (24 + per_day)
    assert pool.count(usage_days) <= CARDS * 2 * (DAYS + 1)


def test_a_years_report_costs_the_same_whether_jobs_were_few_or_many(
    year: tuple[Pool, int],
) -> None:
    pool, _ = year
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    def watch(raw: sqlite3.Connection, *_: Any) -> None:
        raw.set_progress_handler(count, 1000)

    sa.event.listen(pool.engine, "checkout", watch)
    answer = pool.metering.make_report(ADMIN, START_S * S, pool.metering.read_now_ns(), ["tenant"])
    sa.event.remove(pool.engine, "checkout", watch)
    assert answer.closes
    assert (
        0 < steps < 900
    )  # thousands of the database's own instructions; 9,600 kept days and hours


def test_a_years_total_is_exact(year: tuple[Pool, int]) -> None:
    pool, _ = year
    answer = pool.metering.make_report(ADMIN, START_S * S, pool.metering.read_now_ns(), ["tenant"])
    assert answer.rows[0].card_milliseconds == CARDS * DAYS * DAY * 500
    assert answer.capacity_card_milliseconds == CARDS * DAYS * DAY * 1000
    assert answer.capacity_memory_mib_seconds == CARDS * DAYS * DAY * CARD_MIB


def test_the_marks_never_go_back(tmp_path: Path) -> None:
    pool = Pool(sqlite_url(tmp_path / "gpupool.db"))
    pool.time.forward(40 * DAY)
    assert roll_up(pool.store)
    with pool.store.read() as connection:
        before = read_marks(connection)
    pool.time.wall_ns -= 100 * DAY * S
    later = Store(
        connect(str(pool.engine.url)), LedgerClock(wall=lambda: pool.time.wall_ns, boot=lambda: 0)
    )
    later.take("test")
    assert roll_up(later)
    with later.read() as connection:
        assert read_marks(connection) == before
    later.engine.dispose()
    pool.engine.dispose()
