"""Forecast a pool: play its state forward, as it is or with a change. Pure.

Nothing new arrives. Jobs that wait now start when the scheduler would start them; jobs that run end
when their limit (or the statistics of past runs) says. Jobs with an unknown end never end here, and
are counted. A job on a removed node waits again, at its old place in the queue, and starts from
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpupool.model.claim import Rejection, Shape, SharingKind
from gpupool.scheduling.engine.promises import renumber_start
from gpupool.scheduling.snapshot.claims import ClassKey, RunningJob
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement, Plan, PlannedStart
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.start_records import StartForecasts
from gpupool.simulation.replay.fragments import (
    compute_largest_milli,
    compute_stranded_bytes,
    count_whole_cards,
)
from gpupool.simulation.replay.measure import WaitSummary, summarize_waits
from gpupool.simulation.replay.pool_changes import AlteredPool, alter_pool
from gpupool.simulation.replay.replay import Replay
from gpupool.simulation.replay.sharing_changes import SharingChange, change_shape, change_sharing
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool
from gpupool.simulation.studies.forecast_jobs import (
    build_homeless_job,
    build_queue,
    build_running_job,
)
from gpupool.simulation.traces.trace import TraceNode

#: Cycles of one forecast; the horizon is then nearer than requested. It bounds the answer's time
#: (`forecast_worker.MOST_SECONDS`) for a pool with a long queue.
MOST_CYCLES = 600


@dataclass(frozen=True)
class PoolChange:
    """A change of the pool. `nominal_milli` is the guaranteed compute by tenant.

    `policy` is a policy of placement, `sharing` the kind that every share gets.
    """

    add: tuple[TraceNode, ...] = ()
    remove: tuple[str, ...] = ()
    policy: str | None = None
    nominal_milli: Mapping[str, int] = field(default_factory=dict)
    sharing: SharingKind | None = None


@dataclass(frozen=True)
class QueueForecast:
    """What becomes of the jobs that wait now: of one tenant, or of all."""

    waiting: int
    start_now: int
    #: TopologyConstraint the horizon.
    start_later: int
    #: From submission to start, gangs once.
    waits: WaitSummary
    #: Claims that wait and have a promised start now, and those with an estimated one.
    promised: int = 0
    estimated: int = 0
    #: Of 100 such estimates so many came true, their mean; None where too little is known.
    chance_pct: int | None = None


@dataclass(frozen=True)
class PoolForecast:
    """One side of a comparison.

    Free capacity is that of the instant at which everything has started that can start now.
    """

    cards: int
    nodes: int
    queue: QueueForecast
    tenants: Mapping[str, QueueForecast]
    allocation_now_pct: float | None
    #: Mean over the horizon.
    allocation_pct: float | None
    largest_milli: int
    whole_nodes: int
    evictions: int
    no_end: int
    #: Jobs on removed nodes, which wait again.
    moved: int
    horizon_ns: int
    #: Memory that is free beside no free compute.
    stranded_bytes: int = 0
    #: How many cards there are of each model.
    models: Mapping[str, int] = field(default_factory=dict)
    policy: str = ""
    #: Jobs whose sharing the change replaces, and running ones whose card has no compute for it.
    sharing_changed: int = 0
    sharing_unchanged: int = 0


def forecast_pool(
    snapshot: Snapshot,
    change: PoolChange,
    now_ns: int,
    horizon_ns: int,
    book: StartForecasts | None = None,
) -> PoolForecast:
    """Play the pool with the change forward to `now_ns + horizon_ns`.

    `book` knows how often estimated starts came true. Raises UnknownPolicy.
    """
    after = alter_pool(snapshot, change.add, change.remove)
    tenants = dict(after.snapshot.tenants)
    for name, milli in change.nominal_milli.items():
        quota = tenants[name].quota
        # Without a guaranteed part a tenant had no bound; with one, borrowing starts at 0.
        borrowing = quota.borrowing_milli if quota.nominal_milli is not None else 0
        tenants[name] = replace(
            tenants[name], quota=replace(quota, nominal_milli=milli, borrowing_milli=borrowing)
        )
    begin = replace(after.snapshot, tenants=tenants, policy=change.policy or snapshot.policy)
    shares = SharingChange(begin, 0, 0)
    homeless = after.homeless
    if change.sharing is not None:
        shares = change_sharing(begin, change.sharing)
        shapes = [change_shape(job.shape, change.sharing) for job in homeless]
        homeless = tuple(map(_give_shape, homeless, shapes))
    altered = AlteredPool(shares.snapshot, homeless)
    found = _play_forward(altered, now_ns, horizon_ns, book or StartForecasts())
    return replace(
        found,
        policy=begin.policy,
        sharing_changed=shares.changed,
        sharing_unchanged=shares.unchanged,
    )


def _give_shape(job: RunningJob, shape: Shape) -> RunningJob:
    return replace(job, shape=shape)


class _FirstLook(Replay):
    """A replay that keeps the starts of the first instant, of claims that do not start at once."""

    starts: Mapping[ClassKey, PlannedStart] | None = None

    def _schedule_wake(self, plan: Plan, now_ns: int) -> None:
        if self.starts is None:
            self.starts = plan.starts
        super()._schedule_wake(plan, now_ns)


def _play_forward(
    after: AlteredPool, now_ns: int, horizon_ns: int, book: StartForecasts
) -> PoolForecast:
    begin = after.snapshot
    running = {one.job: build_running_job(one, begin, now_ns) for one in begin.running}
    world = SimulatedPool(begin, running, now_ns)
    waiting = build_queue(begin.waiting)
    homeless = [build_homeless_job(one, now_ns) for one in after.homeless]
    world.enqueue_jobs([*homeless, *waiting])
    watch = _ForecastWatcher([*homeless, *waiting], now_ns)
    # Promises of the real pool hold here too; those whose node is removed are void.
    promised: dict[ClassKey, PlannedStart] = {}
    for key, start in begin.previous_starts.items():
        moved = renumber_start(start, begin.cards) if start.firm else None
        if moved is not None:
            promised[key] = moved
    until_ns = now_ns + horizon_ns
    replay = _FirstLook(
        world, [watch], until_ns=until_ns, most_cycles=MOST_CYCLES, promised=promised
    )
    outcome = replay.play_arrivals((), now_ns)
    watch.measure_pool(world)
    starts: list[tuple[ClassKey, PlannedStart, int | None]] = []
    for key, start in (replay.starts or {}).items():
        starts.append((key, start, book.get_chance_pct(key, start, now_ns)))
    tenants: dict[str, QueueForecast] = {}
    for name in begin.tenants:
        of_tenant = [one for one in starts if one[0].tenant == name]
        tenants[name] = _add_start_counts(watch.summarize_queue(name), of_tenant)
    capacity = 1000 * len(begin.cards)
    span = max(1, outcome.ended_ns - now_ns)
    return PoolForecast(
        cards=len(begin.cards),
        nodes=len(begin.cards.nodes),
        queue=_add_start_counts(watch.summarize_queue(None), starts),
        tenants=tenants,
        allocation_now_pct=_compute_pct(watch.held_milli, capacity),
        allocation_pct=_compute_pct(watch.held_ns, capacity * span),
        largest_milli=watch.largest_milli,
        whole_nodes=watch.whole_nodes,
        evictions=watch.evictions,
        no_end=outcome.no_end,
        moved=len(homeless),
        horizon_ns=outcome.ended_ns - now_ns,
        stranded_bytes=watch.stranded_bytes,
        models=Counter(begin.cards.models[number] for number in begin.cards.model),
    )


def _add_start_counts(
    queue: QueueForecast, told: Sequence[tuple[ClassKey, PlannedStart, int | None]]
) -> QueueForecast:
    """The same, with how many of the claims have a start by now, and how sure the estimates are."""
    promised = sum(start.firm for _, start, _ in told)
    chances = [chance for _, _, chance in told if chance is not None]
    mean = round(sum(chances) / len(chances)) if chances else None
    return replace(queue, promised=promised, estimated=len(told) - promised, chance_pct=mean)


class _ForecastWatcher:
    """Records when jobs start, and what is free once everything has started that can start now."""

    def __init__(self, waiting: Sequence[SimulatedJob], now_ns: int) -> None:
        self._now_ns = now_ns
        self._jobs = {job.id: job for job in waiting}
        self._started: dict[str, int] = {}
        self._looked = False
        self.held_milli = 0
        self.held_ns = 0
        self.evictions = 0
        self.largest_milli = 0
        self.whole_nodes = 0
        self.stranded_bytes = 0

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
        self.measure_pool(world)
        self.held_ns += _sum_held_milli(world) * (now_ns - before_ns)

    def measure_pool(self, world: SimulatedPool) -> None:
        """Measure the pool once, before the clock moves on for the first time."""
        if self._looked:
            return
        self._looked = True
        whole = count_whole_cards(world.cards)
        sizes = np.bincount(world.cards.node, minlength=len(world.cards.nodes))
        self.whole_nodes = int(np.count_nonzero((whole == sizes) & (sizes > 0)))
        self.largest_milli = compute_largest_milli(world.cards, whole)
        self.stranded_bytes = compute_stranded_bytes(world.cards)
        self.held_milli = _sum_held_milli(world)

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None:
        """Change nothing: nothing new arrives."""

    def on_start(self, job: SimulatedJob, placement: JobPlacement, now_ns: int) -> None:
        self._started.setdefault(job.id, now_ns)

    def on_end(self, job: SimulatedJob, now_ns: int) -> None:
        """Change nothing: starts alone are recorded."""

    def on_eviction(self, job: SimulatedJob, eviction: Eviction, now_ns: int) -> None:
        self.evictions += 1

    def summarize_queue(self, tenant: str | None) -> QueueForecast:
        """Summarize that tenant's jobs, or with None all."""
        waiting = 0
        start_now = 0
        start_later = 0
        unstarted = 0
        waits: list[int] = []
        for job in self._jobs.values():
            if tenant not in (None, job.key.tenant):
                continue
            waiting += 1
            started_ns = self._started.get(job.id)
            if started_ns is None:
                unstarted += job.counts
                continue
            if started_ns == self._now_ns:
                start_now += 1
            else:
                start_later += 1
            if job.counts:
                waits.append(started_ns - job.submitted_ns)
        return QueueForecast(waiting, start_now, start_later, summarize_waits(waits, unstarted))


def _sum_held_milli(world: SimulatedPool) -> int:
    held_milli = 0
    for job in world.running.values():
        if job.run is not None:
            held_milli += sum(job.run.milli)
    return held_milli


def _compute_pct(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 3) if whole else None
