"""Measure the life of a pool: allocation, fragments, waits, fairness, losses.

Averages are over the window in which work arrives (first to last arrival): before it there is
nothing to place, and after it the pool only runs dry. Waits are of jobs, gangs counted once, until
the first start. A job that never started counts as longer than all that did, so a percentile that
falls on it is unknown, never flattering.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpupool.base.units import NANOS_PER_SECOND, WHOLE
from gpupool.model.claim import Rejection
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Floats
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement
from gpupool.scheduling.timeline.start_records import ForecastSummary
from gpupool.simulation.replay.fragments import (
    FragmentationMeter,
    compute_largest_milli,
    count_whole_cards,
    list_class_names,
)
from gpupool.simulation.replay.replay import ReplayOutcome
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool

KINDS = ("share", "partition", "card", "cards", "gang", "no card")
#: Of a timeline over the window; when it grows beyond twice as many, every second one goes.
POINTS = 240
#: One card-hour, in thousandths of a card times nanoseconds: sums stay integers until the end.
_HOUR_MILLI = 3600 * NANOS_PER_SECOND * WHOLE
#: Classes of which a report shows the fragments; they come by weight.
_CLASSES = 12


def classify_job(job: SimulatedJob) -> str:
    """Return which of `KINDS` a job is."""
    if job.gang is not None:
        return "gang"
    if not job.shape.count:
        return "no card"
    if job.shape.profile is not None:
        return "partition"
    if job.shape.count > 1:
        return "cards"
    return "card" if job.shape.is_whole else "share"


@dataclass(frozen=True)
class PoolSample:
    """The pool at one instant; cards in thousandths."""

    at_ns: int
    held_milli: int
    fragment_milli: int
    largest_milli: int
    whole_nodes: int
    waiting: int


@dataclass(frozen=True)
class WaitSummary:
    """Waits in seconds, percentiles by nearest rank.

    None if the figure falls on a job that never started, or there was no job. The names of the
    fields stand in results.json.
    """

    jobs: int
    unstarted: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True)
class TenantFigures:
    """One tenant beside its weight; the names of the fields stand in results.json."""

    weight: int
    card_hours: float
    part_pct: float | None
    weight_pct: float
    p95_wait: float | None


@dataclass(frozen=True)
class LifeFigures:
    """One life; percentages are of the pool's cards over the window unless a field says otherwise.

    The names of the fields stand in results.json.
    """

    capacity_milli: int
    allocation_pct: float | None
    #: Of that, what was of use: without work that evictions lost.
    utilisation_pct: float | None
    fragment_pct: float | None
    #: Of what is free.
    fragment_ratio_pct: float | None
    fragment_by_class: Mapping[str, float]
    largest_cards: float | None
    whole_nodes: float | None
    waits: Mapping[str, WaitSummary]
    tenants: Mapping[str, TenantFigures]
    evictions: int
    lost_card_hours: float
    jobs: int
    refused: Mapping[str, int]
    unstarted: int
    #: Starts that were promised, kept and broken.
    promises: ForecastSummary
    estimates: ForecastSummary
    decisions: int
    cycles: int
    span_seconds: float
    timeline: tuple[PoolSample, ...]


class LifeMeter:
    """A watcher that adds up. `window` is (first, last arrival) in nanoseconds.

    Held time is added when a job gives its cards back, so that an event costs nothing for the jobs
    that only run on.
    """

    def __init__(
        self,
        world: SimulatedPool,
        window: tuple[int, int],
        expected: ExpectedDemand,
        weights: Mapping[str, int],
    ) -> None:
        self._begin, self._end = window
        self._weights = weights
        self._fragmentation = FragmentationMeter(world.cards, expected)
        self._capacity = WHOLE * len(world.cards)
        self._step = max(NANOS_PER_SECOND, (self._end - self._begin) // POINTS)
        self._next = self._begin
        self._timeline: list[PoolSample] = []
        self._classes = np.zeros(len(self._fragmentation.classes), dtype=np.float64)
        self._ratio: list[tuple[int, float]] = []
        self._looks = 0
        self._waits: dict[str, list[int]] = defaultdict(list)
        self._tenant_waits: dict[str, list[int]] = defaultdict(list)
        self._unstarted: dict[str, tuple[str, str]] = {}
        self._held: Counter[str] = Counter()
        self._lost = self._lost_in_window = self._evictions = self._jobs = 0

    # --- hearing ---------------------------------------------------------------------------

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
        """Add a sample for every step of the timeline that has passed.

        The pool did not change since `before_ns`, so it is measured once for all these steps.
        """
        if self._next >= now_ns:
            return
        seen, by_class = self._measure_pool(world)
        while self._next < now_ns:
            if self._next <= self._end:
                self._looks += 1
                self._classes += by_class
            self._timeline.append(PoolSample(self._next, *seen))
            self._next += self._step
            if len(self._timeline) >= 4 * POINTS:
                self._thin_timeline()

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None:
        self._jobs += len(jobs)
        if refused is not None:
            return
        for job in jobs:
            if job.counts:
                self._unstarted[job.id] = (classify_job(job), job.key.tenant)

    def on_start(self, job: SimulatedJob, placement: JobPlacement, now_ns: int) -> None:
        if job.counts and job.starts == 1:
            kind, tenant = self._unstarted.pop(job.id, (classify_job(job), job.key.tenant))
            self._waits[kind].append(now_ns - job.submitted_ns)
            self._tenant_waits[tenant].append(now_ns - job.submitted_ns)

    def on_end(self, job: SimulatedJob, now_ns: int) -> None:
        self._add_held_time(job, now_ns)

    def on_eviction(self, job: SimulatedJob, eviction: Eviction, now_ns: int) -> None:
        self._add_held_time(job, now_ns)
        self._evictions += 1
        run = job.run
        assert run is not None
        self._lost += sum(run.milli) * eviction.lost_seconds * NANOS_PER_SECOND
        lost_from = max(run.started_ns, now_ns - eviction.lost_seconds * NANOS_PER_SECOND)
        self._lost_in_window += sum(run.milli) * self._clip_to_window(lost_from, now_ns)

    def _add_held_time(self, job: SimulatedJob, now_ns: int) -> None:
        run = job.run
        assert run is not None
        self._held[run.tenant] += sum(run.milli) * self._clip_to_window(run.started_ns, now_ns)

    def _clip_to_window(self, begin_ns: int, end_ns: int) -> int:
        return max(0, min(end_ns, self._end) - max(begin_ns, self._begin))

    def _measure_pool(self, world: SimulatedPool) -> tuple[tuple[int, int, int, int, int], Floats]:
        found = self._fragmentation.measure_fragments(world.cards)
        whole = count_whole_cards(world.cards)
        sizes = np.bincount(world.cards.node, minlength=len(world.cards.nodes))
        free_nodes = int(np.count_nonzero((whole == sizes) & (sizes > 0)))
        held = self._capacity - found.free_milli
        seen = (
            held,
            round(found.amount_milli),
            compute_largest_milli(world.cards, whole),
            free_nodes,
            world.waiting_count,
        )
        return seen, np.array(found.by_class, dtype=np.float64)

    def _thin_timeline(self) -> None:
        self._timeline = self._timeline[::2]
        self._step *= 2
        self._next = self._timeline[-1].at_ns + self._step

    # --- telling ---------------------------------------------------------------------------

    def compute_figures(self, world: SimulatedPool, outcome: ReplayOutcome) -> LifeFigures:
        """Compute all figures after the life; jobs that still run have held their cards until then.

        Not idempotent: it adds the time of the jobs that still run.
        """
        for job in world.running.values():
            self._add_held_time(job, outcome.ended_ns)
        span = self._end - self._begin
        inside: list[PoolSample] = []
        fragment_milli = 0
        idle_milli = 0
        for sample in self._timeline:
            if sample.at_ns <= self._end:
                inside.append(sample)
                fragment_milli += sample.fragment_milli
                idle_milli += self._capacity - sample.held_milli
        held = sum(self._held.values())
        return LifeFigures(
            capacity_milli=self._capacity,
            allocation_pct=_compute_pct(held, self._capacity * span),
            utilisation_pct=_compute_pct(held - self._lost_in_window, self._capacity * span),
            fragment_pct=_compute_pct(fragment_milli, self._capacity * len(inside)),
            # A ratio of sums, not a mean of ratios: instants with little free must not count as
            # much as instants with much.
            fragment_ratio_pct=_compute_pct(fragment_milli, idle_milli),
            fragment_by_class=self._list_fragments_by_class(),
            largest_cards=_compute_mean([one.largest_milli for one in inside], WHOLE),
            whole_nodes=_compute_mean([one.whole_nodes for one in inside], 1),
            waits=self._list_waits(),
            tenants=self._list_tenants(held),
            evictions=self._evictions,
            lost_card_hours=round(self._lost / _HOUR_MILLI, 3),
            jobs=self._jobs,
            refused=dict(outcome.refused),
            unstarted=len(self._unstarted),
            promises=outcome.promises,
            estimates=outcome.estimates,
            decisions=outcome.decisions,
            cycles=outcome.cycles,
            span_seconds=round(outcome.ended_ns / NANOS_PER_SECOND, 3),
            timeline=tuple(self._timeline),
        )

    def _list_fragments_by_class(self) -> dict[str, float]:
        names = list_class_names(self._fragmentation.classes)[:_CLASSES]
        whole = self._capacity * max(1, self._looks)
        percents: dict[str, float] = {}
        for name, milli in zip(names, self._classes, strict=False):
            percents[name] = round(100 * float(milli) / whole, 3)
        return percents

    def _list_waits(self) -> dict[str, WaitSummary]:
        missing = Counter(kind for kind, _ in self._unstarted.values())
        every: list[int] = []
        for waits in self._waits.values():
            every += waits
        summaries = {"all": summarize_waits(every, len(self._unstarted))}
        for kind in KINDS:
            summary = summarize_waits(self._waits[kind], missing[kind])
            if summary.jobs:
                summaries[kind] = summary
        return summaries

    def _list_tenants(self, held: int) -> dict[str, TenantFigures]:
        missing = Counter(tenant for _, tenant in self._unstarted.values())
        total = sum(self._weights.values()) or 1
        figures: dict[str, TenantFigures] = {}
        for name, weight in self._weights.items():
            waits = summarize_waits(self._tenant_waits[name], missing[name])
            figures[name] = TenantFigures(
                weight=weight,
                card_hours=round(self._held[name] / _HOUR_MILLI, 3),
                part_pct=_compute_pct(self._held[name], held),
                weight_pct=round(100 * weight / total, 2),
                p95_wait=waits.p95,
            )
        return figures


def summarize_waits(waits_ns: Sequence[int], unstarted: int) -> WaitSummary:
    """Summarize waits by nearest rank; `unstarted` more jobs waited longer than all of them."""
    ordered = sorted(waits_ns)
    number = len(ordered) + unstarted

    def percentile(part: int) -> float | None:
        # The nearest rank is ceil(part / 100 * number); one among the unstarted has no value.
        rank = -(-part * number // 100)
        if not 0 < rank <= len(ordered):
            return None
        return round(ordered[rank - 1] / NANOS_PER_SECOND, 3)

    mean = None
    if ordered and not unstarted:
        mean = round(sum(ordered) / len(ordered) / NANOS_PER_SECOND, 3)
    return WaitSummary(number, unstarted, mean, percentile(50), percentile(95), percentile(99))


def _compute_pct(part: float, whole: float) -> float | None:
    return round(100 * part / whole, 3) if whole else None


def _compute_mean(values: Sequence[int], scale: int) -> float | None:
    return round(sum(values) / len(values) / scale, 3) if values else None
