"""A pool's life at the speed of its decisions: the scheduler's own cycle, driven by a heap of events.

Nothing here places anything. At every instant at which something happens (a job comes, a job ends) the cycle is asked
until it places nothing more, exactly as the placer of a real pool does; what it says is written down and its ends are
put on the heap. Time is a number, so a month takes as long as its decisions do. The same trace, pool and policy give
the same life.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gpupool.model.claim import Rejection, Shape
from gpupool.model.gang import Gang, Group, Role
from gpupool.scheduling.admit import judge
from gpupool.scheduling.board import Board
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.foretold import ESTIMATE, PROMISE, Ended, Foretold, Words, off_pct
from gpupool.scheduling.owed import Owed
from gpupool.scheduling.snapshot import ClassKey, Eviction, Placement, Plan, Snapshot, Start
from gpupool.scheduling.victims import GENTLE, PreemptionRules
from gpupool.simulation.foreknowledge import Foreknowledge
from gpupool.simulation.trace import NS, Arrival
from gpupool.simulation.world import HEADS, Job, World

_END, _ARRIVE, _WAKE = range(3)
_HOUR = 3600 * NS
_IDLE_WAKES = 3
"""So often the clock is moved on for a start that was promised before what waits is given up."""

Progress = Callable[[int, int], None]
"""Told (jobs that came and went or never will, jobs in all) now and then."""


class Watcher(Protocol):
    """Hears what happens, in order. It may read the world and changes nothing."""

    def moved(self, world: World, before_ns: int, now_ns: int) -> None:
        """The clock moves on; in between nothing happened."""

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None: ...

    def started(self, job: Job, placement: Placement, now_ns: int) -> None: ...

    def ended(self, job: Job, now_ns: int) -> None:
        """Before it gives its seats back."""

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None:
        """Before it gives its seats back."""


@dataclass
class Outcome:
    """What a replay came to, counted."""

    ended_ns: int = 0
    cycles: int = 0
    decisions: int = 0
    """Placements and evictions."""
    refused: Counter[str] = field(default_factory=Counter)
    """Jobs that no emptying of the pool would let in, by the dominant reason."""
    left_waiting: int = 0
    left_running: int = 0
    no_end: int = 0
    """Of those: jobs whose end nobody knows."""
    promises: Words = field(default_factory=Words)
    estimates: Words = field(default_factory=Words)
    """Starts that were told as estimates, each claim once for each sort (`foretold`)."""


class Replay:
    """One life of `world`, until nothing more can happen; `until_ns` and `most_cycles` end it early.

    `known` hears what happens before the watchers do and says what is expected; without it that is what the world began
    with.
    """

    def __init__(
        self,
        world: World,
        watchers: Iterable[Watcher] = (),
        *,
        known: Foreknowledge | None = None,
        until_ns: int | None = None,
        most_cycles: int | None = None,
        keeps_scores: bool = False,
        rules: PreemptionRules = GENTLE,
        promised: Mapping[ClassKey, Start] | None = None,
    ) -> None:
        """`rules`: who may be evicted; `promised`: starts that claims of the world were promised before.

        `keeps_scores`: placements say what their score is made of, for records.
        """
        self.world = world
        self.outcome = Outcome()
        self._known = known
        self._watchers = (*filter(None, [known]), *watchers)
        self._until, self._most = until_ns, most_cycles
        self._keeps_scores = keeps_scores
        self._preemption = rules
        self._heap: list[tuple[int, int, int, str]] = []
        self._coming: dict[str, tuple[Arrival, ...]] = {}
        self._number = 0
        self._judged: dict[tuple[object, str], Rejection | None] = {}
        self._expected = self._wakes = 0
        self._board: Board | None = None
        self._promised: Mapping[ClassKey, Start] = promised or {}
        self._evicted: deque[tuple[int, str]] = deque()
        self._owed = Owed()
        self.foretold = Foretold()
        self.ended: list[Ended] = []
        """What came of each start that was told."""

    def run(self, arrivals: Sequence[Arrival], now_ns: int = 0, progress: Progress | None = None) -> Outcome:
        """Let the arrivals come, and what runs in the world end. `now_ns` is where the clock stands."""
        for job in self.world.running.values():
            self._plan_end(job, now_ns)
        self._expected = sum(one.members for one in arrivals) + len(self.world.running) + self.world.waiting_count
        for group in _together(_with_equal_shapes_as_one(arrivals)):
            self._coming[group[0].job] = group
            self._push(group[0].at_ns, _ARRIVE, group[0].job)
        if self.world.waiting_count:
            self._push(now_ns, _WAKE, "")
        self._live(now_ns, progress or (lambda _done, _all: None))
        return self._summed()

    def _live(self, now_ns: int, progress: Progress) -> None:
        gone = 0
        while self._heap and (self._until is None or self._heap[0][0] <= self._until):
            if self._most is not None and self.outcome.cycles >= self._most:
                self.outcome.ended_ns = now_ns
                return
            at = max(now_ns, self._heap[0][0])
            if at > now_ns:
                self._tell_moved(now_ns, at)
                now_ns = at
            while self._heap and self._heap[0][0] <= now_ns:
                gone += self._happen(heapq.heappop(self._heap), now_ns)
            self._decide(now_ns)
            progress(gone, self._expected)
        if self._until is not None and self._until > now_ns:
            self._tell_moved(now_ns, self._until)
            now_ns = self._until
        self.outcome.ended_ns = now_ns

    def _happen(self, event: tuple[int, int, int, str], now_ns: int) -> int:
        """Take in one event; how many jobs are done with by it."""
        _, kind, starts, name = event
        if kind == _ARRIVE:
            return self._arrive(self._coming.pop(name), now_ns)
        job = self.world.running.get(name)
        if kind == _END and job is not None and job.starts == starts:
            for watcher in self._watchers:
                watcher.ended(job, now_ns)
            self.world.give_back(name, now_ns)
            self._wakes = 0
            return 1
        return 0

    def _arrive(self, group: Sequence[Arrival], now_ns: int) -> int:
        jobs = list(jobs_of(group))
        refused = self._refusal(jobs)
        for watcher in self._watchers:
            watcher.came(jobs, refused, now_ns)
        self._wakes = 0
        if refused is None:
            self.world.enqueue(jobs)
            return 0
        self.outcome.refused[str(refused.dominant)] += len(jobs)
        return len(jobs)

    def _refusal(self, jobs: Sequence[Job]) -> Rejection | None:
        """What a pool would answer to the submission, when no waiting would help. Asked once for every shape."""
        for job in jobs:
            asked = (job.shape, job.key.tenant)
            if asked not in self._judged:
                view = self.world.tenants[job.key.tenant]
                self._judged[asked] = judge(job.shape, view, self.world.cards, tenant_name=job.key.tenant)
            refused = self._judged[asked]
            if refused is not None and not refused.fits_ever:
                return refused
        return None

    def _decide(self, now_ns: int) -> None:
        """Cycles until one changes nothing, as the placer of a pool runs them."""
        while self.world.waiting_count:
            snapshot = self._snapshot(now_ns)
            self._board = self._board or Board(snapshot, keeps_scores=self._keeps_scores)
            rules = self._rules(now_ns)
            plan = cycle(snapshot, now_ns, limit=HEADS, board=self._board, rules=rules, said=False)
            self.outcome.cycles += 1
            self._promised = plan.starts
            self.world.promised = plan.starts
            self._evict(plan.evictions, now_ns)
            self._place(plan.placements, now_ns)
            self.foretold.plan(plan.starts, now_ns)
            if not plan.placements and not plan.evictions:
                self._wake_for(plan, now_ns)
                break
            self._wakes = 0
        self.ended += self.foretold.passed(now_ns, lambda _claim: True)

    def why_waiting(self, now_ns: int) -> Mapping[ClassKey, Rejection]:
        """Why each class waits of which something is left at that instant, the last of the replay."""
        if not self.world.waiting_count:
            return {}
        return cycle(self._snapshot(now_ns), now_ns, limit=HEADS, rules=self._rules(now_ns)).rejections

    def _snapshot(self, now_ns: int) -> Snapshot:
        before = self.world.snapshot(now_ns)
        owed = (*before.owed, *self._owed.names(now_ns))
        expected = before.expected if self._known is None else self._known.expected
        return replace(before, expected=expected, promised=self._promised, owed=owed)

    def _rules(self, now_ns: int) -> PreemptionRules:
        """Who may be evicted, with who was within the last hour: a tenant's jobs are not evicted without end."""
        while self._evicted and self._evicted[0][0] <= now_ns - _HOUR:
            self._evicted.popleft()
        return replace(self._preemption, evicted=Counter(tenant for _, tenant in self._evicted))

    def _place(self, placements: Sequence[Placement], now_ns: int) -> None:
        for placement in placements:
            job = self.world.place(placement, now_ns)
            self._owed.settle(placement.gang or placement.job)
            self.ended += self.foretold.started(placement.gang or placement.job, now_ns)
            self.outcome.decisions += 1
            self._plan_end(job, now_ns)
            for watcher in self._watchers:
                watcher.started(job, placement, now_ns)

    def _evict(self, evictions: Sequence[Eviction], now_ns: int) -> None:
        """They give back their seats and wait again; what they had done since their last checkpoint is lost."""
        for eviction in evictions:
            job = self.world.running[eviction.job]
            assert job.run is not None
            for watcher in self._watchers:
                watcher.evicted(job, eviction, now_ns)
            if job.left_ns is not None:
                job.left_ns -= max(0, now_ns - job.run.started_ns - eviction.lost_seconds * NS)
            self._owed.told(job.id, eviction.beneficiary)
            self.world.give_back(job.id, now_ns)
            self._owed.left(job.id, now_ns)
            self.world.enqueue([job], again=True)
            self._evicted.append((now_ns, job.key.tenant))
            self.outcome.decisions += 1

    def _plan_end(self, job: Job, now_ns: int) -> None:
        if job.left_ns is not None:
            self._heap_end(now_ns + job.left_ns, job)

    def _heap_end(self, at_ns: int, job: Job) -> None:
        heapq.heappush(self._heap, (at_ns, _END, job.starts, job.id))

    def _push(self, at_ns: int, kind: int, name: str) -> None:
        self._number += 1
        heapq.heappush(self._heap, (at_ns, kind, self._number, name))

    def _wake_for(self, plan: Plan, now_ns: int) -> None:
        """A start that the plan promises for an instant at which nothing else happens."""
        promised = [start.at_ns for start in plan.starts.values() if start.at_ns > now_ns]
        if promised and self._wakes < _IDLE_WAKES and not (self._heap and self._heap[0][0] <= min(promised)):
            self._wakes += 1
            self._push(min(promised), _WAKE, "")

    def _tell_moved(self, before_ns: int, now_ns: int) -> None:
        for watcher in self._watchers:
            watcher.moved(self.world, before_ns, now_ns)

    def _summed(self) -> Outcome:
        left = [*self.world.running.values(), *self.world.waiting()]
        self.outcome.left_running = len(self.world.running)
        self.outcome.left_waiting = self.world.waiting_count
        self.outcome.promises = Words(*self.foretold.total(PROMISE))
        self.outcome.estimates = Words(*self.foretold.total(ESTIMATE), off_pct(self.ended))
        self.outcome.no_end = sum(1 for job in left if job.left_ns is None)
        return self.outcome


def _with_equal_shapes_as_one(arrivals: Iterable[Arrival]) -> list[Arrival]:
    """A decision looks a shape up a hundred times: what is the same object need not be compared field by field."""
    known: dict[Shape, Shape] = {}
    return [replace(one, shape=known.setdefault(one.shape, one.shape)) for one in arrivals]


def _together(arrivals: Sequence[Arrival]) -> Iterator[tuple[Arrival, ...]]:
    """The arrivals one by one, roles of a gang together where its first role comes."""
    gangs: dict[str, list[Arrival]] = {}
    for one in arrivals:
        if one.gang:
            gangs.setdefault(one.gang, []).append(one)
    for one in arrivals:
        if not one.gang:
            yield (one,)
        elif gangs[one.gang][0] is one:
            yield tuple(gangs[one.gang])


def jobs_of(group: Sequence[Arrival]) -> Iterator[Job]:
    """One arrival, or the roles of one gang, as jobs; the members of an arrival are `name.0`, `name.1`, ..."""
    first = group[0]
    gang = _gang(group) if len(group) > 1 or first.members > 1 else None
    limits = [one.limit_seconds for one in group]
    limit = None if None in limits else max(limit or 0 for limit in limits)
    key = ClassKey(first.tenant, first.priority, first.shape, limit, gang.id if gang else "", None, first.preemptible)
    for one in group:
        for number, name in enumerate(_members(one)):
            yield Job(
                id=name,
                key=key,
                shape=one.shape,
                submitted_ns=one.at_ns,
                left_ns=one.run_ns,
                gang=gang,
                preemptible=one.preemptible,
                counts=one is first and number == 0,
            )


def _members(one: Arrival) -> list[str]:
    return [one.job] if one.members == 1 else [f"{one.job}.{number}" for number in range(one.members)]


def _gang(group: Sequence[Arrival]) -> Gang:
    name = group[0].gang or group[0].job
    roles = tuple(Role(one.job, one.shape, one.members, one.members) for one in group)
    members = tuple(member for one in group for member in _members(one))
    return Gang(name, Group(name, roles), members)
