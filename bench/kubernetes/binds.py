"""Pods that the stock scheduler binds in a second: what placing on Kubernetes is compared with.

    python -m bench.kubernetes.binds --nodes 1000 --pods 2000

Preloaded: the pods are there before the scheduler is let go, so that the rate is that of placing alone. Otherwise they
are created while they are placed, with a fixed number of requests in flight.
"""

import argparse
import asyncio
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.control import CONTROL_PLANE
from tests.support.cluster.pods import pod
from tests.support.cluster.session import session_cluster

RESOURCE = "gpupool.test/share"
CREATORS = 16
PODS = "/api/v1/namespaces/default/pods"
LIMIT_SECONDS = 600


@dataclass(frozen=True)
class Binds:
    """One measurement. Waits are from the later of a pod's creation and the scheduler's start to its binding."""

    nodes: int
    pods: int
    preloaded: bool
    created_per_second: float
    bound_per_second: float
    wait_p50_ms: float
    wait_p99_ms: float
    nodes_used: int
    cpu_seconds: Mapping[str, float]


async def measure(cluster: Cluster, nodes: int, pods: int, *, preloaded: bool) -> Binds:
    """Create the pods, wait until every one is bound, delete them. The namespace is empty before and after."""
    async with _session(cluster) as http:
        seen = asyncio.create_task(_bindings(http, await _version(http), pods))
        with _Stopped(cluster, "kube-scheduler", preloaded) as scheduler:
            began, before = time.perf_counter(), _cpu(cluster)
            created = await _create(http, pods)
            made = time.perf_counter()
            if preloaded:
                began, before = made, _cpu(cluster)
                scheduler.go_on()
            bound = await asyncio.wait_for(seen, LIMIT_SECONDS)
        used = {name: spent - before[name] for name, spent in _cpu(cluster).items()}
        await _clear(http)
    waits = sorted(when - max(created[name], began) for name, (when, _) in bound.items())
    last = max(when for when, _ in bound.values())
    return Binds(
        nodes=nodes,
        pods=pods,
        preloaded=preloaded,
        created_per_second=pods / (made - min(created.values())),
        bound_per_second=pods / (last - began),
        wait_p50_ms=1e3 * waits[len(waits) // 2],
        wait_p99_ms=1e3 * waits[len(waits) * 99 // 100],
        nodes_used=len({node for _, node in bound.values()}),
        cpu_seconds=used,
    )


class _Stopped:
    """A program that stands still, if asked, and surely goes on afterwards."""

    def __init__(self, cluster: Cluster, name: str, stop: bool) -> None:
        pid = cluster.processes.pid(name)
        if pid is None:
            raise RuntimeError(f"{name} does not run")
        self._pid = pid
        if stop:
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def __enter__(self) -> "_Stopped":
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()


@asynccontextmanager
async def _session(cluster: Cluster) -> AsyncIterator[aiohttp.ClientSession]:
    pair = cluster.authority.issue("admin", "admin", "system:masters")
    tls = ssl.create_default_context(cafile=str(cluster.authority.root.certificate))
    tls.load_cert_chain(pair.certificate, pair.key)
    connector = aiohttp.TCPConnector(limit=CREATORS + 2, ssl=tls)
    base = f"https://127.0.0.1:{cluster.directory.port('api')}"
    async with aiohttp.ClientSession(base, connector=connector, raise_for_status=True) as http:
        yield http


async def _create(http: aiohttp.ClientSession, pods: int) -> dict[str, float]:
    """When each pod was asked for."""
    numbers, created = iter(range(pods)), dict[str, float]()

    async def creator() -> None:
        for number in numbers:
            name = f"p-{number:06d}"
            created[name] = time.perf_counter()
            async with http.post(PODS, json=pod(name, limits={RESOURCE: "1"})) as answer:
                await answer.read()

    async with asyncio.TaskGroup() as creators:
        for _ in range(CREATORS):
            creators.create_task(creator())
    return created


async def _bindings(http: aiohttp.ClientSession, version: str, pods: int) -> dict[str, tuple[float, str]]:
    """When, and to which node, each pod was bound, as the API server told it."""
    bound: dict[str, tuple[float, str]] = {}
    async for event in _events(http, version):
        found = event["object"]
        if found["spec"].get("nodeName"):
            bound.setdefault(found["metadata"]["name"], (time.perf_counter(), found["spec"]["nodeName"]))
        if len(bound) == pods:
            break
    return bound


async def _events(http: aiohttp.ClientSession, version: str) -> AsyncIterator[dict[str, Any]]:
    path = f"{PODS}?watch=1&resourceVersion={version}"
    async with http.get(path, timeout=aiohttp.ClientTimeout(total=None), read_bufsize=1 << 20) as answer:
        async for line in answer.content:
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise RuntimeError(f"the watch ended: {event['object']}")
            yield event


async def _version(http: aiohttp.ClientSession) -> str:
    await _clear(http)
    async with http.get(f"{PODS}?limit=1") as answer:
        return str((await answer.json())["metadata"]["resourceVersion"])


async def _clear(http: aiohttp.ClientSession) -> None:
    """Delete until none is left: a collection's deletion may leave some out."""
    while True:
        async with http.delete(f"{PODS}?gracePeriodSeconds=0") as answer:
            await answer.read()
        async with http.get(f"{PODS}?limit=1") as answer:
            if not (await answer.json())["items"]:
                return


def _cpu(cluster: Cluster) -> dict[str, float]:
    """Processor seconds of each program of the control plane so far."""
    tick, running = os.sysconf("SC_CLK_TCK"), cluster.processes.running()
    texts = {name: Path(f"/proc/{running[name]}/stat").read_text() for name in CONTROL_PLANE}
    fields = {name: text.rsplit(") ", 1)[1].split() for name, text in texts.items()}
    return {name: (int(of[11]) + int(of[12])) / tick for name, of in fields.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kubernetes.binds", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=2000)
    arguments = parser.parse_args()
    with session_cluster(lambda line: print(line, file=sys.stderr)) as cluster:
        cluster.simulate_nodes(arguments.nodes, {RESOURCE: "80"})
        for preloaded in (True, False):
            figures = asyncio.run(measure(cluster, arguments.nodes, arguments.pods, preloaded=preloaded))
            print(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()
