"""One look of the policy: idle jobs give way to claims that then start, and come back to free room.

A look plans on a snapshot and writes by the same verbs as a user. A pool that has changed meanwhile
makes a suspend fail, and the next look plans again. Looks follow new samples and ends of jobs, so a
pool without jobs is never looked at.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Final

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.idle_suspension.agreed_jobs import (
    AgreedJob,
    read_agreed_jobs,
    select_idle_jobs,
)
from gpupool.allocations.idle_suspension.card_view import describe_idle_cards
from gpupool.allocations.idle_suspension.claim_hints import list_claim_hints
from gpupool.allocations.lifecycle.resize_headroom import JobResizeHeadroom
from gpupool.allocations.lifecycle.suspension import resume_job, suspend_job
from gpupool.allocations.placement.placer import Placer
from gpupool.base.errors import RequestRejection, StaleGeneration
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.metering.service import MeteringService
from gpupool.model.suspension import IDLE_RULE, IdleSuspensionRules, SuspensionState
from gpupool.scheduling import (
    IdleJob,
    IdleVictims,
    Snapshot,
    cycle,
    empty_seats,
    find_idle_victims,
    find_return_victims,
    has_return_room,
)
from gpupool.store.database import Store
from gpupool.wire.capacity import IdleRoom

#: Seconds from one look to the next, at least and at most: part of every wake-up.
SHORTEST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 1.0
#: A search for victims runs dozens of cycles of the scheduler. The pause after it is so many times as
#: long as the look.
PAUSE_FACTOR: Final = 2
#: A look takes at most so long.
BUSY_SECONDS: Final = 120.0
#: So long a job is left alone whose node refused to suspend it.
REFUSAL_NS: Final = 300 * NANOS_PER_SECOND

log = logging.getLogger(__name__)


class IdleSuspensionPolicy:
    """Suspends and resumes idle jobs. Thread-safe; `look` may be called without the thread."""

    def __init__(
        self,
        store: Store,
        metering: MeteringService,
        cache: LedgerCache,
        placer: Placer,
        rules: IdleSuspensionRules,
    ) -> None:
        self._store = store
        self._metering = metering
        self._cache = cache
        self.rules = rules
        self._placer = placer
        #: When a suspend failed on the job's node, by job; a new server tries each once more.
        self._refused: dict[str, int] = {}
        #: When a look saw each job last that was not on its cards: what its node measured before
        #: is no idle time.
        self._away_ns: dict[str, int] = {}
        self._has_agreed = True  # until the first look has read it
        self._looking = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = SupervisedThread("idle-suspension", self._run)
        store.notifier.add_listener(self._listen)

    @property
    def rules(self) -> IdleSuspensionRules:
        """What the pool allows; the cache has it, as every plan holds the factor."""
        return self._cache.idle_rules

    @rules.setter
    def rules(self, rules: IdleSuspensionRules) -> None:
        self._cache.idle_rules = rules

    # --- life ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Stop the thread after the look in progress."""
        self._closing.set()
        self._thread.stop()
        self._wake.set()
        self._thread.join()

    def _listen(self, topics: frozenset[Hashable]) -> None:
        # A sample tells of a job that agrees, also of one that has come since the last look.
        if "idle" in topics or (self._has_agreed and "queue" in topics):
            self._wake.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._wake.clear()
            began = time.monotonic()
            with mark_busy(BUSY_SECONDS):
                has_searched = self.look()
            self._thread.mark_well()
            pause = SHORTEST_PAUSE_SECONDS
            if has_searched:
                pause = max(pause, (time.monotonic() - began) * PAUSE_FACTOR)
            self._closing.wait(min(LONGEST_PAUSE_SECONDS, pause))

    # --- answers -------------------------------------------------------------------------

    def list_claim_hints(self, job: str) -> list[str]:
        """List what a job that waits may hope for from idle jobs; nothing for any other job."""
        with self._store.read() as connection:
            agreed = read_agreed_jobs(connection)
        waiting = self._cache.find_waiting_class(job) if agreed else None
        if waiting is None:
            return []
        return list_claim_hints(
            waiting,
            self._take_emptied_snapshot(agreed),
            self._store.clock.now_ns(),
            agreed,
            self._list_idle_jobs(agreed),
            self._placer.planner.rules,
        )

    def describe_cards(self, snapshot: Snapshot) -> list[IdleRoom]:
        """Describe the cards with shares that were suspended while idle."""
        with self._store.read() as connection:
            agreed = read_agreed_jobs(connection)
        return describe_idle_cards(agreed, snapshot)

    # --- one look ------------------------------------------------------------------------

    def look(self) -> bool:
        """Resume what has room again, then suspend what a job or a claim needs, for one of them.

        Returns:
            Whether victims were searched for a claim, which takes long.
        """
        with self._looking:
            with self._store.read() as connection:
                agreed = read_agreed_jobs(connection)
            self._has_agreed = bool(agreed)
            self._note_states(agreed)
            if not agreed:
                return False
            returning = self._resume_jobs(agreed)
            if any(self._make_return_room(job, agreed) for job in returning):
                return False
            return self._suspend_victims(agreed)

    def _note_states(self, agreed: Sequence[AgreedJob]) -> None:
        now_ns = self._store.clock.now_ns()
        away = {one.job: now_ns for one in agreed if not one.is_on_cards}
        names = {one.job for one in agreed}
        self._away_ns = {
            job: at_ns for job, at_ns in (self._away_ns | away).items() if job in names
        }
        failed = {one.job for one in agreed if one.suspension is SuspensionState.FAILED}
        self._refused = {job: self._refused.get(job, now_ns) for job in failed}

    def _make_return_room(self, job: AgreedJob, agreed: Sequence[AgreedJob]) -> bool:
        """Suspend idle jobs for one that wants to work again; return whether some were asked."""
        snapshot = self._take_emptied_snapshot(agreed)
        returning = job.build_returning_job()
        victims = find_return_victims(snapshot, returning, self._list_idle_jobs(agreed))
        return bool(victims) and self._write_suspends(IdleVictims(victims, job.job), agreed)

    def _suspend_victims(self, agreed: Sequence[AgreedJob]) -> bool:
        """Suspend what a waiting claim needs; return whether it was searched for."""
        idle = self._list_idle_jobs(agreed) if self._cache.count_waiting() else []
        if not idle:
            return False
        found = find_idle_victims(
            self._take_emptied_snapshot(agreed),
            self._store.clock.now_ns(),
            idle,
            self._placer.planner.rules,
        )
        if found is not None:
            self._write_suspends(found, agreed)
        return True

    def _take_emptied_snapshot(self, agreed: Sequence[AgreedJob]) -> Snapshot:
        """Return the pool as it is when the jobs on their way to the host have left."""
        leaving = [one for one in agreed if one.suspension is SuspensionState.SUSPENDING]
        by_hand = {one.job for one in leaving if one.beneficiary is None}
        idle = {one.job for one in leaving} - by_hand
        snapshot = empty_seats(self._placer.take_snapshot(), by_hand, as_idle=False)
        return empty_seats(snapshot, idle)

    def _list_idle_jobs(self, agreed: Sequence[AgreedJob]) -> list[IdleJob]:
        now_ns = self._store.clock.now_ns()
        samples = self._metering.get_latest_samples()
        able = list[AgreedJob]()
        for one in agreed:
            seen = samples.get(one.job)
            is_new = seen is not None and seen.at_ns > self._away_ns.get(one.job, 0)
            if is_new and self._may_be_asked(one, now_ns):
                able.append(one)
        return select_idle_jobs(able, samples, now_ns)

    def _may_be_asked(self, job: AgreedJob, now_ns: int) -> bool:
        refused_ns = self._refused.get(job.job)
        return refused_ns is None or now_ns - refused_ns >= REFUSAL_NS

    def _write_suspends(self, found: IdleVictims, agreed: Sequence[AgreedJob]) -> bool:
        """Ask the nodes of all victims, or of none; return whether they were asked."""
        rows = {one.job: one.row_id for one in agreed}
        try:
            with self._store.write() as write:
                for job in found.jobs:
                    asked = suspend_job(write, rows[job], found.beneficiary)
                    if asked is not None:
                        write.note(partial(self._cache.apply_change, asked))
        except RequestRejection as error:
            log.info("no idle job is suspended for %s: %s", found.beneficiary, error.message)
            return False
        for job in found.jobs:
            self._refused.pop(job, None)
        return True

    def _resume_jobs(self, agreed: Sequence[AgreedJob]) -> list[AgreedJob]:
        """Bring back what was suspended while idle.

        Jobs that want to work come first, in the order in which they woke, and then those that are
        away for longest. A waiting claim that would start has its turn before the latter.

        Returns:
            The jobs that want to work and have no room.
        """
        away = [
            one
            for one in agreed
            if one.beneficiary is not None and one.suspension is SuspensionState.SUSPENDED
        ]
        woken = sorted(
            (one for one in away if one.wanted_ns), key=lambda job: (job.wanted_ns, job.job)
        )
        left = [one for one in woken if not self._resume_job(one)]
        asleep = sorted(
            # An idle policy gives the share back for good: its job comes back when it wants to work.
            (one for one in away if not one.wanted_ns and one.beneficiary != IDLE_RULE),
            key=lambda job: (job.since_ns, job.job),
        )
        # A job that comes back leaves less, so no claim starts that did not before.
        if asleep and not self._has_next_start():
            for one in asleep:
                self._resume_job(one)
        return left

    def _resume_job(self, job: AgreedJob) -> bool:
        """Resume a job if it has room; return whether it had."""
        # Most looks end here, without a write.
        if not has_return_room(self._cache.build_snapshot(), job.build_returning_job()):
            return False
        try:
            with self._placer.pause_placement() as snapshot, self._store.write() as write:
                headroom = JobResizeHeadroom(snapshot, write.now_ns)
                granted = resume_job(write, self._metering, job.row_id, headroom)
                if granted is not None:
                    write.note(lambda: self._cache.apply_change(granted))
        except (RequestRejection, StaleGeneration) as error:
            log.debug("idle job %s stays suspended: %s", job.job, error.message)
            return False
        return True

    def _has_next_start(self) -> bool:
        """Whether a waiting claim starts with what is free: the beneficiary of a job just moved."""
        snapshot = self._placer.take_snapshot()
        if not snapshot.waiting:
            return False
        now_ns = self._store.clock.now_ns()
        plan = cycle(snapshot, now_ns, rules=self._placer.planner.rules, said=False)
        return bool(plan.placements)
