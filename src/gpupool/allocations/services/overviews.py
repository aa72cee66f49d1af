"""The overview of the pool: one query, or one look into the cache, for each thing that it shows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.services.jobs import JobService
from gpupool.allocations.services.quotas import QuotaService
from gpupool.allocations.views.capacity import describe_capacity
from gpupool.allocations.views.job_pages import JobFilter
from gpupool.allocations.views.job_search import JobSearch
from gpupool.allocations.views.overview import (
    count_cards,
    count_live_jobs,
    is_simulated,
    list_holdings,
    read_failing_cards,
)
from gpupool.base.units import NANOS_PER_SECOND, WHOLE
from gpupool.fleet.service import FleetService
from gpupool.metering.service import MeteringService
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.wire.views.overviews import MyJobs, OverviewOut, TodayOut

#: Rows of the queue, and jobs of the caller.
_HEAD = 8
#: Seconds for which the sums of a day are shown again: they are a report over the whole pool.
DAY_SECONDS = 30
#: Callers whose sums are stored.
_MOST_SUMS = 1000


class OverviewService:
    """Serves the overview. Thread-safe."""

    def __init__(
        self,
        store: Store,
        fleet: FleetService,
        metering: MeteringService,
        cache: LedgerCache,
        quotas: QuotaService,
        jobs: JobService,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._metering = metering
        self._cache = cache
        self._quotas = quotas
        self._jobs = jobs
        self._lock = threading.Lock()
        #: The sums of the day by user, and when they were counted.
        self._sums: dict[int, tuple[int, TodayOut]] = {}
        #: Adds the cost to the sums of a day; the package that holds the price list sets it.
        self.add_cost: Callable[[Principal, TodayOut], TodayOut] = _add_no_cost

    def describe_pool(self, principal: Principal) -> OverviewOut:
        """Describe the pool as the caller may see it."""
        # It also reads into the cache what other packages changed.
        queue = self._quotas.list_queue(principal, _HEAD)
        # Before the snapshot: it may contain more than the number says, never less.
        seq = self._store.noted_seq
        snapshot = self._cache.build_snapshot()
        cards = count_cards(snapshot)
        models = describe_capacity(snapshot).models
        held_milli = WHOLE * cards.total - int(snapshot.cards.free_milli.sum())
        with self._store.read() as connection:
            failing, failing_total = read_failing_cards(connection)
            live = count_live_jobs(connection, principal.user_id)
            simulated = is_simulated(connection)
        search = JobSearch(JobFilter(user=principal.user))
        recent = self._jobs.search_jobs(principal, search, None, _HEAD).items
        now_ns = self._store.clock.now_ns()
        return OverviewOut(
            at_ns=now_ns,
            seq=seq,
            simulated=simulated,
            cards=cards,
            capacity_milli=WHOLE * (cards.total - cards.observed),
            held_milli=held_milli,
            free_milli=sum(model.free_milli for model in models),
            models=models,
            tenants=list_holdings(snapshot, None if principal.sees_all else principal.tenant),
            waiting=self._cache.count_waiting(),
            queue=queue,
            failing=failing,
            failing_total=failing_total,
            silent_nodes=self._fleet.list_silent_nodes(),
            mine=MyJobs(
                pending=live.get("pending", 0),
                starting=live.get("starting", 0),
                running=live.get("running", 0),
                recent=recent,
            ),
            today=self._sum_today(principal, now_ns),
        )

    def _sum_today(self, principal: Principal, now_ns: int) -> TodayOut:
        with self._lock:
            known = self._sums.get(principal.user_id)
        if known is not None and 0 <= now_ns - known[0] < DAY_SECONDS * NANOS_PER_SECOND:
            return known[1]
        now = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC)
        midnight = now.replace(hour=0, minute=0, second=0)
        since_ns = int(midnight.timestamp()) * NANOS_PER_SECOND
        # Its end is the ledger's own now, which it says.
        report = self._metering.make_report(principal, since_ns, now_ns)
        held = 0
        idle = 0
        for row in report.rows:
            if row.kind == "tenant":
                held += row.card_milliseconds
            elif row.kind in ("idle", "reserved"):
                idle += row.card_milliseconds
        today = TodayOut(
            since_ns=report.since_ns,
            until_ns=report.until_ns,
            held_card_milliseconds=held,
            idle_card_milliseconds=idle if principal.sees_all else None,
        )
        today = self.add_cost(principal, today)
        with self._lock:
            if len(self._sums) >= _MOST_SUMS:
                self._sums.clear()
            self._sums[principal.user_id] = now_ns, today
        return today


def _add_no_cost(_principal: Principal, today: TodayOut) -> TodayOut:
    """Leave the sums as they are: the pool has no price list."""
    return today
