"""What an owner has spent in a stretch of time, to the second: charges of hours that are over, and
the books for what is younger, running shares included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from gpupool.billing.charging.hours import make_hour
from gpupool.billing.charging.marks import read_charge_marks
from gpupool.billing.charging.rating import Charge, ReservedCharge, read_card_models
from gpupool.billing.charging.tables import adjustments, charges, is_reserved_charge, reserved_hours
from gpupool.billing.money import compute_cost
from gpupool.billing.prices.price_list import find_list
from gpupool.billing.prices.service import read_price_lists
from gpupool.metering.books import HOUR_S, split_by_slot
from gpupool.metering.reading import sum_bigint
from gpupool.metering.rollup import read_marks


@dataclass(frozen=True)
class SpendingOwner:
    """Row ids of a tenant and, where they are named, of one project and one user of it."""

    tenant_id: int
    project_id: int | None = None
    user_id: int | None = None


@dataclass(frozen=True)
class Spending:
    """What was spent: exact micro-units of money, and card-milliseconds held or reserved at a price."""

    micro: Fraction = Fraction(0)
    card_milliseconds: int = 0

    def __add__(self, other: Spending) -> Spending:
        return Spending(self.micro + other.micro, self.card_milliseconds + other.card_milliseconds)


def read_spending(
    connection: sa.Connection, owner: SpendingOwner, since_s: int, until_s: int
) -> Spending:
    """Read what an owner spent; `since_s` is a whole hour. What no price is known of costs 0."""
    marks = read_charge_marks(connection)
    made_s = since_s if marks is None else max(since_s, min(marks.next_s, until_s))
    total = _sum_charges(connection, owner, since_s, made_s)
    for spent in _spend_young(connection, owner, made_s, until_s):
        total += spent
    return total


def read_hours(
    connection: sa.Connection, owner: SpendingOwner, since_s: int, until_s: int
) -> dict[int, Spending]:
    """Read what an owner spent in each hour that is over, by hour."""
    found: dict[int, Spending] = {}
    query = _select_sums(owner, since_s, until_s, charges.c.hour_s).group_by(charges.c.hour_s)
    for row in connection.execute(query):
        found[row.hour_s] = found.get(row.hour_s, Spending()) + _spend_row(row)
    for hour_s, spent in _read_reserved(connection, owner, since_s, until_s):
        found[hour_s] = found.get(hour_s, Spending()) + spent
    return found


def read_adjustments(connection: sa.Connection, tenant_id: int, months: Sequence[str]) -> int:
    """Read the sum of a tenant's entries in these months, in micro-units."""
    query = sa.select(sum_bigint(adjustments.c.amount_micro)).where(
        adjustments.c.tenant_id == tenant_id, adjustments.c.month.in_(months)
    )
    return int(connection.execute(query).scalar_one() or 0)


def _sum_charges(
    connection: sa.Connection, owner: SpendingOwner, since_s: int, until_s: int
) -> Spending:
    total = Spending()
    for row in connection.execute(_select_sums(owner, since_s, until_s)):
        total += _spend_row(row)
    for _hour_s, spent in _read_reserved(connection, owner, since_s, until_s):
        total += spent
    return total


def _read_reserved(
    connection: sa.Connection, owner: SpendingOwner, since_s: int, until_s: int
) -> Iterator[tuple[int, Spending]]:
    """Read what reserved, unused time came to in each hour. It is of a tenant and of no project."""
    if owner.project_id is not None or owner.user_id is not None:
        return
    c = reserved_hours.c
    query = (
        sa.select(
            c.hour_s,
            c.base_micro,
            c.factor_milli,
            sum_bigint(c.charged_micro_seconds).label("charged"),
            sum_bigint(c.card_milliseconds).label("milliseconds"),
        )
        .where(c.tenant_id == owner.tenant_id, c.hour_s >= since_s, c.hour_s < until_s)
        .where(is_reserved_charge())
        .group_by(c.hour_s, c.base_micro, c.factor_milli)
    )
    for row in connection.execute(query):
        cost = compute_cost(row.charged, row.base_micro or 0, row.factor_milli)
        yield row.hour_s, Spending(cost, row.milliseconds)


def _select_sums(
    owner: SpendingOwner, since_s: int, until_s: int, *more: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    c = charges.c
    query = sa.select(
        *more,
        c.price_micro,
        c.factor_milli,
        sum_bigint(c.charged_micro_seconds).label("charged"),
        sum_bigint(c.card_milliseconds).label("milliseconds"),
    ).where(c.tenant_id == owner.tenant_id, c.hour_s >= since_s, c.hour_s < until_s)
    if owner.project_id is not None:
        query = query.where(c.project_id == owner.project_id)
    if owner.user_id is not None:
        query = query.where(c.user_id == owner.user_id)
    return query.group_by(c.price_micro, c.factor_milli)


def _spend_row(row: Any) -> Spending:
    cost = compute_cost(row.charged, row.price_micro or 0, row.factor_milli)
    return Spending(cost, row.milliseconds)


def _spend_young(
    connection: sa.Connection, owner: SpendingOwner, since_s: int, until_s: int
) -> Iterator[Spending]:
    if since_s >= until_s:
        return
    lists = read_price_lists(connection)
    cards = read_card_models(connection)
    books = read_marks(connection)
    for hour_s, counted_s in split_by_slot(since_s, until_s, HOUR_S):
        start_s = max(hour_s, since_s)
        price_list = find_list(lists, hour_s)
        made = make_hour(
            connection,
            price_list,
            cards,
            books,
            start_s,
            start_s + counted_s,
            tenant_id=owner.tenant_id,
        )
        for charge in made.charges:
            if _is_of(charge, owner):
                yield _spend(charge)
        if owner.project_id is None and owner.user_id is None:
            yield from map(_spend_reserved, made.reserved)


def _is_of(charge: Charge, owner: SpendingOwner) -> bool:
    return owner.project_id in (None, charge.key.project_id) and owner.user_id in (
        None,
        charge.key.user_id,
    )


def _spend(charge: Charge) -> Spending:
    cost = compute_cost(charge.charged_micro_seconds, charge.price_micro or 0, charge.factor_milli)
    return Spending(cost, charge.amount.card_milliseconds)


def _spend_reserved(charge: ReservedCharge) -> Spending:
    if not charge.is_charged:
        # Without a part of the price it is idle time, of no tenant.
        return Spending()
    charged = charge.charged_micro_seconds
    cost = compute_cost(charged, charge.base_micro or 0, charge.factor_milli)
    return Spending(cost, charge.part.amount.card_milliseconds)
