"""A connection is lost while the API server is there, as behind a balancer: the watch goes on,
nothing is listed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import load_kubeconfig
from gpupool.kubernetes.client.informer import watch_objects
from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster

LIMIT_SECONDS = 30.0
MAPS = "/api/v1/namespaces/default/configmaps"


class Line:
    """Carries bytes to a server; `cut` ends every connection at once, as a reset."""

    def __init__(self, host: str, port: int) -> None:
        self._to, self._writers = (host, port), set[asyncio.StreamWriter]()

    async def begin(self) -> int:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> int:
        """How many there were."""
        count = len(self._writers)
        for writer in [*self._writers]:
            writer.transport.abort()
        return count

    def end(self) -> None:
        self._server.close()
        self.cut()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._to)
        pair = {writer, far_writer}
        self._writers |= pair
        try:
            await asyncio.wait(
                [
                    asyncio.ensure_future(_pump(reader, far_writer)),
                    asyncio.ensure_future(_pump(far_reader, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._writers -= pair
            for one in pair:
                one.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
    except ConnectionError:
        return


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.02)  # between two looks from outside


def test_a_watch_whose_connection_is_cut_goes_on_from_where_it_was(
    cluster: Cluster, admin: Api
) -> None:
    async def run() -> None:
        known = load_kubeconfig(Path(cluster.kubeconfig))
        far = urlsplit(known.url)
        line = Line(far.hostname or "", far.port or 443)
        near = replace(known, url=f"https://127.0.0.1:{await line.begin()}")
        heard: list[str] = []
        lists: list[int] = []

        def note(found: dict[str, Any], gone: bool) -> None:
            heard.append(("-" if gone else "+") + found["metadata"]["name"])

        async with KubeApi(near, 4) as api:
            watching = asyncio.create_task(
                watch_objects(api, MAPS, note, lambda: lists.append(1), lasting=False)
            )

            async def told(word: str, act: Callable[..., Any], *of: Any) -> None:
                await asyncio.to_thread(act, *of)
                await until(lambda: word in heard or watching.done())

            try:
                await until(lambda: bool(lists))
                for name in ("first", "second", "third"):
                    await until(lambda: line.cut() > 0)
                    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
                    await told(f"+{name}", admin.create, MAPS, made)
                    await told(f"-{name}", admin.delete, f"{MAPS}/{name}")
                assert not watching.done(), watching
                assert len(lists) == 1
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
                line.end()

    asyncio.run(run())
