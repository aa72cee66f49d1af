"""Binds in a second: released at the gate and bound directly, beside the stock scheduler alone, in
turn on one rig.

The counts beside them are the API server's own: what a pod costs it, and that a ledger is written
once a cycle at most.
"""

import json
import statistics
import sys
from collections import Counter, defaultdict
from dataclasses import asdict

from bench.kubernetes.binds import Binds, Way, measure
from bench.kubernetes.rig import BenchPool, gated, plain
from bench.kubernetes.sizes import Sizes
from bench.rows import Row

LEAST = {("gate", True): 0.6, ("gate", False): 0.5, ("direct", True): 1.5, ("direct", False): 1.0}
"""Of the stock scheduler's rate, by way and whether the pods were there before."""


async def rows(pool: BenchPool, sizes: Sizes) -> list[Row]:
    """Figures and counts. The peers place on the same nodes, one after the other; ours has no
    policies beside them."""
    rates: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
    counted: Counter[str] = Counter()
    ours = {"gate": gated, "direct": lambda name: gated(name, direct=True)}
    for preloaded in (True, False):
        for _ in range(sizes.rounds):
            scheduler = {"kube-scheduler": pool.cluster.processes.running()["kube-scheduler"]}
            async with pool.without_policies():
                await _one(pool, sizes, Way("plain", plain, scheduler), preloaded, rates)
                await pool.clear()
            for name, made in ours.items():
                placers = {"controller": pool.pid, **(scheduler if name == "gate" else {})}
                asked, said = await pool.requests(), pool.counts()
                await _one(pool, sizes, Way(name, made, placers), preloaded, rates)
                counted += Counter(
                    {f"{name} {what}": n for what, n in (await pool.requests() - asked).items()}
                )
                counted += Counter(
                    {f"{name} {what}": n for what, n in (pool.counts() - said).items()}
                )
                await pool.clear()
    return [*_rates(rates, sizes), *_counts(counted, sizes)]


async def _one(
    pool: BenchPool,
    sizes: Sizes,
    way: Way,
    preloaded: bool,
    rates: defaultdict[tuple[str, bool], list[float]],
) -> Binds:
    found = await measure(pool.cluster, pool.api, way, sizes.pods, preloaded=preloaded)
    print(json.dumps(asdict(found)), file=sys.stderr, flush=True)
    rates[way.name, preloaded].append(found.bound_per_second)
    return found


def _rates(rates: dict[tuple[str, bool], list[float]], sizes: Sizes) -> list[Row]:
    found = []
    for (name, preloaded), least in LEAST.items():
        when = "pods there before" if preloaded else "while they are created"
        found.append(
            _row(
                f"{name}, {when}",
                rates[name, preloaded],
                "plain",
                rates["plain", preloaded],
                least,
                sizes,
            )
        )
    return found


def _row(
    what: str, ours: list[float], peer: str, theirs: list[float], least: float, sizes: Sizes
) -> Row:
    return Row(
        f"{what}, beside {peer}",
        "binds/s",
        statistics.median(ours),
        sizes.command,
        statistics.median(theirs) if theirs else None,
        peer,
        least_ratio=least,
        samples=tuple(ours),
        peer_samples=tuple(theirs),
    )


def _counts(counted: Counter[str], sizes: Sizes) -> list[Row]:
    """Per pod, over all rounds; every pod was placed by the first cycle that had its turn."""
    pods = 2 * sizes.rounds * sizes.pods
    found, command = [], sizes.command
    for name, write in (("gate", "PATCH pods"), ("direct", "POST pods/binding")):
        told, cycles = counted[f"{name} ledger_writes"], counted[f"{name} cycles"]
        found += [
            Row(
                f"{name}: {write} a pod",
                "",
                counted[f"{name} {write}"] / pods,
                sizes.command,
                limit=1.0,
            ),
            Row(
                f"{name}: PATCH pods/status a pod",
                "",
                counted[f"{name} PATCH pods/status"] / pods,
                command,
                limit=0,
            ),
            Row(f"{name}: writes of a ledger a pod", "", told / pods, sizes.command),
            Row(
                f"{name}: writes of ledgers a cycle",
                "",
                told / max(1, cycles),
                sizes.command,
                limit=sizes.nodes,
            ),
        ]
    return found
