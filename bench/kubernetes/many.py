"""A large pool: what the controller holds in memory, what a pod costs the API server, how soon a
new leader decides."""

import asyncio
import sys
import time

from bench.kubernetes.binds import Way, measure
from bench.kubernetes.rig import PODS, BenchPool, cpu_seconds, gated, resident_mib, until
from bench.kubernetes.sizes import Sizes
from bench.rows import Row

SECONDS_TO_DECIDE = 30.0
WRITES = (
    "PATCH pods",
    "PATCH pods/status",
    "PATCH gpunodes",
    "PATCH nodes/status",
    "POST pods/binding",
    "POST events",
)
AGENTS = "PATCH gpunodes/status"


async def rows(pool: BenchPool, sizes: Sizes) -> list[Row]:
    """With agents that report, as nodes would."""
    size = f"{len(pool.nodes)} nodes, {sizes.many_pods} pods"
    agents = asyncio.create_task(pool.agents.run())
    try:
        asked = await pool.requests()
        way = Way("gate", gated, {"controller": pool.pid})
        found = await measure(pool.cluster, pool.api, way, sizes.many_pods, preloaded=False)
        print(found, file=sys.stderr, flush=True)
        await until(pool.agents.all_told, "reports of every agent", every=0.5)
        asked = await pool.requests() - asked
        memory, spent = resident_mib(pool.pid), cpu_seconds({"it": pool.pid})["it"]
        server = resident_mib(pool.cluster.processes.running()["kube-apiserver"])
        began = await _restart(pool)
    finally:
        agents.cancel()
        await asyncio.gather(agents, return_exceptions=True)
    ours = [
        Row(f"{size}: {what} a pod", "", asked[what] / sizes.many_pods, sizes.command)
        for what in WRITES
    ]
    return [
        Row(f"{size}: binds while created", "binds/s", found.bound_per_second, sizes.command),
        Row(f"{size}: controller resident", "MiB", memory, sizes.command),
        Row(f"{size}: API server resident", "MiB", server, sizes.command),
        Row(f"{size}: controller's processor", "s", spent, sizes.command),
        *ours,
        Row(f"{size}: agents' {AGENTS} a pod", "", asked[AGENTS] / sizes.many_pods, sizes.command),
        Row(
            f"{size}: restart to first decision", "s", began, sizes.command, limit=SECONDS_TO_DECIDE
        ),
    ]


async def _restart(pool: BenchPool) -> float:
    """kill -9, a pod is created, and from the start of the next controller the seconds until its
    cards are written."""
    pool.stop()
    await pool.api.create(PODS, gated("after"))
    began = time.perf_counter()
    pool.start()

    async def released() -> bool:
        return not (await pool.api.get(f"{PODS}/after"))["spec"].get("schedulingGates")

    await until(released, "release of a pod by the next leader")
    return time.perf_counter() - began
