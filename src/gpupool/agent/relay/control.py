"""Listens for the streams that the server wants, and brings each over a connection of its own.

To a server on this machine the descriptor of what was opened is passed, so its bytes never come
here; to one elsewhere they are relayed, one thread for each stream. A server that restarts is
connected to again; jobs and their programs in namespaces do not depend on this thread.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol
from urllib.parse import quote

from gpupool.agent.relay.entrances import JobEntrances, OpenTarget, RunningJob
from gpupool.agent.relay.refusal import StreamRefusal
from gpupool.base.backoff import Backoff
from gpupool.base.errors import GpupoolError
from gpupool.base.supervision import SupervisedThread
from gpupool.client.streams.byte_connection import ByteConnection, ByteFlow, relay_bytes

#: Three signs of life of the server that did not come (`workspaces.streams.HEARTBEAT_SECONDS`).
_QUIET_SECONDS: Final = 45.0
#: Streams at once: pages of many users, six connections of a browser each.
_MOST_STREAMS: Final = 1024
#: Characters of a refusal.
_REASON_LENGTH: Final = 400

log = logging.getLogger(__name__)


class StreamApi(Protocol):
    """The part of `client.transport.Api` that is used here. Belongs to one thread."""

    def upgrade(self, path: str) -> ByteConnection:
        """Turn a request into a connection of bytes. Raises GpupoolError."""

    def close(self) -> None:
        """Close the other connection."""


class StreamControl:
    """The control connection of one agent and its streams: `start`, then `close`."""

    def __init__(
        self,
        agent: str,
        make_api: Callable[[], Any],
        find_job: Callable[[str], RunningJob | None],
        random_part: Callable[[], float],
    ) -> None:
        """Make the control; nothing is connected yet.

        Args:
            make_api: called once in each thread that speaks to the server.
            find_job: finds a running job by its id.
            random_part: shortens the pauses of retries; a number from 0 to 1.
        """
        self._path = f"nodes/{quote(agent)}/relay"
        self._make_api: Callable[[], StreamApi] = make_api
        self._entrances = JobEntrances(find_job)
        self._backoff = Backoff(random_part)
        self._slots = threading.BoundedSemaphore(_MOST_STREAMS)
        self._closing = threading.Event()
        self._connection: ByteConnection | None = None
        self._thread = SupervisedThread("stream-control", self._run)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Listen no more. Idempotent; streams that were passed to a server are its own."""
        self._closing.set()
        self._thread.stop()
        connection = self._connection
        if connection is not None:
            # A thread that waits in recv() is woken by this, not by close().
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen()
            except (GpupoolError, OSError) as error:
                pause = self._backoff.pause()
                log.info("no streams for the server, again in %.2f s: %s", pause, error)
                self._closing.wait(pause)

    def _listen(self) -> None:
        """Serve requests until the connection ends. Raises GpupoolError, OSError."""
        api = self._make_api()
        try:
            connection = api.upgrade(self._path)
        finally:
            api.close()
        self._connection = connection
        try:
            while not self._closing.is_set():
                line = connection.read_line(_QUIET_SECONDS)
                if not line:
                    return
                self._backoff.reset()
                self._thread.mark_well()
                if line.strip():
                    self._begin(json.loads(line))
        finally:
            self._connection = None
            connection.close()

    def _begin(self, request: dict[str, Any]) -> None:
        """Serve one request in a thread of its own."""
        if not self._slots.acquire(blocking=False):
            log.warning("a stream into job %s was not opened: too many are", request["job"])
            return
        try:
            threading.Thread(
                target=self._serve, args=(request,), name="stream", daemon=True
            ).start()
        except RuntimeError:
            self._slots.release()
            log.warning("a stream into job %s was not opened: no thread", request["job"])

    def _serve(self, request: dict[str, Any]) -> None:
        try:
            self._bring(str(request["stream"]), self._open(request))
        except (GpupoolError, OSError) as error:
            log.info("a stream into job %s ended: %s", request["job"], error)
        finally:
            self._slots.release()

    def _open(self, request: dict[str, Any]) -> OpenTarget | str:
        """Open what is wanted, or say why not."""
        try:
            return self._entrances.open(str(request["job"]), request["target"])
        except StreamRefusal as refusal:
            return str(refusal)[:_REASON_LENGTH]
        except Exception:
            log.exception("a stream into job %s could not be opened", request["job"])
            return "the agent failed; its log says why"

    def _bring(self, stream: str, opened: OpenTarget | str) -> None:
        """Bring a stream to the server, or the reason against it."""
        try:
            api = self._make_api()
            try:
                connection = api.upgrade(f"{self._path}/{stream}")
            finally:
                api.close()
            with contextlib.closing(connection):
                if isinstance(opened, str):
                    connection.socket.sendall(_encode_hello(refusal=opened))
                elif connection.is_local:
                    hello = _encode_hello(token=opened.token, root=opened.is_at_root)
                    socket.send_fds(connection.socket, [hello], [opened.connection.fileno()])
                else:
                    hello = _encode_hello(token=opened.token, root=opened.is_at_root)
                    connection.socket.sendall(hello)
                    _relay(connection, opened.connection)
        finally:
            if isinstance(opened, OpenTarget):
                opened.connection.close()


def _encode_hello(**facts: str | bool) -> bytes:
    return json.dumps(facts).encode() + b"\n"


def _relay(server: ByteConnection, job: socket.socket) -> None:
    incoming = ByteFlow(server.socket, job)
    incoming.waiting = server.early
    relay_bytes((incoming, ByteFlow(job, server.socket)))
