"""A connection that is taken over stays within the bounds of its client's reading."""

from __future__ import annotations

import asyncio
import socket

from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from gpupool.server.http.connections import OpenConnections
from gpupool.server.http.protocol import PeerProtocol
from gpupool.workspaces.pipes import BufferedPipeEnd, join_ends
from gpupool.workspaces.upgrade import SWITCH_HEAD, find_upgrade, hand_over

CHUNK = bytes(1 << 16)
#: More than kernel and server may hold for a client that does not read.
FAR_TOO_MUCH = 32 << 20


def test_a_client_that_left_an_answer_unread_stops_the_job_that_writes_to_it() -> None:
    async def body() -> None:
        job, there = socket.socketpair()
        job.setblocking(False)
        end = BufferedPipeEnd()
        await hand_over(there, end)
        switched = asyncio.Event()

        async def app(scope: Scope, _receive: Receive, send: Send) -> None:
            if scope["path"] == "/stream":
                upgrade = find_upgrade(scope)
                assert upgrade is not None
                client = BufferedPipeEnd()
                upgrade.switch(SWITCH_HEAD, client)
                join_ends(client, end)
                switched.set()
                return
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": bytes(4 << 20)})

        config = Config(app, lifespan="off")
        config.load()
        protocol = PeerProtocol(
            config=config, server_state=ServerState(), app_state={}, connections=OpenConnections()
        )
        here, caller = socket.socketpair()
        await hand_over(here, protocol)  # type: ignore[arg-type]  # the protocol of a connection
        caller.sendall(
            b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
            b"GET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            b"Upgrade: gpupool-relay\r\n\r\n"
        )
        await asyncio.wait_for(switched.wait(), 20)
        written = 0
        while written < FAR_TOO_MUCH:
            # The server reads what it wants between two pieces.
            await asyncio.sleep(0)
            try:
                written += job.send(CHUNK)
            except BlockingIOError:
                break
        assert written < FAR_TOO_MUCH
        caller.setblocking(False)
        received = 0
        while received < written + (4 << 20):
            received += len(await asyncio.get_running_loop().sock_recv(caller, 1 << 20))
        job.close()
        caller.close()

    asyncio.run(asyncio.wait_for(body(), 40))
