"""What admission costs who creates a pod: by our webhook, and by the API server's own policy,
beside no asking.

One at a time and in turn, as dry runs: nothing is stored, so what is compared is the way to the
answer.
"""

import statistics
import time
from typing import Any

from bench.kubernetes.rig import PODS, BenchPool, gated, until
from bench.kubernetes.sizes import Sizes
from bench.rows import Row
from gpupool.base.errors import GpupoolError
from gpupool.kubernetes.resources import names

TWICE = 2.0
ASKED = {names.GPU_MILLI: "100", names.MEMORY: "4Gi"}
UNTOUCHED = {"cpu": "100m", "memory": "64Mi"}
DRY = f"{PODS}?dryRun=All"
Object = dict[str, Any]


async def rows(pool: BenchPool, sizes: Sizes) -> list[Row]:
    """The policy is measured with no webhook answering, so that nobody else can have done it."""

    async def admitted() -> bool:
        try:
            found = await pool.api.create(DRY, _pod("asks", ASKED))
        except GpupoolError:
            return False
        return any(
            gate["name"] == names.GATE for gate in found["spec"].get("schedulingGates") or ()
        )

    pool.pool.start_webhook()
    await until(admitted, "admission by the webhook")
    found = [await _compared(pool, sizes, "webhook")]
    pool.pool.install_native()
    pool.pool.kill_webhook()
    try:
        await until(admitted, "admission by the policy")
        return [*found, await _compared(pool, sizes, "policy")]
    finally:
        pool.pool.uninstall_native()


async def _compared(pool: BenchPool, sizes: Sizes, by: str) -> Row:
    took: dict[str, list[float]] = {"asks": [], "untouched": []}
    pods = {"asks": _pod("asks", ASKED), "untouched": _pod("untouched", UNTOUCHED)}
    for _ in range(sizes.asks):
        for name, made in pods.items():
            began = time.perf_counter()
            await pool.api.create(DRY, made)
            took[name].append(1e3 * (time.perf_counter() - began))
    return Row(
        f"admission by the {by}, p50",
        "ms",
        statistics.median(took["asks"]),
        sizes.command,
        statistics.median(took["untouched"]),
        "a pod that asks for no cards",
        limit_ratio=TWICE,
        samples=tuple(took["asks"]),
        peer_samples=tuple(took["untouched"]),
    )


def _pod(name: str, limits: Object) -> Object:
    """As a tenant writes it, without anything of ours but what it asks."""
    made = gated(name)
    del made["spec"]["schedulingGates"], made["metadata"]["labels"], made["metadata"]["annotations"]
    made["spec"]["containers"][0]["resources"] = {"limits": limits}
    return made
