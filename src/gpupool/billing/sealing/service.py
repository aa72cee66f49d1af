"""Seal months and add entries. Thread-safe."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadOption, MonthNotOver, SealedMonth
from gpupool.base.ids import new_id
from gpupool.base.units import NANOS_PER_SECOND, format_instant
from gpupool.billing.charging.service import ChargeService
from gpupool.billing.charging.tables import adjustments
from gpupool.billing.documents.lines import read_line, sum_amounts, write_line
from gpupool.billing.documents.month import (
    MonthBill,
    build_entry,
    find_billing_month,
    read_open_month,
    write_facts,
)
from gpupool.billing.periods import find_period, parse_zone
from gpupool.billing.sealing.tables import month_lines, month_seals
from gpupool.model.tenant import Principal
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.tables import tenants
from gpupool.tenancy.tenants import find_tenant
from gpupool.wire.billing.statements import AdjustmentIn, AdjustmentOut, SealOut

#: What the first seal of a pool names as the one before.
NO_SEAL = "0" * 64


class SealService:
    """Seals of months, and entries that correct what is sealed."""

    def __init__(self, store: Store, charging: ChargeService) -> None:
        self._store = store
        self._charging = charging

    def list_all(self) -> list[SealOut]:
        """List the seals, the oldest first, each compared with its rows."""
        with self._store.read() as connection:
            found = []
            previous = NO_SEAL
            for row in _read_seals(connection):
                shown = _describe(connection, row, previous)
                previous = row.sha256
                found.append(shown)
            return found

    def seal(self, caller: Principal, month: str) -> SealOut:
        """Seal a month: from then on its lines change never. Months are sealed in their order.

        Raises:
            MonthNotOver: it has hours whose charges are not made yet.
            SealedMonth: it is sealed, or a later one is.
            BadOption: it is no month of this pool, or one before it is not sealed.
        """
        self._charging.catch_up()
        with self._store.write() as write:
            bill = read_sealable_month(write.connection, month)
            lines = [write_line(line) for line in bill.lines]
            facts = write_facts(bill)
            earlier = _read_seals(write.connection)
            previous = earlier[-1].sha256 if earlier else NO_SEAL
            values = {
                "month": month,
                "timezone": bill.timezone,
                "start_s": bill.start_s,
                "end_s": bill.end_s,
                "previous": previous,
                "facts": facts,
            }
            digest = compute_hash(values, lines)
            write.execute(
                month_seals.insert().values(
                    **values,
                    lines=len(lines),
                    sha256=digest,
                    sealed_by=caller.user,
                    sealed_ns=write.now_ns,
                )
            )
            rows = [
                {"month": month, "number": number, "line": line}
                for number, line in enumerate(lines)
            ]
            if rows:
                write.execute(month_lines.insert(), rows)
            write.event("month.sealed", month, data={"sha256": digest, "lines": len(lines)})
            row = _read_seals(write.connection)[-1]
            out = _describe(write.connection, row, previous)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def adjust(self, caller: Principal, body: AdjustmentIn) -> AdjustmentOut:
        """Add an entry, billed in the first open month from today's on.

        Raises:
            UnknownTenant: there is no such tenant.
            BadOption: the month that it corrects is not sealed.
        """
        with self._store.write() as write:
            tenant = find_tenant(write.connection, caller, body.tenant, with_deleted=True)
            seals = {row.month: row for row in _read_seals(write.connection)}
            if body.corrects is not None and body.corrects not in seals:
                raise BadOption(
                    f"{body.corrects} is not sealed, so it needs no correction",
                    hint="gpupool report seals lists the sealed months",
                )
            month = _find_open_month(write, list(seals.values()))
            row_id = write.insert(
                adjustments,
                public_id=new_id("e"),
                tenant_id=tenant.id,
                month=month,
                corrects=body.corrects,
                amount_micro=body.amount_micro,
                reason=body.reason,
                made_by=caller.user,
                made_ns=write.now_ns,
            )
            row = write.execute(_select_entries().where(adjustments.c.id == row_id)).one()
            write.event(
                "bill.adjusted",
                row.public_id,
                tenant_id=tenant.id,
                data={"month": month, "amount_micro": body.amount_micro},
            )
            out = AdjustmentOut(**vars(build_entry(row)))
            write.answer(201, out.model_dump(mode="json"))
        return out

    def list_entries(self, caller: Principal) -> list[AdjustmentOut]:
        """List the entries that the caller may see, the oldest first."""
        query = _select_entries().where(match_visible(caller, adjustments.c.tenant_id))
        with self._store.read() as connection:
            rows = connection.execute(query.order_by(adjustments.c.id)).all()
        return [AdjustmentOut(**vars(build_entry(row))) for row in rows]


def read_sealable_month(connection: sa.Connection, month: str) -> MonthBill:
    """Read a month that may be sealed now. Raises as `SealService.seal`."""
    period, _timezone = find_billing_month(connection, month)
    seals = _read_seals(connection)
    for row in seals:
        if row.end_s >= period.end_s:
            raise SealedMonth(
                f"{month} cannot be sealed: {row.month} is sealed already",
                hint="gpupool report seals",
                month=row.month,
            )
    bill = read_open_month(connection, month)
    if not bill.is_over:
        raise MonthNotOver(
            f"{month} has charges up to {format_instant(bill.end_s * NANOS_PER_SECOND)}; it ends "
            f"{format_instant(period.end_s * NANOS_PER_SECOND)}",
            hint="seal it ten minutes after its end or later",
            end_ns=period.end_s * NANOS_PER_SECOND,
        )
    if seals and seals[-1].end_s < bill.start_s:
        raise BadOption(
            f"{seals[-1].month} is the last sealed month; the one after it comes before {month}",
            hint="seal months in their order",
        )
    return bill


def compute_hash(values: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str:
    """Compute the hash of a seal: of its facts, the seal before and every line in its order."""
    names = ("month", "timezone", "start_s", "end_s", "previous", "facts")
    digest = hashlib.sha256(_write_canonical({name: values[name] for name in names}))
    for line in lines:
        digest.update(b"\n")
        digest.update(_write_canonical(line))
    return digest.hexdigest()


def _write_canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _read_seals(connection: sa.Connection) -> Sequence[Any]:
    return connection.execute(sa.select(month_seals).order_by(month_seals.c.end_s)).all()


def _select_entries() -> sa.Select[Any]:
    return sa.select(adjustments, tenants.c.name.label("tenant")).join(
        tenants, tenants.c.id == adjustments.c.tenant_id
    )


def _find_open_month(write: WriteTransaction, seals: Sequence[Any]) -> str:
    """Find the month of today, or the first after it that is not sealed."""
    now_s = write.now_ns // NANOS_PER_SECOND
    _period, timezone = find_billing_month(write.connection, "2000-01")
    zone = parse_zone(timezone)
    sealed = {row.month for row in seals}
    found = find_period(now_s, "month", zone)
    # By name: a seal of another time zone may end before the month of its name is over here.
    while found.name in sealed:
        found = find_period(found.end_s, "month", zone)
    return found.name


def _describe(connection: sa.Connection, row: Any, previous: str) -> SealOut:
    query = (
        sa.select(month_lines.c.line)
        .where(month_lines.c.month == row.month)
        .order_by(month_lines.c.number)
    )
    lines = connection.execute(query).scalars().all()
    digest = compute_hash(row._mapping, lines)
    return SealOut(
        month=row.month,
        timezone=row.timezone,
        start_ns=row.start_s * NANOS_PER_SECOND,
        end_ns=row.end_s * NANOS_PER_SECOND,
        lines=row.lines,
        amount_micro=sum_amounts(read_line(line) for line in lines),
        currency=row.facts["currency"],
        previous=row.previous,
        sha256=row.sha256,
        intact=(digest, len(lines), row.previous) == (row.sha256, row.lines, previous),
        sealed_by=row.sealed_by,
        sealed_ns=row.sealed_ns,
    )
