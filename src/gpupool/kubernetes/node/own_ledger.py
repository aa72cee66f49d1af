"""Sees to it that a node has a ledger before its agent goes on."""

from __future__ import annotations

import asyncio
import logging

from gpupool.base.errors import GpupoolError
from gpupool.kubernetes.client.api import KubeApi, create_backoff
from gpupool.kubernetes.ledger import ledger

log = logging.getLogger(__name__)


async def await_ledger(api: KubeApi, node: str) -> None:
    """Wait until the node has a ledger, which is created if need be.

    It raises nothing while the API server is away: the agent would end, and with it the socket at
    which the plugin asks for containers that restart.
    """
    backoff = create_backoff()
    while True:
        try:
            return await ensure_ledger(api, node)
        except GpupoolError as error:
            log.warning("the ledger of %s is looked for again: %s", node, error)
            await asyncio.sleep(backoff.pause())


async def ensure_ledger(api: KubeApi, node: str) -> None:
    """Create the node's ledger if there is none, in mode `observe`.

    Raises:
        ApiServerRejection: the API server refused a request.
        ServiceUnavailable: the API server cannot be reached.
    """
    if await ledger.read_ledger(api, node) is None:
        owner = await api.get(f"/api/v1/nodes/{node}")
        await api.create(ledger.NODES, ledger.new_ledger(node, owner))
