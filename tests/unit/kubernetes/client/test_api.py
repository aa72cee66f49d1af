"""Watches and requests do not share connections: with every watch open a request is still
answered."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from gpupool.base.errors import ServiceUnavailable
from gpupool.kubernetes.client import api as api_module
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import ServerConnection

WATCHES = 5


class Server:
    """An API server whose watches say nothing and do not end."""

    def __init__(self) -> None:
        self.watches = 0
        self.all_open, self.over = asyncio.Event(), asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {}})
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"\n")
        self.watches += 1
        if self.watches == WATCHES:
            self.all_open.set()
        await self.over.wait()
        return answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        app = web.Application()
        app.add_routes([web.get("/{path:.*}", self.answer)])
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


async def watch(api: KubeApi, number: int) -> None:
    async for _ in api.watch_changes(f"/watched/{number}", "1"):
        pass


def test_more_watches_than_connections_leave_requests_their_own() -> None:
    async def run() -> None:
        server = Server()
        tls = ssl.create_default_context()
        async with (
            server.running() as url,
            KubeApi(ServerConnection(url, tls), connections=1) as api,
        ):
            tasks = [asyncio.ensure_future(watch(api, number)) for number in range(WATCHES)]
            await server.all_open.wait()
            assert await api.get("/asked") == {"metadata": {}}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            server.over.set()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_watch_that_is_not_answered_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load balancer took the request, and its server is gone."""
    monkeypatch.setattr(api_module, "ANSWER_SECONDS", 0.05)

    async def run() -> None:
        taken = asyncio.Event()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            taken.set()
            await reader.read()
            writer.close()

        async with (
            await asyncio.start_server(take, "127.0.0.1", 0) as server,
            asyncio.timeout(10),
        ):
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            tls = ssl.create_default_context()
            async with KubeApi(ServerConnection(url, tls)) as api:
                with pytest.raises(ServiceUnavailable, match="broke off"):
                    await watch(api, 0)
            assert taken.is_set()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, "<html>Be back soon</html>"), (200, "[]"), (502, "null"), (502, '"bad gateway"')],
)
def test_what_no_api_server_answers_is_an_outage(status: int, body: str) -> None:
    """As of a load balancer whose servers are away: the parts ask again."""

    async def run() -> None:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(status=status, text=f"{body}\n")

        app = web.Application()
        app.add_routes([web.get("/{path:.*}", answer)])
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            async with KubeApi(ServerConnection(url, ssl.create_default_context())) as api:
                with pytest.raises(ServiceUnavailable):
                    await api.get("/asked")
                with pytest.raises(ServiceUnavailable):
                    await watch(api, 0)
        finally:
            await runner.cleanup()

    asyncio.run(run())


def test_a_token_that_cannot_be_read_is_an_outage(tmp_path: Path) -> None:
    """A process without a free descriptor, or a kubelet that writes the file anew."""

    async def run() -> None:
        tls = ssl.create_default_context()
        here = ServerConnection("http://127.0.0.1:9", tls, token_file=tmp_path / "token")
        async with KubeApi(here) as api:
            with pytest.raises(ServiceUnavailable, match="token"):
                await api.get("/asked")
            with pytest.raises(ServiceUnavailable, match="token"):
                await watch(api, 0)

    asyncio.run(run())
