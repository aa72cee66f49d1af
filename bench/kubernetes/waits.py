"""What operators feel at an ordinary rate of arrivals: how long a pod waits, and what it costs in
processor time.

Pods come at a fixed rate that is below what every way can place, so nothing queues up. The API
server is one process for all ways, with one GOGC; its cost for a way is told beside that for plain
pods in the same turn.
"""

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict

from bench.kubernetes.binds import Binds, Way, measure
from bench.kubernetes.rig import BenchPool, gated, plain
from bench.kubernetes.sizes import Sizes
from bench.rows import Row

SERVER = "kube-apiserver"
MOST_WAIT = 2.0
"""Of what a plain pod waits, at p50 and p99."""
MOST_SERVER_MS = {"gate": 2.1, "direct": 0.0}
"""Processor time of the API server a pod, over that of a plain one."""
MOST_CONTROLLER_MS = 0.8
WAYS = {"gate": gated, "direct": lambda name: gated(name, direct=True)}


async def rows(pool: BenchPool, sizes: Sizes) -> list[Row]:
    """Three ways in turn, as often as `rounds` says."""
    found: defaultdict[str, list[Binds]] = defaultdict(list)
    scheduler = {"kube-scheduler": pool.cluster.processes.running()["kube-scheduler"]}
    for _ in range(sizes.rounds):
        async with pool.without_policies():
            await _one(pool, sizes, Way("plain", plain, scheduler), found)
            await pool.clear()
        for name in MOST_SERVER_MS:
            await _one(pool, sizes, Way(name, WAYS[name], {"controller": pool.pid}), found)
            await pool.clear()
    return [row for name in MOST_SERVER_MS for row in _of_way(name, found, sizes)]


async def _one(
    pool: BenchPool, sizes: Sizes, way: Way, found: defaultdict[str, list[Binds]]
) -> None:
    made = await measure(pool.cluster, pool.api, way, sizes.pods, per_second=sizes.arrivals)
    print(json.dumps(asdict(made)), file=sys.stderr, flush=True)
    found[way.name].append(made)


def _of_way(name: str, found: dict[str, list[Binds]], sizes: Sizes) -> list[Row]:
    ours, theirs = found[name], found["plain"]
    rate = f"at {sizes.arrivals} pods/s"
    server = [a - b for a, b in zip(_ms(ours, SERVER), _ms(theirs, SERVER), strict=True)]
    return [
        _wait(f"{name}: wait p50 {rate}", ours, theirs, lambda one: one.wait_p50_ms, sizes),
        _wait(f"{name}: wait p99 {rate}", ours, theirs, lambda one: one.wait_p99_ms, sizes),
        _cost(f"{name}: API server a pod, over plain", server, MOST_SERVER_MS[name], sizes),
        _cost(f"{name}: controller a pod", _ms(ours, "controller"), MOST_CONTROLLER_MS, sizes),
    ]


def _ms(turns: Sequence[Binds], program: str) -> list[float]:
    return [1e3 * one.cpu_seconds[program] / one.pods for one in turns]


def _wait(
    what: str,
    ours: Sequence[Binds],
    theirs: Sequence[Binds],
    of: Callable[[Binds], float],
    sizes: Sizes,
) -> Row:
    mine, peer = tuple(map(of, ours)), tuple(map(of, theirs))
    return Row(
        what,
        "ms",
        statistics.median(mine),
        sizes.command,
        statistics.median(peer),
        "plain",
        limit_ratio=MOST_WAIT,
        samples=mine,
        peer_samples=peer,
    )


def _cost(what: str, samples: Sequence[float], most: float, sizes: Sizes) -> Row:
    return Row(
        what, "ms", statistics.median(samples), sizes.command, limit=most, samples=tuple(samples)
    )
