"""Which waiting claims have the next turn, as jobs are evicted or suspended for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import sqlalchemy as sa

from gpupool.allocations.cache.beneficiaries import read_eviction_beneficiaries
from gpupool.allocations.cache.job_queue import JobQueue
from gpupool.allocations.ledger.running_jobs import SeatHolder
from gpupool.scheduling import EvictionBeneficiaries


class ClaimTurns:
    """The beneficiaries of the ledger cache, under whose lock it is called."""

    def __init__(self, queue: JobQueue, clock: Callable[[], int]) -> None:
        self._queue = queue
        self._clock = clock
        self._beneficiaries = EvictionBeneficiaries()

    def load(self, connection: sa.Connection, holders: Collection[SeatHolder], now_ns: int) -> None:
        """Read the beneficiaries that are not known; the queue has been read before."""
        waiting = self._queue.list_claims()
        evictions = read_eviction_beneficiaries(connection, waiting)
        leaving = set[tuple[str, str]]()
        for holder in holders:
            leaving.add((holder.job, holder.leaving_for or holder.gives_way_to))
            if holder.gives_way_to in waiting:
                # No event tells of it before its seats are empty.
                evictions.append((holder.job, holder.gives_way_to))
        self._beneficiaries.restore_evictions(evictions, leaving, now_ns)

    def record_holders(self, holders: Iterable[SeatHolder]) -> None:
        """Note which of these jobs give way to a claim, or do so no longer."""
        for holder in holders:
            claim = holder.gives_way_to
            if not claim:
                if holder.idle_suspension is not None and not holder.leaving:
                    self.record_departure(holder.job)
            # A job that wants to work again is no claim: its cards keep its seats.
            elif self._queue.find_claim_key(claim) is not None:
                self._beneficiaries.add_eviction(holder.job, claim)

    def record_evictions(self, leaving_for: Mapping[str, str]) -> None:
        """Note the beneficiary of each of these jobs, which were evicted."""
        for job, claim in leaving_for.items():
            # A job that migrates leaves for itself; its seats are a hold, not an eviction.
            if job != claim:
                self._beneficiaries.add_eviction(job, claim)

    def record_departure(self, job: str) -> None:
        """Note that the seats of a job are empty, or that it does not give way after all."""
        self._beneficiaries.record_departure(job, self._clock())

    def remove_claim(self, claim: str) -> None:
        """Remove a claim that does not wait any more."""
        self._beneficiaries.remove_claim(claim)

    def list_claims(self) -> tuple[str, ...]:
        """List the beneficiaries in the order of their turns."""
        return self._beneficiaries.list_claims(self._clock())
