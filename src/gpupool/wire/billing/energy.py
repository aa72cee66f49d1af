"""The site's energy factors: what turns measured kWh into CO2e."""

from __future__ import annotations

from pydantic import Field

from gpupool.wire.common import WireModel


class EnergyFactorIn(WireModel):
    """PUE and grid factor from an instant on, until the next ones begin."""

    from_ns: int | None = Field(
        None, ge=0, le=10**19 - 1, description="a whole hour; null: the hour that runs"
    )
    pue_milli: int = Field(
        ge=1000, le=10_000, description="thousandths: energy of the site by that of its computers"
    )
    grid_milligrams: int = Field(
        ge=0, le=5_000_000, description="CO2e of one kWh of the grid, in milligrams"
    )


class EnergyFactorOut(WireModel):
    """PUE and grid factor with the time in which they hold."""

    from_ns: int
    until_ns: int | None = Field(description="where the next ones begin; null: none do")
    pue_milli: int
    grid_milligrams: int
    set_by: str
    set_ns: int
