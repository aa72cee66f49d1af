"""Take connections that begin with a TLS handshake: counted by address before their first byte.

asyncio's own server reports a connection when its handshake is done. Until then it would not be
counted, and one address could hold all descriptors. So these sockets are accepted here. (Decision
0019.)
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable

from gpupool.server.http.connections import OpenConnections

#: How long a caller may take for its handshake.
HANDSHAKE_SECONDS = 10.0
#: Connections taken from the kernel in one turn of the loop.
ACCEPTED_AT_ONCE = 64
#: How long nothing is accepted when the process or the machine is short of descriptors or memory.
SHORTAGE_SECONDS = 1.0
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = logging.getLogger(__name__)


class TlsDoor:
    """A listening socket of which each connection speaks TLS.

    Begins at once; on the event loop alone.
    """

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        protocol: Callable[[], asyncio.Protocol],
        connections: OpenConnections,
    ) -> None:
        self._listening = listening
        self._context = context
        self._protocol = protocol
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._shaking = set[asyncio.Task[None]]()
        self._closed = False
        self._begin_accepting()

    def close(self) -> None:
        """Accept no more, and end the handshakes that are under way. The socket is its owner's to
        close."""
        self._closed = True
        self._loop.remove_reader(self._listening)
        for task in self._shaking:
            task.cancel()

    def _begin_accepting(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listening, self._accept_waiting)

    def _accept_waiting(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, name = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                log.error("no connection can be accepted for %.0f s: %s", SHORTAGE_SECONDS, error)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(SHORTAGE_SECONDS, self._begin_accepting)
                return
            self._take_connection(connection, str(name[0]))

    def _take_connection(self, connection: socket.socket, address: str) -> None:
        if not self._connections.begin_handshake(address):
            connection.close()
            return
        connection.setblocking(False)
        task = self._loop.create_task(self._shake_hands(connection, address))
        self._shaking.add(task)
        task.add_done_callback(self._shaking.discard)

    async def _shake_hands(self, connection: socket.socket, address: str) -> None:
        """The protocol counts the connection as its own before the handshake is no longer
        counted."""
        try:
            await self._loop.connect_accepted_socket(
                self._protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except (OSError, ssl.SSLError) as error:
            log.info("a TLS handshake with %s failed: %s", address, error or type(error).__name__)
            connection.close()
        finally:
            self._connections.end_handshake(address)
