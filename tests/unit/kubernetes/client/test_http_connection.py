"""HTTP over kept connections: answers in any pieces, connections that end, and limits."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpupool.kubernetes.client import http_connection
from gpupool.kubernetes.client.http_answer import ConnectionBroken
from gpupool.kubernetes.client.http_connection import ConnectionPool
from gpupool.kubernetes.client.http_pool import HttpRequest, ServerAddress
from tests.support.cluster.directory import Directory
from tests.support.cluster.pki import Authority, Pair
from tests.support.http_answers import WITH_LENGTH

GET = HttpRequest("GET", "/asked", "Accept: x\r\n")


PATCH = HttpRequest("PATCH", "/asked", "", b"{}")


Script = Callable[["Peer", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """A server that follows a script, and counts."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.connections = 0
        self.requests: list[bytes] = []
        self.over = asyncio.Event()

    async def heard(self, reader: asyncio.StreamReader) -> bytes:
        """The next request, without its body; empty where the connection ended."""
        try:
            found = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""
        if b"Content-Length: 2" in found:
            await reader.readexactly(2)
        self.requests.append(found)
        return found

    @asynccontextmanager
    async def lines(
        self, limit: int = 0, pair: Pair | None = None
    ) -> AsyncIterator[ConnectionPool]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            try:
                await self._script(self, reader, writer)
            finally:
                writer.close()

        theirs = None
        if pair is not None:
            theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            theirs.load_cert_chain(pair.certificate, pair.key)
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=theirs)
        scheme = "http" if pair is None else "https"
        url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/cluster/"
        ours = ssl.create_default_context(
            cafile=None if pair is None else pair.certificate.parent / "ca.crt"
        )
        found = ConnectionPool(ServerAddress(url, ours), limit)
        try:
            yield found
        finally:
            found.close()
            self.over.set()
            server.close()


async def answers(peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await peer.heard(reader):
        writer.write(WITH_LENGTH)


async def answers_once(
    peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """It takes a second request of a connection and ends it."""
    await peer.heard(reader)
    writer.write(WITH_LENGTH)
    await peer.heard(reader)


async def watches(peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await peer.heard(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for piece in (b"one\n", b"two\n"):
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    await peer.over.wait()


def run(of: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(of, 30))


def test_a_connection_is_used_again_and_a_path_before_ours_is_kept() -> None:
    async def check() -> None:
        peer = Peer(answers)
        async with peer.lines() as lines:
            assert [await lines.send_request(one) for one in (GET, PATCH, GET)] == [
                (200, b"hello")
            ] * 3
        assert peer.connections == 1
        assert peer.requests[0].startswith(b"GET /cluster/asked HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"Content-Length: 2\r\n" in peer.requests[1]

    run(check())


def test_a_target_cannot_end_its_line() -> None:
    made = ServerAddress("https://h", ssl.create_default_context()).encode_request(
        HttpRequest("GET", "/a b\r\nX: y?c=%20", "")
    )
    assert made.startswith(b"GET /a%20b%0D%0AX:%20y?c=%20 HTTP/1.1\r\nHost: h\r\n")


def test_a_connection_that_rested_too_long_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        peer = Peer(answers)
        async with peer.lines() as lines:
            await lines.send_request(PATCH)
            monkeypatch.setattr(http_connection, "IDLE_SECONDS", 0.0)
            await lines.send_request(PATCH)
        assert peer.connections == 2

    run(check())


def test_what_may_be_sent_twice_is_where_a_kept_connection_ends_without_an_answer() -> None:
    async def check() -> None:
        peer = Peer(answers_once)
        async with peer.lines() as lines:
            assert await lines.send_request(GET) == (200, b"hello")
            assert await lines.send_request(GET) == (200, b"hello")
        assert len(peer.requests) == 3

    run(check())


def test_what_may_not_be_sent_twice_is_broken_then() -> None:
    async def check() -> None:
        peer = Peer(answers_once)
        async with peer.lines() as lines:
            await lines.send_request(PATCH)
            with pytest.raises(ConnectionBroken):
                await lines.send_request(PATCH)
        assert len(peer.requests) == 2

    run(check())


def test_no_more_connections_than_the_limit_are_used_at_once() -> None:
    async def check() -> None:
        peer = Peer(answers)
        async with peer.lines(limit=2) as lines:
            await asyncio.gather(*(lines.send_request(PATCH) for _ in range(20)))
        assert peer.connections == 2

    run(check())


def test_a_body_that_does_not_end_comes_in_pieces_and_is_broken_when_all_is_closed() -> None:
    async def check() -> None:
        peer = Peer(watches)
        async with peer.lines() as lines, lines.open_answer(GET) as (line, answer):
            heard = b""
            while heard != b"one\ntwo\n":
                heard += await line.read_more(answer)
            asyncio.get_running_loop().call_soon(lines.close)
            with pytest.raises(ConnectionBroken, match="closed here"):
                await line.read_more(answer)

    run(check())


def test_one_who_does_not_wait_for_an_answer_leaves_no_connection_behind() -> None:
    async def check() -> None:
        peer = Peer(watches)
        async with peer.lines(limit=1) as lines:
            for asked in (1, 2):
                asking = asyncio.create_task(lines.send_request(PATCH))
                while len(peer.requests) < asked:
                    await asyncio.sleep(0)
                asking.cancel()
                await asyncio.wait({asking})
                assert asking.cancelled()
        assert peer.connections == 2

    run(check())


def test_a_large_body_is_sent_whole() -> None:
    async def swallow(
        peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(8 << 20)
        writer.write(WITH_LENGTH)
        await peer.over.wait()

    async def check() -> None:
        async with Peer(swallow).lines() as lines:
            assert await lines.send_request(HttpRequest("POST", "/", "", bytes(8 << 20))) == (
                200,
                b"hello",
            )

    run(check())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(Directory(tmp_path_factory.mktemp("pki")))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    assert authority.root.certificate.name == "ca.crt"
    return authority.issue("server", "server", names=("127.0.0.1",))


def test_by_tls_a_connection_is_used_again_and_large_bodies_come_whole_both_ways(
    pair: Pair,
) -> None:
    size = 3 << 20

    async def echo(peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(size)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + body)
        await peer.over.wait()

    async def check() -> None:
        body = bytes(range(256)) * (size // 256)
        peer = Peer(echo)
        async with peer.lines(pair=pair) as lines:
            for _ in range(2):
                assert await lines.send_request(HttpRequest("POST", "/", "", body)) == (200, body)
        assert peer.connections == 1

    run(check())


@pytest.mark.parametrize("rudely", [False, True])
def test_by_tls_an_answer_that_ends_with_its_connection_is_read(pair: Pair, rudely: bool) -> None:
    async def once(peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await peer.heard(reader)
        writer.write(WITH_LENGTH)
        if rudely:
            await writer.drain()
            writer.transport.abort()

    async def check() -> None:
        peer = Peer(once)
        async with peer.lines(pair=pair) as lines:
            assert [await lines.send_request(GET) for _ in range(3)] == [(200, b"hello")] * 3
        assert peer.connections == 3

    run(check())


def test_by_tls_an_unknown_server_is_refused(
    pair: Pair, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def check() -> None:
        stranger = Authority(Directory(tmp_path_factory.mktemp("other")))
        assert stranger.root
        other = stranger.issue("server", "server", names=("127.0.0.1",))
        async with Peer(answers).lines(pair=Pair(other.certificate, other.key)) as lines:
            lines._server._tls = ssl.create_default_context(
                cafile=pair.certificate.parent / "ca.crt"
            )
            with pytest.raises(ssl.SSLCertVerificationError):
                await lines.send_request(GET)

    run(check())
