"""What would be different: the state of a pool played forward twice, as it is and with a change. Pure; changes nothing.

Nothing new arrives: what waits now starts when the scheduler would start it, what runs ends when its limit (or what the
past has taught) says. Jobs whose end nobody knows never end here, and are counted. A job on a node that is taken away
waits again, at its old place in the queue, and starts from nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpupool.model.claim import Rejection
from gpupool.scheduling.foretold import Foretold
from gpupool.scheduling.promises import on_cards
from gpupool.scheduling.snapshot import ClassKey, Eviction, Placement, Plan, Running, Snapshot, Start, Waiting
from gpupool.simulation.altered import Altered, altered
from gpupool.simulation.fragments import largest_milli, whole_by_node
from gpupool.simulation.measure import Waits, waits_of
from gpupool.simulation.replay import Replay
from gpupool.simulation.trace import NS, Node
from gpupool.simulation.world import Job, World

MOST_CYCLES = 600
"""So many runs of the scheduler each side is looked ahead at most; the horizon is then nearer than was asked for."""


@dataclass(frozen=True)
class Change:
    """What is to be different. `nominal_milli` is the guaranteed compute of tenants."""

    add: tuple[Node, ...] = ()
    remove: tuple[str, ...] = ()
    policy: str | None = None
    nominal_milli: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Queue:
    """What becomes of jobs that wait now: of one tenant, or of all."""

    waiting: int
    start_now: int
    start_later: int
    """Within the horizon."""
    waits: Waits
    """From submission to start, gangs once."""
    promised: int = 0
    """Claims that wait and have a promised start now, and those with an estimated one."""
    estimated: int = 0
    chance_pct: int | None = None
    """Of 100 such estimates so many came true, their mean; None where too little is known."""


@dataclass(frozen=True)
class Forecast:
    """One side. What is free is told as it is when everything has started that can start now."""

    cards: int
    nodes: int
    queue: Queue
    tenants: Mapping[str, Queue]
    allocation_now_pct: float | None
    allocation_pct: float | None
    """Mean over the horizon."""
    largest_milli: int
    whole_nodes: int
    evictions: int
    no_end: int
    moved: int
    """Jobs on removed nodes, which wait again."""
    horizon_ns: int


def forecast(
    snapshot: Snapshot, change: Change, now_ns: int, horizon_ns: int, book: Foretold | None = None
) -> Forecast:
    """The pool with the change, played forward. Raises UnknownPolicy. `book` knows how often estimates came true."""
    after = altered(snapshot, change.add, change.remove)
    tenants = dict(after.snapshot.tenants)
    for name, milli in change.nominal_milli.items():
        quota = tenants[name].quota
        borrowing = quota.borrowing_milli if quota.nominal_milli is not None else 0
        tenants[name] = replace(tenants[name], quota=replace(quota, nominal_milli=milli, borrowing_milli=borrowing))
    begin = replace(after.snapshot, tenants=tenants, policy=change.policy or snapshot.policy)
    return _play(begin, after, now_ns, horizon_ns, book or Foretold())


class _FirstLook(Replay):
    """Remembers which starts the claims have that do not start at once."""

    starts: Mapping[ClassKey, Start] | None = None

    def _wake_for(self, plan: Plan, now_ns: int) -> None:
        if self.starts is None:
            self.starts = plan.starts
        super()._wake_for(plan, now_ns)


def _play(begin: Snapshot, after: Altered, now_ns: int, horizon_ns: int, book: Foretold) -> Forecast:
    running = {one.job: _running_job(one, begin, now_ns) for one in begin.running}
    world = World(begin, running, now_ns)
    waiting = [job for entry in begin.waiting for job in _waiting_jobs(entry)]
    homeless = [_again(one, now_ns) for one in after.homeless]
    world.enqueue([*homeless, *waiting])
    watch = _Watch([*homeless, *waiting], now_ns)
    there = {key: on_cards(start, begin.cards) for key, start in begin.promised.items() if start.firm}
    promised = {key: start for key, start in there.items() if start is not None}
    until_ns = now_ns + horizon_ns
    replay = _FirstLook(world, [watch], until_ns=until_ns, most_cycles=MOST_CYCLES, promised=promised)
    outcome = replay.run((), now_ns)
    watch.look(world)
    told = [(key, start, book.chance_pct(key, start, now_ns)) for key, start in (replay.starts or {}).items()]
    capacity = 1000 * len(begin.cards)
    span = max(1, outcome.ended_ns - now_ns)
    return Forecast(
        cards=len(begin.cards),
        nodes=len(begin.cards.nodes),
        queue=_with_starts(watch.queue(None), told),
        tenants={
            name: _with_starts(watch.queue(name), [one for one in told if one[0].tenant == name])
            for name in begin.tenants
        },
        allocation_now_pct=_pct(watch.held_milli, capacity),
        allocation_pct=_pct(watch.held_ns, capacity * span),
        largest_milli=watch.largest_milli,
        whole_nodes=watch.whole_nodes,
        evictions=watch.evictions,
        no_end=outcome.no_end,
        moved=len(homeless),
        horizon_ns=outcome.ended_ns - now_ns,
    )


def _with_starts(queue: Queue, told: Sequence[tuple[ClassKey, Start, int | None]]) -> Queue:
    """The same, with how many of the claims have a start by now, and how sure the estimates are."""
    promised = sum(start.firm for _, start, _ in told)
    chances = [chance for _, _, chance in told if chance is not None]
    mean = round(sum(chances) / len(chances)) if chances else None
    return replace(queue, promised=promised, estimated=len(told) - promised, chance_pct=mean)


def _running_job(one: Running, begin: Snapshot, now_ns: int) -> Job:
    key = ClassKey(one.tenant, one.priority, one.shape, None, one.gang, one.reservation, one.preemptible)
    left = None if one.ends_ns is None else max(0, one.ends_ns - now_ns)
    node = int(begin.cards.node[one.rows[0]]) if one.rows else -1
    return Job(one.job, key, one.shape, one.started_ns, left, None, one.preemptible, False, one, node, starts=1)


def _again(one: Running, now_ns: int) -> Job:
    """A job whose node is taken away; a member of a gang waits by itself, for the others of it run on."""
    lasts = None if one.ends_ns is None else max(NS, one.ends_ns - one.started_ns)
    seconds = None if lasts is None else lasts // NS
    key = ClassKey(one.tenant, one.priority, one.shape, seconds, "", one.reservation, one.preemptible)
    return Job(one.job, key, one.shape, now_ns, lasts, None, one.preemptible)


def _waiting_jobs(entry: Waiting) -> Iterator[Job]:
    """The jobs of a class; those behind the heads have no name in a snapshot, and are as old as the last that has."""
    role_of = entry.gang.role_of() if entry.gang else {}
    ages = entry.heads_ns or (entry.oldest_ns,) * len(entry.heads)
    lasts = None if entry.seconds is None else entry.seconds * NS
    behind = [f"{entry.heads[-1]}+{number}" for number in range(1, entry.count - len(entry.heads) + 1)]
    for number, job in enumerate([*entry.heads, *behind]):
        shape = role_of[job].shape if job in role_of else entry.shape
        counts = entry.gang is None or number == 0
        age = ages[min(number, len(ages) - 1)]
        yield Job(job, entry.key, shape, age, lasts, entry.gang, entry.priority < 0, counts)


class _Watch:
    """Who starts when, and what is free once everything has started that can start now."""

    def __init__(self, waiting: Sequence[Job], now_ns: int) -> None:
        self._now_ns = now_ns
        self._jobs = {job.id: job for job in waiting}
        self._started: dict[str, int] = {}
        self._looked = False
        self.held_milli = self.held_ns = self.evictions = self.largest_milli = self.whole_nodes = 0

    def moved(self, world: World, before_ns: int, now_ns: int) -> None:
        self.look(world)
        self.held_ns += _held_milli(world) * (now_ns - before_ns)

    def look(self, world: World) -> None:
        """At the pool as it is before the clock moves on for the first time."""
        if self._looked:
            return
        self._looked = True
        whole = whole_by_node(world.cards)
        sizes = np.bincount(world.cards.node, minlength=len(world.cards.nodes))
        self.whole_nodes = int(np.count_nonzero((whole == sizes) & (sizes > 0)))
        self.largest_milli, self.held_milli = largest_milli(world.cards, whole), _held_milli(world)

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None:
        """Nothing new arrives."""

    def started(self, job: Job, placement: Placement, now_ns: int) -> None:
        self._started.setdefault(job.id, now_ns)

    def ended(self, job: Job, now_ns: int) -> None:
        """What it gives back is seen by who starts then."""

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None:
        self.evictions += 1

    def queue(self, tenant: str | None) -> Queue:
        """Of that tenant's jobs, or of all."""
        mine = [job for job in self._jobs.values() if tenant in (None, job.key.tenant)]
        at = [self._started[job.id] for job in mine if job.id in self._started]
        counted = [job for job in mine if job.counts]
        waits = [self._started[job.id] - job.submitted_ns for job in counted if job.id in self._started]
        now = sum(1 for one in at if one == self._now_ns)
        return Queue(len(mine), now, len(at) - now, waits_of(waits, len(counted) - len(waits)))


def _held_milli(world: World) -> int:
    return sum(sum(job.run.milli) for job in world.running.values() if job.run is not None)


def _pct(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 3) if whole else None
