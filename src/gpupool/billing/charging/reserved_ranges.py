"""Read the unused time of reservations in any range, for reports: recorded hours first, then the books.

Hours that have charges are recorded; those that are younger, and parts of hours at both ends of
the range, are read from the books. Prices do not matter to it. docs/decisions/0127.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from gpupool.billing.charging.marks import read_charge_marks
from gpupool.billing.charging.rating import read_card_models
from gpupool.billing.charging.reserved_reading import read_reserved_parts, read_windows
from gpupool.billing.charging.tables import reserved_hours
from gpupool.billing.prices.price_list import find_list
from gpupool.billing.prices.service import read_price_lists
from gpupool.metering.books import HOUR_S, ZERO, UsageAmount, split_by_slot
from gpupool.metering.reading import ReportQuery, sum_bigint
from gpupool.metering.reserved_time import UnusedTime

#: Tenant, model, and what was left unused.
_Found = tuple[int, str, UsageAmount]


def read_unused_time(connection: sa.Connection, ask: ReportQuery) -> Sequence[UnusedTime]:
    """Read what each tenant left unused of its reservations, by model.

    Before the books have hours it is what was recorded of them, and nothing where no record is.
    """
    marks = read_charge_marks(connection)
    made_s = ask.marks.fine_s if marks is None else max(marks.next_s, ask.marks.fine_s)
    # Whole hours; an end that is not one is read from the books, which have its seconds.
    first_s = -(-ask.since_s // HOUR_S) * HOUR_S
    last_s = max(first_s, min(made_s, ask.until_s - ask.until_s % HOUR_S))
    sums: dict[tuple[int, str], UsageAmount] = {}
    for found in (
        _read_recorded(connection, first_s, last_s),
        _read_books(connection, ask, ask.since_s, min(first_s, ask.until_s)),
        _read_books(connection, ask, last_s, ask.until_s),
    ):
        for tenant_id, model, amount in found:
            if ask.tenant_id in (None, tenant_id):
                sums[tenant_id, model] = sums.get((tenant_id, model), ZERO) + amount
    if not sums:
        return ()
    memory_of: dict[str, int] = {}
    for card in read_card_models(connection).values():
        memory_of[card.model] = max(memory_of.get(card.model, 0), card.memory_mib)
    return [
        UnusedTime(tenant_id, model, memory_of.get(model, 0), amount)
        for (tenant_id, model), amount in sorted(sums.items())
        if amount != ZERO
    ]


def _read_recorded(connection: sa.Connection, since_s: int, until_s: int) -> Iterator[_Found]:
    c = reserved_hours.c
    query = sa.select(
        c.tenant_id,
        c.model,
        sum_bigint(c.card_milliseconds).label("card_milliseconds"),
        sum_bigint(c.memory_mib_seconds).label("memory_mib_seconds"),
        sum_bigint(c.dominant_micro_seconds).label("dominant_micro_seconds"),
    ).where(c.hour_s >= since_s, c.hour_s < until_s)
    for row in connection.execute(query.group_by(c.tenant_id, c.model)):
        amount = UsageAmount(
            row.card_milliseconds, row.memory_mib_seconds, row.dominant_micro_seconds
        )
        yield row.tenant_id, row.model, amount


def _read_books(
    connection: sa.Connection, ask: ReportQuery, since_s: int, until_s: int
) -> Iterator[_Found]:
    windows = read_windows(connection, since_s, until_s) if since_s < until_s else []
    if not windows:
        return
    # A range may begin long before the pool: hours without reservations are not asked for.
    since_s = max(since_s, min(window.start_s for window, _ in windows))
    until_s = min(until_s, max(window.end_s for window, _ in windows))
    lists = read_price_lists(connection)
    cards = read_card_models(connection)
    for hour_s, counted_s in split_by_slot(since_s, until_s, HOUR_S):
        start_s = max(hour_s, since_s)
        for part in read_reserved_parts(
            connection,
            find_list(lists, hour_s),
            cards,
            ask.marks,
            start_s,
            start_s + counted_s,
        ):
            yield part.tenant_id, part.model, part.amount
