"""Who of several replicas leads: the holder of a Lease (`coordination.k8s.io/v1`), as in client-go's leader election.

A leader renews its lease every few seconds and stops leading well before anybody else may take it. Clocks of machines
are not compared: a lease is free when its record has not changed for its duration, by the watcher's own clock. Two that
believe to lead do no harm (every write of a ledger is a compare and swap); this only keeps them from working twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpupool.base.errors import ApiRefused, GpupoolError
from gpupool.kubernetes.api import KubeApi

ENDING_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """Seconds: how long a lease holds without being renewed, when its holder gives up, how often it renews or looks."""

    lease: float = 15.0
    renew_within: float = 10.0
    every: float = 2.0


@dataclass
class Leader:
    """One candidate. `seconds` is a monotonic clock."""

    api: KubeApi
    namespace: str
    name: str
    identity: str
    seconds: Callable[[], float]
    terms: Terms = field(default_factory=Terms)
    _seen: tuple[str, float] = ("", 0.0)
    """The record's version that was seen last, and since when it has been that."""
    _until = 0.0
    """When it stops to believe that it leads, unless it has renewed before."""
    holder: str = ""
    """Who holds the lease, as far as is known."""

    @property
    def _path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then do the work as long as it is ours. Returns when it is not, or the work has ended."""
        while not await self._try(self.terms.renew_within):
            await asyncio.sleep(self.terms.every)
        log.info("%s leads %s/%s", self.identity, self.namespace, self.name)
        working, keeping = asyncio.ensure_future(work()), asyncio.ensure_future(self._keep())
        try:
            done, _ = await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._until = 0.0
            for task in (working, keeping):
                task.cancel()
            await asyncio.gather(working, keeping, return_exceptions=True)
            await self._give_up()
        for task in done:
            task.result()

    async def _keep(self) -> None:
        """Renew; returns when that has failed for too long, or somebody else holds the lease."""
        while (left := self._until - self.seconds()) > 0:
            await asyncio.sleep(min(self.terms.every, left))
            await self._try(self._until - self.seconds())
        log.warning("%s leads no more: %s holds the lease", self.identity, self.holder or "nobody")

    async def _try(self, within: float) -> bool:
        """Take or renew the lease; whether it is ours now. A request that takes longer than `within` is given up."""
        asked = self.seconds()
        try:
            async with asyncio.timeout(within):
                ours = await self._take(await self._read())
        except (GpupoolError, TimeoutError) as error:
            log.warning("the lease %s/%s: %r", self.namespace, self.name, error)
            return False
        if ours:
            self._until, self.holder = asked + self.terms.renew_within, self.identity
        return ours

    async def _read(self) -> dict[str, Any] | None:
        try:
            return await self.api.get(f"{self._path}/{self.name}")
        except ApiRefused as error:
            if error.gone:
                return None
            raise

    async def _take(self, lease: dict[str, Any] | None) -> bool:
        if lease is None:
            return await self._write("POST", self._path, self._record(None))
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = version, self.seconds()
        self.holder = lease["spec"].get("holderIdentity") or ""
        fresh = self.seconds() - self._seen[1] < self.terms.lease
        if self.holder not in ("", self.identity) and fresh:
            self._until = 0.0
            return False
        return await self._write("PUT", f"{self._path}/{self.name}", self._record(lease))

    async def _write(self, method: str, path: str, record: dict[str, Any]) -> bool:
        try:
            await self.api.request(method, path, record)
        except ApiRefused as error:
            if error.conflict:
                return False
            raise
        return True

    def _record(self, before: dict[str, Any] | None, *, holder: str | None = None) -> dict[str, Any]:
        """The lease as ours; it names the version that was read, so that of two takers one is refused."""
        spec = dict(before["spec"]) if before else {}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != self.identity:
            spec |= {"acquireTime": now, "leaseTransitions": spec.get("leaseTransitions", 0) + (1 if before else 0)}
        spec |= {
            "holderIdentity": self.identity if holder is None else holder,
            "leaseDurationSeconds": max(1, round(self.terms.lease)),
            "renewTime": now,
        }
        meta = {"name": self.name, "namespace": self.namespace}
        if before:
            meta["resourceVersion"] = before["metadata"]["resourceVersion"]
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}

    async def _give_up(self) -> None:
        """Let the next one begin at once; where that fails it begins when the lease has run out."""
        try:
            async with asyncio.timeout(ENDING_SECONDS):
                lease = await self._read()
                if lease and lease["spec"].get("holderIdentity") == self.identity:
                    await self._write("PUT", f"{self._path}/{self.name}", self._record(lease, holder=""))
        except (GpupoolError, TimeoutError) as error:
            log.info("the lease is left to run out: %r", error)
