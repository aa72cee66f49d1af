"""The thread that looks at idle jobs and takes the steps that are due.

Looks follow new samples, activity of jobs that are on their ladder, changes of policies, and the
instant of the next step. A pool without policies is read once for each look, and nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.idleness.activity import ActivityBook
from gpupool.allocations.idleness.acts import IdleActs
from gpupool.allocations.idleness.ladder import decide, find_due
from gpupool.allocations.idleness.policies import TOPIC, read_policies
from gpupool.allocations.idleness.policy import IdlePolicy, IdleRule, JobKind, find_rule
from gpupool.allocations.idleness.progress import forget_ended, has_ended_rows
from gpupool.allocations.idleness.tables import idle_states
from gpupool.allocations.idleness.units import (
    IdleUnit,
    UnitActivity,
    measure_activity,
    read_units,
)
from gpupool.allocations.placement.placer import Placer
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.metering.samples import LatestSample
from gpupool.metering.service import MeteringService
from gpupool.store.database import Store

#: Seconds from one look to the next, at least and at most.
SHORTEST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
#: A look reads every running job: the pause after it is so many times as long.
PAUSE_FACTOR: Final = 4
#: A look takes at most so long.
BUSY_SECONDS: Final = 120.0
#: So long after an attempt a share that found no room is tried again.
GROW_NS: Final = 5 * NANOS_PER_SECOND

log = logging.getLogger(__name__)


class IdleWatch:
    """Looks at idle jobs. Thread-safe; `look` may be called without the thread."""

    def __init__(
        self, store: Store, metering: MeteringService, cache: LedgerCache, placer: Placer
    ) -> None:
        self._store = store
        self._metering = metering
        self.activity = ActivityBook(store.clock.now_ns)
        self.activity.wake = self._wake_up
        #: Says when the kernels of a notebook were active last; None: not known. It may block.
        self.ask_kernels: Callable[[str], int | None] = _know_no_kernels
        self._acts = IdleActs(store, metering, cache, placer)
        self._tried_ns: dict[str, int] = {}
        self._next_ns: int | None = None
        self._looking = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = SupervisedThread("idle-ladder", self._run)
        store.notifier.add_listener(self._listen)

    # --- life ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; it looks at once."""
        self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Stop the thread after the look in progress."""
        self._closing.set()
        self._thread.stop()
        self._wake.set()
        self._thread.join()

    def _wake_up(self) -> None:
        self._wake.set()

    def _listen(self, topics: frozenset[Hashable]) -> None:
        if "idle" in topics or TOPIC in topics:
            self._wake.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait(self._measure_wait())
            self._wake.clear()
            if self._closing.is_set():
                return
            began = time.monotonic()
            with mark_busy(BUSY_SECONDS):
                self.look()
            self._thread.mark_well()
            lasted = time.monotonic() - began
            self._closing.wait(
                min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, lasted * PAUSE_FACTOR))
            )

    def _measure_wait(self) -> float:
        """Return the seconds until the next step may be due."""
        if self._next_ns is None:
            return LONGEST_PAUSE_SECONDS
        seconds = (self._next_ns - self._store.clock.now_ns()) / NANOS_PER_SECOND
        return min(LONGEST_PAUSE_SECONDS, max(0.0, seconds))

    # --- one look ------------------------------------------------------------------------

    def look(self) -> None:
        """Bring back what is active again, then take the steps that are due. Idempotent."""
        with self._looking:
            with self._store.read() as connection:
                policies = read_policies(connection)
                has_ended = has_ended_rows(connection)
                units = read_units(connection) if policies or self._has_rows(connection) else []
            if has_ended:
                with self._store.write(freeing=True) as write:
                    forget_ended(write)
            self._next_ns = None
            samples = self._metering.get_latest_samples()
            for unit in units:
                self._serve(unit, policies, samples)
            names = [name for unit in units for name in unit.names]
            self.activity.keep_only(names)
            watched = [name for unit in units if unit.state is not None for name in unit.names]
            self.activity.watch_jobs(watched)
            self._tried_ns = {job: at for job, at in self._tried_ns.items() if job in names}

    @staticmethod
    def _has_rows(connection: sa.Connection) -> bool:
        query = sa.select(idle_states.c.job_id).limit(1)
        return connection.execute(query).first() is not None

    def measure(self, unit: IdleUnit) -> UnitActivity:
        """Measure when a unit was active last."""
        samples = self._metering.get_latest_samples()
        return measure_activity(unit, samples, self.activity, self._store.clock.now_ns())

    def _serve(
        self,
        unit: IdleUnit,
        policies: Sequence[IdlePolicy],
        samples: Mapping[str, LatestSample],
    ) -> None:
        now_ns = self._store.clock.now_ns()
        seen = measure_activity(unit, samples, self.activity, now_ns)
        rule = find_rule(policies, unit.facts)
        state = unit.state
        if state is not None and self._must_begin_anew(unit, rule, seen):
            is_forced = rule is None or (state.act is not None and state.dry_run != rule.is_dry)
            if not state.must_grow or self._may_grow(unit, now_ns):
                last_ns = now_ns if seen.last_ns is None else seen.last_ns
                self._acts.bring_back(unit, last_ns, is_forced=is_forced)
            return
        if rule is not None:
            self._climb(unit, rule, seen)

    @staticmethod
    def _must_begin_anew(unit: IdleUnit, rule: IdleRule | None, seen: UnitActivity) -> bool:
        state = unit.state
        assert state is not None
        if state.must_grow and not unit.is_away:
            return True
        if state.act is None:
            return False
        if rule is None or state.dry_run != rule.is_dry:
            return True
        return (
            not unit.is_away and seen.last_ns is not None and state.progress.has_ended(seen.last_ns)
        )

    def _may_grow(self, unit: IdleUnit, now_ns: int) -> bool:
        """Whether a share that found no room is tried again now."""
        if now_ns - self._tried_ns.get(unit.job, 0) < GROW_NS:
            self._note_due(self._tried_ns[unit.job] + GROW_NS)
            return False
        self._tried_ns[unit.job] = now_ns
        self._note_due(now_ns + GROW_NS)
        return True

    def _climb(self, unit: IdleUnit, rule: IdleRule, seen: UnitActivity) -> None:
        """Take the step that is due, or note when the next one is."""
        if seen.last_ns is None:
            return
        state = unit.state
        progress = None if state is None else state.progress
        keep_until_ns = None if state is None else state.keep_until_ns
        step = decide(rule.ladder, seen.last_ns, keep_until_ns, progress, seen.observed_ns)
        if step is None:
            due = find_due(rule.ladder, seen.last_ns, keep_until_ns, progress)
            if due is not None:
                self._note_due(due.at_ns)
            return
        # Asked where a step is due alone: it takes a connection into the job.
        kernels_ns = 0
        if unit.facts.kind is JobKind.NOTEBOOK:
            found_ns = self.ask_kernels(unit.job)
            if found_ns is None:
                return
            kernels_ns = found_ns
        if kernels_ns > seen.last_ns:
            # The next look takes it for the last activity, as it does bytes of a stream.
            self.activity.note_at(unit.job, kernels_ns)
            self._note_due(seen.observed_ns)
            return
        if self._acts.take_step(unit, step, rule, seen):
            log.info("idle job %s: %s", unit.job, step.act)
            self._note_due(seen.observed_ns)

    def _note_due(self, at_ns: int) -> None:
        self._next_ns = at_ns if self._next_ns is None else min(self._next_ns, at_ns)


def _know_no_kernels(_job: str) -> int | None:
    """Return None: nothing here can ask a notebook, and what is not known is not idle."""
    return None
