"""Build the statement of a month: its lines, entries, tax, and how it closes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.billing.documents.energy import EnergyLine, sum_energy
from gpupool.billing.documents.lines import BillLine, compute_line_cost, write_line
from gpupool.billing.documents.month import MeasuredUse, MonthBill
from gpupool.billing.money import CENT_MICRO, apportion
from gpupool.wire.billing.statements import (
    AdjustmentOut,
    ClosingOut,
    StatementLine,
    StatementOut,
    TenantTotal,
)

#: Hundredths of a percent in one whole.
_WHOLE_BASIS_POINTS = 10_000


def build_statement(bill: MonthBill, tenant: str | None) -> StatementOut:
    """Build the statement of one tenant, or of the pool.

    Lines are rounded to cents so that each tenant's add up to its rounded sum.
    """
    lines = round_lines(select_lines(bill, tenant))
    entries = [entry for entry in bill.adjustments if tenant in (None, entry.tenant)]
    names = {line.tenant for line in lines if line.is_paid}
    names |= {entry.tenant for entry in entries}
    if tenant is not None:
        names.add(tenant)
    by_tenant: dict[str, list[BillLine]] = defaultdict(list)
    for line in lines:
        by_tenant[line.tenant].append(line)
    entries_of: dict[str, int] = defaultdict(int)
    for entry in entries:
        entries_of[entry.tenant] += entry.amount_micro
    totals = [
        _build_total(bill, name, by_tenant.get(name, []), entries_of[name])
        for name in sorted(names)
    ]
    return StatementOut(
        month=bill.month,
        timezone=bill.timezone,
        tenant=tenant,
        start_ns=bill.start_s * NANOS_PER_SECOND,
        end_ns=bill.end_s * NANOS_PER_SECOND,
        sealed=bill.sha256 is not None,
        sha256=bill.sha256,
        currency=bill.currency,
        tax_basis_points=bill.tax_basis_points,
        simulated=bill.simulated,
        lines=[_build_line(line) for line in lines],
        adjustments=[AdjustmentOut(**asdict(entry)) for entry in entries],
        totals=totals,
        total_micro=sum(total.total_micro for total in totals),
        closing=None if tenant is not None else build_closing(bill),
        unpriced=_list_unpriced(lines),
        **_describe_energy(_select_energy(bill, tenant)),
    )


def _select_energy(bill: MonthBill, tenant: str | None) -> list[EnergyLine]:
    if tenant is None:
        return bill.energy
    return [line for line in bill.energy if line.kind == "tenant" and line.tenant == tenant]


def _describe_energy(lines: Sequence[EnergyLine]) -> dict[str, int | None]:
    energy = sum_energy(lines)
    return {
        "energy_milliwatt_hours": None if energy is None else energy.milliwatt_hours,
        "measured_card_milliseconds": None if energy is None else energy.measured_milliseconds,
        "co2e_milligrams": None if energy is None else energy.co2e_milligrams,
    }


def select_lines(bill: MonthBill, tenant: str | None) -> list[BillLine]:
    """Select the lines that a statement shows."""
    if tenant is None:
        return list(bill.lines)
    return [line for line in bill.lines if line.is_paid and line.tenant == tenant]


def round_lines(lines: Sequence[BillLine]) -> list[BillLine]:
    """Round the amounts of lines to cents; those of each tenant add up to its rounded sum."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        if line.is_paid:
            numbers[line.tenant].append(number)
    rounded = list(lines)
    for mine in numbers.values():
        exact = [compute_line_cost(lines[number]) for number in mine]
        cents, _ = apportion(exact, CENT_MICRO)
        for number, amount in zip(mine, cents, strict=True):
            rounded[number] = replace(lines[number], amount_micro=amount)
    return rounded


def _build_total(
    bill: MonthBill, tenant: str, lines: Sequence[BillLine], credit_micro: int
) -> TenantTotal:
    use = bill.use.get(tenant, MeasuredUse())
    lines_micro = sum(line.amount_micro for line in lines)
    credit = round_to_cent(Fraction(credit_micro))
    net = lines_micro + credit
    tax = round_to_cent(Fraction(net * bill.tax_basis_points, _WHOLE_BASIS_POINTS))
    return TenantTotal(
        tenant=tenant,
        card_milliseconds=sum(line.card_milliseconds for line in lines if line.kind == "tenant"),
        delivered_milliseconds=use.delivered_milliseconds,
        denied_milliseconds=use.denied_milliseconds,
        lines_micro=lines_micro,
        adjustments_micro=credit,
        tax_micro=tax,
        total_micro=net + tax,
        **_describe_energy(_select_energy(bill, tenant)),
    )


def round_to_cent(micro: Fraction) -> int:
    """Round an amount to whole cents, halves to the even one.

    >>> round_to_cent(Fraction(15_000)), round_to_cent(Fraction(25_000))
    (20000, 20000)
    """
    return round(micro / CENT_MICRO) * CENT_MICRO


def build_closing(bill: MonthBill) -> ClosingOut:
    """Build the closing line from the exact lines of the whole pool."""
    at_list: dict[str, int] = defaultdict(int)
    paid = 0
    for line in bill.lines:
        at_list[line.kind] += line.list_micro
        paid += line.amount_micro
    unheld = sum_energy(line for line in bill.energy if line.kind != "tenant")
    return ClosingOut(
        tenants_micro=at_list["tenant"],
        reserved_micro=at_list["reserved"],
        idle_micro=at_list["idle"],
        overhead_micro=at_list["overhead"],
        unmanaged_micro=at_list["unmanaged"],
        capacity_micro=sum(at_list.values()),
        discounts_micro=at_list["tenant"] + at_list["reserved"] - paid,
        capacity_card_milliseconds=bill.capacity_card_milliseconds,
        closes=bill.closes,
        unheld_energy_milliwatt_hours=None if unheld is None else unheld.milliwatt_hours,
        unheld_co2e_milligrams=None if unheld is None else unheld.co2e_milligrams,
    )


def _build_line(line: BillLine) -> StatementLine:
    shown = write_line(line)
    del shown["base_micro"]
    return StatementLine(**shown)


def _list_unpriced(lines: Sequence[BillLine]) -> list[str]:
    found = set()
    for line in lines:
        if line.is_paid and line.price_micro is None and line.charged_micro_seconds:
            found.add(line.model)
    return sorted(found)
