"""Amounts of a gang by role.

Roles of one gang may ask for different models of cards, and quotas may limit single models.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpupool.model.claim import Shape
from gpupool.model.quota import ResourceAmount

RoleAmounts = tuple[tuple[Shape, ResourceAmount], ...]


@dataclass(frozen=True)
class GangAmount(ResourceAmount):
    """The sum of all roles' amounts, with the amount of each role."""

    roles: RoleAmounts = ()

    @classmethod
    def sum_roles(cls, roles: Iterable[tuple[Shape, ResourceAmount]]) -> GangAmount:
        """Add up the amounts of these roles."""
        parts = tuple(roles)
        milli = sum(amount.gpu_milli for _, amount in parts)
        return cls(milli, sum(amount.memory_bytes for _, amount in parts), parts)


def split_by_role(shape: Shape, least: ResourceAmount) -> RoleAmounts:
    """Split the least amount of a claim by role.

    A claim of one shape counts as its own only role.
    """
    return least.roles if isinstance(least, GangAmount) else ((shape, least),)
