"""A notebook behind the server's pages: a download beside that of the same JupyterLab on a port of
the machine, and messages of a WebSocket beside the same straight from the job's socket.

JupyterLab is installed into .tools/jupyterlab at first (`tests.support.jupyter`). The pool and all
programs share this machine, so a loaded one shows less of the proxy than of its own load.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from bench.rows import Row
from gpupool.base.client_settings import ClientSettings
from gpupool.client.transport import Api
from tests.e2e.pool_fixture import RealPool
from tests.support.jupyter import Browser, find_jupyter

NAME = "workspaces"
COMMAND = "python -m bench workspaces"
ROUNDS = 5
DOWNLOAD_BYTES = 256 << 20
MESSAGES = 5000
_MESSAGE = "x" * 100
_ON_THE_WAY = 32
_TOKEN = "bench"
#: The figure that the design demands of messages a second.
LEAST_MESSAGES = 1000.0
#: A server of one job that answers each message of a WebSocket with itself, on its Unix socket.
ECHO = """
import os
from aiohttp import web
async def echo(request):
    channel = web.WebSocketResponse()
    await channel.prepare(request)
    async for message in channel:
        await channel.send_str(message.data)
    return channel
app = web.Application()
app.router.add_get("/jobs/" + os.environ["GPUPOOL_JOB"] + "/echo/", echo)
web.run_app(app, path=os.environ["GPUPOOL_RUN"] + "/echo.sock", print=None)
"""


def run(out: Path) -> list[Row]:
    programs = find_jupyter()
    if not programs:
        raise SystemExit(f"{NAME}: JupyterLab could not be installed")
    place = Path(tempfile.mkdtemp(prefix="gpb-"))
    (place / "data.bin").write_bytes(bytes(DOWNLOAD_BYTES))
    try:
        with RealPool(place / "pool", "2xL40S") as pool:
            pool.environ["PATH"] = f"{programs}:{pool.environ['PATH']}"
            return asyncio.run(_measure(pool, place))
    finally:
        shutil.rmtree(place)


async def _measure(pool: RealPool, place: Path) -> list[Row]:
    url = await asyncio.to_thread(_start_notebook, pool, place)
    async with Browser() as browser:
        while (await browser.open(url)).status not in (200, 401):
            await asyncio.sleep(0.2)
        while (await browser.ask("GET", "api/status")).status != 200:
            await asyncio.sleep(0.2)
        with _serve_directly(pool, place) as address:
            direct = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                headers={"Authorization": f"token {_TOKEN}"},
            )
            await _await_answer(direct, f"{address}/api")
            ours = list[float]()
            peers = list[float]()
            # In turns, so that both see the same load of the machine.
            for _ in range(ROUNDS):
                ours.append(await _download(browser.session, f"{browser.base}/files/data.bin"))
                peers.append(await _download(direct, f"{address}/files/data.bin"))
            await direct.close()
    messages = await _measure_messages(pool)
    return [
        Row(
            "download of a notebook through the pool",
            "MB/s",
            statistics.median(ours),
            COMMAND,
            peer=statistics.median(peers),
            peer_command="the same file from JupyterLab on a port of this machine",
            least_ratio=0.9,
            samples=tuple(ours),
            peer_samples=tuple(peers),
        ),
        messages,
    ]


@contextlib.contextmanager
def _serve_directly(pool: RealPool, place: Path) -> Iterator[str]:
    """Run JupyterLab on a port of this machine, as without a pool."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    words = ["jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}"]
    settings = [f"--IdentityProvider.token={_TOKEN}", f"--ServerApp.root_dir={place}"]
    process = subprocess.Popen([*words, *settings], env=pool.environ, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


async def _await_answer(session: aiohttp.ClientSession, url: str) -> None:
    while True:
        try:
            async with session.get(url) as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientConnectorError:
            await asyncio.sleep(0.2)


def _start_notebook(pool: RealPool, place: Path) -> str:
    return str(pool.json("notebook", "--name", "nb", "--dir", str(place))["url"])


async def _download(session: aiohttp.ClientSession, url: str) -> float:
    """Download once; returns megabytes a second."""
    began = time.perf_counter()
    count = 0
    async with session.get(url) as answer:
        assert answer.status == 200, await answer.text()
        async for piece in answer.content.iter_chunked(1 << 20):
            count += len(piece)
    assert count == DOWNLOAD_BYTES
    return count / (time.perf_counter() - began) / 1e6


async def _measure_messages(pool: RealPool) -> Row:
    """Count round trips of small messages, one after the other, and beside each other."""
    words = ("submit", "--gpu", "0.1", "--name", "echo", "--", sys.executable, "-c", ECHO)
    await asyncio.to_thread(pool.do, *words)
    await asyncio.to_thread(pool.until_state, "echo", "running")
    job = (await asyncio.to_thread(pool.job, "echo"))["id"]
    run_directory = pool.state_dir / "agent" / "jobs" / job / "run"
    visit = await asyncio.to_thread(_make_visit, pool, job)
    while not (run_directory / "echo.sock").exists():
        await asyncio.sleep(0.1)
    ours = list[float]()
    peers = list[float]()
    async with Browser() as browser:
        await browser.open(visit)
        connector = aiohttp.UnixConnector(str(run_directory / "echo.sock"))
        async with aiohttp.ClientSession(connector=connector) as direct:
            for _ in range(ROUNDS):
                address = f"{browser.base}/"
                ours.append(await _exchange(browser.session, address, browser.origin))
                path = f"http://localhost/jobs/{job}/echo/"
                peers.append(await _exchange(direct, path, "http://localhost"))
    return Row(
        "messages of a WebSocket through the pool, there and back",
        "messages/s",
        statistics.median(ours),
        COMMAND,
        peer=statistics.median(peers),
        peer_command="the same straight from the job's socket",
        samples=tuple(ours),
        peer_samples=tuple(peers),
        note="at least 1000" if statistics.median(ours) >= LEAST_MESSAGES else "BELOW 1000",
    )


def _make_visit(pool: RealPool, job: str) -> str:
    with Api(ClientSettings(state_dir=pool.state_dir)) as api:
        return str(api.request("POST", f"jobs/{job}/visits", {"service": "echo"})["url"])


async def _exchange(session: aiohttp.ClientSession, address: str, origin: str) -> float:
    """Send messages, 32 on their way at a time; returns how many came back in a second."""
    async with session.ws_connect(address, origin=origin) as channel:
        began = time.perf_counter()
        for _ in range(_ON_THE_WAY):
            await channel.send_str(_MESSAGE)
        for received in range(MESSAGES):
            await channel.receive_str()
            if received + _ON_THE_WAY < MESSAGES:
                await channel.send_str(_MESSAGE)
        return MESSAGES / (time.perf_counter() - began)
