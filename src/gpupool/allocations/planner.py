"""Deciding on the mirror: plans, and what the last one came to, which starts it promised and why others wait.

Writes nothing and takes no lock: the placer calls it while nothing else is planned, and acts on the answer. What a plan
promised is in the next snapshot, so that promises are kept from plan to plan.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

import sqlalchemy as sa

from gpupool.allocations.mirror import Mirror
from gpupool.allocations.reserving import next_boundary
from gpupool.allocations.shared_rejections import SharedRejections
from gpupool.allocations.told import ToldStarts
from gpupool.base.clock import LedgerClock
from gpupool.model.claim import Rejection
from gpupool.scheduling.board import Board
from gpupool.scheduling.careful import CarefulCycles
from gpupool.scheduling.cycle import planned
from gpupool.scheduling.explain import Explanation, explain
from gpupool.scheduling.guarded import PolicyFault
from gpupool.scheduling.promises import on_cards
from gpupool.scheduling.rejections import judged
from gpupool.scheduling.snapshot import ClassKey, Plan, Snapshot, Start, Waiting
from gpupool.scheduling.victims import PreemptionRules
from gpupool.store import counters

BATCH = 64
"""So many claims one plan places at most."""
LOOK_SECONDS = 60.0
"""While something waits, time alone can give it a turn: it is looked at again at least so often."""
HOUR_NS = 3600 * 10**9

log = logging.getLogger(__name__)


class Planner:
    """Who reads an answer needs no lock: each is of one plan, and replaced by the next as a whole."""

    def __init__(self, mirror: Mirror, clock: LedgerClock, rules: PreemptionRules) -> None:
        self.rules = rules
        self._mirror, self._clock = mirror, clock
        self._cycles = CarefulCycles(_count_fault)
        self._evicted: deque[tuple[int, str]] = deque()
        self._rejections: Mapping[ClassKey, Rejection] = {}
        self._starts: Mapping[ClassKey, Start] = {}
        self.told = ToldStarts()
        self._loaded = False
        self._cards: tuple[str, ...] = ()
        """The list of cards in which the starts name theirs by place."""

    # --- deciding --------------------------------------------------------------------------

    def snapshot(self, extra: Waiting | None = None) -> Snapshot:
        """The pool with what the last plan promised; `extra` is a claim that is not in the queue (yet)."""
        snapshot = self._mirror.snapshot(extra)
        if snapshot.cards.uuids is not self._cards:
            # Promises name their cards, so they outlive the list.
            there = {key: on_cards(start, snapshot.cards) for key, start in self._starts.items() if start.firm}
            self._starts = {key: start for key, start in there.items() if start is not None}
            self._cards = snapshot.cards.uuids
        return replace(snapshot, promised={key: start for key, start in self._starts.items() if start.reserved})

    def plan(self, snapshot: Snapshot) -> Plan:
        started = time.perf_counter()
        now_ns = self._clock.now_ns()
        plan = self._cycles.plan(snapshot, now_ns, BATCH, self._rules_at(now_ns))
        shared = SharedRejections(plan.rejections)
        counters.decisions.cycle(
            seconds=time.perf_counter() - started,
            placements=len(plan.placements),
            judged=judged(plan.rejections),
            left=shared,
        )
        return replace(plan, rejections=shared)

    @property
    def fault(self) -> PolicyFault | None:
        """What is wrong with the pool's placement policy as of the last plan, or with what it has learnt."""
        return self._cycles.fault or self._mirror.learnt_fault

    def keep(self, plan: Plan) -> None:
        """It is the last one from now on. A promise stands until its claim sits: what is planned may not be written."""
        placed = {placement.gang or placement.job for placement in plan.placements}
        stands = {key: start for key, start in self._starts.items() if start.firm and start.claim in placed}
        self._rejections, self._starts = plan.rejections, {**stands, **plan.starts}
        self.told.note(plan, self._clock.now_ns(), self._waits)

    def load(self, connection: sa.Connection) -> None:
        """Promises of before a restart stand; what is known already is not read again."""
        if self._loaded:
            return
        self._loaded = True
        for start in self.told.load(connection, self._waits):
            if (key := self._mirror.key_of_claim(start.claim)) is not None:
                self._starts = {**self._starts, key: start}

    def _waits(self, claim: str) -> bool:
        return self._mirror.key_of_claim(claim) is not None

    def forget(self) -> None:
        """Nothing waits."""
        self._rejections, self._starts = {}, {}

    def note_evicted(self, evicted: Iterable[tuple[int, str]], *, anew: bool = False) -> None:
        """(instant, tenant) of every eviction since the last word, or `anew` of all that are remembered."""
        if anew:
            self._evicted.clear()
        self._evicted.extend(evicted)

    def _following(self, snapshot: Snapshot) -> Board:
        """The board that lives on from plan to plan."""
        return self._cycles.board(snapshot)

    def _rules_at(self, now_ns: int) -> PreemptionRules:
        """The rules, with what each tenant has lost within the last hour."""
        while self._evicted and self._evicted[0][0] <= now_ns - HOUR_NS:
            self._evicted.popleft()
        return replace(self.rules, evicted=Counter(tenant for _, tenant in self._evicted))

    # --- answers -------------------------------------------------------------------------

    def turns(self, snapshot: Snapshot, limit: int) -> list[tuple[Waiting, int]]:
        """At most so many classes with the number of the head whose turn it is, in the order of their turns now."""
        with planned(snapshot, self._clock.now_ns(), 0, self._following(snapshot)) as (_, run):
            waiting, found, queue = run.snapshot.waiting, list[tuple[Waiting, int]](), run.queue()
            while len(found) < limit and (turn := queue.take()) is not None:
                found.append((waiting[turn[0]], turn[1]))
                if waiting[turn[0]].gang is None:
                    queue.put_back(turn[0], turn[1] + 1)
            return found

    def explain(self, waiting: Waiting, job: str = "") -> Explanation:
        """Why the job waits, the first of its class without a name, and what would help."""
        snapshot, now_ns = self.snapshot(), self._clock.now_ns()
        board, rules = self._following(snapshot), self._rules_at(now_ns)
        return explain(snapshot, waiting, now_ns, board, rules, job=job, book=self.told.book)

    def start_of(self, key: ClassKey | None, job: str) -> tuple[Start, int | None] | None:
        """When a job of that class, or its gang, will start, as far as was known when it was last looked at.

        And how many of 100 such estimates came true; None of a promise, and where too little is known.
        """
        start = None if key is None else self._starts.get(key)
        if key is None or start is None or start.claim not in (job, key.gang):
            return None
        return start, self.told.book.chance_pct(key, start, self._clock.now_ns())

    def start_of_job(self, job: str) -> tuple[Start, int | None] | None:
        """The same of a job by its name."""
        return self.start_of(self._mirror.key_of(job), job)

    def rejection_of(self, key: ClassKey) -> Rejection | None:
        """Why a class waited when it was last looked at."""
        return self._rejections.get(key)

    def why(self, job: str) -> str:
        """Why a waiting job waited, in a sentence."""
        key = self._mirror.key_of(job)
        rejection = None if key is None else self.rejection_of(key)
        return rejection.sentence if rejection else "not looked at yet"

    def next_look(self) -> float | None:
        """Seconds until time alone can change something; None while nothing waits."""
        if not self._mirror.waiting_count():
            return None
        now_ns = self._clock.now_ns()
        boundary = next_boundary(self._mirror.reservations(), now_ns)
        instants = [start.at_ns for start in self._starts.values()] + ([boundary] if boundary else [])
        return min([LOOK_SECONDS, *(max(0.01, (at - now_ns) / 1e9) for at in instants if at > now_ns)])


def _count_fault(fault: PolicyFault) -> None:
    log.error("%s: %s", fault.sentence, fault.error)
    counters.decisions.policy_failed(fault.policy)
