"""Ledgers whose Node is no more, where somebody meters: kept until what ended there is in the books, then deleted.

A ledger that nobody meters belongs to its Node, and the API server deletes it with that. One that may keep ends for the
books would take them along: so the write that first can leave one takes the owner off (`ledger.swap`), and the
controller deletes it. Until then nothing is handed out by it, also when a Node of its name comes back; an event says
what it waits for, and deleting it by hand gives that up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from gpupool.base.errors import ApiRefused
from gpupool.kubernetes import ledger
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.events import Events
from gpupool.kubernetes.objects import GpuNode, Mode
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.stretches import untold

log = logging.getLogger(__name__)


class Orphans:
    """`metered`: whether what ended is kept. `wake` asks for a round."""

    def __init__(self, api: KubeApi, pool: Pool, events: Events, *, metered: bool, wake: Callable[[], None]) -> None:
        self._api, self._pool, self._events, self._metered, self._wake = api, pool, events, metered, wake
        self._said: dict[str, str] = {}
        """What was told of each, so that it is told once."""

    async def settle(self) -> None:
        """Once a round. Asks the server only about ledgers of which something is to be done."""
        without = self._pool.ledgers.keys() - self._pool.hosts.keys()
        self._said = {name: said for name, said in self._said.items() if name in without}
        for name in sorted(without):
            node = self._pool.ledgers[name]
            if not (node.owned or node.entries) and self._is_due(node):
                await self._settle(name)

    def _is_due(self, node: GpuNode) -> bool:
        return not self._waits(node) or node.mode is not Mode.OBSERVE or self._said.get(node.name) != _words(node)

    def _waits(self, node: GpuNode) -> bool:
        return self._metered and bool(untold(node))

    async def _settle(self, name: str) -> None:
        try:
            found = await self._api.get(f"{ledger.NODES}/{name}")
            node = GpuNode.from_json(found)
            if await self._has_node(name) or node.entries:
                return  # the watch has not told yet
            if node.mode is not Mode.OBSERVE:
                await ledger.let_be(self._api, node)
            elif self._waits(node):
                self._said[name] = _words(node)
                self._events.ledger_waits(name, found["metadata"]["uid"], self._said[name])
            else:
                await ledger.remove(self._api, node)
                log.info("the ledger of %s is deleted: its Node is gone, and nothing of it is untold", name)
        except ApiRefused as error:
            if not (error.gone or error.conflict):
                self._said[name] = _words(self._pool.ledgers[name])
                log.warning("the ledger of %s stays, whose Node is gone: %s", name, error)
            elif error.conflict:
                self._wake()

    async def _has_node(self, name: str) -> bool:
        try:
            await self._api.get(f"/api/v1/nodes/{name}")
        except ApiRefused as error:
            if error.gone:
                return False
            raise
        return True


def _words(node: GpuNode) -> str:
    return (
        f"its Node is gone, and not all that ended there is in the books yet ({len(untold(node))} left): the meter, or "
        f"the server that it tells, may be away. It is deleted then; kubectl delete gpunode {node.name}  gives it up"
    )
