"""What admission costs who creates a pod: through our webhook, and by the API server's own policy, beside no asking.

One at a time and in turn, as dry runs: nothing is stored, so what is compared is the way to the answer.
"""

import statistics
import time
from collections import defaultdict
from typing import Any

from bench.kubernetes.rig import PODS, BenchPool, gated
from bench.kubernetes.sizes import Sizes
from bench.rows import Row
from gpupool.kubernetes import names
from tests.support.kube_builders import L40S_BYTES

TWICE = 2.0
ASKED = {names.GPU_MILLI: "100", names.MEMORY: str(L40S_BYTES // 12)}
Object = dict[str, Any]


async def rows(pool: BenchPool, sizes: Sizes) -> list[Row]:
    ways = {"webhook": _asking("webhook", foreign=True), "policy": _asking("policy", foreign=False)}
    pool.pool.start_webhook()
    took: defaultdict[str, list[float]] = defaultdict(list)
    for name, made in ways.items():
        await _until_admitted(pool, name, made)
    for _ in range(sizes.asks):
        for name, made in {"untouched": _untouched(), **ways}.items():
            began = time.perf_counter()
            await pool.api.create(f"{PODS}?dryRun=All", made)
            took[name].append(1e3 * (time.perf_counter() - began))
    return [
        Row(
            f"admission by the {name}, p50",
            "ms",
            statistics.median(took[name]),
            sizes.command,
            statistics.median(took["untouched"]),
            "a pod that asks nothing",
            limit_ratio=TWICE,
            samples=tuple(took[name]),
            peer_samples=tuple(took["untouched"]),
        )
        for name in ways
    ]


async def _until_admitted(pool: BenchPool, name: str, made: Object) -> None:
    found = await pool.api.create(f"{PODS}?dryRun=All", made)
    if not any(gate["name"] == names.GATE for gate in found["spec"].get("schedulingGates") or ()):
        raise RuntimeError(f"a pod that asks by the {name} got no gate")


def _untouched() -> Object:
    """The pod without anything of ours."""
    made = gated("untouched")
    del made["spec"]["schedulingGates"], made["metadata"]["labels"], made["metadata"]["annotations"]
    made["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "100m", "memory": "64Mi"}}
    return made


def _asking(name: str, *, foreign: bool) -> Object:
    """As a tenant writes it; a policy admits our own words, the webhook whatever it leaves."""
    made = _untouched()
    made["metadata"]["name"] = name
    made["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"} if foreign else ASKED}
    return made
