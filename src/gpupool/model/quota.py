"""How much a tenant may hold: a guaranteed part, and how far over it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Amount:
    """Compute in milli-devices and memory in bytes, added up over cards."""

    gpu_milli: int = 0
    memory_bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.gpu_milli + other.gpu_milli, self.memory_bytes + other.memory_bytes)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.gpu_milli - other.gpu_milli, self.memory_bytes - other.memory_bytes)


@dataclass(frozen=True)
class Quota:
    """Nominal is guaranteed, borrowing is how far over it; None means no limit of that kind."""

    nominal_milli: int | None = None
    borrowing_milli: int | None = 0
    nominal_memory_bytes: int | None = None
    borrowing_memory_bytes: int | None = 0

    @property
    def maximum_milli(self) -> int | None:
        return _sum(self.nominal_milli, self.borrowing_milli)

    @property
    def maximum_memory_bytes(self) -> int | None:
        return _sum(self.nominal_memory_bytes, self.borrowing_memory_bytes)

    def allows(self, total: Amount) -> bool:
        """Whether a tenant may hold that much in all."""
        return _within(total.gpu_milli, self.maximum_milli) and _within(total.memory_bytes, self.maximum_memory_bytes)

    def guarantees(self, total: Amount) -> bool:
        """Whether that much is inside the nominal part."""
        return _within(total.gpu_milli, self.nominal_milli) and _within(total.memory_bytes, self.nominal_memory_bytes)


UNLIMITED = Quota(None, None, None, None)


def _sum(nominal: int | None, borrowing: int | None) -> int | None:
    return None if nominal is None or borrowing is None else nominal + borrowing


def _within(value: int, limit: int | None) -> bool:
    return limit is None or value <= limit
