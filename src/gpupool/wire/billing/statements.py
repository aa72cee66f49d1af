"""Month seals, entries, and statements of a month."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpupool.wire.common import WireModel

Month = Annotated[str, Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])$", description="2026-11")]


class SealIn(WireModel):
    """The month to seal, in the time zone of the price lists."""

    month: Month


class SealOut(WireModel):
    """A sealed month. `sha256` is of its lines, its facts and the seal before it."""

    month: str
    timezone: str
    start_ns: int
    end_ns: int
    lines: int
    amount_micro: int = Field(description="what tenants pay, before entries and tax")
    currency: str
    previous: str
    sha256: str
    intact: bool = Field(description="whether the rows have this hash now")
    sealed_by: str
    sealed_ns: int


class AdjustmentIn(WireModel):
    """An entry: a credit (below 0) or a charge, billed in the month of today."""

    tenant: Annotated[str, Field(min_length=1, max_length=63)]
    amount_micro: int = Field(ge=-(10**18), le=10**18)
    reason: Annotated[str, Field(min_length=1, max_length=200)]
    corrects: Month | None = Field(None, description="the sealed month that it is about")


class AdjustmentOut(WireModel):
    id: str
    tenant: str
    month: str = Field(description="in which it is billed")
    corrects: str | None
    amount_micro: int
    reason: str
    made_by: str
    made_ns: int


class StatementLine(WireModel):
    """One line of a statement."""

    kind: str = Field(description="tenant, reserved, idle, overhead or unmanaged")
    tenant: str
    project: str
    model: str
    mechanism: str = Field(description="empty: unknown")
    sharing: str = Field(description="empty: unknown")
    preemptible: bool
    price_micro: int | None = Field(description="per card and hour; null: no price is set")
    factor_milli: int = Field(description="thousandths of the price that are charged")
    card_milliseconds: int
    memory_mib_seconds: int
    charged_micro_seconds: int = Field(description="millionths of a card times seconds")
    list_micro: int = Field(description="at the price of the card itself")
    amount_micro: int
    reservation: str = Field("", description="of kind reserved: its name")
    reservation_id: str = Field("", description="of kind reserved: its id")


class TenantTotal(WireModel):
    """What one tenant pays, in whole cents, and what it got."""

    tenant: str
    card_milliseconds: int = Field(description="promised")
    delivered_milliseconds: int | None = Field(description="GPU time measured; null: unknown")
    denied_milliseconds: int | None = Field(description="promised time that was lost in waiting")
    lines_micro: int
    adjustments_micro: int
    tax_micro: int
    total_micro: int
    energy_milliwatt_hours: int | None = Field(None, description="null: no card reports power")
    measured_card_milliseconds: int | None = Field(
        None, description="card time in which the power was measured"
    )
    co2e_milligrams: int | None = Field(
        None, description="energy times PUE and grid factor; null: one of them is unknown"
    )


class ClosingOut(WireModel):
    """How the month closes: at the prices of the cards, tenants and the rest are the capacity."""

    tenants_micro: int
    reserved_micro: int = Field(0, description="reserved for a tenant, used by no job, and charged")
    idle_micro: int
    overhead_micro: int
    unmanaged_micro: int
    capacity_micro: int
    discounts_micro: int = Field(
        description="what tenants pay less than the price of the card, or more where below 0"
    )
    capacity_card_milliseconds: int
    closes: bool
    unheld_energy_milliwatt_hours: int | None = Field(
        None, description="measured of cards, and held by no tenant; null: no card reports power"
    )
    unheld_co2e_milligrams: int | None = Field(
        None, description="of that; null: unknown, or without PUE and grid factor"
    )


class StatementOut(WireModel):
    """A month's statement: of one tenant, or of the pool with its closing line."""

    month: str
    timezone: str
    tenant: str | None = Field(description="null: the whole pool")
    start_ns: int
    end_ns: int
    sealed: bool
    sha256: str | None
    currency: str
    tax_basis_points: int
    simulated: bool | None
    lines: list[StatementLine]
    adjustments: list[AdjustmentOut]
    totals: list[TenantTotal]
    total_micro: int
    closing: ClosingOut | None = Field(description="null for a tenant: it does not see the rest")
    unpriced: list[str] = Field(description="models that were held and have no price")
    energy_milliwatt_hours: int | None = Field(None, description="null: no card reports power")
    measured_card_milliseconds: int | None = Field(
        None, description="card time in which the power was measured"
    )
    co2e_milligrams: int | None = Field(
        None, description="energy times PUE and grid factor; null: one of them is unknown"
    )
