"""Idle time that is read once is, in any part, what a report of that part calls idle."""

from __future__ import annotations

import itertools

from gpupool.billing.charging.idle_time import read_idle_time
from gpupool.billing.charging.rating import read_card_models
from gpupool.metering.books import ZERO, UsageAmount
from tests.support.billing_books import ADMIN
from tests.support.metering_books import CARD_MIB, HOUR, START_S, Pool, S


def test_any_part_is_what_its_report_calls_idle(pool: Pool) -> None:
    pool.time.forward(100)
    first = pool.grant(0, 0, 300, 8192)
    assert first is not None
    pool.time.forward(50)
    assert pool.grant(2, 0, 250, CARD_MIB // 2) is not None
    pool.time.forward(200)
    pool.health(1, "failed")
    pool.time.forward(70)
    pool.release(first)
    pool.health(1, "ok")
    pool.time.forward(HOUR)
    with pool.store.write():
        pass  # the ledger's time is now
    since_s = START_S + 20
    with pool.store.read() as connection:
        cards = read_card_models(connection)
        idle_time = read_idle_time(connection, cards, since_s, START_S + HOUR)
    edges = [20, 100, 120, 150, 350, 351, 400, 420, 421, HOUR]
    for start_s, end_s in itertools.pairwise(edges):
        report = pool.metering.make_report(
            ADMIN, (START_S + start_s) * S, (START_S + end_s) * S, ("card",)
        )
        rows: dict[str, UsageAmount] = dict.fromkeys({card.model for card in cards.values()}, ZERO)
        for row in report.rows:
            if row.kind == "idle" and row.model is not None:
                rows[row.model] += UsageAmount(row.card_milliseconds, row.memory_mib_seconds)
        found = idle_time.add_up(START_S + start_s, START_S + end_s)
        # The larger of both parts is in no report.
        for model, amount in found.items():
            compared = UsageAmount(amount.card_milliseconds, amount.memory_mib_seconds)
            assert compared == rows[model], (model, start_s, end_s)
        assert idle_time.add_up(START_S + end_s, START_S + end_s) == dict.fromkeys(found, ZERO)
