"""Deletes ledgers whose Node is gone, after the meter has reported what ended there.

A ledger that is not metered belongs to its Node, and the API server deletes both. A metered one
would take its closed intervals along. So the first write that can leave such intervals removes the
owner reference (`ledger.build_swap_patch`), and the controller deletes the ledger. Until then no
card is handed out by it, even if a Node of that name appears again. An event says what it waits
for; deleting it by hand discards the intervals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from gpupool.base.errors import ApiServerRejection
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.ledger.billing_intervals import unreported_intervals
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode

log = logging.getLogger(__name__)


class OrphanedLedgers:
    """The orphaned ledgers of one leader.

    `metered` says whether closed intervals are kept; `wake` requests a reconciliation.
    """

    def __init__(
        self,
        api: KubeApi,
        cluster: ClusterCache,
        events: EventWriter,
        *,
        metered: bool,
        wake: Callable[[], None],
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._events = events
        self._metered = metered
        self._wake = wake
        #: By ledger, the last event about it, so that each text is sent once.
        self._said: dict[str, str] = {}

    async def clean_up(self) -> None:
        """Handle every orphaned ledger; called once per reconciliation, idempotent.

        Sends requests only about ledgers that need something.
        """
        without = self._cluster.ledgers.keys() - self._cluster.hosts.keys()
        texts = {}
        for name, said in self._said.items():
            if name in without:
                texts[name] = said
        self._said = texts
        for name in sorted(without):
            node = self._cluster.ledgers[name]
            if not (node.owned or node.entries) and self._is_due(node):
                await self._settle_ledger(name)

    def _is_due(self, node: GpuNode) -> bool:
        return (
            not self._has_unreported(node)
            or node.mode is not Mode.OBSERVE
            or self._said.get(node.name) != _describe_wait(node)
        )

    def _has_unreported(self, node: GpuNode) -> bool:
        return self._metered and bool(unreported_intervals(node))

    async def _settle_ledger(self, name: str) -> None:
        try:
            found = await self._api.get(f"{ledger.NODES}/{name}")
            node = GpuNode.from_json(found)
            # Asked of the server itself: the watch of Nodes may lag behind, and a ledger that is
            # deleted with entries would hand out its cards again.
            if await self._has_node(name) or node.entries:
                return
            # First the mode and only later the deletion: a Node of the same name that comes back in
            # between must not get pods by a ledger that is about to go.
            if node.mode is not Mode.OBSERVE:
                await ledger.set_observe_mode(self._api, node)
            elif self._has_unreported(node):
                self._said[name] = _describe_wait(node)
                self._events.report_waiting_ledger(name, found["metadata"]["uid"], self._said[name])
            else:
                await ledger.delete_ledger(self._api, node)
                log.info(
                    "the ledger of %s is deleted: its Node is gone, and nothing of it is untold",
                    name,
                )
        except ApiServerRejection as error:
            if not (error.is_not_found or error.is_conflict):
                self._said[name] = _describe_wait(self._cluster.ledgers[name])
                log.warning("the ledger of %s stays, whose Node is gone: %s", name, error)
            elif error.is_conflict:
                self._wake()

    async def _has_node(self, name: str) -> bool:
        try:
            await self._api.get(f"/api/v1/nodes/{name}")
        except ApiServerRejection as error:
            if error.is_not_found:
                return False
            raise
        return True


def _describe_wait(node: GpuNode) -> str:
    left = len(unreported_intervals(node))
    return (
        f"its Node is gone, and not all that ended there is in the books yet ({left} left): "
        "the meter, or the server that it tells, may be away. It is deleted then; "
        f"kubectl delete gpunode {node.name}  gives it up"
    )
