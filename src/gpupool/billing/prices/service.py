"""Price lists as admins set them and readers see them. Thread-safe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadOption, NameTaken, StaleGeneration, UnknownPriceList
from gpupool.base.ids import check_name
from gpupool.base.units import NANOS_PER_SECOND, format_instant
from gpupool.billing.charging.marks import forget_charges
from gpupool.billing.periods import parse_zone
from gpupool.billing.prices.price_list import DatedPriceList, Rate, check_rates
from gpupool.billing.prices.tables import price_lists
from gpupool.billing.sealing.guard import refuse_sealed
from gpupool.metering.books import HOUR_S
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.billing.prices import PriceListIn, PriceListOut, RateIn

#: Price lists of one pool: one a month for forty years.
MOST_LISTS = 500


class PriceListService:
    """The price lists of the pool, by the instant from which they hold."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list_all(self) -> list[PriceListOut]:
        """List the price lists, the earliest first."""
        with self._store.read() as connection:
            return _describe(_read_rows(connection))

    def find(self, name: str) -> PriceListOut:
        """Find one price list. Raises UnknownPriceList."""
        with self._store.read() as connection:
            found: PriceListOut = _pick(_describe(_read_rows(connection)), name)
            return found

    def put(self, name: str, body: PriceListIn, generation: int | None = None) -> PriceListOut:
        """Make a price list or replace it whole. What is not sealed is priced by it from then on.

        Args:
            name: Its name.
            body: The whole list.
            generation: Of what the caller read; 0: there is none; None: whatever there is.

        Raises:
            BadOption: its rates contradict each other, or it does not fit the others.
            NameTaken: there is one of that name or of that hour, and the caller makes another.
            StaleGeneration: it was changed since.
            SealedMonth: a sealed month would change.
        """
        check_name(name, "price list")
        check_rates([_build_rate(one) for one in body.rates])
        parse_zone(body.timezone)
        from_s = body.from_ns // NANOS_PER_SECOND
        if body.from_ns % (HOUR_S * NANOS_PER_SECOND):
            raise BadOption(
                f"a price list begins at a whole hour, not at {format_instant(body.from_ns)}",
                hint="write --from 2026-12-01 or --from 2026-12-01T08:00",
                fields=[{"field": "from_ns", "problem": "not a whole hour of UTC"}],
            )
        with self._store.write() as write:
            rows = _read_rows(write.connection)
            old = next((row for row in rows if row.name == name), None)
            _check_generation(name, 0 if old is None else old.generation, generation)
            others = [row for row in rows if row.name != name]
            _check_beside(others, name, body, from_s)
            earliest = from_s if old is None else min(from_s, old.from_s)
            refuse_sealed(write.connection, earliest, f"price list {name}")
            values = _build_values(write, name, body, from_s)
            if old is None:
                write.insert(price_lists, **values, generation=1)
            else:
                values["generation"] = old.generation + 1
                write.execute(
                    price_lists.update().where(price_lists.c.id == old.id).values(**values)
                )
            forget_charges(write, earliest)
            write.event(
                "price.set", name, data={"from_ns": body.from_ns, "currency": body.currency}
            )
            out: PriceListOut = _pick(_describe(_read_rows(write.connection)), name)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def delete(self, name: str) -> None:
        """Delete a price list: the one before holds in its place.

        Raises:
            UnknownPriceList: there is none of that name.
            SealedMonth: a sealed month was priced by it.
        """
        with self._store.write() as write:
            row = _pick(_read_rows(write.connection), name)
            refuse_sealed(write.connection, row.from_s, f"price list {name}")
            write.execute(price_lists.delete().where(price_lists.c.id == row.id))
            forget_charges(write, row.from_s)
            write.event("price.deleted", name)
            write.answer(204, None)


def read_price_lists(connection: sa.Connection) -> list[DatedPriceList]:
    """Read every price list, the earliest first."""
    found = []
    for row in _read_rows(connection):
        rates = [RateIn.model_validate(one) for one in row.rates]
        found.append(
            DatedPriceList(
                name=row.name,
                from_s=row.from_s,
                currency=row.currency,
                timezone=row.timezone,
                rates=tuple(_build_rate(one) for one in rates),
                rule=row.rule,
                preemptible_discount_milli=row.preemptible_discount_milli,
                tax_basis_points=row.tax_basis_points,
                reserved_milli=row.reserved_milli,
            )
        )
    return found


def _read_rows(connection: sa.Connection) -> Sequence[Any]:
    return connection.execute(sa.select(price_lists).order_by(price_lists.c.from_s)).all()


def _pick(rows: Sequence[Any], name: str) -> Any:
    for row in rows:
        if row.name == name:
            return row
    raise UnknownPriceList(f"no price list {name[:63]!r}", hint="gpupool price list")


def _build_rate(body: RateIn) -> Rate:
    hours = None
    if body.from_hour is not None and body.until_hour is not None:
        hours = (body.from_hour, body.until_hour % 24)
    if (body.from_hour is None) != (body.until_hour is None) or (hours and hours[0] == hours[1]):
        raise BadOption(
            f"the hours of a price for {body.model} have a first and a last that differ",
            hint="write hours=22-08, or leave them out for the whole day",
        )
    return Rate(body.model, body.price_micro, body.mechanism, body.sharing, hours)


def _check_generation(name: str, before: int, generation: int | None) -> None:
    if generation is None or generation == before:
        return
    if generation == 0:
        raise NameTaken(
            f"there is a price list {name} already",
            hint="gpupool price list",
            fields=[{"field": "name", "problem": f"there is a price list {name} already"}],
        )
    raise StaleGeneration(
        f"price list {name} is at generation {before}, not {generation}",
        hint=f"look again: gpupool price show {name}",
        generation=before,
    )


def _check_beside(others: Sequence[Any], name: str, body: PriceListIn, from_s: int) -> None:
    for row in others:
        if row.from_s == from_s:
            raise NameTaken(
                f"price list {row.name} begins at the same hour, {format_instant(body.from_ns)}",
                hint=f"gpupool price delete {row.name}, or another --from",
                fields=[{"field": "from_ns", "problem": f"{row.name} begins at the same hour"}],
            )
        if (row.timezone, row.currency) != (body.timezone, body.currency):
            raise BadOption(
                f"price list {row.name} is in {row.currency} with months of {row.timezone}, "
                f"{name} would be in {body.currency} with months of {body.timezone}",
                hint="a pool has one currency and one time zone of its months",
            )
    if len(others) >= MOST_LISTS:
        raise BadOption(
            f"the pool has {len(others)} price lists, the most is {MOST_LISTS}",
            hint="gpupool price delete NAME",
        )


def _build_values(
    write: WriteTransaction, name: str, body: PriceListIn, from_s: int
) -> dict[str, Any]:
    return {
        "name": name,
        "from_s": from_s,
        "currency": body.currency,
        "timezone": body.timezone,
        "rule": body.rule,
        "rates": [rate.model_dump(mode="json") for rate in body.rates],
        "preemptible_discount_milli": body.preemptible_discount_milli,
        "tax_basis_points": body.tax_basis_points,
        "reserved_milli": body.reserved_milli,
        "changed_ns": write.now_ns,
    }


def _describe(rows: Sequence[Any]) -> list[PriceListOut]:
    ends = [row.from_s * NANOS_PER_SECOND for row in rows[1:]]
    found = []
    for row, until_ns in zip(rows, [*ends, None], strict=False):
        found.append(
            PriceListOut(
                name=row.name,
                from_ns=row.from_s * NANOS_PER_SECOND,
                until_ns=until_ns,
                currency=row.currency,
                timezone=row.timezone,
                rule=row.rule,
                rates=row.rates,
                preemptible_discount_milli=row.preemptible_discount_milli,
                tax_basis_points=row.tax_basis_points,
                reserved_milli=row.reserved_milli,
                generation=row.generation,
            )
        )
    return found
