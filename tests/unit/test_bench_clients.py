"""The servers that clients are compared on answer every client that is installed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bench.clients import kubernetes, transports
from bench.clients.fake_api import PODS, make_pod, serve_fake_api

COUNT = 60


@pytest.mark.parametrize("name", ["own", "aiohttp"])
def test_a_client_reads_every_event_and_every_patch(tmp_path: Path, name: str) -> None:
    answers: list[Any] = []

    async def work(watch: kubernetes.Watch, patch: kubernetes.Patch) -> None:
        await watch(COUNT)
        answers.append(await patch(1))

    async def run() -> None:
        async with serve_fake_api(tmp_path, COUNT) as api:
            await kubernetes.CLIENTS[name][1](api, work)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert answers == [make_pod(1)]


def test_a_watch_sends_pods_of_one_collection() -> None:
    pod = make_pod(7)
    assert f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods" == PODS
    assert 1_500 < len(json.dumps(pod)) < 4_000


@pytest.mark.parametrize("client", ["bare", "own", "http.client", "aiohttp"])
def test_a_transport_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    monkeypatch.setattr(transports, "REQUESTS", 3)

    async def run() -> tuple[float, float]:
        await asyncio.start_unix_server(transports.serve_pool, str(tmp_path / "gpupool.sock"))
        return await transports.measure_client(transports.CLIENTS[client], tmp_path)

    first, each = asyncio.run(asyncio.wait_for(run(), 30))
    assert first > 0
    assert each >= 0
