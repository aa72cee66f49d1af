"""The path that a service sees that knows no prefix."""

from __future__ import annotations

import asyncio
import socket

import pytest
from starlette.types import Message

from gpupool.base.errors import JobUnreachable, NotLoggedIn
from gpupool.tenancy.users import PEOPLE
from gpupool.workspaces import exchange
from gpupool.workspaces.exchange import ServiceExchange, cut_prefix
from gpupool.workspaces.open_streams import OpenStreams
from gpupool.workspaces.pipes import BufferedPipeEnd
from gpupool.workspaces.streams import OpenStream, StreamHello, parse_hello
from gpupool.workspaces.upgrade import hand_over
from gpupool.workspaces.visits import Visitor


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        (b"/jobs/j-1/vscode/", b"/"),
        (b"/jobs/j-1/vscode", b"/"),
        (b"/jobs/j-1/vscode/static/a%2Fb", b"/static/a%2Fb"),
        (b"/jobs/j-1/vscode//x", b"//x"),
    ],
)
def test_cut_prefix_leaves_what_is_below_the_service(path: bytes, seen: bytes) -> None:
    assert cut_prefix(path) == seen


def test_parse_hello_takes_a_service_at_its_root_from_an_agent_that_says_so() -> None:
    assert parse_hello(b'{"token": "t", "root": true}') == StreamHello("", "t", True)
    # An agent of an earlier release, and one that says nonsense.
    assert parse_hello(b'{"token": "t"}') == StreamHello("", "t", False)
    assert parse_hello(b'{"root": "yes"}') == StreamHello()


@pytest.mark.parametrize("loses_right", [True, False])
def test_an_answer_without_a_length_breaks_off_once_the_visitor_loses_the_right(
    loses_right: bool,
) -> None:
    def admit(_visitor: Visitor) -> None:
        if loses_right:
            raise NotLoggedIn("this user is disabled")

    async def body() -> None:
        here, job = socket.socketpair()
        end = BufferedPipeEnd()
        await hand_over(here, end)
        streams = OpenStreams(admit, lambda _job: None)
        streams.add(end, Visitor("j-1", 1, None))
        asked = [{"type": "http.request", "body": b""}]
        sent = list[bytes]()
        has_first = asyncio.Event()

        async def receive() -> Message:
            if asked:
                return asked.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message.get("body", b""))
            if b"first" in sent[-1]:
                has_first.set()

        scope = {"method": "GET", "raw_path": b"/", "query_string": b"", "headers": []}
        serving = ServiceExchange(OpenStream(end, StreamHello()), scope, receive, send)
        answering = asyncio.ensure_future(serving.answer())
        job.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nfirst")
        await has_first.wait()
        if loses_right:
            streams.note_change(frozenset({PEOPLE}))
            with pytest.raises(ConnectionResetError):
                await answering
        else:
            job.shutdown(socket.SHUT_WR)
            await answering
        assert sent == [b"", b"first"] + ([] if loses_right else [b""])
        job.close()

    asyncio.run(asyncio.wait_for(body(), 20))


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_service_has_its_time_from_the_last_byte_that_it_was_sent(
    monkeypatch: pytest.MonkeyPatch, is_silent: bool
) -> None:
    monkeypatch.setattr(exchange, "_ANSWER_SECONDS", 0.1)

    async def body() -> None:
        loop = asyncio.get_running_loop()
        here, job = socket.socketpair()
        job.setblocking(False)
        end = BufferedPipeEnd()
        await hand_over(here, end)
        # Four times as long as the service may think, in pieces of a twentieth.
        is_over = loop.time() + 0.4
        asked = 0
        statuses = list[int]()

        async def receive() -> Message:
            nonlocal asked
            if asked < 0:
                await asyncio.Event().wait()
            await asyncio.sleep(0.005)
            if loop.time() < is_over:
                asked += 1
                return {"type": "http.request", "body": b"x", "more_body": True}
            count, asked = asked, -1
            if not is_silent:
                serving.append(asyncio.ensure_future(serve(count)))
            return {"type": "http.request", "body": b""}

        async def serve(count: int) -> None:
            taken = b""
            while not taken.endswith(b"x" * count):
                taken += await loop.sock_recv(job, 65536)
            await loop.sock_sendall(job, b"HTTP/1.1 204 No Content\r\n\r\n")

        async def send(message: Message) -> None:
            statuses.extend([message["status"]] if "status" in message else [])

        serving = list[asyncio.Future[None]]()
        # As counted ones are passed on, byte for byte.
        headers = [(b"content-length", b"1")]
        scope = {"method": "PUT", "raw_path": b"/", "query_string": b"", "headers": headers}
        answering = ServiceExchange(OpenStream(end, StreamHello()), scope, receive, send).answer()
        if is_silent:
            with pytest.raises(JobUnreachable, match="no answer"):
                await answering
            assert loop.time() > is_over
        else:
            await answering
            assert statuses == [204]
        job.close()

    asyncio.run(asyncio.wait_for(body(), 20))
