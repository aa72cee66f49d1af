"""Finds and resolves jobs that make no progress in a state (`model/deadlines`).

A job that its node does not start in time is stopped. An end that its node does not report is
requested again, and its cards stay allocated until the node answers. Jobs of silent nodes are
another finding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.ledger import job_stops, stop_reasons
from gpupool.allocations.store.tables import allocations, jobs
from gpupool.base.health import CheckFinding, fail, warn, well
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.tables import nodes
from gpupool.model.allocation import AllocationState
from gpupool.model.deadlines import END_SECONDS, SAID_SECONDS, START_SECONDS
from gpupool.model.job import JobState
from gpupool.store.database import Store

Row = sa.Row[Any]

#: Seconds between two looks for overdue jobs, and between two requests for an end that is overdue.
LOOK_SECONDS: Final = 60.0
#: Ends that one transaction asks for again: it writes two rows for each.
ASKED_AT_ONCE: Final = 250

#: Asks for the end of jobs with a reason and a grace in seconds, in transactions of a bounded size.
Stop = Callable[[Sequence[int], str, int], None]

_UNFINISHED = (
    sa.select(
        allocations.c.id,
        allocations.c.public_id.label("allocation"),
        allocations.c.state,
        allocations.c.granted_ns,
        jobs.c.id.label("job_id"),
        jobs.c.public_id.label("job"),
        jobs.c.state.label("job_state"),
        jobs.c.name,
        jobs.c.tenant_id,
        jobs.c.stop_grace_s,
        nodes.c.agent,
    )
    .join(jobs, jobs.c.id == allocations.c.job_id)
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .where(
        # Word for word the condition of the partial index on held allocations, so that it is used.
        allocations.c.state != sa.literal_column("'released'"),
        nodes.c.ready,
        sa.or_(
            allocations.c.state == AllocationState.RELEASING,
            sa.and_(jobs.c.state == JobState.STARTING, sa.not_(allocations.c.held_back)),
        ),
    )
)


class OverdueJobs:
    """Jobs past a deadline. Thread-safe.

    When an end was requested is kept in memory, so a server that starts counts anew.
    """

    def __init__(self, store: Store, stop: Stop, now_ns: Callable[[], int] | None = None) -> None:
        self._store = store
        self._stop = stop
        self._now_ns = now_ns or store.clock.now_ns
        self._lock = threading.Lock()
        #: When each ending allocation was first seen here, by its public id.
        self._ending: dict[str, int] = {}
        #: Allocations whose overdue end has its event.
        self._announced: set[str] = set()
        #: A server that was away could not hear of a start: no deadline counts from before.
        self._began_ns = self._now_ns()

    def has_overdue_jobs(self) -> CheckFinding:
        """Check whether any job makes no progress."""
        late, slow = self._find()
        if late:
            text = f"{len(late)} jobs make no progress, the oldest since {self._age(late[0])} s"
            return fail(text, "gpupool ps --all  names them; the node's log says why")
        if slow:
            return warn(
                f"{len(slow)} jobs start or end slowly, one since {self._age(slow[0])} s",
                "gpupool ps",
            )
        return well("all make progress")

    def resolve_overdue_jobs(self) -> None:
        """Stop jobs that do not start, and request unreported ends again. Idempotent.

        Begins and commits short transactions of its own.
        """
        late, _ = self._find()
        starting = [row.job_id for row in late if row.state != AllocationState.RELEASING]
        if starting:
            self._stop(starting, stop_reasons.OVERDUE, 0)
        ending = [row for row in late if row.state == AllocationState.RELEASING]
        for first in range(0, len(ending), ASKED_AT_ONCE):
            self._ask_again(ending[first : first + ASKED_AT_ONCE])

    def _ask_again(self, ending: Sequence[Row]) -> None:
        # An end that is requested every minute for days gets one event.
        fresh = [row.job for row in ending if row.allocation not in self._announced]
        with self._store.write() as write:
            mine = allocations.c.id.in_([row.id for row in ending])
            write.execute(allocations.update().where(mine).values(work_seq=write.touch_ledger()))
            write.announce(*(("node", row.agent) for row in ending))
            job_stops.write_job_events(
                "job.overdue", write, fresh, {"state": "ending", "seconds": END_SECONDS}
            )
        with self._lock:
            self._announced.update(row.allocation for row in ending)

    def _find(self) -> tuple[list[Row], list[Row]]:
        """Return jobs past their deadline, and jobs that are only slow; the oldest first."""
        with self._store.read() as connection:
            rows: list[Row] = list(connection.execute(_UNFINISHED))
        now_ns = self._now_ns()
        with self._lock:
            ending = dict[str, int]()
            for row in rows:
                if row.state == AllocationState.RELEASING:
                    ending[row.allocation] = self._ending.get(row.allocation, now_ns)
            self._ending = ending
            self._announced.intersection_update(ending)
        late = list[Row]()
        slow = list[Row]()
        for row in sorted(rows, key=self._since_ns):
            age_ns = now_ns - self._since_ns(row)
            if age_ns >= _get_deadline_seconds(row) * NANOS_PER_SECOND:
                late.append(row)
            elif age_ns >= SAID_SECONDS * NANOS_PER_SECOND:
                slow.append(row)
        return late, slow

    def _since_ns(self, row: Row) -> int:
        if row.state == AllocationState.RELEASING:
            return self._ending.get(row.allocation, self._now_ns())
        return max(int(row.granted_ns), self._began_ns)

    def _age(self, row: Row) -> int:
        return int((self._now_ns() - self._since_ns(row)) // NANOS_PER_SECOND)


def _get_deadline_seconds(row: Row) -> int:
    if row.state == AllocationState.RELEASING:
        # The command may use its grace to the end before its node cleans up.
        usual_s = stop_reasons.USUAL_GRACE_SECONDS
        grace_s = usual_s if row.stop_grace_s is None else int(row.stop_grace_s)
        return END_SECONDS + grace_s
    return START_SECONDS
