"""Runs scheduling cycles: takes a snapshot, plans outside transactions, writes by generation.

One thread sleeps until something changes: a job is submitted, a share is released, a card or a
quota changes. A stale plan is an ordinary outcome: the cache is read anew and planned again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.ledger import evictions
from gpupool.allocations.placement.arrival import (
    Arrival,
    count_placed_jobs,
    is_placed_whole,
    refuse_hold,
)
from gpupool.allocations.placement.cache_refresh import CacheRefresh
from gpupool.allocations.placement.debounce import PlacementDebounce
from gpupool.allocations.placement.plan_writer import PlanWriter
from gpupool.allocations.placement.planner import BATCH, Planner
from gpupool.base.errors import GpupoolError, NoRoomNow, StaleGeneration
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.metering.service import MeteringService
from gpupool.scheduling import (
    DEFAULT_PREEMPTION_RULES,
    Explanation,
    Plan,
    PolicyFault,
    PreemptionRules,
    Snapshot,
    WaitingClass,
)
from gpupool.store import counters
from gpupool.store.database import Store

#: Plans for one arrival that may turn out stale before it is written without a grant.
TRIES = 5


@dataclass(frozen=True)
class CycleOutcome:
    """What one cycle did."""

    #: Jobs that got seats.
    placed: int
    #: Whether another cycle may place more at once: the plan was full, or it was stale.
    more: bool


class Placer:
    """Runs one cycle at a time, from any thread."""

    def __init__(
        self,
        store: Store,
        cache: LedgerCache,
        metering: MeteringService,
        on_error: Callable[[BaseException], None],
        rules: PreemptionRules = DEFAULT_PREEMPTION_RULES,
    ) -> None:
        self._store = store
        self._cache = cache
        self._on_error = on_error
        self.planner = Planner(cache, store.clock, rules)
        self._refresh = CacheRefresh(store, cache)
        self._writer = PlanWriter(store, cache, metering, self.planner)
        self._cycle_lock = threading.Lock()
        self._pace = PlacementDebounce()
        self._closing = False
        self._stale_plans = 0
        self._reported_fault: PolicyFault | None = None
        #: What is done first in each cycle.
        self.before_cycle: Callable[[], None] = lambda: None
        self._thread = SupervisedThread("placer", self._loop)
        store.notifier.add_listener(self._listen)

    # --- life ----------------------------------------------------------------------------

    def load(self) -> None:
        """Load the cache and the promises; callers that run every cycle themselves need no more."""
        with self._store.read() as connection:
            self._cache.load(connection, self._store.clock.now_ns())
            self.planner.record_evictions(evictions.read_recent_evictions(connection), anew=True)
            self.planner.load_promises(connection)

    def start(self) -> None:
        """Load the cache and start the thread."""
        self.load()
        self._thread.start()
        self._pace.wake_now()

    @property
    def is_running(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop the thread after the cycle in progress."""
        self._closing = True
        self._thread.stop()
        self._pace.wake_now()
        self._thread.join()

    def _listen(self, topics: frozenset[Hashable]) -> None:
        self._refresh.mark_topics(topics)
        if topics & {"fleet", "quota", "queue", "reservations"}:
            self._pace.wake_now()

    def _loop(self) -> None:
        while not self._closing:
            self._pace.wait_for_wake(self.planner.compute_next_wake())
            try:
                while not self._closing and self._run_busy_cycle():
                    pass
            except BaseException:
                # The supervisor calls the loop again after a pause; no event need come then.
                self._pace.wake_now()
                raise
            self._thread.mark_well()

    def _run_busy_cycle(self) -> bool:
        with mark_busy():
            return self.run_cycle().more

    # --- answers -------------------------------------------------------------------------

    def list_turns(self, snapshot: Snapshot, limit: int) -> list[tuple[WaitingClass, int]]:
        """List the classes and head numbers that are next, in scheduling order."""
        with self._cycle_lock:
            return self.planner.list_turns(snapshot, limit)

    def explain_wait(self, job: str) -> tuple[WaitingClass, Explanation] | None:
        """Explain why a job waits; None if it no longer waits. Placement pauses meanwhile."""
        # The planner's state belongs to one cycle at a time, and an explanation plays on it.
        with self._cycle_lock:
            self.refresh_cache()
            waiting = self._cache.find_waiting_class(job)
            return None if waiting is None else (waiting, self.planner.explain_wait(waiting, job))

    def refresh_cache(self) -> None:
        """Read what changed since the last plan, as `CacheRefresh.refresh`. From any thread."""
        self._refresh.refresh()

    @contextmanager
    def pause_placement(self, cards: Collection[str] = ()) -> Iterator[Snapshot]:
        """Yield the pool's snapshot with its promises; no plan is made while the block runs.

        Args:
            cards: Cards to read anew if the block raises StaleGeneration.
        """
        with self._cycle_lock:
            self.refresh_cache()
            try:
                yield self.planner.build_snapshot()
            except StaleGeneration:
                counters.decisions.count_conflict()
                self._refresh.read_cards(cards)
                raise
        self._pace.wake_now()

    def take_snapshot(self) -> Snapshot:
        """Return the snapshot of the next cycle, with the promises of the last one."""
        with self._cycle_lock:
            self.refresh_cache()
            return self.planner.build_snapshot()

    # --- acting --------------------------------------------------------------------------

    def run_cycle(self) -> CycleOutcome:
        """Run one cycle over everything that waits. Begins and commits its own transactions."""
        with self._cycle_lock:
            self._report_fault()
            self.before_cycle()
            self.refresh_cache()
            self._recover_jobs()
            if not self._cache.count_waiting():
                self.planner.forget_plan()
                return CycleOutcome(0, more=False)
            snapshot = self.planner.build_snapshot()
            plan = self.planner.make_plan(snapshot)
            # Kept even if its write turns out stale: rejections and starts are what readers see.
            self.planner.keep_plan(plan)
            self._report_fault()
            if not plan.placements and not plan.evictions:
                self._save_promises()
                return CycleOutcome(0, more=False)
            try:
                with self._store.write() as write:
                    done = self._writer.write_plan(write, plan)
                    write.note(partial(self._writer.update_cache, done))
            except StaleGeneration:
                self._read_stale_cards(plan)
                return CycleOutcome(0, more=True)
            self._stale_plans = 0
            # A class with more jobs than the snapshot names may have room for the next ones.
            full = len(plan.placements) >= BATCH or any(
                waiting.count > len(waiting.job_ids) for waiting in snapshot.waiting
            )
            return CycleOutcome(len(done.granted.jobs), more=full or bool(done.gone))

    def place_arrival(self, submitted: Arrival, *, wait: bool) -> None:
        """Write a job and, if there is room, its grant in one transaction.

        Raises:
            NoRoomNow: There is no room, and without `wait` it may not wait; nothing is written.
            BudgetSpent: Its budget is spent, and without `wait` it may not wait.
        """
        with self._cycle_lock:
            hold = self._cache.budgets.find_hold(submitted.queued[0])
            if hold is not None:
                refuse_hold(hold.sentence, wait=wait)
                self.enqueue_arrival(submitted, hold.sentence)
                return
            looked_again = False
            for _attempt in range(TRIES):
                self.refresh_cache()
                waiting = self._cache.planes.restrict_class(submitted.waiting)
                arrival = replace(submitted, waiting=waiting)
                plan = self.planner.make_plan(self.planner.build_snapshot(arrival.waiting))
                if self.planner.fault != self._reported_fault:
                    self._pace.wake_now()
                is_placed = count_placed_jobs(arrival, plan) >= len(arrival.waiting.job_ids)
                if not wait and not is_placed:
                    if looked_again:
                        raise self._build_no_room(arrival.waiting)
                    # The cache hears of an end just after its commit. A caller who has seen the end
                    # must find the room, so the ledger itself is asked before the refusal.
                    looked_again = True
                    self._refresh.read_allocated_amounts()
                    continue
                try:
                    self._write_arrival(arrival, plan, wait=wait)
                    return
                except StaleGeneration:
                    self._read_stale_cards(plan)
            if not wait:
                raise NoRoomNow(
                    "the pool changed faster than this claim could be placed", hint="try again"
                )
            # An empty plan cannot be stale: the job waits, and the thread places it.
            self._write_arrival(submitted, Plan(plan.generation, (), {}), kept=False)
            self._pace.wake_now()

    def _write_arrival(
        self, arrival: Arrival, plan: Plan, *, kept: bool = True, wait: bool = True
    ) -> None:
        # `kept`: whether the plan replaces the last one, also in what it says of other jobs.
        rejection = plan.rejections.get(arrival.waiting.key)
        with self._store.write() as write:
            arrival.insert(write)
            done = self._writer.write_plan(write, plan)
            placed = done.granted.jobs
            why = rejection.sentence if rejection else "not looked at yet"
            if done.holds and not is_placed_whole(arrival, placed):
                why = done.holds[0].sentence
                refuse_hold(why, wait=wait)
            arrival.tell(write, why)
            planned = plan.generation if kept else None
            left = (entry for entry in arrival.queued if entry.job not in placed)
            queued = [replace(entry, planned=planned) for entry in left]
            # Holds first: what they cover goes beside the queue. Then the new job, before the plan's
            # own update: a promise or a beneficiary may name the new job.
            write.note(lambda: self._writer.record_holds(done))
            write.note(lambda: self._cache.enqueue_jobs(queued))
            write.note(lambda: self._writer.update_cache(done))
        self._stale_plans = 0
        if kept:
            self.planner.keep_plan(plan)
        if self.planner.start_records.is_urgent:
            self._pace.wake_now()
        if len(placed) > count_placed_jobs(arrival, plan):
            # The plan placed other jobs as well, so the next one may place more of them.
            self._pace.wake_now()

    def _save_promises(self) -> None:
        # A promise is on disk before the next plan, even if nothing else is written.
        if self.planner.start_records.is_urgent:
            with self._store.write() as write:
                self.planner.start_records.save_changes(write)

    def enqueue_arrival(self, arrival: Arrival, why: str = "submitted a moment ago") -> None:
        """Write a job that is placed with others submitted at the same time."""
        with self._store.write() as write:
            arrival.insert(write)
            arrival.tell(write, why)
            write.note(lambda: self._cache.enqueue_jobs(arrival.queued))
        self._pace.wake_after_burst()

    def _build_no_room(self, waiting: WaitingClass) -> NoRoomNow:
        answer = self.planner.explain_wait(waiting)
        sentence = answer.sentence
        if answer.dominant is None:
            sentence = "claims of higher rank take the room there is"
        hints = (*answer.helps[:1], "leave out --no-wait to wait for room")
        return NoRoomNow(sentence, hint="; ".join(hints))

    def _report_fault(self) -> None:
        # A store that refuses the event gets it with the next cycle: placement goes on meanwhile.
        fault = self.planner.fault
        if fault == self._reported_fault:
            return
        subject = fault or self._reported_fault
        assert subject is not None
        kind = "scheduler.policy_failed" if fault else "scheduler.policy_restored"
        data = {"sentence": subject.sentence, "error": subject.error} if fault else {}
        try:
            with self._store.write() as write:
                write.event(kind, subject.policy, data=data)
        except GpupoolError as error:
            self._on_error(error)
            return
        self._reported_fault = fault

    def _recover_jobs(self) -> None:
        # Only jobs that asked to start again leave cards that are not well: any other would lose
        # its work, while it may still run on.
        if not self._refresh.has_new_cards:
            return
        self._refresh.has_new_cards = False
        names = self._cache.list_jobs_to_recover()
        if not names:
            return
        try:
            with self._store.write() as write:
                asked = evictions.recover_jobs(write, names)
                write.note(lambda: self._cache.record_leaving_jobs(asked))
        except BaseException:
            self._refresh.has_new_cards = True
            raise

    def _read_stale_cards(self, plan: Plan) -> None:
        # Nearly always another writer took a card of the plan: reading those is enough. Everything
        # is read only when that did not help.
        counters.decisions.count_conflict()
        self._stale_plans += 1
        if self._stale_plans > 1:
            self.load()
            return
        cards = set[str]()
        for placement in plan.placements:
            cards.update(seat.device for seat in placement.seats)
        self._refresh.read_cards(cards)
