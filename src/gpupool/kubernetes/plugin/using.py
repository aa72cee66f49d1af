"""What containers use of their cards, asked of the nodes' agents: their metrics, by the API server's way to pods.

So nothing is written while nobody looks. Whoever asks needs `get` of `pods/proxy` in gpupool's namespace; without that,
and of agents that do not answer, it is unknown and nothing else fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from gpupool.base.errors import GpupoolError
from gpupool.kubernetes.plugin.context import Context
from gpupool.kubernetes.together import together

AGENTS = "app.kubernetes.io/component=agent"
PORT = "metrics"
_MEMORY, _TIME = "gpupool_container_memory_used_bytes", "gpupool_container_gpu_seconds_total"
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Use:
    """One container's, over all its cards. None is unknown."""

    memory_bytes: int | None = None
    gpu_seconds: float | None = None


async def uses(context: Context, nodes: Collection[str]) -> tuple[Mapping[Key, Use], str]:
    """By (namespace, pod, container) what is used on these nodes; and why something is unknown, if it is."""
    agents = await context.items(f"/api/v1/namespaces/{context.namespace}/pods", labelSelector=AGENTS)
    doors = {pod["spec"].get("nodeName", ""): door for pod in agents if (door := _door(pod))}
    asked = [doors[node] for node in sorted(nodes) if node in doors]
    answers = await together([_ask(context, door) for door in asked])
    found = {key: use for text, _ in answers for key, use in read(text).items()}
    silent = [f"no agent that tells is on node {node}" for node in sorted(nodes) if node not in doors]
    return found, next((why for why in (*(why for _, why in answers), *silent) if why), "")


def read(text: str) -> dict[Key, Use]:
    """What an agent's metrics say."""
    memory: defaultdict[Key, float] = defaultdict(float)
    seconds: defaultdict[Key, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in (_MEMORY, _TIME):
                key = sample.labels["namespace"], sample.labels["pod"], sample.labels["container"]
                (memory if sample.name == _MEMORY else seconds)[key] += sample.value
    return {
        key: Use(int(memory[key]) if key in memory else None, seconds.get(key))
        for key in memory.keys() | seconds.keys()
    }


def _door(pod: Mapping[str, Any]) -> str:
    """Where the pod's metrics are asked for; empty where it has none, or does not run."""
    ports = (port for one in pod["spec"]["containers"] for port in one.get("ports") or () if port.get("name") == PORT)
    number = next((port["containerPort"] for port in ports), None)
    runs = (pod.get("status") or {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    meta = pod["metadata"]
    return (
        f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}:{number}/proxy/metrics" if runs and number else ""
    )


async def _ask(context: Context, door: str) -> tuple[str, str]:
    """(what it says, why it says nothing)."""
    try:
        return await context.api.text(door), ""
    except GpupoolError as error:
        return "", error.message
