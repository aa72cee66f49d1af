"""Writes a plan into the ledger, and updates cache and planner after the commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpupool.allocations.arrays.members import create_members, replace_members_in_evictions
from gpupool.allocations.budgeting.admission import HOLDS_CHANGED, admit_plan
from gpupool.allocations.budgeting.holds import BudgetHold
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.cache.pending_jobs import QueueEntry, read_waiting_jobs
from gpupool.allocations.ledger import evictions
from gpupool.allocations.ledger.cache_updates import LedgerChange
from gpupool.allocations.ledger.grants import write_grants
from gpupool.allocations.placement.address_admission import admit_addresses
from gpupool.allocations.placement.planner import Planner
from gpupool.base.errors import StaleGeneration, SubnetFull
from gpupool.metering.service import MeteringService
from gpupool.scheduling import Plan
from gpupool.store.database import Store, WriteTransaction


@dataclass(frozen=True)
class WrittenPlan:
    """What was written of a plan, for the cache after the commit."""

    granted: LedgerChange
    #: Jobs of the plan that no longer wait.
    gone: Sequence[str]
    #: The beneficiary of each victim.
    leaving: Mapping[str, str]
    #: Members of arrays that became jobs because victims leave for them.
    made: tuple[str, ...]
    #: The queue entries of `made`.
    waiting: tuple[QueueEntry, ...]
    #: Budgets that are spent, for which jobs of the plan were left out.
    holds: tuple[BudgetHold, ...] = ()


class PlanWriter:
    """Writes plans in the caller's transaction."""

    def __init__(
        self, store: Store, cache: LedgerCache, metering: MeteringService, planner: Planner
    ) -> None:
        self._store = store
        self._cache = cache
        self._metering = metering
        self._planner = planner
        #: Whether plans are checked for addresses: after one failed, until one lacks none.
        self._checks_addresses = False

    def write_plan(self, write: WriteTransaction, plan: Plan) -> WrittenPlan:
        """Write placements, records of starts, and evictions.

        Args:
            write: The transaction; the caller commits it, and then calls `update_cache`.
            plan: The plan, whose generations are checked.

        Raises:
            StaleGeneration: The pool has changed since the plan, or a network has no address for a
                job of it; the caller rolls back.
        """
        admission = admit_plan(write, plan)
        plan = admission.plan
        is_checked = self._checks_addresses
        if is_checked:
            plan = admit_addresses(write, plan)
            self._checks_addresses = plan is not admission.plan
        # Grants before evictions: a stale plan fails before any victim is asked to leave.
        try:
            granted, gone = write_grants(write, self._metering, plan.placements)
        except SubnetFull as error:
            if is_checked:
                raise
            self._checks_addresses = True
            raise StaleGeneration("a network has no address for a job of the plan") from error
        seated = {*granted.jobs, *granted.made}
        started = set[str]()
        for placement in plan.placements:
            if placement.job in seated:
                started.add(placement.gang or placement.job)
        # The record of a start is counted in the transaction of the start, so that a server killed
        # here counts it once or not at all.
        self._planner.start_records.save_changes(write, started)
        # A beneficiary is stored by its public id, so a member of an array needs a row first.
        beneficiaries = [eviction.beneficiary for eviction in plan.evictions]
        made = create_members(write, beneficiaries)
        ordered = replace_members_in_evictions(plan.evictions, made)
        leaving = evictions.evict_jobs(write, ordered, self._planner.rules.grace_s)
        waiting = list[QueueEntry]()
        if made:
            estimate = self._cache.estimate_seconds
            waiting = read_waiting_jobs(write.connection, made.values(), estimate)
        return WrittenPlan(granted, gone, leaving, tuple(made), tuple(waiting), admission.holds)

    def update_cache(self, written: WrittenPlan) -> None:
        """Apply a committed plan to the cache, and its evictions to the planner's rules."""
        self._cache.apply_change(written.granted)
        # In this order: a member leaves its array's rest before it comes back as a job of its own.
        self._cache.record_created_members(written.made)
        self._cache.enqueue_jobs(written.waiting, again=True)
        now_ns = self._store.clock.now_ns()
        tenants = self._cache.record_leaving_jobs(written.leaving, written.leaving)
        self._planner.record_evictions((now_ns, tenant) for tenant in tenants)
        self._cache.dequeue_jobs([*written.granted.jobs, *written.gone])
        self.record_holds(written)

    def record_holds(self, written: WrittenPlan) -> None:
        """Hold the owners whose budget a committed plan found spent. Idempotent."""
        if written.holds:
            with self._cache.lock:
                self._cache.budgets.add_holds(written.holds)
            self._store.notifier.publish_topics(HOLDS_CHANGED)
