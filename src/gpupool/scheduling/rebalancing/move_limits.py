"""Limits of a plan of moves, and what the plan has used of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.scheduling.rebalancing.workspace import Move


@dataclass(frozen=True)
class RebalancingLimits:
    """How far a plan may go; None is no limit."""

    moves: int | None = None
    lost_seconds: int | None = None
    #: Moves of jobs of one tenant.
    per_tenant: int | None = None
    #: Lost work in seconds times the compute that it held, in cards.
    lost_gpu_seconds: int | None = None


class MoveTally:
    """Moves made so far, within the limits."""

    def __init__(self, limits: RebalancingLimits) -> None:
        self.moves: list[Move] = []
        self.lost_seconds = 0
        self.lost_gpu_seconds = 0
        self._limits = limits
        self._of: Counter[str] = Counter()

    def is_allowed(self, tenants: Sequence[str], lost_seconds: int, lost_gpu_seconds: int) -> bool:
        """Whether jobs of these tenants may be moved too.

        Args:
            tenants: the tenant of each job.
            lost_seconds: the work that these jobs lose together.
            lost_gpu_seconds: the same times the compute that they hold.
        """
        limits = self._limits
        return (
            _is_within(len(self.moves) + len(tenants), limits.moves)
            and _is_within(self.lost_seconds + lost_seconds, limits.lost_seconds)
            and _is_within(self.lost_gpu_seconds + lost_gpu_seconds, limits.lost_gpu_seconds)
            and self._is_within_tenant_limits(tenants)
        )

    def _is_within_tenant_limits(self, tenants: Sequence[str]) -> bool:
        moved = self._of + Counter(tenants)
        return all(_is_within(moved[tenant], self._limits.per_tenant) for tenant in tenants)

    def add_moves(self, moves: Sequence[Move]) -> None:
        """Count these moves."""
        self.moves += moves
        for move in moves:
            self.lost_seconds += move.lost_seconds
            self.lost_gpu_seconds += move.lost_gpu_seconds
            self._of[move.tenant] += 1


def _is_within(value: int, limit: int | None) -> bool:
    return limit is None or value <= limit
