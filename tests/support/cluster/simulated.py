"""Nodes without a machine: objects that are Ready and stay so, in any number."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.waiting import wait_until

LABEL = "gpupool.test/simulated"
WRITERS = 8
CONFLICT = 409
CAPACITY = {"cpu": "1000", "memory": "4Ti", "pods": "10000", "ephemeral-storage": "10Ti"}
CONDITIONS = {
    "Ready": "True",
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
}
INFO_KEYS = (
    "kubeletVersion",
    "kubeProxyVersion",
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
)


def simulate_nodes(
    api: Api, count: int, resources: Mapping[str, str], prefix: str = "sim"
) -> list[str]:
    """Make the nodes that are missing of `count`, and wait until pods can be placed on all of them.

    Returns their names. They stay Ready because the controller manager waits a day before it doubts a silent node; a
    test plays a failure by a status patch.
    """
    names = [f"{prefix}-{number:05d}" for number in range(count)]
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda part: _make(api.another(), part, resources), _parts(names)))
    _await_schedulable(api, set(names), limit_seconds=60 + count / 10)
    return names


def _parts(names: list[str]) -> list[list[str]]:
    return [names[first::WRITERS] for first in range(WRITERS)]


def _make(api: Api, names: Iterable[str], resources: Mapping[str, str]) -> None:
    for name in names:
        try:
            api.create("/api/v1/nodes", node_object(name, resources))
        except RefusedError as refusal:
            if refusal.status != CONFLICT:
                raise
    api.close()


def node_object(name: str, resources: Mapping[str, str]) -> Object:
    capacity = {**CAPACITY, **resources}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    info = {
        **dict.fromkeys(INFO_KEYS, "simulated"),
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
    conditions = [
        {"type": kind, "status": status, "reason": "Simulated"}
        for kind, status in CONDITIONS.items()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, LABEL: "true"}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "nodeInfo": info,
            "conditions": conditions,
        },
    }


def _await_schedulable(api: Api, names: set[str], limit_seconds: float) -> None:
    """A new node is tainted until the controller manager has seen that it is Ready."""

    def words() -> str:
        waiting = names - _untainted(api)
        return f"{len(waiting)} of {len(names)} simulated nodes stay tainted, {min(waiting, default='none')} first"

    wait_until(lambda: names <= _untainted(api), limit_seconds, words)


def _untainted(api: Api) -> set[str]:
    nodes = api.get(f"/api/v1/nodes?labelSelector={LABEL}")["items"]
    return {node["metadata"]["name"] for node in nodes if not node["spec"].get("taints")}
