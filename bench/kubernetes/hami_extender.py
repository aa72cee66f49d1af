"""HAMi's scheduler, beside which our rate is measured: its extender and a stock scheduler that asks
it.

It is built by `go install` from its module, at the commit below, or named by
GPUPOOL_BENCH_HAMI_SCHEDULER (a clone's `CGO_ENABLED=1 go build ./cmd/scheduler`). Annotations,
flags and the scheduler's configuration are those of its chart (charts/hami, pkg/device/nvidia).
Where a bound pod has its cards, its device plugin notes success on the pod and takes the lock from
the node: that is done here at once, since the nodes are simulated.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.hami_peer import PeerMissingError
from bench.kubernetes.rig import CARDS, PODS, BenchPool, spread
from gpupool.base.errors import ApiServerRejection
from tests.support.claims import claim_port
from tests.support.cluster.api import is_healthy
from tests.support.cluster.build import find_go
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.control import SCHEDULER_QPS
from tests.support.cluster.directory import ClusterError
from tests.support.cluster.images import SHELL
from tests.support.cluster.processes import Program

VARIABLE = "GPUPOOL_BENCH_HAMI_SCHEDULER"
PACKAGE = "github.com/Project-HAMi/HAMi/cmd/scheduler"
COMMIT = "4707fb02c91c545bc7343ce26dba4c32919f9a3e"
BUILD_SECONDS = 900
NAME = "hami-scheduler"
LOCK, PHASE = "hami.io/mutex.lock", "hami.io/bind-phase"
SHARES, MEMORY_MIB = 10, 48 << 10
RESOURCES = {
    f"nvidia.com/{name}": True
    for name in ("gpu", "gpumem", "gpucores", "gpumem-percentage", "priority")
}
DEVICES = """nvidia:
  resourceCountName: nvidia.com/gpu
  resourceMemoryName: nvidia.com/gpumem
  resourceMemoryPercentageName: nvidia.com/gpumem-percentage
  resourceCoreName: nvidia.com/gpucores
  resourcePriorityName: nvidia.com/priority
  defaultGPUNum: 1
  memoryFactor: 1
  deviceSplitCount: 10
  deviceMemoryScaling: 1
  deviceCoreScaling: 1
"""
Object = dict[str, Any]


def found(folder: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The extender's program, built into the folder where nobody names one. Raises PeerMissingError
    with the error."""
    if named := environment.get(VARIABLE):
        return Path(named).absolute()
    try:
        command = [find_go(), "install", f"{PACKAGE}@{COMMIT}"]
    except ClusterError as error:
        raise PeerMissingError(str(error)) from error
    around = {**environment, "GOBIN": str(folder.absolute()), "CGO_ENABLED": "1"}
    made = subprocess.run(
        command, env=around, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
    if made.returncode != 0:
        raise PeerMissingError(
            f"`go install {PACKAGE}@{COMMIT[:12]}`: {' '.join(made.stderr.split())[-400:]}"
        )
    return folder / "scheduler"


def pod(name: str) -> Object:
    """A tenth of a card, as its webhook leaves it."""
    limits = {
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem": str(MEMORY_MIB // 12),
        "nvidia.com/gpucores": "10",
    }
    spec = {
        "schedulerName": NAME,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": SHELL.name, "resources": {"limits": limits}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def prepare(pool: BenchPool) -> None:
    """Its device plugin's word about every node."""
    amounts = {"nvidia.com/gpu": str(CARDS * SHARES)}

    async def register(name: str) -> None:
        cards = [
            {
                "id": f"GPU-{name}-{n}",
                "index": n,
                "count": SHARES,
                "devmem": MEMORY_MIB,
                "devcore": 100,
            }
            | {"type": "NVIDIA-L40S", "mode": "hami-core", "health": True}
            for n in range(CARDS)
        ]
        notes = {
            "hami.io/node-nvidia-register": json.dumps(cards),
            "hami.io/node-handshake": "Reported",
        }
        await pool.api.patch(
            f"/api/v1/nodes/{name}", {"metadata": {"annotations": notes, "labels": {"gpu": "on"}}}
        )
        await pool.api.patch(
            f"/api/v1/nodes/{name}/status",
            {"status": {"capacity": amounts, "allocatable": amounts}},
        )

    await spread(pool.nodes, register)


def start(cluster: Cluster, program: Path) -> dict[str, int]:
    """Both programs' numbers. They end with the rig."""
    place, port, metrics, serving = cluster.directory.path, claim_port(), claim_port(), claim_port()
    devices, configuration = place / "hami-devices.yaml", place / "hami-scheduler.json"
    devices.write_text(DEVICES)
    configuration.write_text(json.dumps(_configuration(cluster, port)))
    extender = [
        program,
        f"--http_bind=127.0.0.1:{port}",
        f"--metrics-bind-address=127.0.0.1:{metrics}",
    ]
    extender += [
        f"--scheduler-name={NAME}",
        f"--device-config-file={devices}",
        "--leader-elect=false",
    ]
    extender += [f"--kube-qps={SCHEDULER_QPS}", f"--kube-burst={2 * SCHEDULER_QPS}"]
    around = {"KUBECONFIG": str(cluster.kubeconfig), "POD_NAME": "hami", "POD_NAMESPACE": "default"}
    scheduler = [cluster.program("kube-scheduler"), f"--config={configuration}"]
    scheduler += [
        f"--{what}-kubeconfig={cluster.kubeconfig}" for what in ("authentication", "authorization")
    ]
    scheduler += ["--bind-address=127.0.0.1", f"--secure-port={serving}"]
    ready = lambda: is_healthy("127.0.0.1", port, "/readyz", tls=False)  # noqa: E731
    cluster.processes.run(Program("hami-extender", extender, ready, around))
    up = lambda: is_healthy("127.0.0.1", serving, "/readyz", tls=True)  # noqa: E731
    cluster.processes.run(Program(NAME, scheduler, up))
    running = cluster.processes.running()
    return {name: running[name] for name in ("hami-extender", NAME)}


def _configuration(cluster: Cluster, port: int) -> Object:
    client = {
        "kubeconfig": str(cluster.kubeconfig),
        "qps": SCHEDULER_QPS,
        "burst": 2 * SCHEDULER_QPS,
    }
    extender = {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "weight": 1,
        "httpTimeout": "30s",
        "managedResources": [
            {"name": name, "ignoredByScheduler": ignored} for name, ignored in RESOURCES.items()
        ],
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": client,
        "profiles": [{"schedulerName": NAME}],
        "extenders": [extender],
    }


class Plugins:
    """What the device plugin of each node does for a pod that is bound there."""

    def __init__(self, pool: BenchPool) -> None:
        self._pool, self.done = pool, 0

    async def run(self) -> None:
        """Until it is cancelled."""
        version = (await self._pool.api.get(PODS, limit="1"))["metadata"]["resourceVersion"]
        async with asyncio.TaskGroup() as tasks:
            async for _, found in self._pool.api.watch_changes(PODS, version):
                notes = found["metadata"].get("annotations") or {}
                if found.get("spec", {}).get("nodeName") and notes.get(PHASE) == "allocating":
                    tasks.create_task(self._allocate(found))

    async def _allocate(self, pod: Object) -> None:
        meta = pod["metadata"]
        try:
            await self._pool.api.patch(
                f"{PODS}/{meta['name']}", {"metadata": {"annotations": {PHASE: "success"}}}
            )
            unlocked = {"metadata": {"annotations": {LOCK: None}}}
            await self._pool.api.patch(f"/api/v1/nodes/{pod['spec']['nodeName']}", unlocked)
        except ApiServerRejection as refusal:
            if not refusal.is_not_found:
                raise
        self.done += 1
