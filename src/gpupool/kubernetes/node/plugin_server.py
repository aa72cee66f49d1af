"""Answers the device plugin of this node over a Unix socket: one question for each container."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)


class PluginServer:
    """The server of one agent.

    `prepare_slot` makes a slot's container ready and returns why it has to wait, or nothing; it is
    called in a thread. `wake` is called after each answer.
    """

    def __init__(
        self, place: Path, prepare_slot: Callable[[str], str], wake: Callable[[], None]
    ) -> None:
        self._place = place
        self._prepare_slot = prepare_slot
        self._wake = wake

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
            slot = str(json.loads(await reader.readline())["slot"])
            refused = await asyncio.to_thread(self._prepare_slot, slot)
            writer.write(json.dumps({"refused": refused}).encode() + b"\n")
            await writer.drain()
        except (ValueError, KeyError, TypeError, ConnectionError) as error:
            log.warning("a question that cannot be read: %r", error)
        finally:
            writer.close()
        self._wake()
