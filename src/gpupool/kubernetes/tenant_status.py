"""What `kubectl get tenants` shows: what is held, how many wait, and whether what the object says is in force.

A refusal, or a tree that is taken, is written at once; numbers alone no more often than every few seconds for one
object, since every placement changes them. What is in force stands there too: a new leader goes on from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from gpupool.base.errors import ApiRefused, GpupoolError
from gpupool.base.silence import busy
from gpupool.kubernetes.api import JSON_PATCH, KubeApi, Pause
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.tenants import TENANTS, Known, Tenants, text
from gpupool.model.quota import GPU, MEMORY, Amount

PER_SECOND = 10.0
NUMBERS_SECONDS = 5.0
CONDITION = "InForce"

log = logging.getLogger(__name__)

Json = Mapping[str, Any]


class Counting(Protocol):
    tenant_writes: int


class TenantStatus:
    """`now_ns` is the wall clock, for people to read."""

    def __init__(self, api: KubeApi, tenants: Tenants, counts: Counting, now_ns: Callable[[], int]) -> None:
        self._api, self._tenants, self._counts, self._now_ns = api, tenants, counts, now_ns
        self._due: dict[str, dict[str, Any]] = {}
        self._written: dict[str, float] = {}
        self._wake, self._pause = asyncio.Event(), Pause()

    def note(self, pool: Pool) -> None:
        """After a round: what every object's status ought to be."""
        held, waiting = pool.shares.held(), pool.shares.summed(pool.queue.by_tenant())
        for name, known in self._tenants.known.items():
            wanted = self._wanted(name, known, held.get(name, Amount()), waiting.get(name, 0))
            if wanted != known.status:
                self._due[name] = wanted
                self._wake.set()
            else:
                self._due.pop(name, None)

    def _wanted(self, name: str, known: Known, held: Amount, waiting: int) -> dict[str, Any]:
        refusal, wish = self._tenants.refusal(name), self._tenants.in_force.get(name)
        found: dict[str, Any] = {
            "observedGeneration": known.generation,
            "held": {GPU: text(GPU, held.gpu_milli), MEMORY: text(MEMORY, held.memory_bytes)},
            "waiting": waiting,
            "conditions": [condition(refusal, known.status, self._now_ns())],
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
                    await self._woken(ahead)
                else:
                    with busy():
                        await self._write(name, self._due.pop(name))
                    await asyncio.sleep(1 / PER_SECOND)

    async def _woken(self, seconds: float) -> None:
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
            self._tenants.note(await self._api.patch(f"{TENANTS}/{name}/status", patch, JSON_PATCH), False)
            self._pause.reset()
        except ApiRefused as error:
            log.warning("the status of tenant %s is refused: %s", name, error)
        except GpupoolError as error:
            log.warning("the status of tenant %s is written later: %s", name, error)
            self._due.setdefault(name, status)
            await self._pause.wait()


def condition(refusal: GpupoolError | None, status: Json, now_ns: int) -> dict[str, Any]:
    """Whether what the object says is in force; the time is that of the last change from yes to no or back."""
    found = {"type": CONDITION, "status": "True", "reason": "Taken", "message": "counts as it is written"}
    if refusal is not None:
        message = f"{refusal.code}: {refusal.message}; what was in force stays"
        found |= {"status": "False", "reason": "NotTaken", "message": message[:1024]}
    return dated(found, status, now_ns)


def dated(found: dict[str, Any], status: Json, now_ns: int) -> dict[str, Any]:
    """The condition with the time of its last change from yes to no or back."""
    before: Json = next((one for one in status.get("conditions") or () if one.get("type") == found["type"]), {})
    if before.get("status") == found["status"] and before.get("lastTransitionTime"):
        return {**found, "lastTransitionTime": before["lastTransitionTime"]}
    stamp = datetime.fromtimestamp(now_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**found, "lastTransitionTime": stamp}


def _words(status: Json) -> tuple[Any, ...]:
    """What is not a number that changes with every placement."""
    conditions = [(one.get("status"), one.get("message")) for one in status.get("conditions") or ()]
    return conditions, status.get("inForce"), status.get("observedGeneration")
