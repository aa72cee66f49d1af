"""What cards and host processors draw, idle and in use: published facts, each with its source.

The model is that of "Power- and Fragmentation-aware Online Scheduling for GPU Datacenters" (Lettich et al., CCGrid
2025): a card draws its idle power while nothing is placed on it, else its full power; so does each processor package.
It knows what is placed, not what runs: a figure for comparing placements, no meter.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gpupool.model.catalogue import find_model


class PowerDraw(NamedTuple):
    """Of one card or one processor package."""

    idle: int
    full: int

    @property
    def swing(self) -> int:
        """What it draws more once something is placed on it."""
        return self.full - self.idle


# Full power: board power of the vendors' data sheets, of the variant with the highest where a name
# has several. Idle power of T4, A10, P100, V100 and A100: the values of Lettich et al., from their
# published simulator. Elsewhere no vendor says what a card draws idle; a tenth of full power is
# assumed (those five draw 10 to 20 %).
_MEASURED_IDLE = {
    "T4": 10,
    "A10": 30,
    "P100-16G": 25,
    "V100-16G": 30,
    "V100-32G": 30,
    "A100-40G": 50,
    "A100-80G": 50,
}

_FULL = {
    "P4": 75,
    "P40": 250,
    "P100-16G": 250,
    "V100-16G": 300,
    "V100-32G": 300,
    "T4": 70,
    "RTX-2080Ti": 250,
    "A100-40G": 400,
    "A100-80G": 400,
    "A800-80G": 400,
    "A30": 165,
    "A10": 150,
    "A10G": 300,
    "A40": 300,
    "RTX-A6000": 300,
    "RTX-3090": 350,
    "RTX-3090Ti": 450,
    "L4": 72,
    "L20": 275,
    "L40": 300,
    "L40S": 350,
    "RTX-6000-Ada": 300,
    "RTX-4090": 450,
    "RTX-4090D": 425,
    "H100": 700,
    "H100-NVL": 400,
    "H800": 700,
    "H20": 400,
    "H200": 700,
    "H200-NVL": 600,
    "GH200-96G": 900,
    "B200": 1000,
    "B300": 1400,
    "RTX-5090": 575,
    "RTX-PRO-6000": 600,
    "MI210": 300,
    "MI300X": 750,
}

#: Names of the openb trace. G2 and G3 are not disclosed; A10 and A100 are the nearest by the
#: trace's card memory.
_OPENB = {
    "P100": "P100-16G",
    "V100M16": "V100-16G",
    "V100M32": "V100-32G",
    "G2": "A10",
    "G3": "A100-40G",
}

#: Of a model that is not listed.
UNKNOWN_CARD = PowerDraw(25, 250)

#: Of one package of 16 cores: Intel Xeon E5-2682 v4 (120 W by its data sheet), the one that Lettich
#: et al. assume where the trace does not say.
PROCESSOR = PowerDraw(15, 120)

#: Logical processors of that package, in thousandths: 16 cores of two threads.
PACKAGE_MILLI = 32_000

CARD_WATTS: Mapping[str, PowerDraw] = MappingProxyType(
    {model: PowerDraw(_MEASURED_IDLE.get(model, full // 10), full) for model, full in _FULL.items()}
)


def find_power_draw(model: str) -> PowerDraw:
    """What a card of that model draws; of unknown ones UNKNOWN_CARD.

    >>> find_power_draw("T4"), find_power_draw("V100M16"), find_power_draw("G2")
    (PowerDraw(idle=10, full=70), PowerDraw(idle=30, full=300), PowerDraw(idle=30, full=150))
    """
    name = _OPENB.get(model, model)
    known = CARD_WATTS.get(name)
    if known is not None:
        return known
    found = find_model(name, CARD_WATTS)
    return UNKNOWN_CARD if found is None else CARD_WATTS[found]
