"""Read the rows of FOCUS: each line's part of each hour, so that the parts add up to the line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from gpupool.billing.charging.marks import read_charge_marks
from gpupool.billing.charging.tables import charges, reserved_hours
from gpupool.billing.documents.energy import EnergyKey, divide_energy, read_hours
from gpupool.billing.documents.lines import BillLine, select_reserved
from gpupool.billing.documents.month import MonthBill
from gpupool.billing.documents.statement import select_lines
from gpupool.metering.books import HOUR_S
from gpupool.metering.reading import sum_bigint
from gpupool.tenancy.tables import projects, tenants


@dataclass(frozen=True)
class FocusRow:
    """One line's part of one stretch of time; the parts of a line add up to it."""

    line: BillLine
    start_s: int
    end_s: int
    card_milliseconds: int
    memory_mib_seconds: int
    charged_micro_seconds: int
    list_micro: int
    amount_micro: int
    energy_milliwatt_hours: int | None = None


def read_focus_rows(
    connection: sa.Connection, bill: MonthBill, tenant: str | None
) -> Iterator[FocusRow]:
    """Read the hours of a month's lines; what is deleted of a line's hours is one row."""
    lines = {_build_key(line): line for line in select_lines(bill, tenant)}
    parts = {key: _LineParts(line) for key, line in lines.items()}
    hours = read_hours(connection, bill.start_s, bill.end_s)
    shown: dict[EnergyKey, int] = defaultdict(int)
    for row in _add_energy(_take_hours(connection, bill, tenant, parts), hours):
        shown[_build_energy_key(row.line)] += row.energy_milliwatt_hours or 0
        yield row
    # Hours are deleted by age, so a month may have its later ones still.
    deleted_s = _find_first_hour(connection, bill)
    rests = [part.take_rest(bill.start_s, deleted_s) for part in parts.values() if part.is_short]
    energy = {}
    for line in bill.energy:
        energy[bill.start_s, line.key] = max(0, line.milliwatt_hours - shown[line.key])
    yield from _add_energy(rests, energy)


def _find_first_hour(connection: sa.Connection, bill: MonthBill) -> int:
    """Find the first hour of a month that has charges still; its end where none has."""
    marks = read_charge_marks(connection)
    if marks is None or not bill.start_s < marks.first_s < bill.end_s:
        return bill.end_s
    return marks.first_s


def _build_energy_key(line: BillLine) -> EnergyKey:
    return EnergyKey(line.kind, line.tenant, line.project, line.model)


def _take_hours(
    connection: sa.Connection,
    bill: MonthBill,
    tenant: str | None,
    parts: Mapping[tuple[Any, ...], _LineParts],
) -> Iterator[FocusRow]:
    for row in connection.execute(_select_hours(bill, tenant)):
        part = parts.get(_build_key(row))
        if part is not None:
            yield part.take_hour(row)
    hour_s = reserved_hours.c.hour_s
    for row in connection.execute(
        select_reserved(bill.start_s, bill.end_s, hour_s).order_by(hour_s)
    ):
        part = parts.get(_build_reserved_key(row))
        if part is not None:
            yield part.take_hour(row)


def _add_energy(
    rows: Iterable[FocusRow], energy: Mapping[tuple[int, EnergyKey], int]
) -> Iterator[FocusRow]:
    for row, milliwatt_hours in divide_energy(rows, energy):
        yield replace(row, energy_milliwatt_hours=milliwatt_hours)


class _LineParts:
    """Gives each hour its part of a line's rounded amounts, so that they add up to them."""

    def __init__(self, line: BillLine) -> None:
        self._line = line
        self._held = 0
        self._memory = 0
        self._charged = 0
        self._list = 0
        self._amount = 0
        self._has_hours = False

    @property
    def is_short(self) -> bool:
        """Whether the hours so far are not the whole line."""
        line = self._line
        given = (self._held, self._memory, self._charged)
        whole = (line.card_milliseconds, line.memory_mib_seconds, line.charged_micro_seconds)
        return not self._has_hours or given != whole

    def take_hour(self, row: Any) -> FocusRow:
        line = self._line
        self._has_hours = True
        self._held += row.card_milliseconds
        self._memory += row.memory_mib_seconds
        self._charged += row.charged_micro_seconds
        list_micro = self._take_part(line.list_micro) - self._list
        amount_micro = self._take_part(line.amount_micro) - self._amount
        self._list += list_micro
        self._amount += amount_micro
        return FocusRow(
            line,
            row.hour_s,
            row.hour_s + HOUR_S,
            row.card_milliseconds,
            row.memory_mib_seconds,
            row.charged_micro_seconds,
            list_micro,
            amount_micro,
        )

    def take_rest(self, start_s: int, end_s: int) -> FocusRow:
        """Take what the hours so far leave of the line."""
        line = self._line
        return FocusRow(
            line,
            start_s,
            end_s,
            line.card_milliseconds - self._held,
            line.memory_mib_seconds - self._memory,
            line.charged_micro_seconds - self._charged,
            line.list_micro - self._list,
            line.amount_micro - self._amount,
        )

    def _take_part(self, micro: int) -> int:
        total = self._line.charged_micro_seconds
        return micro * self._charged // total if total else 0


def _build_reserved_key(row: Any) -> tuple[Any, ...]:
    line = BillLine(
        "reserved",
        row.tenant,
        "",
        row.model,
        "",
        "",
        False,
        row.base_micro,
        row.base_micro,
        row.factor_milli,
        0,
        0,
        0,
        reservation_id=row.reservation_id,
    )
    return _build_key(line)


def _build_key(line: Any) -> tuple[Any, ...]:
    return (
        getattr(line, "reservation_id", ""),
        line.kind,
        line.tenant,
        line.project,
        line.model,
        line.mechanism,
        line.sharing,
        bool(line.preemptible),
        line.base_micro,
        line.price_micro,
        line.factor_milli,
    )


def _select_hours(bill: MonthBill, tenant: str | None) -> sa.Select[Any]:
    c = charges.c
    owner = (
        sa.func.coalesce(tenants.c.name, "").label("tenant"),
        sa.func.coalesce(projects.c.name, "").label("project"),
    )
    keys = (
        c.hour_s,
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
        sa.select(*owner, *keys, *(sum_bigint(c[name]).label(name) for name in sums))
        .select_from(charges)
        .outerjoin(tenants, tenants.c.id == c.tenant_id)
        .outerjoin(projects, projects.c.id == c.project_id)
        .where(c.hour_s >= bill.start_s, c.hour_s < bill.end_s)
    )
    if tenant is not None:
        query = query.where(tenants.c.name == tenant)
    return query.group_by(tenants.c.name, projects.c.name, *keys).order_by(c.hour_s, *owner)
