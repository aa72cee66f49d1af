"""Migrations that an administrator asks for: defragmentation and load balancing."""

from __future__ import annotations

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.migration import apply, plan
from gpupool.allocations.placement.placer import Placer
from gpupool.store.database import Store
from gpupool.wire.defrag import DefragIn, DefragOut, MovesIn, MovesOut, RebalanceIn, RebalanceOut


class MigrationService:
    """Plans moves of running jobs on a snapshot, and applies them. Thread-safe."""

    def __init__(self, store: Store, cache: LedgerCache, placer: Placer) -> None:
        self._store = store
        self._cache = cache
        self._placer = placer

    def plan_defrag(self, asked: DefragIn) -> DefragOut:
        """Plan the moves that free whole cards of one node together. Moves nothing."""
        return plan.plan_defrag(self._store, self._placer.take_snapshot(), asked)

    def plan_rebalance(self, asked: RebalanceIn) -> RebalanceOut:
        """Plan the moves of shares that balance the load of their cards. Moves nothing."""
        return plan.plan_rebalance(self._store, self._placer.take_snapshot(), asked)

    def apply_moves(self, asked: MovesIn) -> MovesOut:
        """Hold new seats for the jobs and ask them to move; all or none.

        Raises:
            NotFound: A job or a card is unknown.
            WrongState: A job cannot move now.
            WriteConflict: The pool has changed since the plan.
        """
        return apply.apply_moves(self._store, self._cache, self._placer, asked)
