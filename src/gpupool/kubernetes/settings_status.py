"""What `kubectl get poolsettings` shows: everything that is in use, and whether what the object says is.

Where there is no object, an empty one is made, so that there is always one to look at and to edit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from gpupool.base.errors import ApiRefused, GpupoolError
from gpupool.base.silence import busy
from gpupool.kubernetes import names
from gpupool.kubernetes.admits import admits
from gpupool.kubernetes.api import JSON_PATCH, KubeApi, Pause
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.settings import NAME, SETTINGS, PoolSettings
from gpupool.kubernetes.tenant_status import condition, dated
from gpupool.scheduling.foretold import PROMISE
from gpupool.scheduling.guarded import PolicyFault

SIZE_SECONDS = 2.0
STARTS_SECONDS = 5.0
"""Starts that were told change with every other plan; a new or broken promise is written at once."""
POLICY_WORKS = "PolicyWorks"

log = logging.getLogger(__name__)


class SettingsStatus:
    """`now_ns` is the wall clock, for people to read; before `listed` it is not known whether there is an object."""

    def __init__(
        self, api: KubeApi, settings: PoolSettings, pool: Pool, listed: asyncio.Event, now_ns: Callable[[], int]
    ) -> None:
        self._api, self._settings, self._pool, self._listed, self._now_ns = api, settings, pool, listed, now_ns
        self._admits: dict[str, Any] = {}
        self._stale, self._again = True, 0.0
        self._fault: PolicyFault | None = None
        self._starts: Mapping[str, Any] | None = None
        """What was told of starts; None before the first plan: then what the leader before wrote stands."""
        self._look: asyncio.TimerHandle | None = None
        self.wake = asyncio.Event()
        """The object was heard of."""

    def note_ledger(self, before: GpuNode | None, now: GpuNode | None) -> None:
        """A node's cards may be others now."""
        if before is None or now is None or (before.cards, before.mode) != (now.cards, now.mode):
            self.note_size()

    def note_size(self) -> None:
        """What the pool has, or what a tenant may have, has changed."""
        self._stale = True
        self.wake.set()

    def note_fault(self, fault: PolicyFault | None) -> None:
        """What replaces the placement policy as of the last plan; None while the policy works."""
        if fault != self._fault:
            self._fault = fault
            self.wake.set()

    def note_starts(self, starts: Mapping[str, Any]) -> None:
        """After a plan; the same object where nothing has changed."""
        before, self._starts = self._starts, starts
        if starts is before:
            return
        if _promised(starts) != _promised(before or {}):
            self.wake.set()
        elif self._look is None:
            self._look = asyncio.get_running_loop().call_later(STARTS_SECONDS, self.wake.set)

    async def run(self) -> None:
        """Writes what is due; until it is cancelled."""
        pause = Pause()
        await self._listed.wait()
        self.wake.set()
        while True:
            await self.wake.wait()
            self.wake.clear()
            if self._look is not None:
                self._look.cancel()
                self._look = None
            try:
                with busy():
                    await self._write()
                pause.reset()
            except ApiRefused as error:
                if not (error.conflict or error.gone):  # else the watch tells of it
                    log.warning("the status of the pool's settings is refused: %s", error)
            except GpupoolError as error:
                log.warning("the status of the pool's settings is written later: %s", error)
                await pause.wait()
                self.wake.set()

    async def _write(self) -> None:
        known = self._settings.known
        if known is None:
            await self._api.create(SETTINGS, empty())
        elif (status := self._wanted()) != (known.get("status") or {}):
            patch = [{"op": "add", "path": "/status", "value": status}]
            await self._api.patch(f"{SETTINGS}/{NAME}/status", patch, JSON_PATCH)

    def _wanted(self) -> dict[str, Any]:
        known = self._settings.known or {}
        before = known.get("status") or {}
        starts = before.get("starts") if self._starts is None else self._starts
        return {
            **({} if starts is None else {"starts": starts}),
            "observedGeneration": known["metadata"].get("generation", 0),
            "inUse": self._settings.in_use.to_json(),
            "admits": self._admitted(),
            "conditions": [
                condition(self._settings.refusal, before, self._now_ns()),
                dated(policy_condition(self._fault), before, self._now_ns()),
            ],
        }

    def _admitted(self) -> dict[str, Any]:
        """Worked out anew only every few seconds: it takes a look at every card."""
        loop = asyncio.get_running_loop()
        if self._stale and loop.time() < self._again:
            loop.call_at(self._again, self.wake.set)
        elif self._stale:
            self._stale, self._again = False, loop.time() + SIZE_SECONDS
            self._admits = admits(self._pool.ledgers.values(), self._pool.shares.tree)
        return self._admits


def _promised(starts: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of it is promises."""
    open_ = [word for word in starts.get("open") or () if word["sort"] == PROMISE]
    return starts.get("promisesKept", 0), starts.get("promisesBroken", 0), open_


def empty() -> dict[str, Any]:
    """An object that changes nothing."""
    return {"apiVersion": names.API_VERSION, "kind": "PoolSettings", "metadata": {"name": NAME}, "spec": {}}


def policy_condition(fault: PolicyFault | None) -> dict[str, Any]:
    """Whether the placement policy that is in use decides, or a simpler one in its stead."""
    if fault is None:
        return {"type": POLICY_WORKS, "status": "True", "reason": "Works", "message": "the policy in use decides"}
    message = f"{fault.sentence}: {fault.error}"
    return {"type": POLICY_WORKS, "status": "False", "reason": "Failed", "message": message[:1024]}
