"""Binds in a second beside HAMi's scheduler extender, the same shares on the same nodes, one after
the other."""

import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.hami_peer import PeerMissingError
from bench.kubernetes import hami_extender
from bench.kubernetes.binds import Way, measure
from bench.kubernetes.rig import BenchPool, gated
from bench.kubernetes.sizes import Sizes
from bench.rows import Row

TIMES = 10.0


async def rows(pool: BenchPool, sizes: Sizes) -> list[Row]:
    """Preloaded. Where there is no HAMi to compare with, the error is the row's note, and is
    printed."""
    scheduler = pool.cluster.processes.running()["kube-scheduler"]
    way = Way("gate", gated, {"kube-scheduler": scheduler, "controller": pool.pid})
    ours = await _rate(pool, way, sizes.hami_pods)
    await pool.clear()
    theirs, note = None, ""
    try:
        with tempfile.TemporaryDirectory() as folder:
            theirs = await _theirs(
                pool, await asyncio.to_thread(hami_extender.found, Path(folder)), sizes.hami_pods
            )
    except PeerMissingError as missing:
        note = f"no HAMi to compare with: {missing}"
        print(note, file=sys.stderr)
    what = f"gate, {sizes.hami_pods} pods there before, beside HAMi's extender"
    return [Row(what, "binds/s", ours, sizes.command, theirs, "HAMi", least_ratio=TIMES, note=note)]


async def _theirs(pool: BenchPool, program: Path, pods: int) -> float:
    async with pool.without_policies():
        await hami_extender.prepare(pool)
        placers = await asyncio.to_thread(hami_extender.start, pool.cluster, program)
        plugins = asyncio.create_task(hami_extender.Plugins(pool).run())
        try:
            return await _rate(pool, Way("hami", hami_extender.pod, placers), pods)
        finally:
            plugins.cancel()
            await asyncio.gather(plugins, return_exceptions=True)


async def _rate(pool: BenchPool, way: Way, pods: int) -> float:
    found = await measure(pool.cluster, pool.api, way, pods, preloaded=True)
    print(json.dumps(asdict(found)), file=sys.stderr, flush=True)
    return found.bound_per_second
