"""Makes plans on the cache, and keeps the last plan's starts and rejections for readers.

It writes nothing and takes no lock: the placer plans one at a time and acts on the plan. What a
plan promised is in the next snapshot, so that promises are kept from plan to plan.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.cache.pending_jobs import QueueEntry
from gpupool.allocations.cache.reservations import find_next_boundary
from gpupool.allocations.cache.start_records import StartRecords
from gpupool.allocations.placement.shared_rejections import SharedRejections
from gpupool.base.clock import LedgerClock
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.claim import Rejection
from gpupool.scheduling import (
    ClassKey,
    Explanation,
    FaultTolerantCycles,
    Plan,
    PlannedStart,
    PlanningState,
    PolicyFault,
    PreemptionRules,
    Snapshot,
    WaitingClass,
    cycle_with_state,
    explain_claim,
    renumber_start,
    select_judged,
)
from gpupool.store import counters

#: Claims that one plan places at most: the transaction that writes it blocks all other writers.
BATCH = 64
#: Seconds between two plans at most while a job waits: weights, decayed usage and estimates change
#: with time alone.
LOOK_SECONDS = 60.0
#: The window of the limit on evictions per tenant.
HOUR_NS = 3600 * NANOS_PER_SECOND
#: Seconds of a wait at least, so that an instant that has just passed cannot make the thread spin.
SHORTEST_WAIT_SECONDS = 0.01

log = logging.getLogger(__name__)


class _Judgement(NamedTuple):
    """The rejections of a plan and the generation that it was made from, replaced as a whole."""

    generation: int = 0
    rejections: Mapping[ClassKey, Rejection] = MappingProxyType({})


class Planner:
    """Plans and answers. Readers need no lock: each plan replaces the answers as a whole."""

    def __init__(self, cache: LedgerCache, clock: LedgerClock, rules: PreemptionRules) -> None:
        self.rules = rules
        self._cache = cache
        self._clock = clock
        self._cycles = FaultTolerantCycles(_count_fault)
        #: Instant and tenant of the evictions of the last hour, oldest first.
        self._evicted: deque[tuple[int, str]] = deque()
        self._judgement = _Judgement()
        self._starts: Mapping[ClassKey, PlannedStart] = {}
        self.start_records = StartRecords()
        self._loaded = False
        #: The uuids of the snapshot to whose rows `_starts` refer.
        self._cards: tuple[str, ...] = ()

    # --- deciding --------------------------------------------------------------------------

    def build_snapshot(self, extra: WaitingClass | None = None) -> Snapshot:
        """Return the cache's snapshot with the starts that the last plan promised.

        Args:
            extra: A claim that is not in the queue, or not yet.
        """
        snapshot = self._cache.build_snapshot(extra)
        # By identity: the tuple of uuids is another one only after the cards were read anew.
        if snapshot.cards.uuids is not self._cards:
            self._renumber_starts(snapshot)
        reserved = {key: start for key, start in self._starts.items() if start.reserved}
        return replace(snapshot, previous_starts=reserved)

    def _renumber_starts(self, snapshot: Snapshot) -> None:
        # Promises name their cards by uuid too, so they outlive the rows. Estimates do not: the
        # next plan makes new ones.
        starts = dict[ClassKey, PlannedStart]()
        for key, start in self._starts.items():
            renumbered = renumber_start(start, snapshot.cards) if start.firm else None
            if renumbered is not None:
                starts[key] = renumbered
        self._starts = starts
        self._cards = snapshot.cards.uuids

    def make_plan(self, snapshot: Snapshot) -> Plan:
        """Run one cycle of the scheduler on the snapshot. Writes nothing."""
        started = time.perf_counter()
        now_ns = self._clock.now_ns()
        plan = self._cycles.make_plan(snapshot, now_ns, BATCH, self.list_rules(now_ns))
        shared = SharedRejections(plan.rejections)
        counters.decisions.count_cycle(
            seconds=time.perf_counter() - started,
            placements=len(plan.placements),
            judged=select_judged(plan.rejections),
            left=shared,
        )
        return replace(plan, rejections=shared)

    @property
    def fault(self) -> PolicyFault | None:
        """What is wrong with the placement policy or the statistics; None if nothing is."""
        return self._cycles.fault or self._cache.statistics_fault

    def keep_plan(self, plan: Plan) -> None:
        """Make this plan the last one.

        A promise stands until its claim starts, because a planned placement may not be written.
        """
        placed = {placement.gang or placement.job for placement in plan.placements}
        starts = dict[ClassKey, PlannedStart]()
        for key, start in self._starts.items():
            if start.firm and start.claim in placed:
                starts[key] = start
        starts.update(plan.starts)
        self._judgement = _Judgement(plan.generation, plan.rejections)
        self._starts = starts
        self.start_records.record_plan(plan, self._clock.now_ns(), self._waits)

    def load_promises(self, connection: sa.Connection) -> None:
        """Read the promises from before a restart; later calls do nothing."""
        if self._loaded:
            return
        self._loaded = True
        for start in self.start_records.load_records(connection, self._waits):
            if (key := self._cache.find_claim_key(start.claim)) is not None:
                self._starts = {**self._starts, key: start}

    def _waits(self, claim: str) -> bool:
        return self._cache.find_claim_key(claim) is not None

    def forget_plan(self) -> None:
        """Drop starts and rejections, because no job waits."""
        self._judgement = _Judgement()
        self._starts = {}

    def record_evictions(self, evicted: Iterable[tuple[int, str]], *, anew: bool = False) -> None:
        """Note the instant and tenant of evictions; with `anew`, these replace all others."""
        if anew:
            self._evicted.clear()
        self._evicted.extend(evicted)
        # What is older than the window counts no more: the list stays short.
        oldest_ns = self._clock.now_ns() - HOUR_NS
        while self._evicted and self._evicted[0][0] <= oldest_ns:
            self._evicted.popleft()

    def _planning_state(self, snapshot: Snapshot) -> PlanningState:
        # Carried on from plan to plan, so that a plan costs what has changed since the last one.
        return self._cycles.get_state(snapshot)

    def list_rules(self, now_ns: int) -> PreemptionRules:
        """Return the rules, with what each tenant has lost within the last hour."""
        # A copy: the placer's thread adds to it while another one previews.
        recent = [tenant for at_ns, tenant in self._evicted.copy() if at_ns > now_ns - HOUR_NS]
        return replace(self.rules, evicted=Counter(recent))

    # --- answers -------------------------------------------------------------------------

    def list_turns(self, snapshot: Snapshot, limit: int) -> list[tuple[WaitingClass, int]]:
        """List the classes and head numbers that are next, in scheduling order."""
        state = self._planning_state(snapshot)
        # A plan of 0 placements: only its queue is wanted.
        with cycle_with_state(snapshot, self._clock.now_ns(), 0, state) as (_, run):
            waiting = run.snapshot.waiting
            found = list[tuple[WaitingClass, int]]()
            queue = run.make_queue()
            while len(found) < limit and (turn := queue.take_next()) is not None:
                found.append((waiting[turn[0]], turn[1]))
                if waiting[turn[0]].gang is None:
                    queue.put_back(turn[0], turn[1] + 1)
            return found

    def explain_wait(self, waiting: WaitingClass, job: str = "") -> Explanation:
        """Explain why a job waits and what would help; without a name, the first of its class."""
        snapshot = self.build_snapshot()
        now_ns = self._clock.now_ns()
        board = self._planning_state(snapshot)
        rules = self.list_rules(now_ns)
        return explain_claim(
            snapshot, waiting, now_ns, board, rules, job=job, book=self.start_records.book
        )

    def find_start(self, key: ClassKey | None, job: str) -> tuple[PlannedStart, int | None] | None:
        """Return the start of a job or its gang as of the last plan, with its chance in percent.

        The chance is None for a promise, or if too little is known.
        """
        start = None if key is None else self._starts.get(key)
        if key is None or start is None or start.claim not in (job, key.gang):
            return None
        return start, self.start_records.book.get_chance_pct(key, start, self._clock.now_ns())

    def find_job_start(self, job: str) -> tuple[PlannedStart, int | None] | None:
        """Return the start of a job by its name, as `find_start` does."""
        return self.find_start(self._cache.find_class_key(job), job)

    def list_start_waits(self) -> list[QueueEntry]:
        """List the entries that may not start yet, the oldest submission first."""
        with self._cache.lock:
            return self._cache.waits.list_entries()

    def find_rejection(self, key: ClassKey) -> Rejection | None:
        """Return why a class waited in the last plan."""
        return self._judgement.rejections.get(key)

    def describe_wait(self, job: str) -> str:
        """Describe in one sentence why a job waits: may not start, budget, or the last plan."""
        wait = self._cache.waits.find_wait(job)
        if wait is not None:
            return wait.describe(self._clock.now_ns())
        spent = self._cache.budgets.find_sentence(job)
        if spent is not None:
            return spent
        judgement = self._judgement
        # A job that came later has no answer, though the class in which it waits may have one.
        key = self._cache.find_class_key(job, judgement.generation)
        rejection = None if key is None else judgement.rejections.get(key)
        return rejection.sentence if rejection else "not looked at yet"

    def compute_next_wake(self) -> float | None:
        """Return the seconds until time alone can change a plan; None if it cannot."""
        now_ns = self._clock.now_ns()
        due_ns = self._cache.waits.next_due_ns
        until_due = None
        if due_ns is not None:
            until_due = max(SHORTEST_WAIT_SECONDS, (due_ns - now_ns) / NANOS_PER_SECOND)
        if not self._cache.count_waiting():
            return until_due
        boundary = find_next_boundary(self._cache.list_reservations(), now_ns)
        seconds = LOOK_SECONDS if until_due is None else min(LOOK_SECONDS, until_due)
        instants = [start.at_ns for start in self._starts.values()]
        if boundary:
            instants.append(boundary)
        for at_ns in instants:
            if at_ns > now_ns:
                wait = (at_ns - now_ns) / NANOS_PER_SECOND
                seconds = min(seconds, max(SHORTEST_WAIT_SECONDS, wait))
        return seconds


def _count_fault(fault: PolicyFault) -> None:
    log.error("%s: %s", fault.sentence, fault.error)
    counters.decisions.policy_failed(fault.policy)
