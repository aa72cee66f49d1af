"""gpupool on a rig for a bench: installed as users install it, ledgers for many nodes, its
controller a process.

Ours and the peer stand on the same nodes: each has our resources and, under names that nobody's
policy knows, as much of the peer's, so that the same pods may ask for either.
"""

import asyncio
import contextlib
import copy
import os
import re
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.kubernetes.agents import Agents
from gpupool.base.errors import ServiceUnavailable
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import load_kubeconfig
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import Mode
from tests.support import kube_builders
from tests.support.claims import claim_port
from tests.support.cluster.api import RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.session import session_cluster
from tests.support.cluster_pool import ClusterPool, fresh

Object = dict[str, Any]
CARDS = 8
SLOTS = 512
PEER = "gpupool.test"
"""The group of the peer's names, where ours have `gpupool.dev`."""
PODS = "/api/v1/namespaces/default/pods"
WRITERS = 16
AHEAD = -12
"""Nice value of programs that go before others."""
SECONDS = 900.0
SHARE = kube_builders.asking(1, 100, 4 << 30)
"""A tenth of a card: 80 on a node."""
BINDINGS = "ValidatingAdmissionPolicyBinding"


class BenchPool:
    """One rig with gpupool on it. The client may do anything; the controller is what users run."""

    def __init__(self, cluster: Cluster, api: KubeApi, place: Path) -> None:
        self.cluster, self.api, self.pool = cluster, api, ClusterPool(cluster, place)
        self.agents = Agents(api)
        self.nodes: list[str] = []
        self.profiles: Path | None = None
        """Where profiles go, where some are wanted."""
        self._port = 0

    async def add_nodes(self, count: int, resources: Mapping[str, str] | None = None) -> None:
        """Nodes of eight cards with everything that ours and the peer's pods ask; up to so many in
        all."""
        peers = {name.replace(names.GROUP, PEER): amount for name, amount in _capacity().items()}
        has = {names.SLOT: str(SLOTS), **peers, **(resources or {})}
        made = await asyncio.to_thread(self.cluster.simulate_nodes, count, has, "bench")
        new = [name for name in made if name not in set(self.nodes)]
        await spread(new, self._adopt)
        self.nodes = made

    async def _adopt(self, name: str) -> None:
        node = await self.api.get(f"/api/v1/nodes/{name}")
        await self.api.create(ledger.NODES, ledger.new_ledger(name, node, Mode.SLOT))
        status = kube_builders.status(name, CARDS, slots=SLOTS)
        await self.api.patch(f"{ledger.NODES}/{name}/status", {"status": status})

    def start(self, *more: str) -> None:
        self._port = claim_port()
        self.pool.start("--listen", f"127.0.0.1:{self._port}", *more)

    def stop(self) -> None:
        """kill -9, so that a start after it finds what a crash leaves."""
        self.pool.kill()

    @property
    def pid(self) -> int:
        assert self.pool.controller is not None
        return self.pool.controller.pid

    def go_ahead(self) -> None:
        """Every program of the rig, and this one, is served before others of the machine. Needs
        root."""
        for pid in (os.getpid(), self.pid, *self.cluster.processes.running().values()):
            group = Path(f"/proc/{pid}/autogroup")
            if (
                group.exists()
            ):  # where sessions share the processor, a nice value counts within one alone
                group.write_text(str(AHEAD))
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.setpriority(os.PRIO_PROCESS, int(thread), AHEAD)

    def counts(self) -> Counter[str]:
        """The controller's own counters; empty before it leads."""
        found = re.findall(
            r"^gpupool_controller_(\w+?)(?:_total)? (\S+)$", self._metrics(), re.MULTILINE
        )
        return Counter({name: int(float(value)) for name, value in found})

    def wait_seconds(self) -> dict[str, float]:
        """By part what the controller says that released pods waited, summed over them."""
        line = r'^gpupool_controller_wait_seconds_total\{part="(\w+)"\} (\S+)$'
        return {
            part: float(value) for part, value in re.findall(line, self._metrics(), re.MULTILINE)
        }

    def _metrics(self) -> str:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}/metrics", timeout=10
            ) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    async def requests(self) -> Counter[str]:
        """What the API server has answered with success so far, as `VERB resource/subresource`."""
        text = (await asyncio.to_thread(self.pool.admin.text, "/metrics")).splitlines()
        found: Counter[str] = Counter()
        for line in text:
            if line.startswith("apiserver_request_total{") and 'code="2' in line:
                said = dict(re.findall(r'(\w+)="([^"]*)"', line))
                what = "/".join(part for part in (said["resource"], said["subresource"]) if part)
                found[f"{said['verb']} {what}"] += int(float(line.rsplit(" ", 1)[1]))
        return found

    async def capacities_told(self) -> None:
        """Every node says what it has of ours."""

        async def told() -> bool:
            items, _ = await self.api.list_objects("/api/v1/nodes")
            say = {
                item["metadata"]["name"]
                for item in items
                if names.GPU_MILLI in item["status"]["allocatable"]
            }
            return say >= set(self.nodes)

        await until(told, "nodes that say what they have", every=0.5)

    async def clear(self) -> None:
        """No pod, and no entry in a ledger: the simulated agents say that the cards are free."""
        running = asyncio.create_task(self.agents.run())
        try:
            await emptied(self.api)
            await until(self._nothing_held, "empty ledgers", every=0.2)
            assert not running.done(), f"the agents ended: {running}"
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _nothing_held(self) -> bool:
        assert self.pool.running, self.pool.log()
        items, _ = await self.api.list_objects(ledger.NODES)
        return not any(item["spec"].get("allocations") for item in items)

    @asynccontextmanager
    async def without_policies(self) -> AsyncIterator[None]:
        """The API server enforces nothing of ours: what the peer alone would find."""
        ours = [made for made in install.objects() if made["kind"] == BINDINGS]
        for made in ours:
            self.pool.admin.delete(install.path_of(made))
        await until(self._asker_passes, "policies that are gone")
        try:
            yield
        finally:
            for made in ours:
                self.pool.admin.apply(install.path_of(made), made)
            await until(lambda: _not(self._asker_passes), "policies that are in force")

    async def _asker_passes(self) -> bool:
        """Whether a pod that asks for cards and did not go through admission is let in."""
        bare = gated("asker")
        del bare["spec"]["schedulingGates"]
        try:
            await asyncio.to_thread(self.pool.admin.create, f"{PODS}?dryRun=All", bare)
        except RefusedError as refusal:
            if "GP-2032" in refusal.body:
                return False
            raise
        return True


async def _not(one: Callable[[], Awaitable[bool]]) -> bool:
    return not await one()


@asynccontextmanager
async def bench_pool() -> AsyncIterator[BenchPool]:
    """A rig of its own, down at the end."""
    with (
        session_cluster(lambda line: print(line, file=sys.stderr)) as cluster,
        tempfile.TemporaryDirectory() as place,
    ):
        async with on(cluster, Path(place)) as made:
            yield made


@asynccontextmanager
async def on(cluster: Cluster, place: Path) -> AsyncIterator[BenchPool]:
    """On a cluster that is there."""
    async with KubeApi(load_kubeconfig(cluster.kubeconfig), WRITERS + 8) as api:
        made = BenchPool(cluster, api, place)
        made.pool.install()
        made.pool.forget_ledgers()
        try:
            yield made
        finally:
            made.pool.end_webhook()
            if made.pool.controller is not None and made.pool.running:
                made.pool.kill()
            made.pool.admin.close()


# --- pods -------------------------------------------------------------------------------------


def gated(name: str, containers: Mapping[str, Any] | None = None, **more: Any) -> Object:
    """As admission leaves a pod that asks for a tenth of a card, or for what is given."""
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        **more.pop("spec", {}),
    }
    return fresh(kube_builders.pod(name, dict(containers or {"main": SHARE}), spec=spec, **more))


def plain(name: str) -> Object:
    """The same pod for the stock scheduler alone: no gate, and the peer's names."""
    made = copy.deepcopy(gated(name))
    del made["spec"]["schedulingGates"]
    meta, container = made["metadata"], made["spec"]["containers"][0]
    for part in ("labels", "annotations"):
        meta[part] = _renamed(meta[part])
    container["resources"]["limits"] = _renamed(container["resources"]["limits"])
    return made


def _renamed(words: Mapping[str, str]) -> dict[str, str]:
    return {key.replace(names.GROUP, PEER): value for key, value in words.items()}


def _capacity() -> dict[str, str]:
    sums = {names.GPU_MILLI: CARDS * 1000, names.MEMORY: CARDS * kube_builders.L40S_BYTES}
    return {names.SLOT: str(SLOTS), **{name: str(amount) for name, amount in sums.items()}}


# --- small things -----------------------------------------------------------------------------


async def told_of_pods(api: KubeApi, version: str) -> AsyncIterator[tuple[str, Object]]:
    """Changes since that version, without end: the server ends the watch of a client that reads
    more slowly than things happen, and that goes on where it was."""
    while True:
        async for kind, found in api.watch_changes(PODS, version):
            version = found["metadata"]["resourceVersion"]
            yield kind, found


async def emptied(api: KubeApi) -> None:
    """Delete until none is left: a collection's deletion may leave some out."""
    while (await api.get(PODS, limit="1"))["items"]:
        with contextlib.suppress(
            ServiceUnavailable
        ):  # it goes on with many pods after its client has given up
            await api.delete(f"{PODS}?gracePeriodSeconds=0")


async def spread(things: Iterable[Any], act: Callable[[Any], Awaitable[object]]) -> None:
    """Act on each, some at a time."""
    left = iter(things)

    async def worker() -> None:
        for one in left:
            await act(one)

    async with asyncio.TaskGroup() as workers:
        for _ in range(WRITERS):
            workers.create_task(worker())


async def until(condition: Callable[[], Awaitable[bool]], what: str, every: float = 0.05) -> None:
    """Raises TimeoutError naming what never came."""
    deadline = time.monotonic() + SECONDS
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {SECONDS:.0f} s still no {what}")
        await asyncio.sleep(every)  # between two looks from outside


def resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Processor seconds of each process so far."""
    tick = os.sysconf("SC_CLK_TCK")
    fields: dict[str, Sequence[str]] = {
        name: Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        for name, pid in pids.items()
    }
    return {name: (int(of[11]) + int(of[12])) / tick for name, of in fields.items()}
