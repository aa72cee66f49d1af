"""What a command of the plugin runs with: the API server, the time, and the cluster as it is
now."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gpupool.base.errors import ApiServerRejection, BadInput, NotFound
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import (
    ServerConnection,
    load_kubeconfig,
    load_service_account,
)
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.pod import Pod, read_pod

Json = dict[str, Any]
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
DAEMONSETS = "/apis/apps/v1/daemonsets"
OURS = f"{names.MANAGED}=true"


@dataclass(frozen=True)
class Context:
    """`namespace` is where gpupool's own objects are, `now` the wall clock."""

    api: KubeApi
    namespace: str
    color: bool
    now: datetime

    async def find(self, path: str) -> Json | None:
        """The object, None where there is none."""
        try:
            return await self.api.get(path)
        except ApiServerRejection as error:
            if error.is_not_found:
                return None
            raise

    async def items(self, path: str, **query: str) -> list[Json]:
        """Every object of a list; nothing where the cluster does not have that kind."""
        try:
            found, _ = await self.api.list_objects(path, **query)
        except ApiServerRejection as error:
            if error.is_not_found:
                return []
            raise
        return found

    async def ledgers(self) -> list[GpuNode]:
        """By name."""
        found = [GpuNode.from_json(one) for one in await self.items(ledger.NODES)]
        return sorted(found, key=lambda node: node.name)

    async def pods(self) -> list[Pod]:
        """Every pod that went through our admission."""
        return [read_pod(one) for one in await self.items(PODS, labelSelector=OURS)]

    async def node(self, name: str) -> Json:
        """Raises NotFound."""
        found = await self.find(f"{NODES}/{name}")
        if found is None:
            raise NotFound(f"this cluster has no node {name!r}", hint="kubectl gpupool map")
        return found


@asynccontextmanager
async def open_context(
    options: Any, environ: Mapping[str, str], now: datetime
) -> AsyncIterator[Context]:
    """The connection of one command. Raises BadInput."""
    plain = options.no_color or bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    async with KubeApi(_connection(options, environ)) as api:
        yield Context(api, options.pool_namespace, not plain and sys.stdout.isatty(), now)


def _connection(options: Any, environ: Mapping[str, str]) -> ServerConnection:
    file = options.kubeconfig or Path(environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
    if not file.is_file() and environ.get("KUBERNETES_SERVICE_HOST"):
        return load_service_account(
            environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "")
        )
    if not file.is_file():
        raise BadInput(f"there is no kubeconfig at {file}", hint="--kubeconfig FILE, or KUBECONFIG")
    return load_kubeconfig(file)
