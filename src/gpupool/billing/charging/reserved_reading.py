"""Read what became of reservations: from the books while they have seconds, else as recorded.

The books have seconds for two days, and charges are made ten minutes after each hour, so every hour
is recorded while it is exact. A later price list prices the recorded hours again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.billing.charging.idle_time import read_idle_time
from gpupool.billing.charging.reserved_time import (
    CardModel,
    ReservedPart,
    ReservedWindow,
    UsedSeat,
    add_parts,
    divide_window,
    measure_seat,
)
from gpupool.billing.charging.tables import reservations_view, reserved_hours
from gpupool.billing.prices.price_list import DatedPriceList
from gpupool.metering.books import (
    ZERO,
    RollupMarks,
    UsageAmount,
    compute_dominant_micro,
)
from gpupool.metering.tables import claims_view, intervals, jobs_view
from gpupool.model.claim import Shape
from gpupool.model.reservation import Reservation, ReservationState
from gpupool.scheduling import is_model_match, iterate_occurrences


def read_reserved_parts(
    connection: sa.Connection,
    price_list: DatedPriceList | None,
    cards: Mapping[int, CardModel],
    marks: RollupMarks,
    since_s: int,
    until_s: int,
) -> list[ReservedPart]:
    """Read what became of all reservations in one hour or a part of it.

    Args:
        price_list: in force in this hour: of several models the cheapest is charged first.
        cards: every card that the pool has known, by row id.
    """
    if since_s < marks.fine_s:
        return _read_recorded(connection, since_s)
    windows = read_windows(connection, since_s, until_s)
    if not windows:
        return []
    used_of = _read_used(connection, cards, since_s, until_s)
    models = _order_models(cards, price_list, since_s)
    cuts = {one.start_s for one, _ in windows} | {one.end_s for one, _ in windows}
    idle_time = read_idle_time(connection, cards, since_s, until_s)
    parts: list[ReservedPart] = []
    start_s = min(cuts)
    for end_s in sorted(cuts)[1:]:
        now = [one for one in windows if one[0].start_s <= start_s and end_s <= one[0].end_s]
        idle = idle_time.add_up(start_s, end_s)
        # A reservation takes its part before a later one, as in the scheduler.
        for window, name in now:
            piece = replace(window, start_s=start_s, end_s=end_s)
            fitting = [card for card in models if _is_fitting(window.shape, card)]
            seats = used_of.get((window.tenant_id, name), ())
            for part in divide_window(piece, seats, fitting, idle):
                parts.append(part)
                idle[part.model] = idle.get(part.model, ZERO) - part.amount
        start_s = end_s
    return add_parts(parts)


def _read_recorded(connection: sa.Connection, hour_s: int) -> list[ReservedPart]:
    c = reserved_hours.c
    query = sa.select(reserved_hours).where(c.hour_s == hour_s)
    found = []
    for row in connection.execute(query.order_by(c.reservation_id, c.model)):
        amount = UsageAmount(
            row.card_milliseconds, row.memory_mib_seconds, row.dominant_micro_seconds
        )
        found.append(
            ReservedPart(
                row.reservation_id,
                row.tenant_id,
                row.model,
                row.used_micro_seconds,
                row.unused_micro_seconds,
                row.missing_micro_seconds,
                amount,
            )
        )
    return found


# Windows ------------------------------------------------------------------------------------


def read_windows(
    connection: sa.Connection, since_s: int, until_s: int
) -> list[tuple[ReservedWindow, str]]:
    """Read the windows in a stretch of time and the names of their reservations, in the order of start."""
    r = reservations_view.c
    since_ns = since_s * NANOS_PER_SECOND
    query = (
        sa.select(reservations_view)
        .where(r.start_ns < until_s * NANOS_PER_SECOND)
        .where(sa.or_(r.end_ns.is_(None), r.end_ns > since_ns, r.every_ns.is_not(None)))
        # Of those that were ended before this instant was recorded it is not known.
        .where(sa.or_(r.ended_ns > since_ns, r.state != ReservationState.ENDED))
        .order_by(r.start_ns, r.public_id)
    )
    found = []
    for row in connection.execute(query):
        for start_s, end_s in _list_times(row, since_s, until_s):
            shape = Shape(row.gpu_milli, row.memory_bytes, row.cards, row.model)
            seats = row.replicas * row.cards
            found.append(
                (ReservedWindow(row.id, row.tenant_id, shape, seats, start_s, end_s), row.name)
            )
    return found


def _list_times(row: Any, since_s: int, until_s: int) -> Iterator[tuple[int, int]]:
    shape = Shape(row.gpu_milli, row.memory_bytes, row.cards, row.model)
    asked = Reservation(
        row.public_id,
        "",
        shape,
        row.start_ns,
        row.end_ns,
        every_ns=row.every_ns,
        until_ns=row.until_ns,
    )
    last_s = until_s
    if row.ended_ns is not None:
        last_s = min(last_s, row.ended_ns // NANOS_PER_SECOND)
    for one in iterate_occurrences(asked, since_s * NANOS_PER_SECOND, until_s * NANOS_PER_SECOND):
        start_s = max(since_s, one.start_ns // NANOS_PER_SECOND)
        end_s = min(last_s, one.end_ns // NANOS_PER_SECOND)
        if start_s < end_s:
            yield start_s, end_s


# Use and idle cards -------------------------------------------------------------------------


def _read_used(
    connection: sa.Connection, cards: Mapping[int, CardModel], since_s: int, until_s: int
) -> dict[tuple[int, str], list[UsedSeat]]:
    """Read the seats of jobs that name a reservation, by tenant and name."""
    i = intervals.c
    query = (
        sa.select(
            i.tenant_id,
            claims_view.c.reservation,
            i.device_id,
            i.gpu_milli,
            i.memory_mib,
            i.start_s,
            i.end_s,
        )
        .select_from(intervals)
        .join(jobs_view, jobs_view.c.id == i.job_id)
        .join(claims_view, claims_view.c.id == jobs_view.c.claim_id)
        .where(claims_view.c.reservation.is_not(None), i.start_s < until_s)
        .where(sa.or_(i.end_s.is_(None), i.end_s > since_s))
    )
    found: dict[tuple[int, str], list[UsedSeat]] = defaultdict(list)
    for row in connection.execute(query):
        card = cards[row.device_id]
        dominant = compute_dominant_micro(row.gpu_milli, row.memory_mib, card.memory_mib)
        end_s = until_s if row.end_s is None else row.end_s
        seat = UsedSeat(card.model, row.gpu_milli, dominant, row.start_s, end_s)
        found[row.tenant_id, row.reservation].append(seat)
    return found


def _order_models(
    cards: Mapping[int, CardModel], price_list: DatedPriceList | None, hour_s: int
) -> Sequence[CardModel]:
    """Order the models by price, those without a price last."""
    largest: dict[str, CardModel] = {}
    for card in cards.values():
        if card.model not in largest or card.memory_mib > largest[card.model].memory_mib:
            largest[card.model] = card
    prices: dict[str, int | None] = dict.fromkeys(largest)
    if price_list is not None:
        local_hour = price_list.get_local_hour(hour_s)
        for model in largest:
            prices[model] = price_list.find_base_price(model, local_hour)
    return sorted(
        largest.values(),
        key=lambda card: (prices[card.model] is None, prices[card.model] or 0, card.model),
    )


def _is_fitting(shape: Shape, card: CardModel) -> bool:
    if shape.model is not None and not is_model_match(shape.model, card.model):
        return False
    return measure_seat(shape, card).memory_mib_seconds <= card.memory_mib
