"""The listener of jobs' pages: opened when the first link is asked for, on a port that stays.

It is apart from the pool's own listeners, so pages of tenants have origins that the API never has.
The key of its links and cookies is beside the pool's other secrets. Decision 0103.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpupool.base.clock import wall_ns
from gpupool.base.durable import write_durably
from gpupool.base.errors import GpupoolError, PortTaken
from gpupool.host.settings.job_pages import PageSettings, read_page_settings
from gpupool.host.state.directory import PoolMarker
from gpupool.server.config import ServiceSet
from gpupool.server.http.connections import OpenConnections
from gpupool.server.http.listeners import BoundSocket
from gpupool.server.http.serving import serve_listeners
from gpupool.workspaces.proxy import PageOrigin, PageProxy
from gpupool.workspaces.service import WorkspaceService
from gpupool.workspaces.visits import VisitBook

#: Name of the file below `secrets`.
_FILE: Final = "job-pages.json"
_KEY_BYTES: Final = 32
#: Which browsers leave out of an origin.
_USUAL_PORTS: Final = {"http": 80, "https": 443}

logger = logging.getLogger(__name__)


class JobPages:
    """The origin of jobs' pages. On the event loop alone."""

    def __init__(
        self,
        service: WorkspaceService,
        directory: Path,
        settings: PageSettings,
        connections: OpenConnections,
    ) -> None:
        """Read or make the key, and let the service open the listener when it needs it.

        Args:
            directory: of the pool's secrets.
        """
        self._file = directory / _FILE
        self._settings = settings
        self._connections = connections
        self._proxy = PageProxy(service)
        self._key, self._port = _read_state(self._file)
        self._lock = asyncio.Lock()
        self._stop = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        service.visits = VisitBook(self._key, wall_ns)
        service.open_origin = self.open_origin

    async def open_origin(self, job: str) -> str:
        """Return the origin of a job's pages; listens from then on. Raises PortTaken, BadOption."""
        async with self._lock:
            if self._serving is None or self._serving.done():
                await self._listen()
        return self._proxy.origin.name(job)

    async def resume(self) -> None:
        """Listen where an earlier start of the pool did: links and cookies of then still work."""
        if not self._port:
            return
        try:
            await self.open_origin("")
        except GpupoolError as error:
            logger.warning("pages of jobs are shown when the next link is asked for: %s", error)

    async def close(self) -> None:
        """Stop listening. Idempotent."""
        self._stop.set()
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _listen(self) -> None:
        listener = self._settings.listener
        try:
            bound = await self._serve(listener.port or self._port)
        except PortTaken:
            if listener.port:
                raise
            bound = await self._serve(0)
        one = bound[0]
        port = int(one.socket.getsockname()[1])
        scheme = "http" if one.tls is None else "https"
        shown = None if port == _USUAL_PORTS[scheme] else port
        self._proxy.origin = PageOrigin(scheme, self._settings.domain, shown)
        if port != self._port:
            self._port = port
            state = {"key": self._key.hex(), "port": port}
            await asyncio.to_thread(write_durably, self._file, json.dumps(state).encode())

    async def _serve(self, port: int) -> Sequence[BoundSocket]:
        listening: asyncio.Future[Sequence[BoundSocket]] = (
            asyncio.get_running_loop().create_future()
        )
        serving = asyncio.create_task(
            serve_listeners(
                self._proxy,
                [replace(self._settings.listener, port=port)],
                stop=self._stop,
                on_ready=listening.set_result,
                connections=self._connections,
            )
        )
        await asyncio.wait((listening, serving), return_when=asyncio.FIRST_COMPLETED)
        if not listening.done():
            await serving  # raises why nothing listens
        self._serving = serving
        return listening.result()


def make_job_pages(
    services: ServiceSet, marker: PoolMarker, directory: Path, connections: OpenConnections
) -> JobPages:
    """Make the origin of jobs' pages of a pool. Raises BadOption for wrong settings."""
    cert, key = (None if path is None else Path(path) for path in (marker.tls_cert, marker.tls_key))
    settings = read_page_settings(os.environ, cert, key)
    return JobPages(services.workspaces, directory, settings, connections)


def _read_state(file: Path) -> tuple[bytes, int]:
    """Return the key and the port of an earlier start; a new key and 0 where there was none."""
    try:
        state = json.loads(file.read_text())
        return bytes.fromhex(state["key"]), int(state["port"])
    except FileNotFoundError:
        return secrets.token_bytes(_KEY_BYTES), 0
    except (ValueError, KeyError, TypeError) as error:
        # Cookies of then are worth nothing any more; nothing else depends on the file.
        logger.warning("%s cannot be understood, and is written again: %s", file, error)
        return secrets.token_bytes(_KEY_BYTES), 0
