"""The tenants as the scheduler sees them: quota, what they hold, and past usage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.cache.usage_history import UsageHistory
from gpupool.model.quota import Quota, QuotaBranch, ResourceAmount
from gpupool.scheduling import CardTable, TenantView
from gpupool.tenancy.quotas import read_tree
from gpupool.tenancy.tables import tenants


class TenantViews:
    """Tenants and the quota tree above them. Not thread-safe: the cache calls it under its lock."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.usage = UsageHistory(clock)
        #: The nodes of the quota tree that are no tenants, by name.
        self.cohorts: Mapping[str, QuotaBranch] = {}
        self._branches: Mapping[str, QuotaBranch] = {}
        self._views: dict[str, TenantView] = {}
        self._generations: dict[str, int] = {}

    def load(self, connection: sa.Connection, cards: CardTable | None) -> None:
        """Read the tenants and the quota tree anew."""
        self._views.clear()
        self._generations.clear()
        tree = read_tree(connection)
        self.cohorts = tree.cohorts
        self._branches = tree.tenants
        for row in connection.execute(sa.select(tenants)):
            self.record_row(row, cards)

    def record_row(self, row: Any, cards: CardTable | None) -> None:
        """Note a row of `tenants` as it was written. An older generation is ignored."""
        if self._generations.get(row.name, 0) > row.generation:
            return
        self._generations[row.name] = row.generation
        # A tenant that was created after the last reading of the tree stands below its root.
        branch = self._branches.get(row.name) or QuotaBranch(None, _read_quota(row))
        held = ResourceAmount(row.held_milli, row.held_memory_bytes)
        self._views[row.name] = TenantView(branch.quota, held, branch.parent, branch.weight_milli)
        self.usage.record_holdings(row.name, held, cards)

    def record_pool_size(self, cards: CardTable | None) -> None:
        """Note that the pool has other cards: what a tenant holds is another part of it."""
        for name, view in self._views.items():
            self.usage.record_holdings(name, view.held, cards)

    def build_views(self) -> dict[str, TenantView]:
        """Build the tenants of a snapshot, with their past usage as it counts now."""
        return self.usage.add_past_usage(self._views)


def _read_quota(row: Any) -> Quota:
    return Quota(
        row.nominal_milli, row.borrowing_milli, row.nominal_memory_bytes, row.borrowing_memory_bytes
    )
