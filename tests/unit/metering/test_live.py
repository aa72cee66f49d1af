"""What is held and used now: cards, tenants and jobs."""

from __future__ import annotations

from gpupool.fleet.views import DeviceObservation
from gpupool.model.tenant import UserRole
from gpupool.wire.samples import JobSample, UsageOut
from tests.support.metering_books import (
    ADMIN,
    Pool,
    granted,
    principal,
)

JOB = "j-0000000001"


def unknown(_uuid: str) -> None:
    return None


def test_top_shows_jobs_with_their_rates_and_null_for_what_nobody_measured(pool: Pool) -> None:
    granted(pool)
    pool.grant(2, 0, 500, 1024)
    pool.metering.record_samples([JobSample(job=JOB, cpu_milliseconds=1000, rss_bytes=4096)])
    pool.time.forward(10)
    pool.metering.record_samples([JobSample(job=JOB, cpu_milliseconds=6000, rss_bytes=8192)])
    live = pool.metering.read_usage(ADMIN, unknown)
    assert [(job.name, job.cpu_percent, job.gpu_percent, job.rss_bytes) for job in live.jobs] == [
        ("job-2", None, None, None),
        ("job-1", 50.0, None, 8192),
    ]
    assert (live.jobs[1].devices, live.jobs[1].held_milli, live.jobs_total) == (
        ["node-1:0"],
        300,
        2,
    )
    assert [(tenant.tenant, tenant.jobs) for tenant in live.tenants] == [("nlp", 1), ("vision", 1)]
    assert [card.usage.utilization_percent for card in live.cards] == [None, None]


def test_top_shows_what_a_card_says_of_itself(pool: Pool) -> None:
    seen = DeviceObservation(0, UsageOut(utilization_percent=12.5, power_watts=None))
    live = pool.metering.read_usage(ADMIN, lambda uuid: seen if uuid == "GPU-1" else None)
    assert [card.usage.utilization_percent for card in live.cards] == [None, 12.5]


def test_a_tenant_sees_its_own_jobs_and_the_cards_they_are_on(pool: Pool) -> None:
    pool.grant(0, 1, 300, 4096)
    pool.grant(2, 0, 300, 4096)
    live = pool.metering.read_usage(principal(0, UserRole.VIEWER), unknown)
    assert [job.tenant for job in live.jobs] == ["vision"]
    assert [card.device for card in live.cards] == ["node-1:1"]
    assert [tenant.tenant for tenant in live.tenants] == ["vision"]


def test_lists_are_cut_at_the_limit_and_counted_whole(pool: Pool) -> None:
    for _ in range(3):
        pool.grant(0, 0, 100, 1)
    live = pool.metering.read_usage(ADMIN, unknown, limit=1)
    assert (len(live.jobs), live.jobs_total, len(live.cards), live.cards_total) == (1, 3, 1, 2)
    assert live.jobs[0].name == "job-3"


def test_a_tenant_without_jobs_still_sees_its_own_holdings(pool: Pool) -> None:
    live = pool.metering.read_usage(principal(2), unknown)
    assert [(tenant.tenant, tenant.held_milli, tenant.jobs) for tenant in live.tenants] == [
        ("nlp", 0, 0)
    ]
