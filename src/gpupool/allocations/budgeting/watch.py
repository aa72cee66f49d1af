"""The look at budgets each minute: charges, thresholds, holds, and the end of preemptible jobs.

A look reads first and writes only what changed. Without budgets it makes the charges of hours that
are over, and nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Final

import sqlalchemy as sa

from gpupool.allocations.budgeting.admission import HOLDS_CHANGED, build_hold
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.ledger.gang_lifecycle import list_gang_members
from gpupool.allocations.ledger.job_stops import stop_working_jobs, write_job_events
from gpupool.allocations.ledger.stop_reasons import PREEMPTION_GRACE_SECONDS, STOP_REASONS
from gpupool.allocations.store.tables import IS_LIVE, claims, jobs
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.billing.budgets.service import TOPIC
from gpupool.billing.budgets.standing import (
    BudgetStanding,
    has_new_crossing,
    read_budgets,
    read_currency,
    read_preempt_since,
    read_standing,
    record_crossings,
)
from gpupool.billing.service import Billing
from gpupool.model.job import JobState
from gpupool.store.database import Store, WriteTransaction

#: Seconds between two looks: a threshold is seen so late at most.
LOOK_SECONDS: Final = 60.0


class BudgetWatch:
    """Looks at budgets. Thread-safe; `look` may be called without the thread."""

    def __init__(self, store: Store, billing: Billing, cache: LedgerCache) -> None:
        self._store = store
        self._billing = billing
        self._cache = cache
        self._looking = threading.Lock()
        self._standings: tuple[BudgetStanding, ...] = ()
        self._wake = threading.Event()
        self._closing = False
        self._thread = SupervisedThread("budgets", self._run)
        store.notifier.add_listener(self._listen)

    def start(self) -> None:
        """Start the thread; it looks at once."""
        self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Stop the thread after the look in progress."""
        self._closing = True
        self._thread.stop()
        self._wake.set()
        self._thread.join()

    @property
    def standings(self) -> tuple[BudgetStanding, ...]:
        """Where budgets stood at the last look; a deleted one is gone with the next look."""
        return self._standings

    def _listen(self, topics: frozenset[Hashable]) -> None:
        if TOPIC in topics:
            self._wake.set()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            if not self._closing:
                with mark_busy():
                    self.look()
                self._thread.mark_well()

    def read_holds(self) -> None:
        """Read which budgets are spent, before the first job is placed. Writes nothing."""
        with self._looking:
            standings, _ = self._read()
            self._set_holds(standings)

    def look(self) -> None:
        """Make due charges, record what thresholds are reached, hold and end jobs. Idempotent."""
        with self._looking:
            self._billing.charging.make_due()
            self._billing.latest_hour.refresh()
            standings, is_new = self._read()
            if is_new:
                with self._store.write() as write:
                    # Read again: a budget may have been changed or deleted meanwhile.
                    standings = _read_standings(write.connection, write.now_ns)
                    record_crossings(write, standings, read_currency(write.connection))
            self._set_holds(standings)
            self._end_jobs(standings)

    def _read(self) -> tuple[list[BudgetStanding], bool]:
        with self._store.read() as connection:
            standings = _read_standings(connection, self._store.clock.now_ns())
            return standings, any(has_new_crossing(connection, one) for one in standings)

    def _set_holds(self, standings: Sequence[BudgetStanding]) -> None:
        self._standings = tuple(standings)
        spent = [standing for standing in standings if standing.is_on_hold]
        with self._store.read() as connection:
            currency = read_currency(connection)
        holds = [build_hold(standing, currency) for standing in spent]
        with self._cache.lock:
            is_changed = self._cache.budgets.set_holds(holds)
        if is_changed:
            self._store.notifier.publish_topics(HOLDS_CHANGED)

    def _end_jobs(self, standings: Sequence[BudgetStanding]) -> None:
        """End preemptible jobs of budgets whose grace is over; they wait again."""
        due = []
        with self._store.read() as connection:
            now_ns = self._store.clock.now_ns()
            for standing in standings:
                since_ns = read_preempt_since(connection, standing)
                grace_ns = standing.budget.grace_seconds * NANOS_PER_SECOND
                if since_ns is not None and since_ns + grace_ns <= now_ns:
                    due.append(standing)
            if not any(_find_victims(connection, standing) for standing in due):
                return
        for standing in due:
            with self._store.write() as write:
                asked = _end_victims(write, standing)
                write.note(partial(self._cache.record_leaving_jobs, asked))


def _read_standings(connection: sa.Connection, now_ns: int) -> list[BudgetStanding]:
    now_s = now_ns // NANOS_PER_SECOND
    return [read_standing(connection, budget, now_s) for budget in read_budgets(connection)]


def _find_victims(connection: sa.Connection, standing: BudgetStanding) -> list[int]:
    owner = standing.budget.owner
    query = (
        sa.select(jobs.c.id)
        .join(claims, claims.c.id == jobs.c.claim_id)
        .where(
            IS_LIVE,
            jobs.c.state.in_((JobState.STARTING, JobState.RUNNING)),
            jobs.c.stop_requested.is_(None),
            jobs.c.tenant_id == owner.tenant_id,
            claims.c.preemptible,
        )
    )
    if owner.project_id is not None:
        query = query.where(jobs.c.project_id == owner.project_id)
    if owner.user_id is not None:
        query = query.where(jobs.c.user_id == owner.user_id)
    return list(connection.execute(query).scalars())


def _end_victims(write: WriteTransaction, standing: BudgetStanding) -> list[str]:
    victims = _find_victims(write.connection, standing)
    if not victims:
        return []
    members = list_gang_members(write, victims)
    asked = stop_working_jobs(write, members, "budget", PREEMPTION_GRACE_SECONDS)
    data = {"budget": standing.budget.id, "why": STOP_REASONS["budget"]}
    write_job_events("job.preempted", write, asked, data)
    return asked
