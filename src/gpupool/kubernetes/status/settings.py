"""Writes `PoolSettings.status`: all settings in use, and whether those of the object are accepted.

If there is no object, an empty one is created, so that there is always one to read and to edit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from gpupool.base.errors import ApiServerRejection, GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import JSON_PATCH, KubeApi, create_backoff
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.pool_settings import NAME, SETTINGS, PoolSettings
from gpupool.kubernetes.status.admission_limits import compute_limits
from gpupool.kubernetes.status.tenant import condition, date_condition
from gpupool.scheduling import PROMISE, PolicyFault

SIZE_SECONDS = 2.0
#: Starts that were told change with every other plan; a new or broken promise is written at
#: once.
STARTS_SECONDS = 5.0
POLICY_WORKS = "PolicyWorks"

log = logging.getLogger(__name__)


class SettingsStatus:
    """Status writes of one leader.

    Args:
        listed: set once it is known whether the object exists.
        now_ns: wall clock, in nanoseconds since the epoch.
    """

    def __init__(
        self,
        api: KubeApi,
        settings: PoolSettings,
        cluster: ClusterCache,
        listed: asyncio.Event,
        now_ns: Callable[[], int],
    ) -> None:
        self._api = api
        self._settings = settings
        self._cluster = cluster
        self._listed = listed
        self._now_ns = now_ns
        self._admits: dict[str, Any] = {}
        self._stale = True
        self._again = 0.0
        self._fault: PolicyFault | None = None
        #: What was told of starts; None before the first plan: then what the leader before wrote
        #: stands.
        self._starts: Mapping[str, Any] | None = None
        self._look: asyncio.TimerHandle | None = None
        #: The object was heard of.
        self.wake = asyncio.Event()

    def note_ledger(self, before: GpuNode | None, now: GpuNode | None) -> None:
        """Note that a node's cards may have changed."""
        if before is None or now is None or (before.cards, before.mode) != (now.cards, now.mode):
            self.note_size()

    def note_size(self) -> None:
        """Note that the pool's capacity, or a tenant's limit, has changed."""
        self._stale = True
        self.wake.set()

    def note_fault(self, fault: PolicyFault | None) -> None:
        """Note why the placement policy was replaced in the last plan; None if it works."""
        if fault != self._fault:
            self._fault = fault
            self.wake.set()

    def note_starts(self, starts: Mapping[str, Any]) -> None:
        """Note the records of starts after a plan; the same object means that nothing changed."""
        before = self._starts
        self._starts = starts
        if starts is before:
            return
        if _open_promises(starts) != _open_promises(before or {}):
            self.wake.set()
        elif self._look is None:
            self._look = asyncio.get_running_loop().call_later(STARTS_SECONDS, self.wake.set)

    async def run(self) -> None:
        """Write what is due until cancelled."""
        backoff = create_backoff()
        await self._listed.wait()
        self.wake.set()
        while True:
            await self.wake.wait()
            self.wake.clear()
            if self._look is not None:
                self._look.cancel()
                self._look = None
            try:
                with mark_busy():
                    await self._write()
                backoff.reset()
            except ApiServerRejection as error:
                if not (error.is_conflict or error.is_not_found):  # else the watch tells of it
                    log.warning("the status of the pool's settings is refused: %s", error)
            except GpupoolError as error:
                log.warning("the status of the pool's settings is written later: %s", error)
                await asyncio.sleep(backoff.pause())
                self.wake.set()

    async def _write(self) -> None:
        known = self._settings.known
        if known is None:
            await self._api.create(SETTINGS, empty())
        elif (status := self._build_status()) != (known.get("status") or {}):
            patch = [{"op": "add", "path": "/status", "value": status}]
            await self._api.patch(f"{SETTINGS}/{NAME}/status", patch, JSON_PATCH)

    def _build_status(self) -> dict[str, Any]:
        known = self._settings.known or {}
        before = known.get("status") or {}
        starts = before.get("starts") if self._starts is None else self._starts
        return {
            **({} if starts is None else {"starts": starts}),
            "observedGeneration": known["metadata"].get("generation", 0),
            "inUse": self._settings.in_use.to_json(),
            "admits": self._compute_limits(),
            "conditions": [
                condition(self._settings.refusal, before, self._now_ns()),
                date_condition(policy_condition(self._fault), before, self._now_ns()),
            ],
        }

    def _compute_limits(self) -> dict[str, Any]:
        """Worked out anew only every few seconds: it takes a look at every card."""
        loop = asyncio.get_running_loop()
        if self._stale and loop.time() < self._again:
            loop.call_at(self._again, self.wake.set)
        elif self._stale:
            self._stale = False
            self._again = loop.time() + SIZE_SECONDS
            self._admits = compute_limits(
                self._cluster.ledgers.values(), self._cluster.tenant_usage.tree
            )
        return self._admits


def _open_promises(starts: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of it is promises."""
    open_ = []
    for word in starts.get("open") or ():
        if word["sort"] == PROMISE:
            open_.append(word)
    return starts.get("promisesKept", 0), starts.get("promisesBroken", 0), open_


def empty() -> dict[str, Any]:
    """An object that changes no setting."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "PoolSettings",
        "metadata": {"name": NAME},
        "spec": {},
    }


def policy_condition(fault: PolicyFault | None) -> dict[str, Any]:
    """The condition that says whether the placement policy works."""
    if fault is None:
        return {
            "type": POLICY_WORKS,
            "status": "True",
            "reason": "Works",
            "message": "the policy in use decides",
        }
    message = f"{fault.sentence}: {fault.error}"
    return {"type": POLICY_WORKS, "status": "False", "reason": "Failed", "message": message[:1024]}
