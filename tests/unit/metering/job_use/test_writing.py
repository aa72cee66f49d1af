"""Histograms of jobs: an interval counts once, whatever fails, and the share of the job judges it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.metering.job_use.tables import use_histograms
from gpupool.rightsizing.histogram import UseHistogram
from gpupool.wire.samples import CardUse, JobSample
from tests.support.metering_books import DAY, Pool, granted

JOB = "j-0000000001"
S = 10**9


def measure(pool: Pool, seconds: int, part: float, *, began: float = 0.0) -> float:
    """Run a job that uses a part of its card, with a sample every ten seconds; return its sum."""
    used = began
    for _ in range(seconds // 10):
        pool.time.forward(10)
        used += 10 * part
        card = CardUse(uuid="GPU-0", gpu_nanoseconds=int(used * S), reserved_bytes=2**30)
        pool.metering.record_samples(
            [JobSample(job=JOB, gpu_milliseconds=int(used * 1000), cards=[card])]
        )
    return used


def read_row(pool: Pool) -> Any:
    with pool.store.read() as connection:
        return connection.execute(sa.select(use_histograms)).one()


def read_use(pool: Pool) -> UseHistogram:
    row = read_row(pool)
    return UseHistogram.from_milliseconds(row.bins, row.highest_milli)


def test_use_is_counted_in_the_bin_of_its_part(pool: Pool) -> None:
    held = granted(pool)
    measure(pool, 600, 0.25)
    pool.release(held)

    use = read_use(pool)
    row = read_row(pool)

    # The first sample only begins an interval.
    assert use.total == pytest.approx(590)
    assert use.find_percentile(50) == 250
    assert (row.cards, row.gpu_milli, row.peak_bytes) == (1, 300, 2**30)
    assert row.until_ns - row.since_ns == 590 * S


def test_a_write_that_is_repeated_counts_once(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    held = granted(pool)
    # The answer of the database is lost: what was written is thought to be pending.
    monkeypatch.setattr(pool.metering.samples, "drop_pending", lambda written: None)
    measure(pool, 900, 0.25)
    pool.release(held)

    assert read_use(pool).total == pytest.approx(890)


def test_a_restarted_server_goes_on_where_the_books_are(pool: Pool) -> None:
    held = granted(pool)
    used = measure(pool, 600, 0.25)
    pool.start()
    measure(pool, 600, 0.1, began=used)
    pool.release(held)

    use = read_use(pool)

    assert use.find_percentile(100) == 250
    # What the old server had not written is lost, at most five minutes of it.
    assert 600 <= use.total <= 1180


def test_time_at_the_limit_is_by_the_share_that_the_job_holds(pool: Pool) -> None:
    held = granted(pool)
    measure(pool, 300, 0.3)
    pool.release(held)

    row = read_row(pool)

    assert (row.limited_milliseconds, row.limited_gpu_milli) == (290_000, 300)


def test_a_resize_judges_what_was_before_it_by_the_old_share(pool: Pool) -> None:
    held = granted(pool)
    used = measure(pool, 300, 0.3)
    pool.resize(held, 600, 8192)
    measure(pool, 300, 0.3, began=used)
    pool.release(held)

    row = read_row(pool)

    assert (row.limited_milliseconds, row.limited_gpu_milli) == (290_000, 300)
    assert (row.gpu_milli, row.memory_mib) == (600, 8192)


def test_what_is_unknown_counts_in_no_bin(pool: Pool) -> None:
    held = granted(pool)
    for _ in range(20):
        pool.time.forward(30)
        pool.metering.record_samples([JobSample(job=JOB, gpu_memory_bytes=7)])
    pool.release(held)

    row = read_row(pool)

    assert sum(row.bins) == 0
    assert row.peak_bytes == 7


def test_histograms_are_dropped_half_a_year_after_the_last_measurement(pool: Pool) -> None:
    held = granted(pool)
    measure(pool, 300, 0.25)
    pool.release(held)
    for days, left in ((170, 1), (20, 0)):
        pool.time.forward(days * DAY)
        while not pool.metering.fold_old_rows():
            pass
        assert pool.count(use_histograms) == left
