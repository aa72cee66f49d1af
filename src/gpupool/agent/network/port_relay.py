"""Relays connections of a job's user into the job's network namespace.

A client connects to a Unix socket, names a job and a port in one line of JSON, and gets a line: `ok`,
or why not. Then bytes pass in both directions. The kernel says which account asks (SO_PEERCRED): the
job's own, or that of the agent.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.agent.network.namespaces import enter_namespace
from gpupool.base.supervision import SupervisedThread

#: Name of the socket in the agent's state directory.
RELAY_SOCKET: Final = "relay.sock"
#: Connections at once: a browser opens up to six for a page.
_MOST_CONNECTIONS: Final = 256
_REQUEST_BYTES: Final = 512
#: Seconds for the request, and for the job to accept a connection.
_REQUEST_SECONDS: Final = 5.0
_CHUNK: Final = 65536
#: An address of documentation (RFC 5737): connecting a datagram socket to it sends nothing.
_ANY_ADDRESS: Final = ("192.0.2.1", 9)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RelayTarget:
    """A running job.

    Attributes:
        uid: the account that it runs as.
        namespace: of its network; None: it is in none.
    """

    uid: int
    namespace: Path | None


class _RelayRefusal(Exception):
    """Why a connection is not relayed, for the client."""


class PortRelay:
    """The socket and its connections: `start`, then `close`."""

    def __init__(self, path: Path, find_job: Callable[[str], RelayTarget | None]) -> None:
        """Make the relay; nothing listens yet.

        Args:
            find_job: finds a running job by its id; thread-safe.
        """
        self._path = path
        self._find_job = find_job
        self._slots = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._listener: socket.socket | None = None
        self._thread = SupervisedThread("port-relay", self._accept)

    def start(self) -> None:
        """Listen, in place of an agent that was killed."""
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Through its directory: a socket's name has 107 bytes at most (unix(7)).
        directory = os.open(self._path.parent, os.O_PATH | os.O_CLOEXEC)
        try:
            listener.bind(f"/proc/self/fd/{directory}/{self._path.name}")
        finally:
            os.close(directory)
        # Every user may connect; SO_PEERCRED decides.
        os.chmod(self._path, 0o666)
        listener.listen(64)
        self._listener = listener
        self._thread.start()

    def close(self) -> None:
        """Accept no more connections. Idempotent; those that are relayed end with the process."""
        self._thread.stop()
        if self._listener is not None:
            # A thread that waits in accept() is woken by this, not by close().
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._path.unlink(missing_ok=True)
            self._listener = None

    def _accept(self) -> None:
        while (listener := self._listener) is not None:
            try:
                client, _ = listener.accept()
            except OSError:
                if self._listener is None:
                    return
                raise
            if not self._slots.acquire(blocking=False):
                _refuse(client, f"{_MOST_CONNECTIONS} connections are relayed, the most")
                continue
            name = "port-relay-connection"
            threading.Thread(target=self._serve, args=(client,), name=name, daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client:
                try:
                    with self._open(client) as server:
                        _relay(client, server)
                except _RelayRefusal as refusal:
                    _refuse(client, str(refusal))
        except OSError as error:
            log.info("a relayed connection ended: %s", error)
        finally:
            self._slots.release()

    def _open(self, client: socket.socket) -> socket.socket:
        """Connect to what a client asks for. Raises _RelayRefusal."""
        client.settimeout(_REQUEST_SECONDS)
        try:
            request = json.loads(_read_line(client))
            job = str(request["job"])
            port = int(request["port"])
        except (ValueError, KeyError, TypeError) as error:
            raise _RelayRefusal("not a request") from error
        found = self._find_job(job)
        if found is None or _read_peer(client) not in (0, os.geteuid(), found.uid):
            # Another user's job and one that does not run are answered alike.
            raise _RelayRefusal(f"no running job {job[:20]} of yours")
        if found.namespace is None:
            raise _RelayRefusal(f"job {job} is in no network")
        try:
            server = _connect(found.namespace, port)
        except OSError as error:
            reason = f"nothing in the job accepts connections on {port}: {error}"
            raise _RelayRefusal(reason) from error
        client.sendall(b"ok\n")
        client.settimeout(None)
        server.settimeout(None)
        return server


def _refuse(client: socket.socket, reason: str) -> None:
    with contextlib.suppress(OSError):
        client.sendall(f"{reason}\n".encode())
    client.close()


def _read_line(client: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = client.recv(1)
        if not part or len(line) >= _REQUEST_BYTES:
            raise ValueError("the request has no end")
        line += part
    return line


def _read_peer(client: socket.socket) -> int:
    """Return the account of the process at the other end."""
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    uid: int = struct.unpack("iII", credentials)[1]
    return uid


def _connect(namespace: Path, port: int) -> socket.socket:
    """Connect inside a namespace: to its loopback address, or else to its own address."""
    with enter_namespace(namespace):
        try:
            return socket.create_connection(("127.0.0.1", port), _REQUEST_SECONDS)
        except ConnectionRefusedError:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
                own.connect(_ANY_ADDRESS)
                address = own.getsockname()[0]
            return socket.create_connection((address, port), _REQUEST_SECONDS)


def _relay(client: socket.socket, server: socket.socket) -> None:
    """Pass bytes on in both directions, until both have ended."""
    back = threading.Thread(target=_copy, args=(server, client), daemon=True)
    back.start()
    _copy(client, server)
    back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(_CHUNK):
            target.sendall(part)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
