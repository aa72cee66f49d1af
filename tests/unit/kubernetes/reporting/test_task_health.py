"""A thread or task of a cluster's part that hangs: named by `/healthz` and `/metrics`."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import pytest

from gpupool.base.supervision import register, supervised_step
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import ServerConnection
from gpupool.kubernetes.controller.controller import PoolController
from gpupool.kubernetes.serving import Health, serving


async def page(http: aiohttp.ClientSession, address: str, path: str) -> tuple[int, str]:
    async with http.get(f"http://{address}/{path}") as answer:
        return answer.status, await answer.text()


def test_healthz_and_metrics_name_what_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serving("127.0.0.1:0", Health()) as address, aiohttp.ClientSession() as http:
            assert await page(http, address, "healthz") == (200, "ok\n")
            monkeypatch.setattr(register.pulse, "scale", 0.0)
            with supervised_step("agent-ready"):
                status, told = await page(http, address, "healthz")
                _, metrics = await page(http, address, "metrics")
            assert status == 503
            assert told.startswith("agent-ready silent since")
            assert 'gpupool_thread_silent_seconds{thread="agent-ready"}' in metrics
            assert (await page(http, address, "healthz"))[0] == 200

    asyncio.run(run())


def test_every_body_of_a_controller_with_rounds_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        never = asyncio.Event()
        api = KubeApi(ServerConnection("http://127.0.0.1:1", ssl.create_default_context()))
        controller = PoolController(api, lambda: 0)
        monkeypatch.setattr(controller.intake, "iterate_watches", lambda: iter([never.wait()]))
        task = asyncio.ensure_future(controller.run())
        for _ in range(5):
            await asyncio.sleep(0)
        names = {
            "rounds",
            "releases",
            "reasons",
            "events",
            "tenant-status",
            "reservation-status",
            "settings-status",
        }
        assert names <= set(register.list_names())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not names & set(register.list_names())

    asyncio.run(run())
