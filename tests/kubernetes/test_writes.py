"""What a decision costs the API server, counted where it is asked: per pod, and per node and
cycle."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.kubernetes.gangs import says_why
from bench.kubernetes.rig import CARDS, PODS, BenchPool, emptied, gated, on, spread, until
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import load_kubeconfig
from gpupool.kubernetes.controller.controller import PoolController
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from tests.support import kube_builders
from tests.support.cluster.cluster import Cluster

NODES, PODS_A_TURN, TURNS = 3, 30, 3
MANY = 12
"""Pods that wait."""


class Watched(KubeApi):
    """Counts the writes of each path by the cycle they are of."""

    controller: PoolController

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.writes: Counter[tuple[int, str, str]] = Counter()

    async def _send_request(
        self,
        method: str,
        path: str,
        body: Any,
        kind: str,
        accept: str,
        query: Mapping[str, str] | None,
    ) -> bytes:
        if method != "GET":
            self.writes[self.controller.counts.cycles, method, path] += 1
        return await super()._send_request(method, path, body, kind, accept, query)


def test_a_cycle_writes_a_ledger_once_at_most_and_a_pod_is_patched_once_in_its_life(
    cluster: Cluster, tmp_path: Path
) -> None:
    async def run() -> None:
        async with on(cluster, tmp_path) as pool:
            await pool.add_nodes(NODES)
            async with Watched(
                load_kubeconfig(pool.pool.kubeconfig(install.CONTROLLER)), 16
            ) as api:
                api.controller = PoolController(api, time.time_ns)
                life, pods = (
                    asyncio.create_task(api.controller.run()),
                    asyncio.create_task(_lives(pool)),
                )
                await asyncio.wait([life, pods], return_when=asyncio.FIRST_COMPLETED)
                assert not life.done(), f"the controller ended: {life}"
                pods.result()
                life.cancel()
                await asyncio.gather(life, return_exceptions=True)
            for node in pool.nodes:
                await pool.api.delete(f"/api/v1/nodes/{node}")
            ledgers = {
                key: n
                for key, n in api.writes.items()
                if key[2] in {f"{ledger.NODES}/{n}" for n in pool.nodes}
            }
            assert len(ledgers) > TURNS
            assert set(ledgers.values()) == {1}, ledgers
            releases = Counter(
                path for _, method, path in api.writes.elements() if _is_release(method, path)
            )
            assert len(releases) == TURNS * PODS_A_TURN
            assert set(releases.values()) == {1}, releases

    asyncio.run(run())


def test_who_begins_to_lead_writes_no_reason_that_stands_there_already(
    cluster: Cluster, tmp_path: Path
) -> None:
    async def run() -> None:
        async with on(cluster, tmp_path) as pool:
            await pool.add_nodes(1)
            huge = {"main": kube_builders.asking(2 * CARDS, 1000, None)}
            await spread(
                range(MANY), lambda number: pool.api.create(PODS, gated(f"waits-{number}", huge))
            )
            first, second = await _led(pool), await _led(pool)
            assert (first, second) == (MANY, 0)
            await emptied(pool.api)
            for node in pool.nodes:
                await pool.api.delete(f"/api/v1/nodes/{node}")

    asyncio.run(run())


async def _led(pool: BenchPool) -> int:
    """How many statuses of pods somebody writes who leads until each of them has its sentence."""
    async with Watched(load_kubeconfig(pool.pool.kubeconfig(install.CONTROLLER)), 16) as api:
        api.controller = PoolController(api, time.time_ns)
        life = asyncio.create_task(api.controller.run())

        async def all_sorted_out() -> bool:
            assert not life.done(), f"the controller ended: {life}"
            pods, _ = await pool.api.list_objects(PODS)
            return api.controller.conditions.condition_count == MANY and all(
                says_why(pod) for pod in pods
            )

        await until(all_sorted_out, "a sentence for everybody")
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
    return sum(
        n
        for (_, _, path), n in api.writes.items()
        if path.startswith(f"{PODS}/") and path.endswith("/status")
    )


def _is_release(method: str, path: str) -> bool:
    return method == "PATCH" and path.startswith(f"{PODS}/")


async def _lives(pool: BenchPool) -> None:
    """Pods that come while others go: entries are made, become active, drain and go, in the same
    ledgers."""
    agents = asyncio.create_task(pool.agents.run())
    for turn in range(TURNS):
        names = [f"p-{turn}-{n}" for n in range(PODS_A_TURN)]
        await spread(names, lambda name: pool.api.create(PODS, gated(name)))
        await until(lambda: _all_bound(pool), "pods that are bound")
        await spread(names[::2], lambda name: pool.api.delete(f"{PODS}/{name}"))
    await emptied(pool.api)
    await until(lambda: _nothing_held(pool), "empty ledgers")
    agents.cancel()
    await asyncio.gather(agents, return_exceptions=True)


async def _all_bound(pool: BenchPool) -> bool:
    return all(one["spec"].get("nodeName") for one in (await pool.api.list_objects(PODS))[0])


async def _nothing_held(pool: BenchPool) -> bool:
    return not any(
        one["spec"].get("allocations") for one in (await pool.api.list_objects(ledger.NODES))[0]
    )
