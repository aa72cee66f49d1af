"""Statistics of past jobs: how long they ran, and which shapes are requested."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import sqlalchemy as sa

from gpupool.allocations.ledger.running_jobs import SeatHolder
from gpupool.allocations.store.gangs import read_shape
from gpupool.allocations.store.tables import allocations, arrays, claims, jobs
from gpupool.base.errors import GpupoolError
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.claim import Shape
from gpupool.model.job import JobState
from gpupool.scheduling import (
    FIRST_CLAIMS,
    REMEMBERED_CLAIMS,
    DemandKnowledge,
    ExpectedDemand,
    PolicyFault,
    RuntimeHistory,
    make_policy_fault,
)
from gpupool.tenancy.tables import tenants

#: Ended jobs that are read at start: enough to estimate runtimes, and read in one query.
RUNS = 1000
#: Older claims are not read; a pool of fewer than a hundred jobs a day still knows a month.
DAYS_NS = 28 * 86400 * NANOS_PER_SECOND
#: The name under which an unreadable past is reported.
LEARNT = "learnt"

log = logging.getLogger(__name__)

_CLAIMED = (
    # An array asks for all its members, whether or not they are jobs already.
    sa.select(claims, sa.func.coalesce(arrays.c.size, sa.func.count(jobs.c.id)).label("jobs"))
    .outerjoin(arrays, arrays.c.claim_id == claims.c.id)
    .outerjoin(jobs, sa.and_(jobs.c.claim_id == claims.c.id, jobs.c.array_id.is_(None)))
    .where(claims.c.submitted_ns > sa.bindparam("since"))
    .group_by(claims.c.id, arrays.c.size)
    .order_by(claims.c.id.desc())
    .limit(REMEMBERED_CLAIMS)
)
#: What was given out, and came back.
_MOVES = (
    sa.select(
        claims,
        allocations.c.id.label("allocation"),
        allocations.c.granted_ns,
        allocations.c.released_ns,
    )
    .join(claims, claims.c.id == allocations.c.claim_id)
    .order_by(allocations.c.id.desc())
    .limit(REMEMBERED_CLAIMS)
)
_RUNS = (
    sa.select(
        claims,
        jobs.c.name,
        jobs.c.array_name,
        jobs.c.started_ns,
        jobs.c.ended_ns,
        tenants.c.name.label("tenant"),
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .where(
        jobs.c.ended_ns.is_not(None), jobs.c.state == JobState.DONE, jobs.c.started_ns.is_not(None)
    )
    .order_by(jobs.c.ended_ns.desc())
    .limit(RUNS)
)


class DemandStatistics:
    """Runtimes and requested shapes. Not thread-safe: the cache calls it under its lock."""

    def __init__(self) -> None:
        self.history = RuntimeHistory()
        #: The part of the past that could not be read; None once `FIRST_CLAIMS` claims have come
        #: since, from which the demand can be expected again.
        self.fault: PolicyFault | None = None
        self._since_fault = 0
        self.is_loaded = False
        self._knowledge = DemandKnowledge()
        self._milli = 0

    @property
    def expected_demand(self) -> ExpectedDemand:
        return self._knowledge.expected_demand

    def load(self, connection: sa.Connection, now_ns: int) -> None:
        """Read recent claims and runs. Rows that cannot be read are reported and skipped."""
        self.fault = None
        self._knowledge = DemandKnowledge(self._milli)
        self.history = RuntimeHistory()
        # Each part by itself: an unreadable row of one costs nothing of the others.
        with self._collect_faults():
            self._load_claims(connection, now_ns)
        with self._collect_faults():
            self._load_starts_and_ends(connection)
        with self._collect_faults():
            self._load_runtimes(connection)
        self._knowledge.request_update()
        self.is_loaded = True

    # The queries have the latest rows first, so that their limits keep those; statistics that fade
    # with age are fed in the order of time.

    def _load_claims(self, connection: sa.Connection, now_ns: int) -> None:
        since_ns = max(0, now_ns - DAYS_NS)
        rows = connection.execute(_CLAIMED, {"since": since_ns}).all()
        for row in reversed(rows):
            self._knowledge.record_arrival(read_shape(row), row.jobs)

    def _load_runtimes(self, connection: sa.Connection) -> None:
        for row in reversed(connection.execute(_RUNS).all()):
            name = row.array_name or row.name
            seconds = (row.ended_ns - row.started_ns) // NANOS_PER_SECOND
            self.record_runtime(row.tenant, name, read_shape(row), seconds)

    def _load_starts_and_ends(self, connection: sa.Connection) -> None:
        moves: list[tuple[int, int, int, Callable[[Shape], None], Shape]] = []
        for row in connection.execute(_MOVES):
            shape = read_shape(row)
            moves.append((row.granted_ns, 0, row.allocation, self._knowledge.record_start, shape))
            if row.released_ns is not None:
                moves.append(
                    (row.released_ns, 1, row.allocation, self._knowledge.record_release, shape)
                )
        # By time, starts before ends at one instant, then by allocation: the same log always gives
        # the same statistics, and so the same plans.
        for *_, record, shape in sorted(moves, key=lambda move: move[:3]):
            record(shape)

    @contextmanager
    def _collect_faults(self) -> Iterator[None]:
        # A store that refuses is an error of the store. A row that cannot be understood must not
        # keep the pool from starting: statistics only make plans better.
        try:
            yield
        except (GpupoolError, sa.exc.SQLAlchemyError):
            raise
        except Exception as error:
            sentence = "what the pool has learnt from its past cannot be read; it learns anew"
            self.fault = make_policy_fault(LEARNT, sentence, error)
            self._since_fault = 0
            log.exception("%s", sentence)

    def set_capacity(self, milli: int) -> None:
        """Set the compute of the pool, in milli-devices."""
        self._milli = milli
        self._knowledge.set_capacity(milli)

    def record_claim(self, shape: Shape, count: int) -> None:
        """Count an accepted claim of that shape for `count` jobs."""
        self._knowledge.record_arrival(shape, count)
        self._since_fault += 1
        if self._since_fault >= FIRST_CLAIMS:
            self.fault = None

    def record_start(self, shape: Shape) -> None:
        """Note that a job of that shape holds seats from now on."""
        self._knowledge.record_start(shape)

    def record_release(self, shape: Shape) -> None:
        """Note that a job of that shape has released its seats."""
        self._knowledge.record_release(shape)

    def record_differences(
        self, before: Mapping[str, SeatHolder], after: Mapping[str, SeatHolder]
    ) -> None:
        """Note starts and releases between two readings of the ledger that no update reported."""
        for job, held in before.items():
            if job not in after:
                self.record_release(held.shape)
        for job, held in after.items():
            if job not in before:
                self.record_start(held.shape)

    def record_runtime(self, tenant: str, name: str, shape: Shape, seconds: int) -> None:
        """Note that a job came to its own end after that many seconds."""
        self.history = self.history.add_run(tenant, name, shape, seconds)

    def estimate_seconds(
        self, tenant: str, name: str, shape: Shape, limit: int | None
    ) -> int | None:
        """Estimate the runtime of a job in seconds: its limit, else the past; None if unknown."""
        if limit is not None:
            return limit
        learnt = self.history.estimate_seconds(tenant, name, shape)
        return None if learnt is None else round_up_seconds(learnt)


def round_up_seconds(seconds: int) -> int:
    """Round seconds up to three binary digits, so that similar runtimes share a class.

    >>> [round_up_seconds(seconds) for seconds in (7, 61, 3600)]
    [7, 64, 4096]
    """
    step = 1 << max(0, seconds.bit_length() - 3)
    return -(-seconds // step) * step
