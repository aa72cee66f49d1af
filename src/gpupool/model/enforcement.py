"""What really stops a tenant from taking more than its share: one level for each dimension.

The levels are facts that a mechanism reports and that the planner compares with what a claim asks
for. Must not know any mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum


class FenceLevel(StrEnum):
    """What really stops a tenant from taking more than its share.

    NONE: nothing does. ADVISORY: a program that ignores its limits is not stopped. SOFT: unmodified
    programs are stopped, a hostile one is not. HARD: hardware, kernel or hypervisor stop all.
    """

    NONE = "none"
    ADVISORY = "advisory"
    SOFT = "soft"
    HARD = "hard"

    @property
    def rank(self) -> int:
        """Position in the order from NONE (0) to HARD (3)."""
        return _ORDER.index(self)


_ORDER = tuple(FenceLevel)


@dataclass(frozen=True)
class EnforcementLevels:
    """The enforcement level of each dimension of an allocation.

    Attributes:
        memory: bytes of the card's memory.
        compute: the card's time or its multiprocessors.
        bandwidth: of memory and caches.
        fault: whether an error in one tenant's program spares the others.
    """

    memory: FenceLevel = FenceLevel.NONE
    compute: FenceLevel = FenceLevel.NONE
    bandwidth: FenceLevel = FenceLevel.NONE
    fault: FenceLevel = FenceLevel.NONE

    @property
    def weakest(self) -> FenceLevel:
        """The level shown in one word: the weaker one of memory and compute."""
        return min(self.memory, self.compute, key=lambda level: level.rank)

    def write(self) -> dict[str, str]:
        """Return the levels by dimension, as they are stored and sent."""
        return {one.name: str(getattr(self, one.name)) for one in fields(self)}


def read_levels(document: Mapping[str, str]) -> EnforcementLevels:
    """Read what `EnforcementLevels.write` made.

    Unknown dimensions are ignored, since a newer version may add some. Raises ValueError for an
    unknown level.
    """
    known = {one.name for one in fields(EnforcementLevels)}
    levels = {name: FenceLevel(value) for name, value in document.items() if name in known}
    return EnforcementLevels(**levels)


def spread_level(level: FenceLevel) -> EnforcementLevels:
    """Return levels for a mechanism that knows only one word: memory and compute are alike."""
    return EnforcementLevels(memory=level, compute=level)
