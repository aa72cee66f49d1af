"""Write a month as FOCUS 1.2 (FinOps Open Cost and Usage Specification), a CSV of charges.

A row is what a project held of one model at one price in one hour. What was left of the cards is of
the pool's own sub-account, so ListCost adds up to the capacity times its price. Column names and
allowed values: https://focus.finops.org/focus-specification/v1-2/.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from decimal import Decimal
from io import StringIO

from gpupool.base.units import NANOS_PER_SECOND, format_instant
from gpupool.billing.documents.cells import HOUR_MICRO, HOUR_MS, KWH_MILLI, guard_cell
from gpupool.billing.documents.focus_rows import FocusRow
from gpupool.billing.documents.lines import BillLine
from gpupool.billing.documents.month import AdjustmentEntry, MonthBill
from gpupool.billing.money import format_money
from gpupool.billing.periods import find_month, parse_zone
from gpupool.metering.books import HOUR_S

#: The sub-account of what no tenant held.
POOL_ACCOUNT = "(pool)"
PROVIDER = "gpupool"
COLUMNS = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
    "x_GpuMilliHours",
    "x_MemoryGiBHours",
    "x_Model",
    "x_EnergyKwh",
)


def write_focus(rows: Iterable[FocusRow], bill: MonthBill, tenant: str | None, pool: str) -> bytes:
    """Write the rows and the entries of a month as CSV, with a mark of UTF-8 for spreadsheets."""
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    common = _build_common(bill, pool)
    for row in rows:
        writer.writerow(common | _build_usage(row))
    for entry in bill.adjustments:
        if tenant in (None, entry.tenant):
            writer.writerow(common | _build_adjustment(entry, bill))
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def _build_common(bill: MonthBill, pool: str) -> dict[str, str]:
    period = find_month(bill.month, parse_zone(bill.timezone))
    return {
        "BillingAccountId": pool,
        "BillingAccountName": pool,
        "BillingCurrency": bill.currency,
        # A month after one that was sealed in an eastern zone begins before its zone's midnight.
        "BillingPeriodStart": _format_second(min(period.start_s, bill.start_s)),
        "BillingPeriodEnd": _format_second(period.end_s),
        # An invoice exists once the month is sealed.
        "InvoiceId": "" if bill.sha256 is None else f"{bill.month}-{bill.sha256[:12]}",
        "InvoiceIssuerName": PROVIDER,
        "ProviderName": PROVIDER,
        "PublisherName": PROVIDER,
        "ServiceCategory": "Compute",
        "ServiceSubcategory": "Other (Compute)",
        "ServiceName": "GPU",
    }


def _build_usage(row: FocusRow) -> dict[str, str]:
    line = row.line
    account = guard_cell(line.tenant) if line.is_paid else POOL_ACCOUNT
    cost = format_money(row.amount_micro if line.is_paid else row.list_micro)
    hours = _format_ratio(row.charged_micro_seconds, HOUR_MICRO)
    sku = "/".join(filter(None, (line.model, line.mechanism, line.sharing)))
    description = f"{line.model} {line.kind}"
    if line.reservation_id:
        sku = f"{line.model}/reserved"
        description = f"{line.model} reserved, unused: {line.reservation}"
    tags = {"kind": line.kind}
    if line.project:
        tags["project"] = line.project
    return {
        "BilledCost": cost,
        "EffectiveCost": cost,
        "ContractedCost": cost,
        "ListCost": format_money(row.list_micro),
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "CapacityReservationId": line.reservation_id,
        "CapacityReservationStatus": "Unused" if line.reservation_id else "",
        "ChargeDescription": guard_cell(description),
        "ChargePeriodStart": _format_second(row.start_s),
        "ChargePeriodEnd": _format_second(row.end_s),
        "ConsumedQuantity": _format_ratio(row.card_milliseconds, HOUR_MS),
        "ConsumedUnit": "Hours",
        "PricingCategory": "Standard",
        "PricingQuantity": hours,
        "PricingUnit": "Hours",
        "ListUnitPrice": format_money(line.base_micro or 0),
        "ContractedUnitPrice": _format_unit_price(line),
        "ResourceId": guard_cell(sku),
        "ResourceName": guard_cell(line.model),
        "ResourceType": "GPU",
        "SkuId": guard_cell(sku),
        "SkuPriceId": guard_cell(f"{sku}@{line.price_micro or 0}x{line.factor_milli}"),
        "SubAccountId": account,
        "SubAccountName": account,
        "Tags": json.dumps(tags, ensure_ascii=False),
        "x_GpuMilliHours": _format_ratio(row.card_milliseconds, HOUR_S),
        "x_MemoryGiBHours": _format_ratio(row.memory_mib_seconds, 1024 * HOUR_S),
        "x_Model": guard_cell(line.model),
        # Empty: unknown.
        "x_EnergyKwh": ""
        if row.energy_milliwatt_hours is None
        else _format_ratio(row.energy_milliwatt_hours, KWH_MILLI),
    }


def _format_unit_price(line: BillLine) -> str:
    price = Decimal((line.price_micro or 0) * line.factor_milli).scaleb(-9)
    return format(price.normalize(), "f")


def _build_adjustment(entry: AdjustmentEntry, bill: MonthBill) -> dict[str, str]:
    cost = format_money(entry.amount_micro)
    account = guard_cell(entry.tenant)
    return {
        "BilledCost": cost,
        "EffectiveCost": cost,
        "ContractedCost": cost,
        "ListCost": "0.00",
        "ChargeCategory": "Adjustment" if entry.corrects or entry.amount_micro > 0 else "Credit",
        "ChargeClass": "Correction" if entry.corrects else "",
        "ChargeFrequency": "One-Time",
        "ChargeDescription": guard_cell(entry.reason),
        "ChargePeriodStart": _format_second(bill.start_s),
        "ChargePeriodEnd": _format_second(bill.end_s),
        "SubAccountId": account,
        "SubAccountName": account,
        "Tags": json.dumps({"kind": "entry", "entry": entry.id}),
    }


def _format_second(second: int) -> str:
    return format_instant(second * NANOS_PER_SECOND)


def _format_ratio(number: int, unit: int) -> str:
    """Format a ratio with nine decimals at most, as a plain decimal."""
    ratio = (Decimal(number) / unit).quantize(Decimal(10) ** -9)
    return format(ratio.normalize(), "f")
