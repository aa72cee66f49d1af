"""Streams that agents bring: with a descriptor, with bytes, or with a refusal."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from gpupool.base.errors import JobUnreachable, NotFound
from gpupool.workspaces import streams
from gpupool.workspaces.pipes import BufferedPipeEnd, PipeEnd, join_ends
from gpupool.workspaces.streams import (
    HelloReader,
    OpenStream,
    StreamBroker,
    StreamHello,
    receive_stream,
)
from gpupool.workspaces.upgrade import hand_over


def run(body: object) -> None:
    async def within() -> None:
        await asyncio.wait_for(body, 20)  # type: ignore[arg-type]  # a coroutine

    asyncio.run(within())


async def read_all(connection: socket.socket, count: int) -> bytes:
    connection.setblocking(False)
    data = b""
    while len(data) < count:
        part = await asyncio.get_running_loop().sock_recv(connection, 65536)
        if not part:
            break
        data += part
    return data


def test_a_descriptor_that_comes_with_the_first_line_is_the_stream() -> None:
    async def body() -> None:
        agent, server = socket.socketpair()
        job, opened = socket.socketpair()
        socket.send_fds(agent, [b'{"token": "t"}\n'], [opened.fileno()])
        agent.close()
        opened.close()
        brought = await receive_stream(server)
        assert brought.hello == StreamHello("", "t")
        here, client = socket.socketpair()
        end = BufferedPipeEnd()
        await hand_over(here, end)
        join_ends(end, brought.end)
        job.sendall(b"from the job")
        assert await read_all(client, 12) == b"from the job"
        client.close()
        assert await read_all(job, 1) == b""
        job.close()

    run(body())


def test_bytes_behind_the_first_line_are_not_lost() -> None:
    async def body() -> None:
        agent, server = socket.socketpair()
        agent.sendall(b"{}\nearly ")
        brought = await receive_stream(server)
        here, client = socket.socketpair()
        end = BufferedPipeEnd()
        await hand_over(here, end)
        join_ends(end, brought.end)
        agent.sendall(b"late")
        assert await read_all(client, 10) == b"early late"
        for one in (client, agent):
            one.close()

    run(body())


def test_a_slow_reader_stops_the_writer() -> None:
    async def body() -> None:
        writer, one = socket.socketpair()
        reader, other = socket.socketpair()
        ends = BufferedPipeEnd(), BufferedPipeEnd()
        await hand_over(one, ends[0])
        await hand_over(other, ends[1])
        join_ends(*ends)
        writer.setblocking(False)
        chunk = bytes(range(256)) * 256
        sent = 0
        # Far more than all buffers hold: without back-pressure it would be taken whole.
        for _ in range(1600):
            await asyncio.sleep(0)
            try:
                count = writer.send(chunk)
            except BlockingIOError:
                break
            sent += count
            if count < len(chunk):
                break
        assert sent < 100 << 20
        assert await read_all(reader, sent) == (bytes(range(256)) * (sent // 256 + 1))[:sent]
        for one_end in (writer, reader):
            one_end.close()

    run(body())


def test_a_stream_whose_sides_have_both_ended_is_closed() -> None:
    async def body() -> None:
        here, client = socket.socketpair()
        there, job = socket.socketpair()
        loop = asyncio.get_running_loop()
        lost = [loop.create_future() for _ in range(2)]
        ends = [BufferedPipeEnd(one.set_result) for one in lost]
        await hand_over(here, ends[0])
        await hand_over(there, ends[1])
        join_ends(*ends)
        client.sendall(b"asked")
        client.shutdown(socket.SHUT_WR)
        assert await read_all(job, 6) == b"asked"
        # One direction goes on without the other, for as long as it has something to say.
        job.sendall(b"answered")
        assert await read_all(client, 8) == b"answered"
        assert not any(one.done() for one in lost)
        job.close()
        assert await read_all(client, 1) == b""
        await asyncio.wait_for(asyncio.gather(*lost), 5)
        client.close()

    run(body())


def test_an_agent_that_ends_before_its_first_line_leaves_no_connection() -> None:
    async def body() -> None:
        agent, server = socket.socketpair()
        reader = HelloReader(lambda _opened: pytest.fail("nothing was brought"))
        lost = asyncio.get_running_loop().create_future()
        reader.on_lost = lost.set_result
        await hand_over(server, reader)
        agent.sendall(b'{"token"')
        agent.shutdown(socket.SHUT_WR)
        assert await asyncio.wait_for(lost, 5) is None
        assert agent.recv(1) == b"", "the server's side is closed too"
        agent.close()

    run(body())


def test_open_stream_asks_the_agent_and_gets_what_it_brings() -> None:
    async def body() -> None:
        broker = StreamBroker()
        agent, here = socket.socketpair()
        await hand_over(here, broker.add_agent("node-1"))
        asking = asyncio.ensure_future(broker.open_stream("node-1", "j-1", {"kind": "port"}))
        agent.setblocking(False)
        line = b""
        while not line.strip():
            line = await asyncio.get_running_loop().sock_recv(agent, 4096)
        request = json.loads(line)
        assert (request["job"], request["target"]) == ("j-1", {"kind": "port"})
        with pytest.raises(NotFound):
            broker.check_awaited("node-2", request["stream"])
        broker.check_awaited("node-1", request["stream"])
        brought = OpenStream(PipeEnd(), StreamHello(refusal="nothing listens"))
        broker.bring_stream(request["stream"], brought)
        with pytest.raises(JobUnreachable, match="nothing listens"):
            await asking
        with pytest.raises(NotFound):
            broker.check_awaited("node-1", request["stream"])
        agent.close()
        while broker.list_agents():
            await asyncio.sleep(0)

    run(body())


def test_open_stream_without_its_agent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        broker = StreamBroker()
        with pytest.raises(JobUnreachable, match="not connected"):
            await broker.open_stream("node-1", "j-1", {})
        agent, here = socket.socketpair()
        await hand_over(here, broker.add_agent("node-1"))
        monkeypatch.setattr(streams, "OPEN_SECONDS", 0.05)
        with pytest.raises(JobUnreachable, match="opened no stream"):
            await broker.open_stream("node-1", "j-1", {})
        agent.close()

    run(body())
