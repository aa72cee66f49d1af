"""Elects the leader of several replicas by a Lease (`coordination.k8s.io/v1`), as client-go does.

A leader renews its lease every few seconds and stops leading well before another replica may take
it. Clocks of machines are not compared: a lease is free when its record has not changed for its
duration, by the watcher's own clock. Two replicas that both believe they lead do no harm, because
every write of a ledger is a compare-and-swap; the election only avoids double work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpupool.base.errors import ApiServerRejection, GpupoolError
from gpupool.kubernetes.client.api import KubeApi

#: Seconds that a candidate tries to give its lease back at its end.
ENDING_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseTimes:
    """Times of a lease in seconds, the defaults of client-go.

    Attributes:
        lease: how long a lease holds without being renewed.
        renew_within: after how long without a renewal its holder stops leading. Shorter than
            `lease`, so that the holder stops before another candidate begins.
        every: how often it is renewed, or looked at.
    """

    lease: float = 15.0
    renew_within: float = 10.0
    every: float = 2.0


@dataclass
class LeaseCandidate:
    """One candidate. `seconds` is a monotonic clock."""

    api: KubeApi
    namespace: str
    name: str
    identity: str
    seconds: Callable[[], float]
    terms: LeaseTimes = field(default_factory=LeaseTimes)
    #: Version of the record that was read last, and when it was read first by our clock.
    _seen: tuple[str, float] = ("", 0.0)
    #: When this candidate stops leading unless it renews the lease before.
    _until = 0.0
    #: The lease's holder, as far as is known.
    holder: str = ""

    @property
    def _lease_path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then do the work while it is held; return when either has ended."""
        while not await self._try_lease(self.terms.renew_within):
            await asyncio.sleep(self.terms.every)
        log.info("%s leads %s/%s", self.identity, self.namespace, self.name)
        working = asyncio.ensure_future(work())
        keeping = asyncio.ensure_future(self._keep_lease())
        try:
            done, _ = await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The work must have ended before the lease is given back: the next leader begins at
            # once.
            self._until = 0.0
            for task in (working, keeping):
                task.cancel()
            await asyncio.gather(working, keeping, return_exceptions=True)
            await self._give_up()
        for task in done:
            task.result()

    async def _keep_lease(self) -> None:
        """Renew until that has failed for too long, or another candidate holds the lease."""
        while (left := self._until - self.seconds()) > 0:
            await asyncio.sleep(min(self.terms.every, left))
            await self._try_lease(self._until - self.seconds())
        log.warning("%s leads no more: %s holds the lease", self.identity, self.holder or "nobody")

    async def _try_lease(self, within: float) -> bool:
        """Take or renew the lease within so many seconds; return whether it is held now."""
        # Counted from before the request: the server may have written it long before it answered.
        asked = self.seconds()
        try:
            async with asyncio.timeout(within):
                ours = await self._take_lease(await self._read_lease())
        except (GpupoolError, TimeoutError) as error:
            log.warning("the lease %s/%s: %r", self.namespace, self.name, error)
            return False
        if ours:
            self._until = asked + self.terms.renew_within
            self.holder = self.identity
        return ours

    async def _read_lease(self) -> dict[str, Any] | None:
        try:
            return await self.api.get(f"{self._lease_path}/{self.name}")
        except ApiServerRejection as error:
            if error.is_not_found:
                return None
            raise

    async def _take_lease(self, lease: dict[str, Any] | None) -> bool:
        if lease is None:
            return await self._write_lease("POST", self._lease_path, self._build_record(None))
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = version, self.seconds()
        self.holder = lease["spec"].get("holderIdentity") or ""
        fresh = self.seconds() - self._seen[1] < self.terms.lease
        if self.holder not in ("", self.identity) and fresh:
            self._until = 0.0
            return False
        return await self._write_lease(
            "PUT", f"{self._lease_path}/{self.name}", self._build_record(lease)
        )

    async def _write_lease(self, method: str, path: str, record: dict[str, Any]) -> bool:
        try:
            await self.api.request(method, path, record)
        except ApiServerRejection as error:
            if error.is_conflict:
                return False
            raise
        return True

    def _build_record(
        self, before: dict[str, Any] | None, *, holder: str | None = None
    ) -> dict[str, Any]:
        """Return the lease with this holder."""
        # It names the version that was read, so that only one of two candidates can write it.
        spec = dict(before["spec"]) if before else {}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != self.identity:
            spec |= {
                "acquireTime": now,
                "leaseTransitions": spec.get("leaseTransitions", 0) + (1 if before else 0),
            }
        spec |= {
            "holderIdentity": self.identity if holder is None else holder,
            "leaseDurationSeconds": max(1, round(self.terms.lease)),
            "renewTime": now,
        }
        meta = {"name": self.name, "namespace": self.namespace}
        if before:
            meta["resourceVersion"] = before["metadata"]["resourceVersion"]
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta,
            "spec": spec,
        }

    async def _give_up(self) -> None:
        """Clear the lease's holder, so that the next candidate need not wait for its end."""
        try:
            async with asyncio.timeout(ENDING_SECONDS):
                lease = await self._read_lease()
                if lease and lease["spec"].get("holderIdentity") == self.identity:
                    await self._write_lease(
                        "PUT",
                        f"{self._lease_path}/{self.name}",
                        self._build_record(lease, holder=""),
                    )
        except (GpupoolError, TimeoutError) as error:
            log.info("the lease is left to run out: %r", error)
