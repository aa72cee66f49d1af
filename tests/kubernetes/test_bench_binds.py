"""The benches on a cluster measure and count what they say, on few pods. No time is looked at
here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.kubernetes import asking, gangs, many, parts, waits
from bench.kubernetes.binds import Way, measure
from bench.kubernetes.rig import PODS, BenchPool, gated, on, plain
from bench.kubernetes.sizes import Sizes
from tests.support.cluster.cluster import Cluster

FEW = 20
NODES = 2


@asynccontextmanager
async def few_nodes(cluster: Cluster, place: Path) -> AsyncIterator[BenchPool]:
    async with on(cluster, place) as pool:
        await pool.add_nodes(NODES)
        pool.start()
        await pool.capacities_told()
        try:
            yield pool
        finally:
            await pool.clear()
            for node in pool.nodes:
                await pool.api.delete(f"/api/v1/nodes/{node}")


@pytest.mark.parametrize("preloaded", [True, False])
def test_each_way_binds_every_pod_and_a_release_is_one_patch(
    cluster: Cluster, tmp_path: Path, preloaded: bool
) -> None:
    async def run() -> None:
        scheduler = {"kube-scheduler": cluster.processes.running()["kube-scheduler"]}
        async with few_nodes(cluster, tmp_path) as pool:
            async with pool.without_policies():
                found = await measure(
                    cluster, pool.api, Way("plain", plain, scheduler), FEW, preloaded=preloaded
                )
                await pool.clear()
            assert (found.pods, found.preloaded, 1 <= found.nodes_used <= NODES) == (
                FEW,
                preloaded,
                True,
            )
            assert 0 < found.wait_p50_ms <= found.wait_p99_ms
            assert set(found.cpu_seconds) >= {"etcd", "kube-apiserver", "kube-scheduler"}
            ours = Way("gate", gated, {**scheduler, "controller": pool.pid})
            asked, counted = await pool.requests(), pool.counts()
            found = await measure(cluster, pool.api, ours, FEW, preloaded=preloaded)
            asked, counted = await pool.requests() - asked, pool.counts() - counted
            assert (
                asked["PATCH pods"],
                asked["POST pods/binding"],
                asked["PATCH pods/status"],
            ) == (FEW, FEW, 0)
            assert (counted["releases"], counted["reason_writes"]) == (FEW, 0)
            assert asked["PATCH gpunodes"] == counted["ledger_writes"] <= NODES * counted["cycles"]
            assert found.bound_per_second > 0
            await pool.clear()
            assert (await pool.api.get(PODS))["items"] == []

    asyncio.run(run())


def test_pods_that_come_at_a_rate_are_waited_for_one_by_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    async def run() -> None:
        async with few_nodes(cluster, tmp_path) as pool:
            found = await waits.rows(pool, Sizes(NODES, FEW, rounds=1, arrivals=40))
            assert [row.figure.split(":")[0] for row in found] == ["gate"] * 4 + ["direct"] * 4
            assert all(
                row.ours > 0 for row in found if "wait" in row.figure or "controller" in row.figure
            )
            looked = {
                row.figure: row.ours
                for row in await parts.rows(pool, Sizes(NODES, FEW, arrivals=40))
            }
            assert (
                looked["gate: PATCH pods a pod"] == looked["direct: POST pods/binding a pod"] == 1
            )
            assert all(
                looked[f"gate: controller, {part}, mean"] > 0
                for part in ("queued", "placed", "released")
            )
            assert "gate: POST events a pod" not in looked or looked["gate: POST events a pod"] <= 1

    asyncio.run(run())


def test_admission_a_gang_and_a_restart_are_measured_one_after_the_other(
    cluster: Cluster, tmp_path: Path
) -> None:
    async def run() -> None:
        sizes = Sizes(asks=3, gang=NODES, many_nodes=NODES, many_pods=FEW)
        async with few_nodes(cluster, tmp_path) as pool:
            rows = [
                *await asking.rows(pool, sizes),
                *await gangs.rows(pool, sizes),
                *await many.rows(pool, sizes),
            ]
            found = {row.figure.rpartition(": ")[2]: row for row in rows}
            for by in ("webhook", "policy"):
                row = found[f"admission by the {by}, p50"]
                assert (len(row.samples), len(row.peer_samples), row.limit_ratio) == (3, 3, 2.0)
            assert found["last gate after the first"].ours >= 0
            assert len(found["why a pod waits, after its creation"].samples) == gangs.ROUNDS
            assert found["PATCH pods a pod"].ours == found["POST pods/binding a pod"].ours == 1
            assert found["PATCH pods/status a pod"].ours == 0
            assert found["agents' PATCH gpunodes/status a pod"].ours > 0
            assert found["restart to first decision"].ours > 0

    asyncio.run(run())
