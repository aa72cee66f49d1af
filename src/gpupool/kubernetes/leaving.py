"""Who leaves for whom, as ledgers say it, and who is owed the seats that others left for it. It asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpupool.kubernetes.gangs import job_name
from gpupool.kubernetes.objects import Entry, Order
from gpupool.scheduling.owed import Owed

NS = 10**9


class Leaving:
    """`seconds` is a monotonic clock. A new leader knows who still leaves, not who left before it came."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.whom: dict[str, str] = {}
        """By claim that stands in a ledger, for whom it leaves."""
        self.orders: dict[str, Order] = {}
        """By claim that stands in a ledger, the order to leave that stands there with it."""
        self._seconds, self._owed = seconds, Owed()

    def note(self, before: Iterable[Entry], now: Iterable[Entry]) -> None:
        """What one ledger held, and what it holds now."""
        had, has = {_job(entry): entry for entry in before}, {_job(entry): entry for entry in now}
        for job in had:
            self.orders.pop(job, None)
            if self.whom.pop(job, "") and not (job in has and has[job].leaving_for):
                self._owed.left(job, self._now_ns())
        for job, entry in has.items():
            if any(entry.order):
                self.orders[job] = entry.order
            if entry.leaving_for:
                self.whom[job] = entry.leaving_for
                if job not in had or had[job].leaving_for != entry.leaving_for:
                    self._owed.told(job, entry.leaving_for)
            if job not in had:  # it sits
                for claim in (entry.gang, entry.uid, job):
                    self._owed.settle(claim)

    def owed(self) -> tuple[str, ...]:
        """Claims and gangs, in the order in which others were first told to leave for them."""
        return self._owed.names(self._now_ns())

    def _now_ns(self) -> int:
        return int(self._seconds() * NS)


def _job(entry: Entry) -> str:
    return job_name(entry.uid, entry.container)
