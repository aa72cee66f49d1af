"""A gang on as many nodes: from the first of its gates that goes to the last; and how soon a pod
says why it waits."""

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.kubernetes.rig import CARDS, PODS, BenchPool, gated, spread, told_of_pods
from bench.kubernetes.sizes import Sizes
from bench.rows import Row
from gpupool.kubernetes.resources import names
from tests.support import kube_builders

SECONDS_APART, SECONDS_TO_SAY = 5.0, 2.0
ROUNDS = 5
LIMIT_SECONDS = 300
Object = dict[str, Any]


async def rows(pool: BenchPool, sizes: Sizes) -> list[Row]:
    apart = await _gang(pool, sizes.gang)
    await pool.clear()
    said = [await _why(pool, number) for number in range(ROUNDS)]
    await pool.clear()
    return [
        Row(
            f"gang of {sizes.gang}: last gate after the first",
            "s",
            apart,
            sizes.command,
            limit=SECONDS_APART,
        ),
        Row(
            "why a pod waits, after its creation",
            "s",
            statistics.median(said),
            sizes.command,
            limit=SECONDS_TO_SAY,
            samples=tuple(said),
        ),
    ]


async def _gang(pool: BenchPool, members: int) -> float:
    """Seconds between the first and the last release, each pod all cards of a node."""
    whole = {"main": kube_builders.asking(CARDS, 1000, None)}
    hint = kube_builders.gang(members)
    async with asyncio.timeout(LIMIT_SECONDS):
        version = (await pool.api.get(PODS, limit="1"))["metadata"]["resourceVersion"]
        seen = asyncio.create_task(_moments(pool, version, _released, members))

        async def create(number: int) -> None:
            await pool.api.create(PODS, gated(f"member-{number:03d}", whole, gang=hint))

        await spread(range(members), create)
        moments = await seen
    return max(moments.values()) - min(moments.values())


async def _why(pool: BenchPool, number: int) -> float:
    """Seconds from the request to create it until the pod says why it waits."""
    async with asyncio.timeout(LIMIT_SECONDS):
        version = (await pool.api.get(PODS, limit="1"))["metadata"]["resourceVersion"]
        seen = asyncio.create_task(_moments(pool, version, says_why, 1))
        began = time.perf_counter()
        huge = {"main": kube_builders.asking(2 * CARDS, 1000, None)}
        await pool.api.create(PODS, gated(f"waits-{number}", huge))
        (moment,) = (await seen).values()
    return moment - began


async def _moments(
    pool: BenchPool, version: str, is_so: Callable[[Object], bool], count: int
) -> dict[str, float]:
    """When it became so of each pod, as the API server told it."""
    found: dict[str, float] = {}
    async for kind, pod in told_of_pods(pool.api, version):
        if kind == "MODIFIED" and is_so(pod):
            found.setdefault(pod["metadata"]["name"], time.perf_counter())
        if len(found) == count:
            break
    return found


def _released(pod: Object) -> bool:
    return not any(gate["name"] == names.GATE for gate in pod["spec"].get("schedulingGates") or ())


def says_why(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(
        one["type"] == names.CONDITION and str(2 * CARDS) in one.get("message", "")
        for one in conditions
    )
