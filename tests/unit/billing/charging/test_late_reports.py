"""What a cluster reports late is charged as the books have it, except in sealed months."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gpupool.billing.documents.month import read_month
from gpupool.billing.service import Billing
from gpupool.metering.clusters import ClusterBooks
from gpupool.wire.cluster import ClusterNodeIn
from tests.support.billing_books import ADMIN, bill, charge_from, settle
from tests.support.metering_books import HOUR, START_S, Pool, S

pytest_plugins = ["tests.support.postgres_fixtures"]
MIB = 1 << 20
CARD = {"uuid": "GPU-c0", "index": 0, "model": "L40S", "memory_bytes": 48_000 * MIB}
MONTH_END_S = int(datetime(2023, 12, 1, tzinfo=UTC).timestamp())


def hold(uid: str, start_s: int, end_s: int | None = None) -> dict[str, Any]:
    """A pod that holds a whole card."""
    seat = {"uuid": "GPU-c0", "gpu_milli": 1000, "memory_bytes": 48_000 * MIB}
    facts = {"uid": uid, "namespace": "space", "pod": uid, "container": "main"}
    ended = {} if end_s is None else {"ended_ns": end_s * S}
    return {
        **facts,
        "tenant": "team",
        "account": "runner",
        "seats": [seat],
        "held_ns": start_s * S,
        **ended,
    }


def tell(pool: Pool, billing: Billing, generation: int, **more: Any) -> None:
    body = ClusterNodeIn.model_validate(
        {"born_ns": 1, "generation": generation, "cards": [CARD], **more}
    )
    books = ClusterBooks(pool.store, pool.metering, billing.charging.remake_since)
    books.record_node("kube-1", body, "meter")


def sum_charged(pool: Pool, month: str = "2023-11") -> int:
    """Seconds of a whole card that the cluster's tenant pays for in a month that closes."""
    with pool.store.read() as connection:
        found = read_month(connection, month)
    assert found.closes
    mine = [line for line in found.lines if line.tenant == "team"]
    return sum(line.charged_micro_seconds for line in mine) // 10**6


def test_a_late_report_corrects_the_charges(any_pool: Pool) -> None:
    billing = bill(any_pool)
    tell(any_pool, billing, 1, held=[hold("a", START_S)])
    any_pool.time.forward(4 * HOUR)
    settle(any_pool, billing)
    assert sum_charged(any_pool) == 5 * HOUR
    # The meter was down: one pod ended long ago, and another came and went.
    end_s = START_S + HOUR + 600
    over = [hold("a", START_S, end_s), hold("b", end_s + 60, end_s + 360)]
    tell(any_pool, billing, 2, ended=over)
    settle(any_pool, billing)
    assert sum_charged(any_pool) == HOUR + 600 + 300


def test_a_late_report_leaves_a_sealed_month(pool: Pool) -> None:
    billing = bill(pool)
    pool.time.forward(MONTH_END_S - 2 * HOUR - START_S)
    charge_from(pool, MONTH_END_S - 2 * HOUR)
    tell(pool, billing, 1, held=[hold("a", MONTH_END_S - 2 * HOUR)])
    pool.time.forward(4 * HOUR)
    settle(pool, billing)
    seal = billing.seals.seal(ADMIN, "2023-11")
    tell(pool, billing, 2, ended=[hold("a", MONTH_END_S - 2 * HOUR, MONTH_END_S - HOUR)])
    settle(pool, billing)
    assert billing.seals.list_all() == [seal]
    assert sum_charged(pool) == 2 * HOUR
    assert sum_charged(pool, "2023-12") == 0
