"""Answers questions about containers of this node over a Unix socket.

The device plugin asks for each container before it exists, the runtime's hook once it has cgroups.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpupool.kubernetes.node.container_limits import ContainerReport
from gpupool.kubernetes.slots import HANDED_OUT

log = logging.getLogger(__name__)


class PluginServer:
    """The server of one agent.

    `prepare_slot` makes a slot's container ready and returns why it has to wait, or nothing;
    `limit_container` sets limits on a container that was prepared, and returns why they are not in
    force. Both are called in a thread.
    `wake` is called after each answer.
    """

    def __init__(
        self,
        place: Path,
        prepare_slot: Callable[[str], str],
        limit_container: Callable[[ContainerReport], str],
        wake: Callable[[], None],
    ) -> None:
        self._place = place
        self._prepare_slot = prepare_slot
        self._limit_container = limit_container
        self._wake = wake

    def offer_slots(self, *, offered: bool) -> None:
        """Tell the plugin by a file whether it hands out slots; the file outlives the agent."""
        file = self._place.with_name(HANDED_OUT)
        if offered:
            file.touch()
        else:
            file.unlink(missing_ok=True)

    async def serve_forever(self) -> None:
        """Answer questions until cancelled."""
        # A killed agent leaves its socket, and nothing can bind to it again.
        self._place.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._answer_question, self._place)
        # The plugin runs as root; a container that reaches the folder must not ask for slots.
        os.chmod(self._place, 0o600)
        async with server:
            await server.serve_forever()

    async def _answer_question(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            question = json.loads(await reader.readline())
            writer.write(json.dumps(await self._answer(question)).encode() + b"\n")
            await writer.drain()
        except (ValueError, KeyError, TypeError, ConnectionError) as error:
            log.warning("a question that cannot be read: %r", error)
        finally:
            writer.close()
        self._wake()

    async def _answer(self, question: Mapping[str, Any]) -> dict[str, str]:
        if "container" in question:
            report = ContainerReport.from_json(question)
            problem = await asyncio.to_thread(self._limit_container, report)
            return {"unlimited": problem} if problem else {}
        return {"refused": await asyncio.to_thread(self._prepare_slot, str(question["slot"]))}
