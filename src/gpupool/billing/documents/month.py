"""A month as it is billed: sealed, or as it stands now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadOption
from gpupool.billing.charging.marks import read_charge_marks
from gpupool.billing.charging.tables import adjustments
from gpupool.billing.documents.energy import EnergyLine, read_energy_lines
from gpupool.billing.documents.lines import BillLine, read_line, read_lines
from gpupool.billing.periods import Period, find_month, find_period, parse_zone
from gpupool.billing.prices.price_list import DatedPriceList
from gpupool.billing.prices.service import read_price_lists
from gpupool.billing.sealing.tables import month_lines, month_seals
from gpupool.fleet.tables import devices
from gpupool.metering.books import HOUR_S
from gpupool.metering.reading import ReportQuery, read_capacity, read_delivered
from gpupool.metering.rollup import read_marks
from gpupool.tenancy.tables import tenants


@dataclass(frozen=True)
class MeasuredUse:
    """What a tenant's jobs used, in milliseconds of a GPU; None is unknown."""

    delivered_milliseconds: int | None = None
    kept_milliseconds: int | None = None
    borrowed_milliseconds: int | None = None
    denied_milliseconds: int | None = None


@dataclass(frozen=True)
class AdjustmentEntry:
    """An entry that a person made."""

    id: str
    tenant: str
    month: str
    corrects: str | None
    amount_micro: int
    reason: str
    made_by: str
    made_ns: int


@dataclass(frozen=True)
class MonthBill:
    """All of a month: its lines, entries, and what was measured."""

    month: str
    timezone: str
    start_s: int
    #: The end of the month, or the end of its last hour that has charges.
    end_s: int
    is_over: bool
    currency: str
    tax_basis_points: int
    simulated: bool | None
    capacity_card_milliseconds: int
    lines: list[BillLine]
    use: Mapping[str, MeasuredUse] = field(default_factory=dict)
    adjustments: list[AdjustmentEntry] = field(default_factory=list)
    energy: list[EnergyLine] = field(default_factory=list)
    #: Of the seal; None: the month is not sealed.
    sha256: str | None = None

    @property
    def closes(self) -> bool:
        """Whether the lines are the capacity exactly, as the history of the cards has it."""
        total = sum(line.card_milliseconds for line in self.lines)
        return total == self.capacity_card_milliseconds


def find_billing_month(connection: sa.Connection, name: str) -> tuple[Period, str]:
    """Find a month in the time zone of the pool's price lists. Raises BadOption."""
    lists = read_price_lists(connection)
    timezone = lists[0].timezone if lists else "UTC"
    return find_month(name, parse_zone(timezone)), timezone


def read_month(connection: sa.Connection, name: str) -> MonthBill:
    """Read a month: its seal, or what it stands at. Raises BadOption for a month to come."""
    seal = connection.execute(
        sa.select(month_seals).where(month_seals.c.month == name)
    ).one_or_none()
    if seal is None:
        return read_open_month(connection, name)
    facts = seal.facts
    query = (
        sa.select(month_lines.c.line)
        .where(month_lines.c.month == name)
        .order_by(month_lines.c.number)
    )
    lines = [read_line(line) for line in connection.execute(query).scalars()]
    return MonthBill(
        month=name,
        timezone=seal.timezone,
        start_s=seal.start_s,
        end_s=seal.end_s,
        is_over=True,
        currency=facts["currency"],
        tax_basis_points=facts["tax_basis_points"],
        simulated=facts["simulated"],
        capacity_card_milliseconds=facts["capacity_card_milliseconds"],
        lines=lines,
        use={tenant: MeasuredUse(**use) for tenant, use in facts["use"].items()},
        adjustments=[AdjustmentEntry(**entry) for entry in facts["adjustments"]],
        # Months that an earlier version sealed say nothing of energy.
        energy=[EnergyLine(**line) for line in facts.get("energy", ())],
        sha256=seal.sha256,
    )


def read_open_month(connection: sa.Connection, name: str) -> MonthBill:
    """Read a month that is not sealed, as far as its hours have charges. Raises BadOption."""
    period, timezone = find_billing_month(connection, name)
    marks = read_charge_marks(connection)
    start_s = _find_start(connection, period, timezone)
    made_s = 0 if marks is None else marks.next_s
    if marks is None or made_s <= start_s or marks.first_s >= period.end_s:
        raise BadOption(
            f"the pool has no charges of {name}",
            hint="charges are made ten minutes after each hour; gpupool report shows the books",
        )
    end_s = min(period.end_s, made_s)
    start_s = max(start_s, marks.first_s)
    books = read_marks(connection)
    capacity_ask = ReportQuery(start_s, end_s, ("tenant",), books)
    capacity = 0
    for spans in read_capacity(connection, capacity_ask).values():
        capacity += sum(amount.card_milliseconds for amount in spans.values())
    terms = _find_terms(read_price_lists(connection), end_s)
    return MonthBill(
        month=name,
        timezone=timezone,
        start_s=start_s,
        end_s=end_s,
        is_over=made_s >= period.end_s,
        currency="" if terms is None else terms.currency,
        tax_basis_points=0 if terms is None else terms.tax_basis_points,
        simulated=_read_simulated(connection),
        capacity_card_milliseconds=capacity,
        lines=read_lines(connection, start_s, end_s),
        use=_read_use(connection, ReportQuery(start_s, end_s, ("tenant",), books)),
        adjustments=read_entries(connection, name),
        energy=read_energy_lines(connection, start_s, end_s),
    )


def _find_start(connection: sa.Connection, period: Period, timezone: str) -> int:
    """Find where a month begins: at the end of the one before, if that is sealed.

    It may be sealed in another time zone, as before the first price list: no hour is billed
    twice, and none is left out.
    """
    before = find_period(period.start_s - HOUR_S, "month", parse_zone(timezone))
    query = sa.select(month_seals.c.end_s).where(month_seals.c.month == before.name)
    sealed_s = connection.execute(query).scalar_one_or_none()
    return period.start_s if sealed_s is None else int(sealed_s)


def read_entries(connection: sa.Connection, month: str) -> list[AdjustmentEntry]:
    """Read the entries that are billed in a month, the oldest first."""
    query = (
        sa.select(adjustments, tenants.c.name.label("tenant"))
        .join(tenants, tenants.c.id == adjustments.c.tenant_id)
        .where(adjustments.c.month == month)
        .order_by(adjustments.c.id)
    )
    return [build_entry(row) for row in connection.execute(query)]


def build_entry(row: Any) -> AdjustmentEntry:
    """Build an entry from its row, which has the tenant's name."""
    return AdjustmentEntry(
        row.public_id,
        row.tenant,
        row.month,
        row.corrects,
        row.amount_micro,
        row.reason,
        row.made_by,
        row.made_ns,
    )


def write_facts(bill: MonthBill) -> dict[str, Any]:
    """Write what a seal keeps of a month beside its lines."""
    return {
        "currency": bill.currency,
        "tax_basis_points": bill.tax_basis_points,
        "simulated": bill.simulated,
        "capacity_card_milliseconds": bill.capacity_card_milliseconds,
        "use": {tenant: asdict(use) for tenant, use in sorted(bill.use.items())},
        "adjustments": [asdict(entry) for entry in bill.adjustments],
        "energy": [asdict(line) for line in bill.energy],
    }


def _find_terms(lists: list[DatedPriceList], end_s: int) -> DatedPriceList | None:
    """Find the list whose currency and tax hold at the end of the month."""
    found = None
    for one in lists:
        if one.from_s < end_s:
            found = one
    return found


def _read_use(connection: sa.Connection, ask: ReportQuery) -> dict[str, MeasuredUse]:
    names = {
        row.id: row.name for row in connection.execute(sa.select(tenants.c.id, tenants.c.name))
    }
    found: dict[str, MeasuredUse] = {}
    for ids, sums in read_delivered(connection, ask):
        tenant = names.get(ids["tenant_id"] or 0)
        if tenant is not None:
            found[tenant] = MeasuredUse(sums.gpu, sums.kept, sums.borrowed, sums.denied)
    return found


def _read_simulated(connection: sa.Connection) -> bool | None:
    kinds = set(connection.execute(sa.select(devices.c.simulated).distinct()).scalars())
    return bool(kinds.pop()) if len(kinds) == 1 else None
