"""The latest hour that has charges: what it cost by tenant, and whether its books close.

Read once a minute and kept in memory for /metrics; reads only. docs/decisions/0115-rules-and-boards.md.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from gpupool.billing.charging.marks import ChargeMarks, read_charge_marks
from gpupool.billing.charging.tables import KINDS, charges, is_reserved_charge, reserved_hours
from gpupool.billing.money import compute_cost
from gpupool.metering.books import (
    HOUR_S,
    ZERO,
    UsageAmount,
    compute_remainders,
)
from gpupool.metering.reading import ReportQuery, read_capacity, read_holdings, sum_bigint
from gpupool.metering.rollup import read_marks
from gpupool.store.database import Store
from gpupool.tenancy.tables import tenants


@dataclass(frozen=True)
class BooksGap:
    """By how much the books of an hour do not close; all 0 where they do.

    Attributes:
        overbooked_ms: card-milliseconds that were held of cards beyond what these have.
        overbooked_mib_s: the same of memory, MiB times seconds.
        uncharged_ms: card-milliseconds of the cards that no charge has; below 0: that two have.
    """

    overbooked_ms: int
    overbooked_mib_s: int
    uncharged_ms: int


@dataclass(frozen=True)
class TenantHour:
    """What one tenant held in the hour; `cost_micro` is None where a share had no price."""

    tenant: str
    card_milliseconds: int
    cost_micro: Fraction | None


@dataclass(frozen=True)
class ChargedHour:
    """One hour that has charges.

    Attributes:
        kinds: card-milliseconds by kind of charge.
        gap: None where the books keep the hour as a part of a day: charges lag by weeks.
    """

    start_s: int
    kinds: Mapping[str, int]
    tenants: tuple[TenantHour, ...]
    gap: BooksGap | None


class LatestHour:
    """Keeps the latest charged hour. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._value: ChargedHour | None = None

    @property
    def value(self) -> ChargedHour | None:
        """The hour, as of the last `refresh`; None before the first charges."""
        with self._lock:
            return self._value

    def refresh(self) -> None:
        """Read the latest hour from the database; blocks meanwhile."""
        with self._store.read() as connection:
            found = read_charged_hour(connection)
        with self._lock:
            self._value = found


def read_charged_hour(connection: sa.Connection) -> ChargedHour | None:
    """Read the latest hour that has charges; None where no hour has any."""
    marks = read_charge_marks(connection)
    if marks is None or not _has_hour(marks):
        return None
    start_s = marks.next_s - HOUR_S
    kinds = _read_kinds(connection, start_s)
    return ChargedHour(
        start_s,
        kinds,
        tuple(_read_tenants(connection, start_s)),
        _measure_gap(connection, start_s, sum(kinds.values())),
    )


def _has_hour(marks: ChargeMarks) -> bool:
    return marks.first_s < marks.next_s


def _read_kinds(connection: sa.Connection, start_s: int) -> dict[str, int]:
    c = charges.c
    query = sa.select(c.kind, sum_bigint(c.card_milliseconds).label("milliseconds"))
    kinds = dict.fromkeys(KINDS, 0)
    for row in connection.execute(query.where(c.hour_s == start_s).group_by(c.kind)):
        kinds[row.kind] = row.milliseconds
    r = reserved_hours.c
    reserved = sa.select(sum_bigint(r.card_milliseconds)).where(
        r.hour_s == start_s, is_reserved_charge()
    )
    kinds["reserved"] = connection.execute(reserved).scalar_one() or 0
    return kinds


def _read_tenants(connection: sa.Connection, start_s: int) -> list[TenantHour]:
    c = charges.c
    query = (
        sa.select(
            tenants.c.name,
            c.price_micro,
            c.factor_milli,
            sum_bigint(c.charged_micro_seconds).label("charged"),
            sum_bigint(c.card_milliseconds).label("milliseconds"),
        )
        .join(tenants, tenants.c.id == c.tenant_id)
        .where(c.hour_s == start_s, c.kind == "tenant")
        .group_by(tenants.c.name, c.price_micro, c.factor_milli)
    )
    rows_of: dict[str, list[Any]] = defaultdict(list)
    for row in connection.execute(query):
        rows_of[row.name].append(row)
    for row in connection.execute(_select_reserved(start_s)):
        rows_of[row.name].append(row)
    return [_add_up(name, rows_of[name]) for name in sorted(rows_of)]


def _select_reserved(start_s: int) -> sa.Select[Any]:
    r = reserved_hours.c
    return (
        sa.select(
            tenants.c.name,
            r.base_micro.label("price_micro"),
            r.factor_milli,
            sum_bigint(r.charged_micro_seconds).label("charged"),
            # No job held it.
            sa.literal(0).label("milliseconds"),
        )
        .join(tenants, tenants.c.id == r.tenant_id)
        .where(r.hour_s == start_s, is_reserved_charge())
        .group_by(tenants.c.name, r.base_micro, r.factor_milli)
    )


def _add_up(name: str, rows: list[Any]) -> TenantHour:
    cost: Fraction | None = Fraction(0)
    for row in rows:
        if row.price_micro is None:
            cost = None
        elif cost is not None:
            cost += compute_cost(row.charged, row.price_micro, row.factor_milli)
    return TenantHour(name, sum(row.milliseconds for row in rows), cost)


def _measure_gap(connection: sa.Connection, start_s: int, charged_ms: int) -> BooksGap | None:
    """Compare an hour of the books card by card, and its charges with the cards.

    A report adds up by tenant, so an idle card would hide that another one was held twice.
    """
    marks = read_marks(connection)
    if start_s < marks.coarse_s:
        return None
    ask = ReportQuery(start_s, start_s + HOUR_S, ("card",), marks)
    taken: dict[int, dict[Any, UsageAmount]] = defaultdict(lambda: defaultdict(lambda: ZERO))
    for holding in read_holdings(connection, ask):
        taken[holding.device_id][holding.under] += holding.amount
    capacity_ms = 0
    beyond_ms = 0
    beyond_mib_s = 0
    for device_id, total in read_capacity(connection, ask).items():
        capacity_ms += sum(amount.card_milliseconds for amount in total.values())
        for rest in compute_remainders(total, taken[device_id]).values():
            beyond_ms += max(0, -rest.card_milliseconds)
            beyond_mib_s += max(0, -rest.memory_mib_seconds)
    return BooksGap(beyond_ms, beyond_mib_s, capacity_ms - charged_ms)
