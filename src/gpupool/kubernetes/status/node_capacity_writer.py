"""Writes gpupool's resources into the capacity of Nodes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from gpupool.base.errors import ApiServerRejection
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.concurrency import gather_limited
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.resources import node_capacity

#: Seconds until a refused write is tried again, with the next pass after them.
AGAIN_SECONDS = 10.0

log = logging.getLogger(__name__)


class NodeCapacityWriter:
    """Writes capacities where they differ. `note` takes the Node as it is after the write.

    `seconds` is a monotonic clock, in seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        cluster: ClusterCache,
        counts: ControllerCounters,
        note: Callable[[dict[str, Any], bool], None],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._counts = counts
        self._note = note
        self._seconds = seconds
        #: By node whose write was refused, when it is tried again.
        self._again: dict[str, float] = {}

    async def write_capacities(self) -> None:
        """Write every node that changed and whose capacity differs; idempotent.

        A refusal is logged: it concerns one node, and pods of the others go on.

        Raises:
            ServiceUnavailable: the API server cannot be reached.
        """
        cluster = self._cluster
        now = self._seconds()
        late = {name for name, at in self._again.items() if at <= now}
        known = {}
        for name in sorted(cluster.unsettled | late):
            if name in cluster.hosts and self._again.get(name, now) <= now:
                known[name] = cluster.hosts[name]
        for name in late:
            del self._again[name]
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
        try:
            now = await self._api.patch(
                f"/api/v1/nodes/{name}/status", node_capacity.capacity_patch(wanted)
            )
        except ApiServerRejection as error:
            log.warning("the capacity of node %s is refused: %s", name, error)
            self._again[name] = self._seconds() + AGAIN_SECONDS
            return
        if (
            known is not None and self._cluster.hosts.get(name) is known
        ):  # else the watch told it, or that it is gone
            self._note(now, False)
