"""The site's factors: PUE and what the grid emits, each from an instant on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Milliwatt-hours of one kWh times thousandths of the PUE.
_SCALE = 10**6 * 1000


@dataclass(frozen=True)
class SiteFactor:
    """From `from_s` on, until the next one.

    Attributes:
        pue_milli: Thousandths of the power usage effectiveness: energy of the whole site by that
            of its computers.
        grid_milligrams: CO2e of one kWh of the grid, in milligrams.
    """

    from_s: int
    pue_milli: int
    grid_milligrams: int

    def compute_co2e(self, milliwatt_hours: int) -> int:
        """Compute whole milligrams of CO2e.

        >>> SiteFactor(0, 1300, 570_000).compute_co2e(2_000_000)
        1482000
        """
        return milliwatt_hours * self.pue_milli * self.grid_milligrams // _SCALE


def find_factor(factors: Sequence[SiteFactor], second: int) -> SiteFactor | None:
    """Find the factor in force; `factors` is in the order of beginnings. None: none has begun."""
    found = None
    for factor in factors:
        if factor.from_s <= second:
            found = factor
    return found
