"""Pods that are bound in a second, by whoever places them.

Preloaded: the pods are there before those who place are let go, so that the rate is that of placing
alone. Otherwise they are created while they are placed, with a fixed number of requests in flight.
"""

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.kubernetes.rig import PODS, cpu_seconds, emptied, spread, told_of_pods
from gpupool.kubernetes.client.api import KubeApi
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.control import CONTROL_PLANE

LIMIT_SECONDS = 900
Object = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """How pods come to nodes: what such a pod looks like, and which processes have a part in
    placing it."""

    name: str
    pod: Callable[[str], Object]
    placers: Mapping[str, int]


@dataclass(frozen=True)
class Binds:
    """One measurement. Waits are from the later of a pod's creation and the placers' start to its
    binding."""

    way: str
    pods: int
    preloaded: bool
    created_per_second: float
    bound_per_second: float
    wait_p50_ms: float
    wait_p99_ms: float
    parts_ms: Mapping[str, float]
    """Medians: from creation to the watch's word of it, from there to the gate's removal, from
    there to the binding."""
    nodes_used: int
    cpu_seconds: Mapping[str, float]


async def measure(
    cluster: Cluster,
    api: KubeApi,
    way: Way,
    pods: int,
    *,
    preloaded: bool = False,
    per_second: float | None = None,
) -> Binds:
    """Create the pods, and wait until every one is bound; they stay. The namespace is empty before.

    With `per_second` they come at that rate, whatever becomes of those before; else as fast as the
    server takes them.
    """
    await emptied(api)
    version = (await api.get(PODS, limit="1"))["metadata"]["resourceVersion"]
    running = cluster.processes.running()
    programs = {**{name: running[name] for name in CONTROL_PLANE}, **way.placers}
    seen = asyncio.create_task(_bindings(api, version, pods))
    with _Stopped(list(way.placers.values()) if preloaded else ()) as placers:
        began, before = time.perf_counter(), cpu_seconds(programs)
        created = await (
            _create(api, way, pods) if per_second is None else _arrive(api, way, pods, per_second)
        )
        made = time.perf_counter()
        if preloaded:
            assert placers.stand_still(), f"somebody let {way.name} go on"
            began, before = made, cpu_seconds(programs)
            placers.go_on()
        bound = await asyncio.wait_for(seen, LIMIT_SECONDS)
    used = {name: spent - before[name] for name, spent in cpu_seconds(programs).items()}
    waits = sorted(one.bound - max(created[name], began) for name, one in bound.items())
    last = max(one.bound for one in bound.values())
    return Binds(
        way=way.name,
        pods=pods,
        preloaded=preloaded,
        created_per_second=pods / (made - min(created.values())),
        bound_per_second=pods / (last - began),
        wait_p50_ms=1e3 * waits[len(waits) // 2],
        wait_p99_ms=1e3 * waits[len(waits) * 99 // 100],
        parts_ms=_parts_ms(created, bound),
        nodes_used=len({one.node for one in bound.values()}),
        cpu_seconds=used,
    )


class _Stopped:
    """Processes that stand still, and surely go on afterwards."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)

    def stand_still(self) -> bool:
        """Whether they do, all of them."""
        return all(
            Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] == "T" for pid in self._pids
        )

    def go_on(self) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGCONT)

    def __enter__(self) -> "_Stopped":
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()


async def _create(api: KubeApi, way: Way, pods: int) -> dict[str, float]:
    """When each pod was asked for."""
    created = dict[str, float]()

    async def create(number: int) -> None:
        name = f"p-{number:06d}"
        created[name] = time.perf_counter()
        await api.create(PODS, way.pod(name))

    await spread(range(pods), create)
    return created


async def _arrive(api: KubeApi, way: Way, pods: int, per_second: float) -> dict[str, float]:
    """When each pod was asked for; each at its own time, so that a slow answer holds nobody else
    back."""
    created, began = dict[str, float](), time.perf_counter()

    async def create(number: int) -> None:
        await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
        name = f"p-{number:06d}"
        created[name] = time.perf_counter()
        await api.create(PODS, way.pod(name))

    await asyncio.gather(*(create(number) for number in range(pods)))
    return created


@dataclass
class _Seen:
    """When the API server told what of one pod."""

    told: float
    ungated: float = 0.0
    bound: float = 0.0
    node: str = ""


async def _bindings(api: KubeApi, version: str, pods: int) -> dict[str, _Seen]:
    """What became of each pod, and when, as the API server told it."""
    seen: dict[str, _Seen] = {}
    left = pods
    async for _, found in told_of_pods(api, version):
        now, spec = time.perf_counter(), found.get("spec", {})
        one = seen.setdefault(found["metadata"]["name"], _Seen(now))
        if not one.ungated and not spec.get("schedulingGates"):
            one.ungated = now
        if spec.get("nodeName") and not one.bound:
            one.bound, one.node = now, spec["nodeName"]
            left -= 1
        if not left:
            break
    return seen


def _parts_ms(created: Mapping[str, float], seen: Mapping[str, _Seen]) -> dict[str, float]:
    parts = {
        "told": [one.told - created[name] for name, one in seen.items()],
        "ungated": [one.ungated - one.told for one in seen.values()],
        "bound": [one.bound - one.ungated for one in seen.values()],
    }
    return {part: 1e3 * statistics.median(each) for part, each in parts.items()}
