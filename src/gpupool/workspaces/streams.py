"""Streams into jobs: the agents that listen for requests, and the streams that they bring.

A request goes out as one line over the agent's control connection. The agent answers on a new
connection of its own: one line of JSON, then the bytes; or, where both are on one machine, the
line comes with the descriptor of what it opened, and no byte passes the agent. On the event loop
alone; nothing is stored, so a server that restarts has no streams, and jobs do not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpupool.base.errors import JobUnreachable, NotFound
from gpupool.workspaces.pipes import BufferedPipeEnd, PipeEnd
from gpupool.workspaces.upgrade import hand_over

#: Seconds in which an agent has to bring a stream. Entering a job's namespaces takes 0.1 s; a
#: program that does not accept connections is given up after 5 s by the agent.
OPEN_SECONDS: Final = 20.0
#: Seconds between two signs of life on a control connection.
HEARTBEAT_SECONDS: Final = 15.0
#: Bytes of an agent's first line.
_HELLO_BYTES: Final = 4096

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamHello:
    """An agent's first line about a stream.

    Attributes:
        refusal: why there is none; empty: it is open.
        token: what the service of the job wants to see in `Authorization`; empty: nothing.
        is_at_root: the service knows no prefix: its pages begin at `/`.
    """

    refusal: str = ""
    token: str = ""
    is_at_root: bool = False


@dataclass(frozen=True)
class OpenStream:
    """A stream that an agent has brought; `end` is to be joined."""

    end: PipeEnd
    hello: StreamHello


class AgentControl(PipeEnd):
    """The control connection of one agent: the server writes, the agent listens."""

    def __init__(
        self, on_lost: Callable[[Exception | None], None] | None = None, *, is_local: bool = False
    ) -> None:
        """Make the connection.

        Args:
            is_local: the agent is on the server's machine.
        """
        super().__init__(on_lost)
        self.is_local = is_local

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        # Nothing is expected; reading on finds the end of the connection.
        self.transport.resume_reading()
        self._send_sign()

    def _send_sign(self) -> None:
        """Send a sign of life now and then: an agent takes a silent server for lost."""
        assert self.transport is not None
        if not self.transport.is_closing():
            self.send_line(None)
            asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._send_sign)

    def data_received(self, data: bytes) -> None:
        """Drop it: an agent says nothing here."""

    def eof_received(self) -> bool:
        return False

    def send_line(self, line: Mapping[str, Any] | None) -> None:
        """Send a request, or an empty line as a sign of life."""
        self.write(b"\n" if line is None else json.dumps(line).encode() + b"\n")


class StreamBroker:
    """The agents that are connected, and the streams that are awaited from them."""

    def __init__(self) -> None:
        self._controls: dict[str, AgentControl] = {}
        #: On which agents are connected; None: none has come yet.
        self.loop: asyncio.AbstractEventLoop | None = None
        self._awaited: dict[str, tuple[str, asyncio.Future[OpenStream]]] = {}

    def list_agents(self) -> list[str]:
        """List the agents that are connected now."""
        return sorted(self._controls)

    def is_one_machine(self) -> bool:
        """Return whether every agent that is connected is on the server's own machine."""
        controls = list(self._controls.values())
        return bool(controls) and all(one.is_local for one in controls)

    def add_agent(self, agent: str, *, is_local: bool = False) -> AgentControl:
        """Return the control connection of an agent that has come; a former one is closed.

        Args:
            is_local: it came over the pool's Unix socket.
        """
        self.loop = asyncio.get_running_loop()
        former = self._controls.get(agent)

        def remove(_error: Exception | None) -> None:
            if self._controls.get(agent) is control:
                del self._controls[agent]

        control = AgentControl(remove, is_local=is_local)
        self._controls[agent] = control
        if former is not None:
            former.close()
        return control

    async def open_stream(self, agent: str, job: str, target: Mapping[str, Any]) -> OpenStream:
        """Ask an agent for a stream into a job, and wait until it is there.

        Raises:
            JobUnreachable: the agent is away, does not answer, or says why there is no stream.
        """
        control = self._controls.get(agent)
        if control is None:
            raise JobUnreachable(
                f"the agent of job {job} is not connected", hint="try again; gpupool doctor"
            )
        stream = secrets.token_hex(16)
        arrival: asyncio.Future[OpenStream] = asyncio.get_running_loop().create_future()
        self._awaited[stream] = (agent, arrival)
        try:
            control.send_line({"stream": stream, "job": job, "target": dict(target)})
            brought = await asyncio.wait_for(asyncio.shield(arrival), OPEN_SECONDS)
        except asyncio.CancelledError:
            # The client has left; what the agent brings meanwhile is closed.
            arrival.add_done_callback(_close_unused)
            raise
        except TimeoutError:
            arrival.add_done_callback(_close_unused)
            raise JobUnreachable(
                f"the agent of job {job} opened no stream within {OPEN_SECONDS:g} s",
                hint="gpupool doctor",
            ) from None
        finally:
            self._awaited.pop(stream, None)
        if brought.hello.refusal:
            brought.end.close()
            raise JobUnreachable(brought.hello.refusal, hint=f"gpupool logs {job}")
        return brought

    def check_awaited(self, agent: str, stream: str) -> None:
        """Raise NotFound unless this agent is to bring this stream."""
        awaited = self._awaited.get(stream)
        if awaited is None or awaited[0] != agent:
            raise NotFound(f"no stream {stream[:40]} is awaited from {agent[:80]}")

    def bring_stream(self, stream: str, opened: OpenStream) -> None:
        """Give a stream to the request that waits for it; closed where none waits any more."""
        awaited = self._awaited.get(stream)
        if awaited is None or awaited[1].done():
            opened.end.close()
            return
        awaited[1].set_result(opened)


def _close_unused(arrival: asyncio.Future[OpenStream]) -> None:
    if not arrival.cancelled() and arrival.exception() is None:
        arrival.result().end.close()


async def receive_stream(connection: socket.socket) -> OpenStream:
    """Read the first line of an agent on this machine, with the descriptor that comes with it.

    Raises:
        JobUnreachable: it is no such line.
    """
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    line = b""
    received: list[int] = []
    try:
        while b"\n" not in line:
            await _await_readable(loop, connection)
            data, descriptors, _, _ = socket.recv_fds(connection, _HELLO_BYTES, 4)
            received += descriptors
            if not data or len(line) > _HELLO_BYTES:
                raise JobUnreachable("the agent closed the stream")
            line += data
        hello, _, rest = line.partition(b"\n")
        parsed = parse_hello(hello)
        end = BufferedPipeEnd()
        if received:
            connection.close()
            connection = socket.socket(fileno=received.pop(0))
        else:
            end.add_early(rest)
        await hand_over(connection, end)
        return OpenStream(end, parsed)
    except BaseException:
        connection.close()
        raise
    finally:
        for descriptor in received:
            socket.close(descriptor)


async def _await_readable(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
    readable = loop.create_future()

    def note() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(connection, note)
    try:
        await asyncio.wait_for(readable, OPEN_SECONDS)
    finally:
        loop.remove_reader(connection)


class HelloReader(PipeEnd):
    """The connection of an agent elsewhere: its first line, then the bytes of the stream."""

    def __init__(self, arrived: Callable[[OpenStream], None]) -> None:
        super().__init__()
        self._arrived: Callable[[OpenStream], None] | None = arrived
        self._line = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._arrived is None:
            super().data_received(data)
            return
        self._line += data
        hello, found, rest = self._line.partition(b"\n")
        if not found:
            if len(self._line) > _HELLO_BYTES:
                self.close()
            return
        arrived = self._arrived
        self._arrived = None
        self.set_reading(False)
        self.add_early(rest)
        with contextlib.suppress(JobUnreachable):
            arrived(OpenStream(self, parse_hello(hello)))
            return
        self.close()

    def eof_received(self) -> bool:
        # An agent that ends before its first line brings nothing.
        return self._arrived is None and super().eof_received()


def parse_hello(line: bytes) -> StreamHello:
    """Parse an agent's first line. Raises JobUnreachable."""
    try:
        found = json.loads(line)
        return StreamHello(
            str(found.get("refusal", ""))[:400],
            str(found.get("token", ""))[:400],
            found.get("root") is True,
        )
    except (ValueError, AttributeError) as error:
        raise JobUnreachable(f"the agent's answer is not understood: {error}") from error
