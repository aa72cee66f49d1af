"""Writes the status of Tenants: what is held, how many pods wait, and whether the spec is in force.

A refusal or a new tree is written at once. Numbers are written at most every few seconds for one
object, because every placement changes them. The tree in force is stored there too, so that a new
leader continues with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from gpupool.base.errors import ApiServerRejection, GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import JSON_PATCH, KubeApi, create_backoff
from gpupool.kubernetes.resources.tenant import TENANTS, TenantObject, TenantRegistry, format_amount
from gpupool.model.quota import GPU, MEMORY, ResourceAmount

PER_SECOND = 10.0
NUMBERS_SECONDS = 5.0
CONDITION = "InForce"

log = logging.getLogger(__name__)

Json = Mapping[str, Any]


class TenantCounter(Protocol):
    tenant_writes: int


class NetworkConditions(Protocol):
    def build_conditions(self, tenant: str) -> list[dict[str, Any]]:
        """Return what a Tenant's status says of its network, without times."""
        ...


class TenantStatus:
    """Status writes of one leader. `now_ns` is the wall clock, in nanoseconds since the epoch."""

    def __init__(
        self,
        api: KubeApi,
        tenants: TenantRegistry,
        counts: TenantCounter,
        now_ns: Callable[[], int],
        networks: NetworkConditions,
    ) -> None:
        self._api = api
        self._networks = networks
        self._tenants = tenants
        self._counts = counts
        self._now_ns = now_ns
        self._due: dict[str, dict[str, Any]] = {}
        self._written: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._backoff = create_backoff()

    def update_due(self, cluster: ClusterCache) -> None:
        """Compute which status must be written; called after each reconciliation."""
        held = cluster.tenant_usage.held_amounts()
        waiting = cluster.tenant_usage.sum_with_descendants(cluster.queue.count_by_tenant())
        for name, known in self._tenants.known.items():
            wanted = self._build_status(
                name, known, held.get(name, ResourceAmount()), waiting.get(name, 0)
            )
            if wanted != known.status:
                self._due[name] = wanted
                self._wake.set()
            else:
                self._due.pop(name, None)

    def _build_status(
        self, name: str, known: TenantObject, held: ResourceAmount, waiting: int
    ) -> dict[str, Any]:
        refusal = self._tenants.refusal(name)
        wish = self._tenants.in_force.get(name)
        conditions = [condition(refusal, known.status, self._now_ns())]
        for one in self._networks.build_conditions(name):
            conditions.append(date_condition(one, known.status, self._now_ns()))
        found: dict[str, Any] = {
            "observedGeneration": known.generation,
            "held": {
                GPU: format_amount(GPU, held.gpu_milli),
                MEMORY: format_amount(MEMORY, held.memory_bytes),
            },
            "waiting": waiting,
            "conditions": conditions,
        }
        return found if wish is None else {**found, "inForce": wish.to_json()}

    async def run(self) -> None:
        """Writes what is due, at its pace; until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                name = min(self._due, key=self._turn)
                ahead = self._turn(name) - asyncio.get_running_loop().time()
                if ahead > 0:
                    await self._wake_later(ahead)
                else:
                    with mark_busy():
                        await self._write(name, self._due.pop(name))
                    await asyncio.sleep(1 / PER_SECOND)

    async def _wake_later(self, seconds: float) -> None:
        """By something that is due sooner, or by the time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _turn(self, name: str) -> float:
        """When it may be written: numbers alone wait a while after the last time."""
        known = self._tenants.known.get(name)
        urgent = known is None or _words(known.status) != _words(self._due[name])
        return 0.0 if urgent or name not in self._written else self._written[name] + NUMBERS_SECONDS

    async def _write(self, name: str, status: dict[str, Any]) -> None:
        if name not in self._tenants.known:
            self._written.pop(name, None)
            return
        self._written[name] = asyncio.get_running_loop().time()
        self._counts.tenant_writes += 1
        try:
            patch = [{"op": "add", "path": "/status", "value": status}]
            answer = await self._api.patch(f"{TENANTS}/{name}/status", patch, JSON_PATCH)
            self._tenants.note_status(name, answer)
            self._backoff.reset()
        except ApiServerRejection as error:
            log.warning("the status of tenant %s is refused: %s", name, error)
        except GpupoolError as error:
            log.warning("the status of tenant %s is written later: %s", name, error)
            self._due.setdefault(name, status)
            await asyncio.sleep(self._backoff.pause())


def condition(refusal: GpupoolError | None, status: Json, now_ns: int) -> dict[str, Any]:
    """Whether what the object says is in force; the time is that of the last change from yes to no
    or back."""
    found = {
        "type": CONDITION,
        "status": "True",
        "reason": "Taken",
        "message": "counts as it is written",
    }
    if refusal is not None:
        message = f"{refusal.code}: {refusal.message}; what was in force stays"
        found |= {"status": "False", "reason": "NotTaken", "message": message[:1024]}
    return date_condition(found, status, now_ns)


def date_condition(found: dict[str, Any], status: Json, now_ns: int) -> dict[str, Any]:
    """The condition with the time of its last change from yes to no or back."""
    before: Json = next(
        (one for one in status.get("conditions") or () if one.get("type") == found["type"]), {}
    )
    if before.get("status") == found["status"] and before.get("lastTransitionTime"):
        return {**found, "lastTransitionTime": before["lastTransitionTime"]}
    stamp = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**found, "lastTransitionTime": stamp}


def _words(status: Json) -> tuple[Any, ...]:
    """What is not a number that changes with every placement."""
    conditions = [(one.get("status"), one.get("message")) for one in status.get("conditions") or ()]
    return conditions, status.get("inForce"), status.get("observedGeneration")
