"""A port of the hub's machine whose connections are streams into a job.

JupyterHub's proxy sends requests to a port. The server in the job listens on a Unix socket of its
user and asks the hub about each request, so it does not matter which local user connects here.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from typing import Final

from gpupool.base.errors import GpupoolError
from gpupool.client.streams.byte_connection import ByteFlow, relay_bytes
from gpupool.client.streams.job_stream import open_stream
from gpupool.client.transport import Api

logger = logging.getLogger(__name__)

#: Between two attempts to take a connection while the hub has no descriptor for it.
_PAUSE_SECONDS: Final = 0.5


class JobRelay:
    """Listens from its making on; `close` ends it, and streams that are open go on."""

    def __init__(self, make_api: Callable[[], Api], job: str, service: str, port: int = 0) -> None:
        """Listen on 127.0.0.1.

        Args:
            make_api: Called once for each connection.
            service: of the job: its socket is `$GPUPOOL_RUN/SERVICE.sock`.
            port: 0 takes a free one.

        Raises:
            OSError: The port is taken.
        """
        self._make_api = make_api
        self._job = job
        self._closing = threading.Event()
        self._target = {"kind": "service", "service": service}
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name=f"relay-{job}", daemon=True).start()

    def close(self) -> None:
        """Listen no more. Idempotent."""
        self._closing.set()
        # Closing alone does not wake the thread that waits in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if self._closing.is_set():
                    return
                # Without a listener the server would be lost until the hub starts it again.
                logger.warning("no connection to job %s is taken: %s", self._job, error)
                self._closing.wait(_PAUSE_SECONDS)
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, self._make_api() as api:
            try:
                stream = open_stream(api, self._job, self._target)
            except (GpupoolError, OSError) as refusal:
                # The server is still starting, or has ended: the hub asks again.
                logger.debug("job %s: %s", self._job, refusal)
                return
            api.close()
            with stream.socket:
                incoming = ByteFlow(stream.socket, client)
                incoming.waiting = stream.early
                relay_bytes((ByteFlow(client, stream.socket), incoming))
