"""The lines of a month: charges summed up by everything that a reader tells apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from gpupool.billing.charging.tables import (
    KINDS,
    charges,
    is_reserved_charge,
    reservations_view,
    reserved_hours,
)
from gpupool.billing.money import apportion, compute_cost
from gpupool.metering.books import WHOLE_MILLI
from gpupool.metering.reading import sum_bigint
from gpupool.tenancy.tables import projects, tenants

#: Kinds of lines that tenants pay for.
PAID_KINDS = ("tenant", "reserved")


@dataclass(frozen=True)
class BillLine:
    """One line: what a project held of one model at one price, or what was left of the cards.

    `list_micro` is at the price of the card itself: these add up to capacity times price.
    `amount_micro` is what the tenant pays: at the price of the share, less a discount.
    """

    kind: str
    tenant: str
    project: str
    model: str
    mechanism: str
    sharing: str
    preemptible: bool
    base_micro: int | None
    price_micro: int | None
    factor_milli: int
    card_milliseconds: int
    memory_mib_seconds: int
    charged_micro_seconds: int
    list_micro: int = 0
    amount_micro: int = 0
    #: Of reserved, unused time: the reservation's name and id.
    reservation: str = ""
    reservation_id: str = ""

    @property
    def is_paid(self) -> bool:
        """Whether a tenant pays for it: it held the share, or reserved it."""
        return self.kind in PAID_KINDS


def read_lines(connection: sa.Connection, since_s: int, until_s: int) -> list[BillLine]:
    """Read the lines of whole hours, of the whole pool."""
    c = charges.c
    keys = (
        c.kind,
        c.model,
        c.mechanism,
        c.sharing,
        c.preemptible,
        c.base_micro,
        c.price_micro,
        c.factor_milli,
    )
    sums = ("card_milliseconds", "memory_mib_seconds", "charged_micro_seconds")
    query = (
        sa.select(
            sa.func.coalesce(tenants.c.name, "").label("tenant"),
            sa.func.coalesce(projects.c.name, "").label("project"),
            *keys,
            *(sum_bigint(c[name]).label(name) for name in sums),
        )
        .select_from(charges)
        .outerjoin(tenants, tenants.c.id == c.tenant_id)
        .outerjoin(projects, projects.c.id == c.project_id)
        .where(c.hour_s >= since_s, c.hour_s < until_s)
        .group_by(tenants.c.name, projects.c.name, *keys)
    )
    found = [
        BillLine(**{**row._mapping, "preemptible": bool(row.preemptible)})
        for row in connection.execute(query)
    ]
    found += _read_reserved(connection, since_s, until_s)
    return price_lines(sorted(found, key=_get_sort_key))


def _read_reserved(connection: sa.Connection, since_s: int, until_s: int) -> Iterator[BillLine]:
    for row in connection.execute(select_reserved(since_s, until_s)):
        yield BillLine(
            kind="reserved",
            project="",
            mechanism="",
            sharing="",
            preemptible=False,
            price_micro=row.base_micro,
            **{name: row._mapping[name] for name in _RESERVED_FIELDS},
        )


def select_reserved(since_s: int, until_s: int, *more: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select sums of charged, unused time of each reservation, and by further columns."""
    c = reserved_hours.c
    r = reservations_view.c
    keys = (c.model, c.base_micro, c.factor_milli)
    sums = ("card_milliseconds", "memory_mib_seconds", "charged_micro_seconds")
    return (
        sa.select(
            *more,
            sa.func.coalesce(tenants.c.name, "").label("tenant"),
            r.name.label("reservation"),
            r.public_id.label("reservation_id"),
            *keys,
            *(sum_bigint(c[name]).label(name) for name in sums),
        )
        .select_from(reserved_hours)
        .join(reservations_view, r.id == c.reservation_id)
        .outerjoin(tenants, tenants.c.id == c.tenant_id)
        .where(c.hour_s >= since_s, c.hour_s < until_s, is_reserved_charge())
        .group_by(*more, tenants.c.name, r.name, r.public_id, *keys)
    )


def _get_sort_key(line: BillLine) -> tuple[Any, ...]:
    return (
        KINDS.index(line.kind),
        line.tenant,
        line.project,
        line.model,
        line.mechanism,
        line.sharing,
        line.preemptible,
        line.base_micro or 0,
        line.price_micro or 0,
        line.factor_milli,
        line.reservation,
        line.reservation_id,
    )


_RESERVED_FIELDS = (
    "tenant",
    "model",
    "base_micro",
    "factor_milli",
    "card_milliseconds",
    "memory_mib_seconds",
    "charged_micro_seconds",
    "reservation",
    "reservation_id",
)


def price_lines(lines: Sequence[BillLine]) -> list[BillLine]:
    """Compute the amounts: the list amounts add up to the rounded capacity times price."""
    exact = []
    for line in lines:
        exact.append(compute_cost(line.charged_micro_seconds, line.base_micro or 0, WHOLE_MILLI))
    at_list, _total = apportion(exact)
    priced = []
    for line, list_micro in zip(lines, at_list, strict=True):
        amount = 0
        if line.is_paid:
            amount = round(compute_line_cost(line))
        priced.append(replace(line, list_micro=list_micro, amount_micro=amount))
    return priced


def compute_line_cost(line: BillLine) -> Fraction:
    """Compute exactly what the tenant pays for a line, in micro-units."""
    return compute_cost(line.charged_micro_seconds, line.price_micro or 0, line.factor_milli)


def write_line(line: BillLine) -> dict[str, Any]:
    """Write a line as JSON; `read_line` reads it."""
    # All values are plain: asdict() copies each of them, which took a tenth of an invoice's time.
    shown = dict(vars(line))
    if not line.reservation_id:
        # Nearly every line: two empty texts would be stored and hashed with each.
        del shown["reservation"], shown["reservation_id"]
    return shown


def read_line(line: dict[str, Any]) -> BillLine:
    """Read what `write_line` wrote."""
    return BillLine(**line)


def sum_amounts(lines: Iterable[BillLine]) -> int:
    """Sum up what tenants pay, in micro-units."""
    return sum(line.amount_micro for line in lines)
