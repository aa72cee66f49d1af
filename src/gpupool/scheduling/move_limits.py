"""How far a plan of moves may go, and how far it has gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.scheduling.moves import Move


@dataclass(frozen=True)
class Limits:
    """How far a plan may go; None is no limit."""

    moves: int | None = None
    lost_seconds: int | None = None
    per_tenant: int | None = None
    """Moves of jobs of one tenant."""
    lost_gpu_seconds: int | None = None
    """Lost work times the compute that it held."""


class Spent:
    """Moves made so far, within the limits."""

    def __init__(self, limits: Limits) -> None:
        self.moves: list[Move] = []
        self.lost_seconds = 0
        self.lost_gpu_seconds = 0
        self._limits = limits
        self._of: Counter[str] = Counter()

    def allows(self, tenants: Sequence[str], lost_seconds: int, lost_gpu_seconds: int) -> bool:
        """Whether jobs of these tenants (one entry per job) may be moved as well, and lose so much together."""
        limits = self._limits
        return (
            _within(len(self.moves) + len(tenants), limits.moves)
            and _within(self.lost_seconds + lost_seconds, limits.lost_seconds)
            and _within(self.lost_gpu_seconds + lost_gpu_seconds, limits.lost_gpu_seconds)
            and all(_within(self._of[tenant] + more, limits.per_tenant) for tenant, more in Counter(tenants).items())
        )

    def add(self, moves: Sequence[Move]) -> None:
        self.moves += moves
        self.lost_seconds += sum(move.lost_seconds for move in moves)
        self.lost_gpu_seconds += sum(move.lost_gpu_seconds for move in moves)
        self._of.update(move.tenant for move in moves)


def _within(value: int, limit: int | None) -> bool:
    return limit is None or value <= limit
