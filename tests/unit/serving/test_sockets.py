"""WebSockets and streamed answers between callers and replicas, over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from wsproto.events import CloseConnection, TextMessage

from gpupool.base.errors import NotLoggedIn
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Principal, UserRole
from gpupool.serving.replicas import DRAINING
from gpupool.serving.sockets import GOING_AWAY, POLICY_VIOLATION
from gpupool.serving.traffic import ServiceTraffic
from gpupool.workspaces.streams import StreamBroker
from tests.support.service_replicas import (
    HANDSHAKE,
    ServiceRig,
    expect_close,
    expect_text,
)
from tests.support.shop import Shop

Story = Callable[[ServiceRig], Awaitable[None]]


@pytest.fixture
def tell(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Story], None]:
    """Run a story on a rig."""
    broker: StreamBroker = shop.serving.broker
    monkeypatch.setattr(broker, "open_stream", broker.open_stream)
    monkeypatch.setattr(shop.serving.controller, "traffic", ServiceTraffic())
    caller = Principal(1, "ada", 1, "default", UserRole.USER)

    def run(story: Story) -> None:
        async def main() -> None:
            async with ServiceRig(shop.serving, caller, tmp_path / "s").run() as rig:
                await story(rig)

        asyncio.run(main())

    return run


def test_messages_pass_both_ways_and_count_as_one_request(tell: Callable[[Story], None]) -> None:
    async def story(rig: ServiceRig) -> None:
        head, caller, replica = await rig.open_socket()
        assert head.startswith("HTTP/1.1 101 ")
        assert "stolen" not in head
        (seen,) = rig.replica.heads
        assert seen.startswith("GET /chat?a=1 HTTP/1.1\r\n")
        assert "gpt_secret" not in seen
        await caller.send(TextMessage(data="hello"))
        await expect_text(replica, "hello")
        await replica.send(TextMessage(data="x" * 200_000))
        await expect_text(caller, "x" * 200_000)
        assert rig.controller.load.count(1) == 1
        assert rig.controller.load.count_replica(1, 1) == 1
        await caller.send(CloseConnection(code=1000))
        await expect_close(replica, 1000)
        replica.writer.close()
        await rig.until_idle()
        assert rig.controller.traffic.requests.read() == {(*rig.labels, "1xx"): 1}

    tell(story)


def test_a_replica_that_ends_closes_its_sockets_with_1001_on_both_sides(
    tell: Callable[[Story], None],
) -> None:
    async def story(rig: ServiceRig) -> None:
        _, caller, replica = await rig.open_socket()
        rig.controller.sockets.end_replica(1, 2)
        await caller.send(TextMessage(data="still open"))
        await expect_text(replica, "still open")
        rig.controller.sockets.end_replica(1, 1)
        await expect_close(caller, GOING_AWAY)
        await expect_close(replica, GOING_AWAY)
        await rig.until_idle()

    tell(story)


def test_a_drain_waits_for_a_socket_and_closes_it_at_its_limit(
    tell: Callable[[Story], None], shop: Shop
) -> None:
    shop.add(drain_seconds=30)
    shop.settle()

    async def story(rig: ServiceRig) -> None:
        service = shop.sight().service
        rig.service = service.id
        rig.public_id = service.public_id
        rig.publish()
        _, caller, replica = await rig.open_socket()
        shop.serving.remove("web", shop.house.admin)
        for seconds in (0, 28):
            shop.ahead_ns += seconds * NANOS_PER_SECOND
            await rig.controller.look()
            assert shop.states() == [DRAINING]
            assert shop.sight().replicas[0].stop_requested is None
            await caller.send(TextMessage(data="still open"))
            await expect_text(replica, "still open")
        shop.ahead_ns += 3 * NANOS_PER_SECOND
        await rig.controller.look()
        await expect_close(caller, GOING_AWAY)
        assert shop.sight().replicas[0].stop_requested is not None

    tell(story)


def test_a_close_waits_for_the_end_of_the_frame_under_way(tell: Callable[[Story], None]) -> None:
    async def story(rig: ServiceRig) -> None:
        _, caller, replica = await rig.open_socket()
        replica.writer.write(b"\x81\x05he")
        await caller.send(TextMessage(data="go on"))
        await expect_text(replica, "go on")
        rig.controller.sockets.end_replica(1, 1)
        replica.writer.write(b"llo\x81\x05later")
        await expect_text(caller, "hello")
        await expect_close(caller, GOING_AWAY)
        assert await caller.receive() is None

    tell(story)


def test_a_replica_that_is_killed_ends_a_socket_with_1001(tell: Callable[[Story], None]) -> None:
    async def story(rig: ServiceRig) -> None:
        _, caller, replica = await rig.open_socket()
        replica.writer.transport.abort()
        await expect_close(caller, GOING_AWAY)

    tell(story)


def test_a_server_that_stops_ends_a_socket_with_1001(tell: Callable[[Story], None]) -> None:
    async def story(rig: ServiceRig) -> None:
        _, caller, _ = await rig.open_socket()
        rig.stop.set()
        await expect_close(caller, GOING_AWAY)

    tell(story)


def test_a_caller_that_loses_the_right_loses_the_socket(tell: Callable[[Story], None]) -> None:
    async def story(rig: ServiceRig) -> None:
        _, caller, replica = await rig.open_socket()
        await rig.controller.sockets.check_callers()
        await caller.send(TextMessage(data="may"))
        await expect_text(replica, "may")

        rig.recheck = refuse
        await rig.controller.sockets.check_callers()
        await expect_close(caller, POLICY_VIOLATION)

    tell(story)


def test_a_caller_that_moved_to_another_tenant_loses_the_socket(
    tell: Callable[[Story], None],
) -> None:
    async def story(rig: ServiceRig) -> None:
        _, caller, _ = await rig.open_socket()
        rig.recheck = lambda: Principal(1, "ada", 2, "other", UserRole.USER)
        await rig.controller.sockets.check_callers()
        await expect_close(caller, POLICY_VIOLATION)

    tell(story)


def test_a_page_with_a_session_opens_no_socket(tell: Callable[[Story], None]) -> None:
    async def story(rig: ServiceRig) -> None:
        rig.caller = Principal(1, "ada", 1, "default", UserRole.USER, session="5")
        reader, writer = await rig.connect()
        writer.write(HANDSHAKE.encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.close()
        assert rig.replica.heads == []

    tell(story)


def test_an_answer_in_pieces_passes_piece_by_piece(tell: Callable[[Story], None]) -> None:
    async def story(rig: ServiceRig) -> None:
        may_go_on = asyncio.Event()

        async def stream(writer: asyncio.StreamWriter) -> None:
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                b"Transfer-Encoding: chunked\r\n\r\nd\r\ndata: first\n\n\r\n"
            )
            # The second piece is not made before the caller has read the first.
            await may_go_on.wait()
            writer.write(b"e\r\ndata: second\n\n\r\n0\r\n\r\n")

        rig.replica.answer = stream
        reader, writer = await rig.connect()
        writer.write(b"GET /services/web/v1 HTTP/1.1\r\nHost: pool\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(20):
            assert b"200" in await reader.readline()
            await reader.readuntil(b"data: first\n\n")
            may_go_on.set()
            await reader.readuntil(b"data: second\n\n")
        writer.close()
        await rig.until_idle()
        assert rig.controller.traffic.requests.read() == {(*rig.labels, "2xx"): 1}

    tell(story)


def refuse() -> Principal:
    raise NotLoggedIn("this token has ended", hint="gpupool token create")


def test_a_caller_that_loses_the_right_loses_a_streamed_answer(
    tell: Callable[[Story], None],
) -> None:
    async def story(rig: ServiceRig) -> None:
        was_cut = asyncio.Event()
        replica_lost = asyncio.Event()

        async def stream(writer: asyncio.StreamWriter) -> None:
            # Without chunks or a length: only the connection tells where it ends.
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            await was_cut.wait()
            try:
                while True:
                    writer.write(b"data: 2\n\n")
                    await writer.drain()
                    await asyncio.sleep(0)
            except ConnectionError:
                replica_lost.set()

        rig.replica.answer = stream
        reader, writer = await rig.connect()
        writer.write(b"POST /services/web/ HTTP/1.1\r\nHost: pool\r\nContent-Length: 0\r\n\r\n")
        async with asyncio.timeout(20):
            await reader.readuntil(b"data: 1\n\n")
            await rig.controller.answers.check_callers()
            assert len(rig.controller.answers) == 1
            rig.recheck = refuse
            await rig.controller.answers.check_callers()
            rest = await reader.read()
            was_cut.set()
            await replica_lost.wait()
        # The last chunk would say that the answer is whole.
        assert not rest.endswith(b"0\r\n\r\n")
        writer.close()
        await rig.until_idle()
        assert len(rig.controller.answers) == 0
        assert rig.controller.traffic.requests.read() == {(*rig.labels, "left"): 1}

    tell(story)


def test_a_caller_that_loses_the_right_before_the_answer_is_told_so(
    tell: Callable[[Story], None],
) -> None:
    async def story(rig: ServiceRig) -> None:
        asked = asyncio.Event()
        was_answered = asyncio.Event()

        async def think(_writer: asyncio.StreamWriter) -> None:
            asked.set()
            await was_answered.wait()

        rig.replica.answer = think
        asking = asyncio.ensure_future(rig.ask())
        await asyncio.wait_for(asked.wait(), 20)
        rig.recheck = refuse
        await rig.controller.answers.check_callers()
        status, body = await asking
        was_answered.set()
        assert (status, b"this token has ended" in body) == (401, True)
        assert rig.controller.traffic.requests.read() == {(*rig.labels, "4xx"): 1}

    tell(story)


def test_what_no_replica_answers_is_counted_with_its_reason(tell: Callable[[Story], None]) -> None:
    async def story(rig: ServiceRig) -> None:
        traffic = rig.controller.traffic
        assert await rig.ask() == (200, b"ok")

        async def break_off(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

        rig.replica.answer = break_off
        assert (await rig.ask())[0] == 200
        rig.publish(with_replica=False)
        assert (await rig.ask())[0] == 503
        assert traffic.requests.read() == {
            (*rig.labels, "2xx"): 1,
            (*rig.labels, "broken"): 1,
            (*rig.labels, "5xx"): 1,
        }
        assert traffic.rejects.read() == {(*rig.labels, "not-ready"): 1}
        assert traffic.cold_starts.read() == {rig.labels: 1}

    tell(story)
