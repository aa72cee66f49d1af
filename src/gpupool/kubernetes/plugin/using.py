"""Reads what containers use of their cards from the agents' metrics, by the API server's pod proxy.

So nothing is written to the cluster until a user asks. The user needs `get` of `pods/proxy` in
gpupool's namespace; without it, and for agents that do not answer, usage is unknown and nothing
else fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from gpupool.base.errors import GpupoolError
from gpupool.kubernetes.client.concurrency import gather_limited
from gpupool.kubernetes.plugin.context import Context

AGENTS = "app.kubernetes.io/component=agent"
PORT = "metrics"
_MEMORY = "gpupool_container_memory_used_bytes"
_TIME = "gpupool_container_gpu_seconds_total"
Key = tuple[str, str, str]


@dataclass(frozen=True)
class ContainerUsage:
    """Usage of one container over all its cards. None: unknown."""

    memory_bytes: int | None = None
    gpu_seconds: float | None = None


async def read_usages(
    context: Context, nodes: Collection[str]
) -> tuple[Mapping[Key, ContainerUsage], str]:
    """Return usage on these nodes by container, and the first reason why some is unknown."""
    agents = await context.items(
        f"/api/v1/namespaces/{context.namespace}/pods", labelSelector=AGENTS
    )
    path_by_node = {}
    for pod in agents:
        if path := _find_metrics_path(pod):
            path_by_node[pod["spec"].get("nodeName", "")] = path
    paths = [path_by_node[node] for node in sorted(nodes) if node in path_by_node]
    usages: dict[Key, ContainerUsage] = {}
    reasons = []
    for text, why_unknown in await gather_limited([_read_metrics(context, path) for path in paths]):
        usages |= parse_metrics(text)
        if why_unknown:
            reasons.append(why_unknown)
    for node in sorted(nodes):
        if node not in path_by_node:
            reasons.append(f"no agent that tells is on node {node}")
    return usages, reasons[0] if reasons else ""


def parse_metrics(text: str) -> dict[Key, ContainerUsage]:
    """Read the usage of every container in an agent's metrics."""
    memory: defaultdict[Key, float] = defaultdict(float)
    seconds: defaultdict[Key, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in (_MEMORY, _TIME):
                key = sample.labels["namespace"], sample.labels["pod"], sample.labels["container"]
                # A sample for each card of the container: the sum is of all its cards.
                (memory if sample.name == _MEMORY else seconds)[key] += sample.value
    usages = {}
    for key in memory.keys() | seconds.keys():
        memory_bytes = int(memory[key]) if key in memory else None
        usages[key] = ContainerUsage(memory_bytes, seconds.get(key))
    return usages


def _find_metrics_path(pod: Mapping[str, Any]) -> str:
    """Return the proxy path of the pod's metrics; empty if it has none or does not run."""
    meta = pod["metadata"]
    if (pod.get("status") or {}).get("phase") != "Running" or "deletionTimestamp" in meta:
        return ""
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == PORT:
                where = f"{meta['name']}:{port['containerPort']}"
                return f"/api/v1/namespaces/{meta['namespace']}/pods/{where}/proxy/metrics"
    return ""


async def _read_metrics(context: Context, path: str) -> tuple[str, str]:
    """Return the metrics, or why there are none."""
    try:
        return await context.api.get_text(path), ""
    except GpupoolError as error:
        return "", error.message
