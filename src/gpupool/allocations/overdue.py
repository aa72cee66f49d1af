"""Jobs that make no progress in a state: found, said and resolved (model/deadlines).

A job that its node does not start in time is stopped. An end that its node does not tell is asked for again; its cards
stay held until the node answers. A node that is silent is another finding: nothing is known of its jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations import together
from gpupool.allocations.tables import allocations, jobs
from gpupool.base.health import Finding, fail, warn, well
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
_NS: Final = 10**9

Stop = Callable[[Sequence[int], str, int], None]
"""Asks for the end of jobs with a reason and a grace in seconds, in transactions of a bounded size."""

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
        # As the partial index on held allocations is written, so that it is used.
        allocations.c.state != sa.literal_column("'released'"),
        nodes.c.ready,
        sa.or_(
            allocations.c.state == AllocationState.RELEASING,
            sa.and_(jobs.c.state == JobState.STARTING, sa.not_(allocations.c.held_back)),
        ),
    )
)


class Overdue:
    """Thread-safe. When an end was asked for is kept in memory: a server that starts counts anew."""

    def __init__(self, store: Store, stop: Stop, now_ns: Callable[[], int] | None = None) -> None:
        self._store, self._stop = store, stop
        self._now_ns = now_ns or store.clock.now_ns
        self._lock = threading.Lock()
        self._ending: dict[str, int] = {}
        """By allocation: since when it is known to end."""
        self._told: set[str] = set()
        self._began_ns = self._now_ns()

    def check(self) -> Finding:
        """Whether any job makes no progress."""
        late, slow = self._find()
        if late:
            text = f"{len(late)} jobs make no progress, the oldest since {self._age(late[0])} s"
            return fail(text, "gpupool ps --all  names them; the node's log says why")
        if slow:
            return warn(f"{len(slow)} jobs start or end slowly, one since {self._age(slow[0])} s", "gpupool ps")
        return well("all make progress")

    def resolve(self) -> None:
        """Stop what does not start, and ask again for ends that are not told. Idempotent; in short transactions."""
        late, _ = self._find()
        starting = [row.job_id for row in late if row.state != AllocationState.RELEASING]
        if starting:
            self._stop(starting, together.OVERDUE, 0)
        ending = [row for row in late if row.state == AllocationState.RELEASING]
        for first in range(0, len(ending), ASKED_AT_ONCE):
            self._ask_again(ending[first : first + ASKED_AT_ONCE])

    def _ask_again(self, ending: Sequence[Row]) -> None:
        fresh = [row.job for row in ending if row.allocation not in self._told]
        with self._store.write() as write:
            mine = allocations.c.id.in_([row.id for row in ending])
            write.execute(allocations.update().where(mine).values(work_seq=write.touch_ledger()))
            write.announce(*(("node", row.agent) for row in ending))
            together.told("job.overdue", write, fresh, {"state": "ending", "seconds": END_SECONDS})
        with self._lock:
            self._told |= {row.allocation for row in ending}

    def _find(self) -> tuple[list[Row], list[Row]]:
        """Those past their deadline, and those that are only slow; the oldest first."""
        with self._store.read() as connection:
            rows: list[Row] = list(connection.execute(_UNFINISHED))
        now_ns = self._now_ns()
        with self._lock:
            ending = {row.allocation for row in rows if row.state == AllocationState.RELEASING}
            self._ending = {name: self._ending.get(name, now_ns) for name in ending}
            self._told &= ending
        late, slow = list[Row](), list[Row]()
        for row in sorted(rows, key=self._since_ns):
            age_ns = now_ns - self._since_ns(row)
            if age_ns >= _patience(row) * _NS:
                late.append(row)
            elif age_ns >= SAID_SECONDS * _NS:
                slow.append(row)
        return late, slow

    def _since_ns(self, row: Row) -> int:
        """A server that was away could not hear of a start."""
        if row.state == AllocationState.RELEASING:
            return self._ending.get(row.allocation, self._now_ns())
        return max(int(row.granted_ns), self._began_ns)

    def _age(self, row: Row) -> int:
        return int((self._now_ns() - self._since_ns(row)) // _NS)


def _patience(row: Row) -> int:
    if row.state == AllocationState.RELEASING:
        return END_SECONDS + (10 if row.stop_grace_s is None else int(row.stop_grace_s))
    return START_SECONDS
