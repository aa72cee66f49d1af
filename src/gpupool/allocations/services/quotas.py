"""What the pool can still give: the quota tree, the free capacity, and the queue."""

from __future__ import annotations

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.idle_suspension.policy import IdleSuspensionPolicy
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.placement.queue_view import list_queue
from gpupool.allocations.views.capacity import describe_capacity
from gpupool.allocations.views.quota import describe_quota_tree
from gpupool.model.suspension import UNIT_FACTOR
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.wire.capacity import CapacityOut
from gpupool.wire.people import QuotaTreeOut
from gpupool.wire.views.job_pages import QueuedOut


class QuotaService:
    """Reads quotas, capacity and the queue from the cache of the ledger. Thread-safe."""

    def __init__(
        self,
        store: Store,
        cache: LedgerCache,
        placer: Placer,
        idle_suspension: IdleSuspensionPolicy,
    ) -> None:
        self._idle_suspension = idle_suspension
        self._store = store
        self._cache = cache
        self._placer = placer

    def describe_quotas(self, principal: Principal) -> QuotaTreeOut:
        """Describe the quota tree: the whole tree for an admin, else the caller's tenant."""
        self._placer.refresh_cache()
        return describe_quota_tree(self._cache.build_snapshot(), principal)

    def describe_capacity(self, caller: Principal | None = None) -> CapacityOut:
        """Describe the free capacity now, and what quotas leave the caller's tenant."""
        self._placer.refresh_cache()
        tenant = caller.tenant if caller else None
        snapshot = self._cache.build_snapshot()
        idle = self._idle_suspension
        return describe_capacity(snapshot, tenant).model_copy(
            update={
                "idle": idle.describe_cards(snapshot),
                "suspend_factor": idle.rules.memory_factor_milli / UNIT_FACTOR,
            }
        )

    def list_queue(self, principal: Principal, limit: int) -> list[QueuedOut]:
        """List at most `limit` waiting claims in scheduling order."""
        self._placer.refresh_cache()
        with self._store.read() as connection:
            snapshot = self._cache.build_snapshot()
            now_ns = self._store.clock.now_ns()
            return list_queue(connection, snapshot, self._placer, principal, now_ns, limit)
