"""Writes gpupool's resources into the capacity of Nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.concurrency import gather_limited
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.resources import node_capacity


class NodeCapacityWriter:
    """Writes capacities where they differ. `note` takes the Node as it is after the write."""

    def __init__(
        self,
        api: KubeApi,
        cluster: ClusterCache,
        counts: ControllerCounters,
        note: Callable[[dict[str, Any], bool], None],
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._counts = counts
        self._note = note

    async def write_capacities(self) -> None:
        """Write every node that changed and whose capacity differs; idempotent."""
        cluster = self._cluster
        known = {}
        for name in sorted(cluster.unsettled):
            if name in cluster.hosts:
                known[name] = cluster.hosts[name]
        wanted = {}
        for name in known:
            wanted[name] = node_capacity.wanted_capacities(cluster.ledgers.get(name))
        writes = []
        for name in known:
            if wanted[name] != known[name].has:
                writes.append(self._tell(name, wanted[name]))
        await gather_limited(writes)

    async def _tell(self, name: str, wanted: tuple[tuple[str, int], ...]) -> None:
        self._counts.capacity_writes += 1
        known = self._cluster.hosts.get(name)
        now = await self._api.patch(
            f"/api/v1/nodes/{name}/status", node_capacity.capacity_patch(wanted)
        )
        if (
            known is not None and self._cluster.hosts.get(name) is known
        ):  # else the watch told it, or that it is gone
            self._note(now, False)
