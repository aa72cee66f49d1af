"""Where a pod's wait and its cost go, at an ordinary rate of arrivals: a turn of each way, looked
into.

Told are the parts of the wait, the controller's own parts of it, and what was asked of the API
server for a pod by verb and resource. With `--profiles FOLDER` both programs are profiled
meanwhile: `go tool pprof` reads the API server's, the controller's are stacks with their counts, by
`py-spy` where that is installed. Profiling itself takes processor time, so costs are measured by
`waits` and not here.
"""

import asyncio
import json
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from bench.kubernetes.binds import Binds, Way, measure
from bench.kubernetes.rig import BenchPool, plain
from bench.kubernetes.sizes import Sizes
from bench.kubernetes.waits import WAYS
from bench.rows import Row

SAMPLES_A_SECOND = 200
WORK = {
    "connections": ("http_connection.py", "http_pool.py"),
    "plans": ("Controller._make_plan",),
    "ledgers": ("LedgerWriter.write_plan", "LedgerWriter._swap_entries"),
    "releases": ("GateRemoval.",),
    "events": ("EventWriter.",),
    "reasons": ("PodConditions.",),
    "watches": ("watch_objects (", "KubeApi.watch_changes"),
}
"""Kinds of the controller's work, each by a frame of its stacks; the first that fits counts."""
IDLE = ("EpollSelector.select", "_worker (concurrent", "Condition.wait (threading")


async def rows(pool: BenchPool, sizes: Sizes) -> list[Row]:
    """A row for each part and each request that a pod takes."""
    scheduler = {"kube-scheduler": pool.cluster.processes.running()["kube-scheduler"]}
    async with pool.without_policies():
        found = await _looked_into(pool, sizes, Way("plain", plain, scheduler))
        await pool.clear()
    for name, made in WAYS.items():
        found += await _looked_into(
            pool, sizes, Way(name, made, {**scheduler, "controller": pool.pid})
        )
        await pool.clear()
    return found


async def _looked_into(pool: BenchPool, sizes: Sizes, way: Way) -> list[Row]:
    asked, waited, counted = await pool.requests(), pool.wait_seconds(), pool.counts()
    async with _profiled(pool, way, sizes.pods / sizes.arrivals):
        made = await measure(pool.cluster, pool.api, way, sizes.pods, per_second=sizes.arrivals)
    asked, waited = await pool.requests() - asked, _since(waited, pool.wait_seconds())
    counted = pool.counts() - counted
    print(
        json.dumps({"way": way.name, "parts_ms": made.parts_ms, "cpu": made.cpu_seconds}),
        file=sys.stderr,
    )
    cycles = Row(f"{made.way}: cycles a pod", "", counted["cycles"] / made.pods, sizes.command)
    return [
        *_waits(made, waited, sizes),
        *_requests(made, asked, sizes),
        cycles,
        *_work(made, pool.profiles, sizes),
    ]


def _since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    return {part: spent - before.get(part, 0.0) for part, spent in now.items()}


def _waits(made: Binds, waited: Mapping[str, float], sizes: Sizes) -> list[Row]:
    outside = [
        Row(f"{made.way}: {part}, p50", "ms", spent, sizes.command)
        for part, spent in made.parts_ms.items()
    ]
    inside = [
        Row(f"{made.way}: controller, {part}, mean", "ms", 1e3 * spent / made.pods, sizes.command)
        for part, spent in sorted(waited.items())
    ]
    return [*outside, *(inside if made.way != "plain" else ())]


def _requests(made: Binds, asked: Counter[str], sizes: Sizes) -> list[Row]:
    """Those that are made for pods: what comes once a second or less is nobody's."""
    often = [
        (what, n)
        for what, n in asked.most_common()
        if n * 20 >= made.pods and not what.startswith("WATCH")
    ]
    return [Row(f"{made.way}: {what} a pod", "", n / made.pods, sizes.command) for what, n in often]


def _work(made: Binds, profiles: Path | None, sizes: Sizes) -> list[Row]:
    """The controller's time by kind of work: its processor time, divided as its stacks are."""
    file = None if profiles is None else profiles / f"{made.way}.controller.stacks"
    spent = made.cpu_seconds.get("controller")
    if file is None or spent is None or not file.exists():
        return []
    samples = by_work(file.read_text())
    each = 1e3 * spent / made.pods / max(1, samples.total())
    return [
        Row(f"{made.way}: controller, {kind} a pod", "ms", each * n, sizes.command)
        for kind, n in samples.items()
    ]


def by_work(stacks: str) -> Counter[str]:
    """Samples by kind of work, of lines `frame;frame;frame COUNT`, outermost frame first."""
    found: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        if any(part in stack.rpartition(";")[2] for part in IDLE):
            continue
        kinds = (kind for kind, parts in WORK.items() if any(part in stack for part in parts))
        found[next(kinds, "rest")] += int(count)
    return found


@asynccontextmanager
async def _profiled(pool: BenchPool, way: Way, seconds: float) -> AsyncIterator[None]:
    """Both programs, while the pods come."""
    if pool.profiles is None:
        yield
        return
    pool.profiles.mkdir(parents=True, exist_ok=True)
    server = asyncio.create_task(
        _profile_server(pool, pool.profiles / f"{way.name}.apiserver.pprof", seconds)
    )
    controller = await _profile_controller(
        pool, pool.profiles / f"{way.name}.controller.stacks", seconds
    )
    try:
        yield
    finally:
        await server
        if controller is not None:
            await controller.wait()


async def _profile_server(pool: BenchPool, file: Path, seconds: float) -> None:
    client = pool.pool.admin.another()
    path = f"/debug/pprof/profile?seconds={max(1, int(seconds))}"
    file.write_bytes(await asyncio.to_thread(client.download, path))
    client.close()


async def _profile_controller(
    pool: BenchPool, file: Path, seconds: float
) -> asyncio.subprocess.Process | None:
    if (program := shutil.which("py-spy")) is None:
        print("py-spy is not installed: the controller is not profiled", file=sys.stderr)
        return None
    words = [
        "record",
        "--pid",
        str(pool.pid),
        "--duration",
        str(max(1, int(seconds))),
        "--format",
        "raw",
    ]
    words += ["--rate", str(SAMPLES_A_SECOND), "--output", str(file)]
    quiet = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(program, *words, stdout=quiet, stderr=quiet)
