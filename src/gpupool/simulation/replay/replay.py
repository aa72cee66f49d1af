"""Play a trace through the scheduler's own cycle, driven by a heap of events.

Nothing here chooses a place for a job. At every instant at which something happens (a job arrives,
a job ends) the cycle runs until it changes nothing more, exactly as the placer of a real pool runs
it. Its plan is applied to the simulated pool, and the ends of started jobs go on the heap. Time is
a number, so a month takes as long as its decisions take to compute. The same trace, pool and
policy give the same decisions, bit for bit (tests/golden/test_frozen.py).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.claim import Rejection
from gpupool.scheduling.admission.claim import judge_claim
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.beneficiaries import EvictionBeneficiaries
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES, PreemptionRules
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement, Plan, PlannedStart
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.start_records import (
    ESTIMATE,
    PROMISE,
    ForecastOutcome,
    ForecastSummary,
    StartForecasts,
    compute_calibration_error_pct,
)
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.simulation.replay.arrival_jobs import build_jobs, group_gangs, share_equal_shapes
from gpupool.simulation.replay.foreknowledge import Foreknowledge
from gpupool.simulation.replay.world import HEADS, SimulatedJob, SimulatedPool
from gpupool.simulation.traces.trace import JobArrival

#: Kinds of events; the heap takes those of one instant in this order.
_END, _ARRIVE, _WAKE = range(3)
#: The window of evictions that `PreemptionRules` counts by tenant.
_HOUR_NS = 3600 * NANOS_PER_SECOND
#: So often the clock is moved on for a start that was promised before what waits is given up.
_IDLE_WAKES = 3

#: Told (jobs that came and went or never will, jobs in all) now and then.
Progress = Callable[[int, int], None]


class ReplayWatcher(Protocol):
    """An observer of a replay, called in the order of events. It must not change the pool."""

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
        """Called before the clock moves on; between the two instants nothing happened."""

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None:
        """Called for a submission; `refused` says why the pool does not admit it."""

    def on_start(self, job: SimulatedJob, placement: JobPlacement, now_ns: int) -> None:
        """Called after the job holds its seats."""

    def on_end(self, job: SimulatedJob, now_ns: int) -> None:
        """Called while the job still holds its seats."""

    def on_eviction(self, job: SimulatedJob, eviction: Eviction, now_ns: int) -> None:
        """Called while the job still holds its seats."""


@dataclass
class ReplayOutcome:
    """Totals of a replay."""

    ended_ns: int = 0
    cycles: int = 0
    #: Placements and evictions.
    decisions: int = 0
    #: Jobs that no emptying of the pool would let in, by the dominant reason.
    refused: Counter[str] = field(default_factory=Counter)
    left_waiting: int = 0
    left_running: int = 0
    #: Of both: jobs whose end is unknown.
    no_end: int = 0
    promises: ForecastSummary = field(default_factory=ForecastSummary)
    #: Starts that were told as estimates, each claim once for each sort (`start_records`).
    estimates: ForecastSummary = field(default_factory=ForecastSummary)


class Replay:
    """The life of one simulated pool, until nothing more can happen."""

    def __init__(
        self,
        world: SimulatedPool,
        watchers: Iterable[ReplayWatcher] = (),
        *,
        known: Foreknowledge | None = None,
        until_ns: int | None = None,
        most_cycles: int | None = None,
        keeps_scores: bool = False,
        rules: PreemptionRules = DEFAULT_PREEMPTION_RULES,
        promised: Mapping[ClassKey, PlannedStart] | None = None,
    ) -> None:
        """Prepare a replay.

        Args:
            world: The pool; it is changed as the replay goes on.
            watchers: Called with every event, in their order.
            known: What the pool knows of claims to come; called before the watchers. Without it
                the pool expects what its first snapshot says.
            until_ns: The clock stops here.
            most_cycles: The replay ends after so many cycles.
            keeps_scores: Placements say what their score is made of, for records.
            rules: Which jobs may be evicted.
            promised: Starts that claims of the pool were promised before.
        """
        self.world = world
        self.outcome = ReplayOutcome()
        self._known = known
        self._watchers = (*filter(None, [known]), *watchers)
        self._until = until_ns
        self._most = most_cycles
        self._keeps_scores = keeps_scores
        self._preemption = rules
        self._heap: list[tuple[int, int, int, str]] = []
        self._coming: dict[str, tuple[JobArrival, ...]] = {}
        self._number = 0
        self._judged: dict[tuple[object, str], Rejection | None] = {}
        self._expected = 0
        self._wakes = 0
        # One planning state for all cycles: it follows changed cards by their generation, which
        # costs less than building it from each snapshot.
        self._board: PlanningState | None = None
        self._promised: Mapping[ClassKey, PlannedStart] = promised or {}
        self._evicted: deque[tuple[int, str]] = deque()
        self._owed = EvictionBeneficiaries()
        self.start_forecasts = StartForecasts()
        #: What came of each start that was told.
        self.forecast_outcomes: list[ForecastOutcome] = []

    def play_arrivals(
        self, arrivals: Sequence[JobArrival], now_ns: int = 0, progress: Progress | None = None
    ) -> ReplayOutcome:
        """Let the arrivals come, and what runs in the world end. `now_ns` is where the clock
        stands."""
        for job in self.world.running.values():
            self._schedule_end(job, now_ns)
        self._expected = (
            sum(one.members for one in arrivals)
            + len(self.world.running)
            + self.world.waiting_count
        )
        for group in group_gangs(share_equal_shapes(arrivals)):
            self._coming[group[0].job] = group
            self._push_event(group[0].at_ns, _ARRIVE, group[0].job)
        if self.world.waiting_count:
            self._push_event(now_ns, _WAKE, "")
        self._play_events(now_ns, progress or (lambda _done, _all: None))
        return self._summarize_outcome()

    def _play_events(self, now_ns: int, progress: Progress) -> None:
        finished = 0
        while self._heap and (self._until is None or self._heap[0][0] <= self._until):
            if self._most is not None and self.outcome.cycles >= self._most:
                self.outcome.ended_ns = now_ns
                return
            # `max`: jobs of a world that is played forward may have been due before `now_ns`.
            at = max(now_ns, self._heap[0][0])
            if at > now_ns:
                self._notify_clock(now_ns, at)
                now_ns = at
            # All events of an instant before the first cycle: a pool's placer waits a moment for
            # more, too, and the plan must not depend on the order of equal times in a trace.
            while self._heap and self._heap[0][0] <= now_ns:
                finished += self._handle_event(heapq.heappop(self._heap), now_ns)
            self._run_cycles(now_ns)
            progress(finished, self._expected)
        if self._until is not None and self._until > now_ns:
            self._notify_clock(now_ns, self._until)
            now_ns = self._until
        self.outcome.ended_ns = now_ns

    def _handle_event(self, event: tuple[int, int, int, str], now_ns: int) -> int:
        """Apply one event; return how many jobs are finished or refused by it."""
        _, kind, starts, name = event
        if kind == _ARRIVE:
            return self._admit_group(self._coming.pop(name), now_ns)
        job = self.world.running.get(name)
        # A job that was evicted and started again has two ends on the heap: `starts` tells the
        # one that counts. Removing the other from the heap would cost a search.
        if kind == _END and job is not None and job.starts == starts:
            for watcher in self._watchers:
                watcher.on_end(job, now_ns)
            self.world.release_job(name, now_ns)
            self._wakes = 0
            return 1
        return 0

    def _admit_group(self, group: Sequence[JobArrival], now_ns: int) -> int:
        jobs = list(build_jobs(group))
        refused = self._find_refusal(jobs)
        for watcher in self._watchers:
            watcher.on_arrival(jobs, refused, now_ns)
        self._wakes = 0
        if refused is None:
            self.world.enqueue_jobs(jobs)
            return 0
        self.outcome.refused[str(refused.dominant)] += len(jobs)
        return len(jobs)

    def _find_refusal(self, jobs: Sequence[SimulatedJob]) -> Rejection | None:
        """Find why no waiting would ever start these jobs; None where it may.

        Judged once for every shape and tenant: a trace has far fewer of them than jobs.
        """
        for job in jobs:
            key = (job.shape, job.key.tenant)
            if key not in self._judged:
                view = self.world.tenants[job.key.tenant]
                self._judged[key] = judge_claim(
                    job.shape, view, self.world.cards, tenant_name=job.key.tenant
                )
            refused = self._judged[key]
            if refused is not None and not refused.fits_ever:
                return refused
        return None

    def _run_cycles(self, now_ns: int) -> None:
        """Run cycles until one changes nothing, as the placer of a pool does."""
        while self.world.waiting_count:
            snapshot = self._take_snapshot(now_ns)
            self._board = self._board or PlanningState(snapshot, keeps_scores=self._keeps_scores)
            rules = self._build_rules(now_ns)
            plan = cycle(snapshot, now_ns, limit=HEADS, board=self._board, rules=rules, said=False)
            self.outcome.cycles += 1
            self._promised = plan.starts
            self.world.promised = plan.starts
            self._apply_evictions(plan.evictions, now_ns)
            self._apply_placements(plan.placements, now_ns)
            self.start_forecasts.record_plan(plan.starts, now_ns)
            if not plan.placements and not plan.evictions:
                self._schedule_wake(plan, now_ns)
                break
            self._wakes = 0
        self.forecast_outcomes += self.start_forecasts.settle_passed(now_ns, lambda _claim: True)

    def explain_waiting(self, now_ns: int) -> Mapping[ClassKey, Rejection]:
        """Return why each class still waits at `now_ns`, the last instant of the replay.

        It runs a cycle of its own, since the cycles of a replay compute no reasons.
        """
        if not self.world.waiting_count:
            return {}
        return cycle(
            self._take_snapshot(now_ns), now_ns, limit=HEADS, rules=self._build_rules(now_ns)
        ).rejections

    def _take_snapshot(self, now_ns: int) -> Snapshot:
        # Without foreknowledge the demand is what the pool began with, as for a study of policies.
        before = self.world.take_snapshot(now_ns)
        owed = (*before.beneficiaries, *self._owed.list_claims(now_ns))
        expected = before.expected if self._known is None else self._known.expected_demand
        return replace(
            before, expected=expected, previous_starts=self._promised, beneficiaries=owed
        )

    def _build_rules(self, now_ns: int) -> PreemptionRules:
        """Return the rules with the evictions of the last hour, which they bound by tenant."""
        while self._evicted and self._evicted[0][0] <= now_ns - _HOUR_NS:
            self._evicted.popleft()
        return replace(self._preemption, evicted=Counter(tenant for _, tenant in self._evicted))

    def _apply_placements(self, placements: Sequence[JobPlacement], now_ns: int) -> None:
        for placement in placements:
            job = self.world.place_job(placement, now_ns)
            self._owed.remove_claim(placement.gang or placement.job)
            self.forecast_outcomes += self.start_forecasts.record_start(
                placement.gang or placement.job, now_ns
            )
            self.outcome.decisions += 1
            self._schedule_end(job, now_ns)
            for watcher in self._watchers:
                watcher.on_start(job, placement, now_ns)

    def _apply_evictions(self, evictions: Sequence[Eviction], now_ns: int) -> None:
        """Evict jobs: they wait again, and lose their work since their last checkpoint."""
        for eviction in evictions:
            job = self.world.running[eviction.job]
            assert job.run is not None
            for watcher in self._watchers:
                watcher.on_eviction(job, eviction, now_ns)
            if job.left_ns is not None:
                # Whole seconds are lost, so more than the run may be: nothing is done then, and
                # `checking.live` allows one second for each eviction.
                lost_ns = eviction.lost_seconds * NANOS_PER_SECOND
                job.left_ns -= max(0, now_ns - job.run.started_ns - lost_ns)
            self._owed.add_eviction(job.id, eviction.beneficiary)
            self.world.release_job(job.id, now_ns)
            self._owed.record_departure(job.id, now_ns)
            self.world.enqueue_jobs([job], again=True)
            self._evicted.append((now_ns, job.key.tenant))
            self.outcome.decisions += 1

    def _schedule_end(self, job: SimulatedJob, now_ns: int) -> None:
        if job.left_ns is not None:
            self._heap_end(now_ns + job.left_ns, job)

    def _heap_end(self, at_ns: int, job: SimulatedJob) -> None:
        heapq.heappush(self._heap, (at_ns, _END, job.starts, job.id))

    def _push_event(self, at_ns: int, kind: int, name: str) -> None:
        self._number += 1
        heapq.heappush(self._heap, (at_ns, kind, self._number, name))

    def _schedule_wake(self, plan: Plan, now_ns: int) -> None:
        """Wake the loop at the next promised start if nothing else happens until then.

        Without it a start that waits for a reservation's end, at which no job ends, would never be
        tried. The bound `_IDLE_WAKES` ends a replay in which promises move on for ever.
        """
        starts: list[int] = []
        for start in plan.starts.values():
            if start.at_ns > now_ns:
                starts.append(start.at_ns)
        if not starts or self._wakes >= _IDLE_WAKES:
            return
        first = min(starts)
        if self._heap and self._heap[0][0] <= first:
            return
        self._wakes += 1
        self._push_event(first, _WAKE, "")

    def _notify_clock(self, before_ns: int, now_ns: int) -> None:
        for watcher in self._watchers:
            watcher.on_clock_advance(self.world, before_ns, now_ns)

    def _summarize_outcome(self) -> ReplayOutcome:
        left = [*self.world.running.values(), *self.world.list_waiting()]
        self.outcome.left_running = len(self.world.running)
        self.outcome.left_waiting = self.world.waiting_count
        self.outcome.promises = ForecastSummary(*self.start_forecasts.count_outcomes(PROMISE))
        self.outcome.estimates = ForecastSummary(
            *self.start_forecasts.count_outcomes(ESTIMATE),
            compute_calibration_error_pct(self.forecast_outcomes),
        )
        self.outcome.no_end = sum(1 for job in left if job.left_ns is None)
        return self.outcome
