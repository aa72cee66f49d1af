"""Reports tell the unused time of reservations apart from idle time, in any range."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.units import MIB
from gpupool.metering.books import DAY_S
from gpupool.metering.clusters import ClusterBooks
from gpupool.metering.prices import parse_prices
from gpupool.metering.rollup import roll_up
from gpupool.model.tenant import UserRole
from gpupool.wire.cluster import ClusterNodeIn
from gpupool.wire.report import ReportOut
from tests.support.billing_books import ADMIN, bill, settle
from tests.support.metering_books import CARD_MIB, HOUR, START_S, Pool, S, principal
from tests.support.reservation_books import reserve

pytest_plugins = ["tests.support.postgres_fixtures"]


def report(pool: Pool, since_s: int, until_s: int, by: str = "tenant", **more: object) -> ReportOut:
    """Report a range in seconds from the pool's beginning."""
    viewer = more.pop("viewer", ADMIN)
    found = pool.metering.make_report(
        viewer,  # type: ignore[arg-type]
        (START_S + since_s) * S,
        (START_S + until_s) * S,
        (by,),
        **more,  # type: ignore[arg-type]
    )
    assert found.closes
    return found


def list_sums(found: ReportOut) -> list[tuple[str, str | None, int]]:
    rows = [(row.kind, row.tenant, row.card_milliseconds // 1000) for row in found.rows]
    return [row for row in rows if row[2] or row[0] == "idle"]


def advance(pool: Pool, seconds: int) -> None:
    pool.time.forward(seconds)
    with pool.store.write():
        pass  # the ledger's time is now


def test_a_report_has_reserved_time_to_the_second_and_after_hours_are_recorded(
    any_pool: Pool,
) -> None:
    reserve(any_pool, "nightly", 1800, 2 * HOUR)
    advance(any_pool, 3000)
    # 100 s before the reservation and 400 s in it; the other card is idle.
    assert list_sums(report(any_pool, 1700, 2200)) == [
        ("reserved", "vision", 400),
        ("idle", None, 600),
    ]
    billing = bill(any_pool, reserved_milli=0)
    advance(any_pool, 3 * HOUR)
    whole = report(any_pool, 0, 3 * HOUR)
    assert list_sums(whole) == [("reserved", "vision", 2 * HOUR), ("idle", None, 4 * HOUR)]
    settle(any_pool, billing)
    assert report(any_pool, 0, 3 * HOUR).rows == whole.rows
    # Parts of hours at both ends are read from the books, the hour between as recorded.
    assert list_sums(report(any_pool, 1700, 7800)) == [
        ("reserved", "vision", 6000),
        ("idle", None, 6200),
    ]


def test_a_tenant_reads_its_own_reserved_time_and_no_other(pool: Pool) -> None:
    reserve(pool, "nightly", 0, HOUR)
    advance(pool, HOUR)
    own = principal(0, UserRole.TENANT_ADMIN)
    assert list_sums(report(pool, 0, HOUR, viewer=own)) == [("reserved", "vision", HOUR)]
    other = principal(2, UserRole.TENANT_ADMIN)
    assert other.tenant != own.tenant
    assert report(pool, 0, HOUR, viewer=other).rows == []
    assert [row.kind for row in report(pool, 0, HOUR, "card").rows] == ["idle", "idle"]


def test_idle_cards_of_a_cluster_are_not_reserved(pool: Pool) -> None:
    reserve(pool, "nightly", 0, HOUR)
    cards = [{"uuid": "GPU-c0", "index": 0, "model": "L40S", "memory_bytes": CARD_MIB * MIB}]
    body = ClusterNodeIn.model_validate({"born_ns": 1, "generation": 1, "cards": cards})
    ClusterBooks(pool.store, pool.metering).record_node("kube-1", body, "meter")
    pool.time.forward(600)
    pool.health(0, "failed")
    advance(pool, 300)
    # The reservation's card failed: its time is missing, whatever the cluster has.
    assert list_sums(report(pool, 600, 900)) == [("idle", None, 600), ("overhead", None, 300)]


@pytest.mark.parametrize("rule", ["max", "compute-only", "memory-only"])
def test_reserved_time_takes_its_price_from_idle_time(pool: Pool, rule: str) -> None:
    reserve(pool, "nightly", 0, HOUR, milli=500)
    advance(pool, HOUR)
    prices = parse_prices(["L40S:3.60", "*:1"], rule)
    found = report(pool, 0, HOUR, prices=prices)
    costs = {row.kind: row.cost for row in found.rows}
    assert costs["reserved"] == "1.80"
    assert (costs["idle"], found.total_cost) == ("2.80", "4.60")


def test_folded_hours_keep_what_was_recorded(pool: Pool) -> None:
    reserve(pool, "nightly", 1800, 2 * HOUR)
    billing = bill(pool)
    advance(pool, 3 * HOUR)
    settle(pool, billing)
    advance(pool, 3 * DAY_S)
    settle(pool, billing)
    roll_up(pool.store)
    found = report(pool, 1900, 2000)
    assert found.until_ns - found.since_ns == HOUR * S
    assert list_sums(found) == [("reserved", "vision", 1800), ("idle", None, 2 * HOUR - 1800)]


def test_a_range_that_begins_before_the_pool_is_no_longer_to_read(pool: Pool) -> None:
    reserve(pool, "nightly", 1800, 2 * HOUR)
    advance(pool, 3 * HOUR)
    statements: list[str] = []
    sa.event.listen(
        pool.store.engine, "before_cursor_execute", lambda *call: statements.append(call[2])
    )
    near = report(pool, 0, 3 * HOUR)
    of_hours = len(statements)
    far = report(pool, -20 * 365 * DAY_S, 3 * HOUR)
    assert list_sums(far) == list_sums(near)
    assert len(statements) - of_hours <= of_hours + 2
