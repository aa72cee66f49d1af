"""What a replica of the controller says of itself, over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import fields
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import ServerConnection
from gpupool.kubernetes.client.leader_election import LeaseCandidate
from gpupool.kubernetes.controller.controller import PoolController
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.serving import Health, serving

NAMES = Path(__file__).parents[2] / "golden" / "metrics_names_controller.txt"


def api() -> KubeApi:
    """Never asked here."""
    return KubeApi(ServerConnection("http://127.0.0.1:1", ssl.create_default_context()))


async def pages(*, leads: bool) -> tuple[str, str]:
    """/readyz and /metrics."""
    health = Health()
    async with (
        serving("127.0.0.1:0", health, health.sentence) as address,
        aiohttp.ClientSession() as http,
    ):
        health.leader = LeaseCandidate(
            api(), "gpupool", "gpupool-controller", "me", lambda: 0.0, holder="other"
        )
        health.controller = PoolController(api(), lambda: 0) if leads else None
        found = []
        for path in ("readyz", "metrics"):
            async with http.get(f"http://{address}/{path}") as answer:
                assert answer.status == 200
                found.append(await answer.text())
        return found[0], found[1]


def test_the_one_that_leads_tells_everything_that_it_counts() -> None:
    ready, metrics = asyncio.run(pages(leads=True))
    assert ready == "ok: it leads\n"
    for one in fields(ControllerCounters):
        assert f"gpupool_controller_{one.name}_total 0.0" in metrics
    for part in ("queued", "placed", "released"):
        assert f'gpupool_controller_wait_seconds_total{{part="{part}"}} 0.0' in metrics


def test_the_names_of_one_that_leads_are_a_contract() -> None:
    _, text = asyncio.run(pages(leads=True))
    lines = {
        f"{sample.name} {family.type} {{{','.join(sorted(sample.labels))}}}"
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        # Those of threads depend on what this process did before.
        if sample.name.startswith(("gpupool_controller_", "gpupool_starts_"))
    }
    assert sorted(lines) == NAMES.read_text().splitlines()


def test_one_that_stands_by_says_who_leads() -> None:
    ready, metrics = asyncio.run(pages(leads=False))
    assert ready == "ok: it stands by, other leads\n"
    assert "gpupool_controller_leads 0.0" in metrics
    assert 'gpupool_controller_leader_info{holder="other"} 1.0' in metrics
    assert "gpupool_controller_cycles" not in metrics
