"""Processors and main memory are counted and priced as long as jobs hold them, on both databases."""

from __future__ import annotations

from decimal import Decimal

import pytest
import sqlalchemy as sa

import gpupool.allocations.store.tables as work
from gpupool.base.errors import BadOption
from gpupool.base.units import GIB
from gpupool.fleet.tables import nodes
from gpupool.metering.prices import parse_prices
from tests.support.metering_books import START_S, Pool, S, begin, fill, report, rows, shared_card

pytest_plugins = ["tests.support.postgres_fixtures"]
HOST = ("host_cpu_milli_seconds", "host_memory_mib_seconds")


def hold(pool: Pool, job: int, cpu_milli: int, gib: int, start_s: int, end_s: int | None) -> None:
    """Processors and main memory of a job, from and to an instant after the start."""
    with begin(pool.engine) as connection:
        node = connection.execute(sa.select(nodes.c.id)).scalar_one()
        number = connection.execute(sa.select(sa.func.count()).select_from(work.allocations))
        key = 1 + number.scalar_one()
        fill(
            connection,
            work.allocations,
            id=key,
            public_id=f"a-{key:010d}",
            job_id=job,
            claim_id=job,
            node_id=node,
            state="granted" if end_s is None else "released",
            # Half a second later: whole seconds of the clock count.
            granted_ns=(START_S + start_s) * S + S // 2,
            released_ns=None if end_s is None else (START_S + end_s) * S + S // 2,
            cpu_milli=cpu_milli,
            host_bytes=gib * GIB,
        )


def test_what_jobs_hold_is_counted_by_group_and_only_where_it_has_a_price(any_pool: Pool) -> None:
    shared_card(any_pool)
    hold(any_pool, 1, 2000, 8, 0, 100)
    hold(any_pool, 1, 500, 1, 110, None)
    hold(any_pool, 2, 1000, 0, 20, 60)
    plain = report(any_pool, "tenant", prices=parse_prices(["*:1"]))
    assert {row.host_cpu_milli_seconds for row in plain.rows} == {None}
    answer = report(any_pool, "tenant", prices=parse_prices([], cpu="0.36"))
    assert rows(answer, "tenant", *HOST)[:3] == [
        ("tenant", "vision", 2000 * 100 + 500 * 10, (8 * 100 + 10) * 1024),
        ("tenant", "nlp", 1000 * 40, 0),
        ("idle", None, None, None),
    ]
    by_job = report(any_pool, "job", prices=parse_prices([], memory="1"))
    assert {row.job: row.host_cpu_milli_seconds for row in by_job.rows if row.job} == {
        "j-0000000001": 205_000,
        "j-0000000002": 40_000,
    }
    assert answer.closes
    part = report(any_pool, "tenant", since=50, until=115, prices=parse_prices([], cpu="1"))
    by_tenant = {row.tenant: row.host_cpu_milli_seconds for row in part.rows}
    assert (by_tenant["vision"], by_tenant["nlp"]) == (2000 * 50 + 500 * 5, 1000 * 10)


def test_costs_of_cards_and_hosts_add_up_to_the_total(any_pool: Pool) -> None:
    shared_card(any_pool)
    hold(any_pool, 1, 2000, 8, 0, 100)
    hold(any_pool, 2, 1000, 4, 20, 60)
    cards = report(any_pool, "tenant", prices=parse_prices(["*:3600"]))
    both = parse_prices(["*:3600"], cpu="36", memory="3.6")
    answer = report(any_pool, "tenant", prices=both)
    assert cards.total_cost is not None
    assert answer.total_cost is not None
    # 36 an hour are 0.01 a second, 3.6 are 0.001.
    hosts = Decimal("0.01") * (200 + 40) + Decimal("0.001") * (800 + 160)
    assert Decimal(answer.total_cost) == Decimal(cards.total_cost) + hosts
    assert sum(Decimal(row.cost or 0) for row in answer.rows) == Decimal(answer.total_cost)
    assert "processors and main memory as long as jobs hold them" in answer.rule
    alone = report(any_pool, "tenant", prices=parse_prices([], cpu="36"))
    assert alone.total_cost == "2.40"
    assert [row.cost for row in alone.rows if row.kind == "idle"] == ["0.00"]


def test_a_job_without_cards_has_a_row_of_its_own(any_pool: Pool) -> None:
    shared_card(any_pool)
    held = any_pool.grant(2, 1, 100, 0)
    assert held is not None
    any_pool.release(held)
    hold(any_pool, 3, 4000, 1, 120, 121)
    any_pool.time.forward(10)
    answer = report(any_pool, "job", prices=parse_prices([], cpu="1"))
    (row,) = [row for row in answer.rows if row.job == "j-0000000003"]
    assert (row.card_milliseconds, row.host_cpu_milli_seconds) == (0, 4000)


def test_a_report_by_card_prices_no_processors(any_pool: Pool) -> None:
    with pytest.raises(BadOption, match="of no card"):
        report(any_pool, "tenant", "card", prices=parse_prices(["*:1"], cpu="1"))
