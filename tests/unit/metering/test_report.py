"""Reports of real books, on both databases: who sees what, what it adds up to, what it costs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpupool.base.errors import BadOption
from gpupool.metering.prices import parse_prices
from gpupool.metering.rollup import roll_up
from gpupool.wire.samples import JobSample
from tests.support.metering_books import (
    CARD_MIB,
    DAY,
    HOUR,
    START_S,
    Pool,
    S,
    report,
    rows,
    shared_card,
)

pytest_plugins = ["tests.support.postgres_fixtures"]


def test_tenants_and_idle_add_up_to_the_cards_capacity(any_pool: Pool) -> None:
    shared_card(any_pool)
    answer = report(any_pool, "tenant")
    assert rows(answer, "tenant", "card_milliseconds", "memory_mib_seconds") == [
        ("tenant", "vision", 300 * 100, 8192 * 100),
        ("tenant", "nlp", 500 * 40, 16384 * 40),
        ("idle", None, 2 * 120_000 - 50_000, 2 * 120 * CARD_MIB - 8192 * 100 - 16384 * 40),
        ("overhead", None, 0, 0),
        ("unmanaged", None, 0, 0),
    ]
    assert answer.capacity_card_milliseconds == 2 * 120_000
    assert answer.capacity_memory_mib_seconds == 2 * 120 * CARD_MIB
    assert (answer.closes, answer.simulated, answer.resolution_seconds) == (True, True, 1)


def test_by_card_every_card_has_its_own_idle_row(any_pool: Pool) -> None:
    shared_card(any_pool)
    assert rows(report(any_pool, "card"), "device", "model", "card_milliseconds") == [
        ("tenant", "node-1:0", "L40S", 50_000),
        ("idle", "node-1:1", "T4", 120_000),
        ("idle", "node-1:0", "L40S", 70_000),
    ]


def test_what_is_left_of_a_draining_card_is_overhead_and_its_share_stays_the_tenants(
    any_pool: Pool,
) -> None:
    held = any_pool.grant(0, 0, 300, 8192)
    any_pool.time.forward(10)
    any_pool.drain(0)
    any_pool.time.forward(30)
    assert held is not None
    any_pool.release(held)  # the card is released with its last share
    any_pool.time.forward(5)
    assert rows(report(any_pool, "tenant"), "card_milliseconds") == [
        ("tenant", 300 * 40),
        ("idle", 700 * 10 + 45_000),
        ("overhead", 700 * 30),
        ("unmanaged", 5000),
    ]


def test_a_running_job_counts_to_now_and_no_further(any_pool: Pool) -> None:
    any_pool.grant(0, 0, 1000, CARD_MIB)
    any_pool.time.forward(90.9)
    answer = report(any_pool, "tenant", until=10 * DAY)
    assert answer.until_ns == (START_S + 90) * S
    assert rows(answer, "card_milliseconds")[0] == ("tenant", 90_000)


def test_closing_twice_counts_once(any_pool: Pool) -> None:
    held = any_pool.grant(0, 0, 100, 1)
    assert held is not None
    any_pool.time.forward(10)
    any_pool.release(held)
    any_pool.time.forward(10)
    any_pool.release(held)
    assert rows(report(any_pool, "tenant"), "card_milliseconds")[0] == ("tenant", 1000)


def test_best_effort_holds_memory_and_no_compute(any_pool: Pool) -> None:
    any_pool.grant(0, 0, 0, 4096)
    any_pool.time.forward(10)
    assert rows(report(any_pool, "user"), "card_milliseconds", "memory_mib_seconds")[0] == (
        "tenant",
        0,
        40960,
    )


def test_folding_changes_no_total_and_names_the_range_it_answers(any_pool: Pool) -> None:
    shared_card(any_pool)
    any_pool.time.forward(3 * DAY)
    before = report(any_pool, "tenant", until=HOUR)
    assert roll_up(any_pool.store)
    answer = report(any_pool, "tenant", since=50, until=70)
    assert (answer.since_ns, answer.until_ns) == (START_S * S, (START_S + HOUR) * S)
    assert answer.rows == before.rows
    assert answer.resolution_seconds == HOUR
    assert "kept by the hour before" in answer.rule
    any_pool.time.forward(40 * DAY)
    assert roll_up(any_pool.store)
    by_day = report(any_pool, "job", since=50, until=70)
    assert by_day.resolution_seconds == DAY
    assert rows(by_day, "user", "job", "card_milliseconds")[:2] == [
        ("tenant", "ada", None, 30_000),
        ("tenant", "cyd", None, 20_000),
    ]
    assert "by the day and without jobs" in by_day.rule
    assert by_day.closes


# Prices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["max", "compute-only", "memory-only"])
def test_costs_add_up_to_price_times_capacity_under_every_rule(any_pool: Pool, rule: str) -> None:
    shared_card(any_pool)
    prices = parse_prices(["L40S:360", "T4:36.0"], rule, "EUR")
    answer = report(any_pool, "user", prices=prices)
    assert (answer.total_cost, answer.currency) == (
        f"{120 * Decimal('0.1') + 120 * Decimal('0.01')}",
        "EUR",
    )
    assert sum(Decimal(row.cost or "x") for row in answer.rows) == Decimal(answer.total_cost or "x")
    by_hand = {
        "max": (100 * 0.1 * max(0.3, 8192 / CARD_MIB), 40 * 0.1 * max(0.5, 16384 / CARD_MIB)),
        "compute-only": (100 * 0.1 * 0.3, 40 * 0.1 * 0.5),
        "memory-only": (100 * 0.1 * 8192 / CARD_MIB, 40 * 0.1 * 16384 / CARD_MIB),
    }
    for row, cost in zip(answer.rows, by_hand[rule], strict=False):
        assert abs(float(row.cost or "x") - cost) < 0.01


def test_shares_that_complement_each_other_leave_a_negative_idle_cost(any_pool: Pool) -> None:
    any_pool.grant(0, 0, 900, 4096)
    any_pool.grant(2, 0, 100, 40960)
    any_pool.time.forward(HOUR)
    answer = report(any_pool, "tenant", prices=parse_prices(["L40S:1.00", "T4:0"]))
    assert rows(answer, "cost") == [
        ("tenant", "0.90"),
        ("tenant", "0.89"),
        ("idle", "-0.79"),
        *[(kind, "0.00") for kind in ("overhead", "unmanaged")],
    ]
    assert answer.total_cost == "1.00"


def test_a_price_that_is_missing_is_refused_by_model(any_pool: Pool) -> None:
    any_pool.time.forward(10)
    with pytest.raises(BadOption, match="no price for T4"):
        report(any_pool, "tenant", prices=parse_prices(["L40S:1"]))


def test_prices_mean_the_same_after_folding(any_pool: Pool) -> None:
    shared_card(any_pool)
    any_pool.time.forward(40 * DAY)
    prices = parse_prices(["*:3.60"])
    before = report(any_pool, "tenant", since=-DAY, until=3 * DAY, prices=prices)
    assert roll_up(any_pool.store)
    after = report(any_pool, "tenant", since=-DAY, until=3 * DAY, prices=prices)
    aligned = report(any_pool, "tenant", since=-DAY, until=3 * DAY)
    assert [row.cost for row in after.rows if row.kind == "tenant"] == [
        row.cost for row in before.rows if row.kind == "tenant"
    ]
    assert [row.card_milliseconds for row in after.rows] == [
        row.card_milliseconds for row in aligned.rows
    ]


# What was delivered --------------------------------------------------------------------------


def test_what_nobody_measured_is_unknown_and_not_zero(any_pool: Pool) -> None:
    shared_card(any_pool)
    assert {
        (row.delivered_gpu_milliseconds, row.cpu_milliseconds)
        for row in report(any_pool, "job").rows
    } == {(None, None)}


def test_what_was_measured_stands_beside_what_was_promised(any_pool: Pool) -> None:
    any_pool.grant(0, 0, 300, 1)
    any_pool.grant(1, 0, 300, 1)
    any_pool.metering.record_samples(
        [JobSample(job="j-0000000001", gpu_milliseconds=100, cpu_milliseconds=7)]
    )
    any_pool.time.forward(400)
    any_pool.metering.record_samples([JobSample(job="j-0000000001", gpu_milliseconds=5100)])
    by_user = rows(
        report(any_pool, "user"), "user", "delivered_gpu_milliseconds", "cpu_milliseconds"
    )
    assert sorted(by_user[:2], key=str) == [
        ("tenant", "ada", 5100, 7),
        ("tenant", "bob", None, None),
    ]
    assert rows(report(any_pool, "tenant"), "delivered_gpu_milliseconds")[0] == ("tenant", 5100)
    assert rows(report(any_pool, "card"), "delivered_gpu_milliseconds")[0] == ("tenant", None)


def test_measured_use_survives_folding_and_loses_the_job_with_the_day(any_pool: Pool) -> None:
    held = any_pool.grant(0, 0, 300, 1)
    any_pool.metering.record_samples(
        [JobSample(job="j-0000000001", gpu_milliseconds=100, cpu_milliseconds=7)]
    )
    any_pool.time.forward(4000)
    any_pool.metering.record_samples(
        [JobSample(job="j-0000000001", gpu_milliseconds=350, cpu_milliseconds=9)]
    )
    assert held is not None
    any_pool.release(held)
    for days in (3, 40):
        any_pool.time.forward(days * DAY)
        assert roll_up(any_pool.store)
        told = rows(
            report(any_pool, "user"), "user", "delivered_gpu_milliseconds", "cpu_milliseconds"
        )
        assert told[0] == ("tenant", "ada", 350, 9)
    assert rows(report(any_pool, "job"), "job", "delivered_gpu_milliseconds")[0] == (
        "tenant",
        None,
        350,
    )


def test_promises_are_summed_by_tenant_and_by_job_through_every_age_of_the_books(
    any_pool: Pool,
) -> None:
    held = any_pool.grant(0, 0, 300, 8192)
    assert held is not None
    any_pool.time.forward(100)
    told = JobSample(
        job="j-0000000001",
        gpu_milliseconds=40_000,
        borrowed_milliseconds=15_000,
        denied_milliseconds=2_000,
    )
    any_pool.metering.record_samples([told])
    any_pool.release(held)
    columns = ("kept_gpu", "borrowed_gpu", "denied_gpu")
    names = ("card_milliseconds", *(f"{name}_milliseconds" for name in columns))
    want = [("tenant", "vision", 30_000, 25_000, 15_000, 2_000)]
    by_job = report(any_pool, "job").rows[0]
    assert (by_job.sharing, by_job.kept_gpu_milliseconds) == ("fixed", 25_000)
    for days in (0, 3, 40):
        any_pool.time.forward(days * DAY)
        roll_up(any_pool.store)
        answer = report(any_pool, "tenant", since=-(START_S % DAY))
        assert rows(answer, "tenant", *names)[:1] == want, days
        assert answer.closes
