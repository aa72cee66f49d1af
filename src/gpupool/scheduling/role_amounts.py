"""What a gang takes at least, with what of it is of which role: roles may ask for different models of cards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpupool.model.claim import Shape
from gpupool.model.quota import Amount

Parts = tuple[tuple[Shape, Amount], ...]


@dataclass(frozen=True)
class GangAmount(Amount):
    """The sum over all roles, and the part of each."""

    roles: Parts = ()

    @classmethod
    def of(cls, roles: Iterable[tuple[Shape, Amount]]) -> GangAmount:
        """The amounts of these roles together."""
        parts = tuple(roles)
        milli = sum(amount.gpu_milli for _, amount in parts)
        return cls(milli, sum(amount.memory_bytes for _, amount in parts), parts)


def by_role(shape: Shape, least: Amount) -> Parts:
    """By what is asked for, how much; a claim of one shape is its own only role."""
    return least.roles if isinstance(least, GangAmount) else ((shape, least),)
