"""Price lists as an admin sets them and readers see them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel

_Word = Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[A-Za-z0-9._-]+$")]
_Hour = Annotated[int, Field(ge=0, le=23)]


class RateIn(WireModel):
    """What one card costs an hour, where the conditions hold. Null is any."""

    model: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="as gpupool gpus shows it; * is every model without a rate of its own"
    )
    price_micro: int = Field(ge=0, le=10**15, description="millionths per card and hour")
    mechanism: _Word | None = None
    sharing: _Word | None = Field(None, description="fixed, burst, best-effort or offline")
    from_hour: _Hour | None = Field(None, description="of the day in the list's time zone")
    until_hour: Annotated[int, Field(ge=0, le=24)] | None = None


class PriceListIn(WireModel):
    """A price list: it holds from `from_ns` until the next one begins."""

    from_ns: int = Field(ge=0, le=10**19 - 1, description="a whole hour")
    currency: Annotated[str, Field(min_length=1, max_length=8, pattern=r"^[A-Za-z]+$")]
    timezone: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        "UTC", description="of months and of hours of the day; one for all lists"
    )
    rule: Literal["max", "compute-only", "memory-only"] = "max"
    rates: Annotated[list[RateIn], Field(min_length=1, max_length=500)]
    preemptible_discount_milli: int = Field(
        0, ge=0, le=1000, description="thousandths of the price that preemptible jobs are let off"
    )
    tax_basis_points: int = Field(0, ge=0, le=10_000, description="hundredths of a percent")
    reserved_milli: int = Field(
        0,
        ge=0,
        le=1000,
        description="thousandths of a card's price that its tenant pays while it is reserved and "
        "no job uses it; 0: nothing",
    )


class PriceListOut(PriceListIn):
    """A price list with its name and the time in which it holds."""

    name: Name
    until_ns: int | None = Field(description="where the next one begins; null: none does")
    generation: int
