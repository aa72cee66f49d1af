"""Samples count once, whatever comes twice, late or after a restart; `top` shows what is known."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import jobs
from gpupool.metering.samples import rate_percent
from gpupool.metering.tables import delivered, job_usage
from gpupool.wire.samples import JobSample
from tests.support.metering_books import DAY, Pool, granted

JOB = "j-0000000001"


def gpu(pool: Pool) -> list[tuple[Any, ...]]:
    with pool.store.read() as connection:
        query = sa.select(
            delivered.c.slot_s % 300, delivered.c.gpu_milliseconds, delivered.c.cpu_milliseconds
        )
        return [tuple(row) for row in connection.execute(query.order_by(delivered.c.slot_s))]


def sample(milliseconds: int | None, cpu: int | None = None) -> list[JobSample]:
    return [JobSample(job=JOB, gpu_milliseconds=milliseconds, cpu_milliseconds=cpu)]


def test_a_jobs_first_sample_is_written_at_once_and_later_ones_every_five_minutes(
    pool: Pool,
) -> None:
    granted(pool)
    pool.metering.record_samples(sample(10))
    for milliseconds in (20, 30, 40):
        pool.time.forward(90)
        pool.metering.record_samples(sample(milliseconds))
        assert gpu(pool) == [(0, 10, None)]
    pool.time.forward(90)
    pool.metering.record_samples(sample(50))
    assert sum(row[1] for row in gpu(pool)) == 50


def test_the_same_sample_twice_or_after_a_restart_counts_once(pool: Pool) -> None:
    granted(pool)
    pool.metering.record_samples(sample(10, 5))
    for _ in range(2):
        pool.start()
        pool.time.forward(400)
        pool.metering.record_samples(sample(10, 5))
    assert [row[1:] for row in gpu(pool)] == [(10, 5), (0, 0), (0, 0)]


def test_a_sum_that_went_back_counts_nothing_until_it_is_past_where_it_was(pool: Pool) -> None:
    granted(pool)
    for milliseconds in (100, 40, 130):
        pool.metering.record_samples(sample(milliseconds))
        pool.time.forward(400)
    assert [row[1] for row in gpu(pool)] == [100, 0, 30]


def test_the_end_of_a_job_takes_in_its_last_sample_and_the_supervisors_word(pool: Pool) -> None:
    held = granted(pool)
    pool.metering.record_samples(sample(10, 1))
    pool.time.forward(20)
    pool.metering.record_samples(sample(25, 2))
    with pool.store.write() as write:
        write.execute(jobs.update().values(cpu_milliseconds=77))
    pool.release(held)
    assert (sum(row[1] for row in gpu(pool)), sum(row[2] for row in gpu(pool))) == (25, 77)


def test_the_cpu_time_of_a_job_that_was_never_sampled_is_known_from_its_end(pool: Pool) -> None:
    held = granted(pool)
    with pool.store.write() as write:
        write.execute(jobs.update().values(cpu_milliseconds=77))
    pool.release(held)
    assert [row[1:] for row in gpu(pool)] == [(None, 77)]


def test_a_sample_of_an_unknown_job_is_ignored_and_forgotten(pool: Pool) -> None:
    pool.metering.record_samples([JobSample(job="j-nobody", gpu_milliseconds=5)])
    assert gpu(pool) == []
    assert pool.metering.samples.get_latest() == {}


def test_a_job_that_ended_is_forgotten_in_memory_once_it_is_written(pool: Pool) -> None:
    held = granted(pool)
    pool.metering.record_samples(sample(10))
    pool.release(held)
    pool.time.forward(400)
    pool.metering.record_samples(sample(12))
    assert pool.metering.samples.get_latest() == {}
    assert sum(row[1] for row in gpu(pool)) == 12


def test_running_sums_are_kept_as_long_as_the_job_holds_a_share(pool: Pool) -> None:
    granted(pool)
    pool.metering.record_samples(sample(10))
    pool.time.forward(40 * DAY)
    while not pool.metering.fold_old_rows():
        pass
    assert pool.count(job_usage) == 1
    pool.metering.record_samples(sample(15))
    assert sum(row[1] for row in gpu(pool)) == 15
    pool.release(pool.held()[0])
    pool.time.forward(40 * DAY)
    while not pool.metering.fold_old_rows():
        pass
    assert pool.count(job_usage) == 0


@pytest.mark.parametrize(
    ("new", "old", "seconds", "percent"),
    [(1500, 1000, 1, 50.0), (None, 1000, 1, None), (5, 10, 1, None), (5, 1, 0, None)],
)
def test_a_rate_is_known_only_between_two_sums_that_grow(
    new: int | None, old: int | None, seconds: int, percent: float | None
) -> None:
    assert rate_percent(new, old, seconds * 10**9, 0) == percent


def test_the_sums_of_the_promise_are_booked_as_the_use_is(pool: Pool) -> None:
    held = granted(pool)
    for gpu_ms, borrowed_ms, denied_ms in ((100, 30, 0), (100, 30, 0), (250, 130, 7)):
        told = JobSample(
            job=JOB,
            gpu_milliseconds=gpu_ms,
            borrowed_milliseconds=borrowed_ms,
            denied_milliseconds=denied_ms,
        )
        pool.metering.record_samples([told])
        pool.time.forward(400)
    assert promises(pool) == [(70, 30, 0), (0, 0, 0), (50, 100, 7)]
    pool.release(held)
    assert [sum(column) for column in zip(*promises(pool), strict=True)] == [120, 130, 7]


def test_a_job_whose_promise_is_not_counted_has_no_sums_of_it(pool: Pool) -> None:
    granted(pool)
    pool.metering.record_samples(sample(10))
    assert promises(pool) == [(None, None, None)]


def promises(pool: Pool) -> list[tuple[Any, ...]]:
    columns = (
        delivered.c.kept_milliseconds,
        delivered.c.borrowed_milliseconds,
        delivered.c.denied_milliseconds,
    )
    with pool.store.read() as connection:
        rows = connection.execute(sa.select(*columns).order_by(delivered.c.slot_s))
        return [tuple(row) for row in rows]
