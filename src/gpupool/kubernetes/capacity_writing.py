"""Writing on Nodes what they have of ours, wherever they say something else (`capacities`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpupool.kubernetes import capacities
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.counts import Counts
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.together import together


class Capacities:
    """`note` takes a Node as it is after it was written, and that it is not gone."""

    def __init__(self, api: KubeApi, pool: Pool, counts: Counts, note: Callable[[dict[str, Any], bool], None]) -> None:
        self._api, self._pool, self._counts, self._note = api, pool, counts, note

    async def write(self) -> None:
        """Nodes that do not say what they have of ours."""
        pool = self._pool
        known = {name: pool.hosts[name] for name in sorted(pool.unsettled) if name in pool.hosts}
        wanted = {name: capacities.wanted(pool.ledgers.get(name)) for name in known}
        await together([self._tell(name, wanted[name]) for name in known if wanted[name] != known[name].has])

    async def _tell(self, name: str, wanted: tuple[tuple[str, int], ...]) -> None:
        self._counts.capacity_writes += 1
        known = self._pool.hosts.get(name)
        now = await self._api.patch(f"/api/v1/nodes/{name}/status", capacities.patch(wanted))
        if known is not None and self._pool.hosts.get(name) is known:  # else the watch told it, or that it is gone
            self._note(now, False)
