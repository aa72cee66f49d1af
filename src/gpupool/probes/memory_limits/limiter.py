"""Defines what a driver with memory limits by cgroup can do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

#: NVML_DEVICE_MEMORY_LIMIT_MAX of nvml.h: the hard limit of a cgroup that has none.
NO_LIMIT: Final = 2**64 - 1


@dataclass(frozen=True)
class MemoryLimit:
    """What a cgroup may use of a card, and uses; managed memory is not counted.

    Attributes:
        soft_bytes: memory that the driver keeps for the cgroup; 0 is none.
        hard_bytes: the most that its processes can allocate together; NO_LIMIT is no limit.
    """

    soft_bytes: int = 0
    hard_bytes: int = NO_LIMIT
    used_bytes: int = 0


class MemoryLimiter(Protocol):
    """The limits of one driver. A card is named by its uuid, a cgroup by its directory."""

    def explain_absence(self) -> str:
        """Return why the driver has no limits by cgroup; empty when it has. Changes nothing."""
        ...

    def read_limit(self, uuid: str, group: Path) -> MemoryLimit | None:
        """Return a cgroup's limit on a card; None where it cannot be read or is not there."""
        ...

    def set_limit(self, uuid: str, group: Path, limit: MemoryLimit) -> str:
        """Set both limits, `used_bytes` is ignored; return why not, empty when it is done.

        Idempotent. Raises nothing: the caller reports what is not in force.
        """
        ...

    def clear_limit(self, uuid: str, group: Path) -> str:
        """Remove the limit, also of a cgroup that is gone; return why not. Idempotent."""
        ...
