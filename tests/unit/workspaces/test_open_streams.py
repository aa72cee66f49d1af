"""Streams end when their caller loses the right, and are forgotten when they end."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gpupool.base.errors import GpupoolError, NotLoggedIn, StoreBusy
from gpupool.tenancy.users import PEOPLE
from gpupool.workspaces import open_streams
from gpupool.workspaces.open_streams import OpenStreams
from gpupool.workspaces.pipes import BufferedPipeEnd, PipeEnd
from gpupool.workspaces.upgrade import hand_over
from gpupool.workspaces.visits import Visitor

ADA = Visitor("j-1", 1, "t-1")
BOB = Visitor("j-2", 2, None)


def note_nothing(_job: str) -> None:
    """Nothing is told of activity here."""


def test_a_change_of_people_closes_the_streams_of_those_without_right() -> None:
    refused = set[Visitor]()

    def admit(visitor: Visitor) -> None:
        if visitor in refused:
            raise NotLoggedIn("ended")

    async def body() -> None:
        streams = OpenStreams(admit, note_nothing)
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


def test_a_right_that_ends_without_a_change_ends_streams_of_a_job_that_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_streams, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(open_streams, "CLOSE_SECONDS", 0.01)
    answers: list[GpupoolError | None] = [None, StoreBusy("locked"), NotLoggedIn("expired")]

    def admit(_visitor: Visitor) -> None:
        error = answers.pop(0) if len(answers) > 1 else answers[0]
        if error is not None:
            raise error

    async def body() -> None:
        streams = OpenStreams(admit, note_nothing)
        here, client = socket.socketpair()
        ended = asyncio.Event()
        end = PipeEnd(lambda _: ended.set())
        await hand_over(here, end)
        streams.add(end, ADA)
        end.write(b"x" * (4 << 20))
        assert end.has_unsent
        await asyncio.wait_for(ended.wait(), 20)
        assert (len(streams), len(answers)) == (0, 1)
        client.close()

    asyncio.run(body())


def test_an_end_that_has_closed_before_is_not_kept() -> None:
    async def body() -> None:
        streams = OpenStreams(lambda _visitor: None, note_nothing)
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


def test_bytes_in_both_directions_are_activity_of_the_job_and_a_waiting_page_is_none() -> None:
    async def body() -> None:
        noted = list[str]()
        streams = OpenStreams(lambda _: None, noted.append)
        ends = {}
        for visitor, is_activity in ((ADA, True), (BOB, False)):
            here, there = socket.socketpair()
            end = BufferedPipeEnd()
            await hand_over(here, end)
            end.join(PipeEnd())
            streams.add(end, visitor, is_activity=is_activity)
            ends[visitor] = (end, there)
        assert noted == ["j-1"]
        for end, there in ends.values():
            end.write(b"typed")
            assert there.recv(5) == b"typed"
        assert noted == ["j-1"] * 2
        for _, there in reversed(ends.values()):
            there.send(b"answer")
        while len(noted) < 3:
            await asyncio.sleep(0)
        assert set(noted) == {"j-1"}
        for _, there in ends.values():
            there.close()

    asyncio.run(body())
