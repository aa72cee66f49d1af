"""Streams end when their caller loses the right, and are forgotten when they end."""

from __future__ import annotations

import asyncio
import socket

from gpupool.base.errors import NotLoggedIn
from gpupool.tenancy.users import PEOPLE
from gpupool.workspaces.open_streams import OpenStreams
from gpupool.workspaces.pipes import PipeEnd
from gpupool.workspaces.upgrade import hand_over
from gpupool.workspaces.visits import Visitor

ADA = Visitor("j-1", 1, "t-1")
BOB = Visitor("j-2", 2, None)


def test_a_change_of_people_closes_the_streams_of_those_without_right() -> None:
    refused = set[Visitor]()

    def admit(visitor: Visitor) -> None:
        if visitor in refused:
            raise NotLoggedIn("ended")

    async def body() -> None:
        streams = OpenStreams(admit)
        clients = {}
        for visitor in (ADA, BOB):
            here, clients[visitor] = socket.socketpair()
            end = PipeEnd()
            await hand_over(here, end)
            streams.add(end, visitor)
        refused.add(ADA)
        streams.note_change(frozenset({"events"}))
        await asyncio.sleep(0)
        assert len(streams) == 2
        streams.note_change(frozenset({PEOPLE}))
        loop = asyncio.get_running_loop()
        clients[ADA].setblocking(False)
        assert await asyncio.wait_for(loop.sock_recv(clients[ADA], 1), 20) == b""
        assert len(streams) == 1
        for client in clients.values():
            client.close()

    asyncio.run(body())


def test_an_end_that_has_closed_before_is_not_kept() -> None:
    async def body() -> None:
        streams = OpenStreams(lambda _visitor: None)
        here, client = socket.socketpair()
        end = PipeEnd()
        await hand_over(here, end)
        end.close()
        client.close()
        while True:
            await asyncio.sleep(0)
            streams.add(end, ADA)
            if not len(streams):
                return

    asyncio.run(asyncio.wait_for(body(), 20))
