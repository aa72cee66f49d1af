"""Reads from the ledgers which pods are to be evicted, and for which claims. Sends no requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.kubernetes.resources.gang import job_name
from gpupool.kubernetes.resources.gpu_node import Entry, EvictionOrder
from gpupool.scheduling import EvictionBeneficiaries


class EvictionOrders:
    """Eviction orders of all ledgers, and the claims that wait for freed cards.

    A new leader knows pods that are still being evicted, not those that left before.

    Attributes:
        beneficiary_of: by victim's claim, the claim or gang it is evicted for.
        orders: by victim's claim, the order that stands in its ledger.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        #: By victim's claim, the claim or gang it is evicted for.
        self.beneficiary_of: dict[str, str] = {}
        #: By victim's claim, the order in its ledger.
        self.orders: dict[str, EvictionOrder] = {}
        self._seconds = seconds
        self._owed = EvictionBeneficiaries()

    def note_entries(self, before: Iterable[Entry], now: Iterable[Entry]) -> None:
        """Note what a part of one ledger held before, and what it holds now."""
        had = {_job_name_of(entry): entry for entry in before}
        has = {_job_name_of(entry): entry for entry in now}
        for job in had:
            self.orders.pop(job, None)
            # An entry that left its ledger has freed its cards for its beneficiary. One that only
            # changed is still being evicted.
            if self.beneficiary_of.pop(job, "") and not (job in has and has[job].leaving_for):
                self._owed.record_departure(job, self._now_ns())
        for job, entry in has.items():
            if any(entry.order):
                self.orders[job] = entry.order
            if entry.leaving_for:
                self.beneficiary_of[job] = entry.leaving_for
                if job not in had or had[job].leaving_for != entry.leaving_for:
                    self._owed.add_eviction(job, entry.leaving_for)
            if job not in had:
                # It has its cards. A beneficiary is named by gang, by pod or by container.
                for claim in (entry.gang, entry.uid, job):
                    self._owed.remove_claim(claim)

    def list_beneficiaries(self) -> tuple[str, ...]:
        """Claims and gangs for which pods were evicted, in the order of the first eviction."""
        return self._owed.list_claims(self._now_ns())

    def _now_ns(self) -> int:
        return int(self._seconds() * NANOS_PER_SECOND)


def _job_name_of(entry: Entry) -> str:
    return job_name(entry.uid, entry.container)
