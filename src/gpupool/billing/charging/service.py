"""Make charges as hours end, a few short transactions at a time. Thread-safe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.billing.charging.hours import make_hour
from gpupool.billing.charging.marks import (
    ChargeMarks,
    forget_charges,
    read_charge_marks,
    write_charge_marks,
)
from gpupool.billing.charging.rating import Charge, ReservedCharge, read_card_models
from gpupool.billing.charging.tables import charges, reserved_hours
from gpupool.billing.prices.price_list import find_list
from gpupool.billing.prices.service import read_price_lists
from gpupool.billing.sealing.tables import month_seals
from gpupool.fleet.tables import device_spans
from gpupool.metering.books import DAY_S, HOUR_S
from gpupool.metering.rollup import read_marks
from gpupool.store.database import Store, WriteTransaction

#: Seconds after the end of an hour before its charges are made: an end that an agent reports late
#: is in the books by then.
SETTLE_S = 600
#: Charges of sealed months stay so long: budgets of a quarter read them.
KEPT_S = 100 * DAY_S
#: Hours that one transaction makes: a few milliseconds each.
HOURS_AT_ONCE = 6


class ChargeService:
    """Makes the charges of hours that are over."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def make_due(self, max_steps: int = 4) -> bool:
        """Make charges of hours that are over; return True when nothing is left for now.

        Idempotent; a kill between two steps loses and doubles nothing.
        """
        for _ in range(max_steps):
            if not self._is_due():
                return True
            with self._store.write() as write:
                if _make_next(write):
                    return True
        return False

    def catch_up(self) -> None:
        """Make all charges that are due; blocks for seconds where a month of them is."""
        while not self.make_due(100):
            pass

    def remake_since(self, write: WriteTransaction, second: int) -> None:
        """Make charges again from the hour of an instant on: the books of that time changed.

        Sealed months keep theirs.
        """
        sealed_s = _find_sealed_end(write)
        forget_charges(write, max(second - second % HOUR_S, sealed_s))

    def _is_due(self) -> bool:
        with self._store.read() as connection:
            marks = read_charge_marks(connection)
        return marks is None or marks.next_s + HOUR_S <= _find_limit(self._store.clock.now_ns())


def _find_limit(now_ns: int) -> int:
    """Return the end of the latest hour whose charges may be made."""
    second = now_ns // NANOS_PER_SECOND - SETTLE_S
    return second - second % HOUR_S


def _make_next(write: WriteTransaction) -> bool:
    """Make the next few hours; return True when nothing is left."""
    books = read_marks(write.connection)
    limit_s = _find_limit(write.now_ns)
    marks = read_charge_marks(write.connection)
    if marks is None:
        # Before the first mark the books know days alone, without jobs.
        first_s = _find_first_hour(write, books.coarse_s, limit_s)
        marks = ChargeMarks(first_s, first_s)
    lists = read_price_lists(write.connection)
    cards = read_card_models(write.connection)
    hour_s = marks.next_s
    # Hours that were folded into days meanwhile, as in a pool that was down for weeks, have no
    # charges: nothing would tell what they cost.
    hour_s = max(hour_s, books.coarse_s)
    rows: list[dict[str, Any]] = []
    reserved_rows: list[dict[str, Any]] = []
    first_made_s = hour_s
    for _ in range(HOURS_AT_ONCE):
        if hour_s + HOUR_S > limit_s:
            break
        price_list = find_list(lists, hour_s)
        made = make_hour(write.connection, price_list, cards, books, hour_s, hour_s + HOUR_S)
        rows += build_rows(hour_s, made.charges)
        reserved_rows += _build_reserved_rows(hour_s, made.reserved)
        hour_s += HOUR_S
    if rows:
        write.execute(charges.insert(), rows)
    # What was recorded of these hours is the same, at the prices of then.
    write.execute(
        reserved_hours.delete().where(
            reserved_hours.c.hour_s >= first_made_s, reserved_hours.c.hour_s < hour_s
        )
    )
    if reserved_rows:
        write.execute(reserved_hours.insert(), reserved_rows)
    first_s = _forget_old(write, marks.first_s, hour_s)
    write_charge_marks(write, ChargeMarks(first_s, hour_s))
    return hour_s + HOUR_S > limit_s


def _forget_old(write: WriteTransaction, first_s: int, made_s: int) -> int:
    """Delete old charges of sealed months; return the first hour that has charges still."""
    before_s = min(made_s - KEPT_S, _find_sealed_end(write))
    if before_s <= first_s:
        return first_s
    write.execute(charges.delete().where(charges.c.hour_s < before_s))
    write.execute(reserved_hours.delete().where(reserved_hours.c.hour_s < before_s))
    return before_s


def _find_sealed_end(write: WriteTransaction) -> int:
    sealed_s = write.execute(sa.select(sa.func.max(month_seals.c.end_s))).scalar_one()
    return 0 if sealed_s is None else int(sealed_s)


def _find_first_hour(write: WriteTransaction, coarse_s: int, limit_s: int) -> int:
    born = write.execute(sa.select(sa.func.min(device_spans.c.start_s))).scalar_one()
    start_s = limit_s if born is None else min(int(born), limit_s)
    return max(coarse_s, start_s - start_s % HOUR_S)


def build_rows(hour_s: int, made: Sequence[Charge]) -> list[dict[str, Any]]:
    """Build the rows of an hour's charges."""
    return [
        {
            "hour_s": hour_s,
            "kind": charge.key.kind,
            "tenant_id": charge.key.tenant_id,
            "project_id": charge.key.project_id,
            "user_id": charge.key.user_id,
            "model": charge.key.facts.model,
            "mechanism": charge.key.facts.mechanism,
            "sharing": charge.key.facts.sharing,
            "preemptible": charge.key.facts.preemptible,
            "card_milliseconds": charge.amount.card_milliseconds,
            "memory_mib_seconds": charge.amount.memory_mib_seconds,
            "charged_micro_seconds": charge.charged_micro_seconds,
            "base_micro": charge.base_micro,
            "price_micro": charge.price_micro,
            "factor_milli": charge.factor_milli,
        }
        for charge in made
    ]


def _build_reserved_rows(hour_s: int, made: Sequence[ReservedCharge]) -> list[dict[str, Any]]:
    return [
        {
            "hour_s": hour_s,
            "reservation_id": charge.part.reservation_id,
            "model": charge.part.model,
            "tenant_id": charge.part.tenant_id,
            "used_micro_seconds": charge.part.used,
            "unused_micro_seconds": charge.part.unused,
            "missing_micro_seconds": charge.part.missing,
            "card_milliseconds": charge.part.amount.card_milliseconds,
            "memory_mib_seconds": charge.part.amount.memory_mib_seconds,
            "dominant_micro_seconds": charge.part.amount.dominant_micro_seconds,
            "charged_micro_seconds": charge.charged_micro_seconds,
            "base_micro": charge.base_micro,
            "factor_milli": charge.factor_milli,
        }
        for charge in made
    ]
