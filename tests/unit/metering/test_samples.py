"""Samples count once, whatever comes twice, late or after a restart; `top` shows what is known."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.tables import jobs
from gpupool.fleet.views import Observation
from gpupool.metering.samples import rate_percent
from gpupool.metering.tables import delivered, job_usage, usage_hours
from gpupool.model.tenant import Role
from gpupool.wire.fleet import JobSample, UsageOut
from tests.support.metering_books import ADMIN, DAY, Pool, principal

JOB = "j-0000000001"


def gpu(pool: Pool) -> list[tuple[Any, ...]]:
    with pool.store.read() as connection:
        query = sa.select(delivered.c.slot_s % 300, delivered.c.gpu_milliseconds, delivered.c.cpu_milliseconds)
        return [tuple(row) for row in connection.execute(query.order_by(delivered.c.slot_s))]


def sample(milliseconds: int | None, cpu: int | None = None) -> list[JobSample]:
    return [JobSample(job=JOB, gpu_milliseconds=milliseconds, cpu_milliseconds=cpu)]


def granted(pool: Pool) -> int:
    held = pool.grant(0, 0, 300, 4096)
    assert held is not None
    return held


def test_a_jobs_first_sample_is_written_at_once_and_later_ones_every_five_minutes(pool: Pool) -> None:
    granted(pool)
    pool.metering.record(sample(10))
    for milliseconds in (20, 30, 40):
        pool.time.forward(90)
        pool.metering.record(sample(milliseconds))
        assert gpu(pool) == [(0, 10, None)]
    pool.time.forward(90)
    pool.metering.record(sample(50))
    assert sum(row[1] for row in gpu(pool)) == 50


def test_the_same_sample_twice_or_after_a_restart_counts_once(pool: Pool) -> None:
    granted(pool)
    pool.metering.record(sample(10, 5))
    for _ in range(2):
        pool.start()
        pool.time.forward(400)
        pool.metering.record(sample(10, 5))
    assert [row[1:] for row in gpu(pool)] == [(10, 5), (0, 0), (0, 0)]


def test_a_sum_that_went_back_counts_nothing_until_it_is_past_where_it_was(pool: Pool) -> None:
    granted(pool)
    for milliseconds in (100, 40, 130):
        pool.metering.record(sample(milliseconds))
        pool.time.forward(400)
    assert [row[1] for row in gpu(pool)] == [100, 0, 30]


def test_the_end_of_a_job_takes_in_its_last_sample_and_the_supervisors_word(pool: Pool) -> None:
    held = granted(pool)
    pool.metering.record(sample(10, 1))
    pool.time.forward(20)
    pool.metering.record(sample(25, 2))
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
    pool.metering.record([JobSample(job="j-nobody", gpu_milliseconds=5)])
    assert gpu(pool) == []
    assert pool.metering._samples.latest() == {}


def test_a_job_that_ended_is_forgotten_in_memory_once_it_is_written(pool: Pool) -> None:
    held = granted(pool)
    pool.metering.record(sample(10))
    pool.release(held)
    pool.time.forward(400)
    pool.metering.record(sample(12))
    assert pool.metering._samples.latest() == {}
    assert sum(row[1] for row in gpu(pool)) == 12


def test_running_sums_are_kept_as_long_as_the_job_holds_a_share(pool: Pool) -> None:
    granted(pool)
    pool.metering.record(sample(10))
    pool.time.forward(40 * DAY)
    while not pool.metering.keep_small():
        pass
    assert pool.count(job_usage) == 1
    pool.metering.record(sample(15))
    assert sum(row[1] for row in gpu(pool)) == 15
    pool.release(pool.held()[0])
    pool.time.forward(40 * DAY)
    while not pool.metering.keep_small():
        pass
    assert pool.count(job_usage) == 0


def test_heartbeats_fold_a_little_at_a_time_and_then_not_for_an_hour(pool: Pool) -> None:
    granted(pool)
    pool.metering.record([])
    pool.time.forward(30 * DAY)
    pool.metering.record([])
    hours = pool.count(usage_hours)
    assert 0 < hours <= 28 * 24
    while not pool.metering.keep_small():
        pass
    pool.time.forward(1800)
    assert pool.metering.keep_small()
    assert pool.count(usage_hours) == 28 * 24


@pytest.mark.parametrize(
    ("new", "old", "seconds", "percent"),
    [(1500, 1000, 1, 50.0), (None, 1000, 1, None), (5, 10, 1, None), (5, 1, 0, None)],
)
def test_a_rate_is_known_only_between_two_sums_that_grow(
    new: int | None, old: int | None, seconds: int, percent: float | None
) -> None:
    assert rate_percent(new, old, seconds * 10**9, 0) == percent


# What is used now ----------------------------------------------------------------------------


def unknown(_uuid: str) -> None:
    return None


def test_top_shows_jobs_with_their_rates_and_null_for_what_nobody_measured(pool: Pool) -> None:
    granted(pool)
    pool.grant(2, 0, 500, 1024)
    pool.metering.record([JobSample(job=JOB, cpu_milliseconds=1000, rss_bytes=4096)])
    pool.time.forward(10)
    pool.metering.record([JobSample(job=JOB, cpu_milliseconds=6000, rss_bytes=8192)])
    live = pool.metering.usage(ADMIN, unknown)
    assert [(job.name, job.cpu_percent, job.gpu_percent, job.rss_bytes) for job in live.jobs] == [
        ("job-2", None, None, None),
        ("job-1", 50.0, None, 8192),
    ]
    assert (live.jobs[1].devices, live.jobs[1].held_milli, live.jobs_total) == (["node-1:0"], 300, 2)
    assert [(tenant.tenant, tenant.jobs) for tenant in live.tenants] == [("nlp", 1), ("vision", 1)]
    assert [card.usage.utilization_percent for card in live.cards] == [None, None]


def test_top_shows_what_a_card_says_of_itself(pool: Pool) -> None:
    seen = Observation(0, UsageOut(utilization_percent=12.5, power_watts=None))
    live = pool.metering.usage(ADMIN, lambda uuid: seen if uuid == "GPU-1" else None)
    assert [card.usage.utilization_percent for card in live.cards] == [None, 12.5]


def test_a_tenant_sees_its_own_jobs_and_the_cards_they_are_on(pool: Pool) -> None:
    pool.grant(0, 1, 300, 4096)
    pool.grant(2, 0, 300, 4096)
    live = pool.metering.usage(principal(0, Role.VIEWER), unknown)
    assert [job.tenant for job in live.jobs] == ["vision"]
    assert [card.device for card in live.cards] == ["node-1:1"]
    assert [tenant.tenant for tenant in live.tenants] == ["vision"]


def test_lists_are_cut_at_the_limit_and_counted_whole(pool: Pool) -> None:
    for _ in range(3):
        pool.grant(0, 0, 100, 1)
    live = pool.metering.usage(ADMIN, unknown, limit=1)
    assert (len(live.jobs), live.jobs_total, len(live.cards), live.cards_total) == (1, 3, 1, 2)
    assert live.jobs[0].name == "job-3"


def test_a_tenant_without_jobs_still_sees_its_own_holdings(pool: Pool) -> None:
    live = pool.metering.usage(principal(2), unknown)
    assert [(tenant.tenant, tenant.held_milli, tenant.jobs) for tenant in live.tenants] == [("nlp", 0, 0)]
