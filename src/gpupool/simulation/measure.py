"""What a life of a pool was worth, in figures: allocation, fragments, waits, fairness, losses.

Averages are over the window in which work arrives (first to last arrival): before it nothing is there to be placed, and
after it the pool only runs dry. Waits are of jobs, gangs counted once, until the first start; one that never started
counts as longer than any that did, so that a percentile which falls on it is unknown, never flattering.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Rejection
from gpupool.scheduling.foretold import Words
from gpupool.scheduling.snapshot import Eviction, Expected, Floats, Placement
from gpupool.simulation.fragments import Fragmentation, largest_milli, names, whole_by_node
from gpupool.simulation.replay import Outcome
from gpupool.simulation.trace import NS
from gpupool.simulation.world import Job, World

KINDS = ("share", "partition", "card", "cards", "gang", "no card")
POINTS = 240
"""Of a timeline over the window; when it grows beyond twice as many, every second one goes."""
_HOUR_MILLI = 3600 * NS * WHOLE
_CLASSES = 12


def kind_of(job: Job) -> str:
    """Which of KINDS a job is."""
    if job.gang is not None:
        return "gang"
    if not job.shape.count:
        return "no card"
    if job.shape.profile is not None:
        return "partition"
    return "share" if not job.shape.whole and job.shape.count == 1 else "card" if job.shape.count == 1 else "cards"


@dataclass(frozen=True)
class Sample:
    """The pool at one instant; cards in thousandths."""

    at_ns: int
    held_milli: int
    fragment_milli: int
    largest_milli: int
    whole_nodes: int
    waiting: int


@dataclass(frozen=True)
class Waits:
    """Seconds; None where it falls on a job that never started, or there was none."""

    jobs: int
    unstarted: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True)
class TenantFigures:
    weight: int
    card_hours: float
    part_pct: float | None
    weight_pct: float
    p95_wait: float | None


@dataclass(frozen=True)
class Figures:
    """One life; percentages are of the pool's cards over the window, unless they say otherwise."""

    capacity_milli: int
    allocation_pct: float | None
    utilisation_pct: float | None
    """Of that, what was of use: without work that evictions lost."""
    fragment_pct: float | None
    fragment_ratio_pct: float | None
    """Of what is free."""
    fragment_by_class: Mapping[str, float]
    largest_cards: float | None
    whole_nodes: float | None
    waits: Mapping[str, Waits]
    tenants: Mapping[str, TenantFigures]
    evictions: int
    lost_card_hours: float
    jobs: int
    refused: Mapping[str, int]
    unstarted: int
    promises: Words
    """Starts that were promised, kept and broken."""
    estimates: Words
    decisions: int
    cycles: int
    span_seconds: float
    timeline: tuple[Sample, ...]


class Meter:
    """A watcher that adds up. `window` is (first, last arrival) in nanoseconds."""

    def __init__(self, world: World, window: tuple[int, int], expected: Expected, weights: Mapping[str, int]) -> None:
        self._begin, self._end = window
        self._weights = weights
        self._fragmentation = Fragmentation(world.cards, expected)
        self._capacity = WHOLE * len(world.cards)
        self._step = max(NS, (self._end - self._begin) // POINTS)
        self._next = self._begin
        self._timeline: list[Sample] = []
        self._classes = np.zeros(len(self._fragmentation.classes), dtype=np.float64)
        self._ratio: list[tuple[int, float]] = []
        self._looks = 0
        self._waits: dict[str, list[int]] = defaultdict(list)
        self._tenant_waits: dict[str, list[int]] = defaultdict(list)
        self._unstarted: dict[str, tuple[str, str]] = {}
        self._held: Counter[str] = Counter()
        self._lost = self._lost_in_window = self._evictions = self._jobs = 0

    # --- hearing ---------------------------------------------------------------------------

    def moved(self, world: World, before_ns: int, now_ns: int) -> None:
        """Samples of what was so until now, one for every step of the timeline that has passed."""
        if self._next >= now_ns:
            return
        seen, by_class = self._look(world)
        while self._next < now_ns:
            if self._next <= self._end:
                self._looks += 1
                self._classes += by_class
            self._timeline.append(Sample(self._next, *seen))
            self._next += self._step
            if len(self._timeline) >= 4 * POINTS:
                self._thin()

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None:
        self._jobs += len(jobs)
        if refused is None:
            self._unstarted.update({job.id: (kind_of(job), job.key.tenant) for job in jobs if job.counts})

    def started(self, job: Job, placement: Placement, now_ns: int) -> None:
        if job.counts and job.starts == 1:
            kind, tenant = self._unstarted.pop(job.id, (kind_of(job), job.key.tenant))
            self._waits[kind].append(now_ns - job.submitted_ns)
            self._tenant_waits[tenant].append(now_ns - job.submitted_ns)

    def ended(self, job: Job, now_ns: int) -> None:
        self._add(job, now_ns)

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None:
        self._add(job, now_ns)
        self._evictions += 1
        run = job.run
        assert run is not None
        self._lost += sum(run.milli) * eviction.lost_seconds * NS
        lost_from = max(run.started_ns, now_ns - eviction.lost_seconds * NS)
        self._lost_in_window += sum(run.milli) * self._inside(lost_from, now_ns)

    def _add(self, job: Job, now_ns: int) -> None:
        run = job.run
        assert run is not None
        self._held[run.tenant] += sum(run.milli) * self._inside(run.started_ns, now_ns)

    def _inside(self, begin_ns: int, end_ns: int) -> int:
        return max(0, min(end_ns, self._end) - max(begin_ns, self._begin))

    def _look(self, world: World) -> tuple[tuple[int, int, int, int, int], Floats]:
        found = self._fragmentation.look(world.cards)
        whole = whole_by_node(world.cards)
        sizes = np.bincount(world.cards.node, minlength=len(world.cards.nodes))
        free_nodes = int(np.count_nonzero((whole == sizes) & (sizes > 0)))
        held = self._capacity - found.free_milli
        seen = (held, round(found.amount_milli), largest_milli(world.cards, whole), free_nodes, world.waiting_count)
        return seen, np.array(found.by_class, dtype=np.float64)

    def _thin(self) -> None:
        self._timeline = self._timeline[::2]
        self._step *= 2
        self._next = self._timeline[-1].at_ns + self._step

    # --- telling ---------------------------------------------------------------------------

    def figures(self, world: World, outcome: Outcome) -> Figures:
        """Everything, when the life is over; what still runs has held its cards until then."""
        for job in world.running.values():
            self._add(job, outcome.ended_ns)
        span = self._end - self._begin
        inside = [one for one in self._timeline if one.at_ns <= self._end]
        held = sum(self._held.values())
        return Figures(
            capacity_milli=self._capacity,
            allocation_pct=_pct(held, self._capacity * span),
            utilisation_pct=_pct(held - self._lost_in_window, self._capacity * span),
            fragment_pct=_pct(sum(one.fragment_milli for one in inside), self._capacity * len(inside)),
            fragment_ratio_pct=_pct(
                sum(one.fragment_milli for one in inside), sum(self._capacity - one.held_milli for one in inside)
            ),
            fragment_by_class=self._by_class(),
            largest_cards=_mean([one.largest_milli for one in inside], WHOLE),
            whole_nodes=_mean([one.whole_nodes for one in inside], 1),
            waits=self._all_waits(),
            tenants=self._all_tenants(held),
            evictions=self._evictions,
            lost_card_hours=round(self._lost / _HOUR_MILLI, 3),
            jobs=self._jobs,
            refused=dict(outcome.refused),
            unstarted=len(self._unstarted),
            promises=outcome.promises,
            estimates=outcome.estimates,
            decisions=outcome.decisions,
            cycles=outcome.cycles,
            span_seconds=round(outcome.ended_ns / NS, 3),
            timeline=tuple(self._timeline),
        )

    def _by_class(self) -> dict[str, float]:
        shown = names(self._fragmentation.classes)[:_CLASSES]
        whole = self._capacity * max(1, self._looks)
        return {name: round(100 * float(milli) / whole, 3) for name, milli in zip(shown, self._classes, strict=False)}

    def _all_waits(self) -> dict[str, Waits]:
        missing = Counter(kind for kind, _ in self._unstarted.values())
        found = {kind: waits_of(self._waits[kind], missing[kind]) for kind in KINDS}
        every = [wait for waits in self._waits.values() for wait in waits]
        return {"all": waits_of(every, len(self._unstarted))} | {k: w for k, w in found.items() if w.jobs}

    def _all_tenants(self, held: int) -> dict[str, TenantFigures]:
        missing = Counter(tenant for _, tenant in self._unstarted.values())
        total = sum(self._weights.values()) or 1
        return {
            name: TenantFigures(
                weight,
                round(self._held[name] / _HOUR_MILLI, 3),
                _pct(self._held[name], held),
                round(100 * weight / total, 2),
                waits_of(self._tenant_waits[name], missing[name]).p95,
            )
            for name, weight in self._weights.items()
        }


def waits_of(waits_ns: Sequence[int], unstarted: int) -> Waits:
    """The nearest-rank percentiles of waits, of which `unstarted` more are longer than all of them."""
    ordered = sorted(waits_ns)
    number = len(ordered) + unstarted

    def percentile(part: int) -> float | None:
        rank = -(-part * number // 100)
        return round(ordered[rank - 1] / NS, 3) if 0 < rank <= len(ordered) else None

    mean = round(sum(ordered) / len(ordered) / NS, 3) if ordered and not unstarted else None
    return Waits(number, unstarted, mean, percentile(50), percentile(95), percentile(99))


def _pct(part: float, whole: float) -> float | None:
    return round(100 * part / whole, 3) if whole else None


def _mean(values: Sequence[int], scale: int) -> float | None:
    return round(sum(values) / len(values) / scale, 3) if values else None
