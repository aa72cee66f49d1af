"""What the pool has learnt from its own past: how long jobs run, and which shapes are asked for.

Read at start from the ledger, then carried along. What is expected is learnt by `scheduling.knowledge`, which is told
here what it is told in a simulation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import sqlalchemy as sa

from gpupool.allocations.gangs import shape_of
from gpupool.allocations.held import Held
from gpupool.allocations.tables import allocations, arrays, claims, jobs
from gpupool.base.errors import GpupoolError
from gpupool.model.claim import Shape
from gpupool.model.job import JobState
from gpupool.scheduling.estimates import History
from gpupool.scheduling.guarded import PolicyFault, fault_of
from gpupool.scheduling.knowledge import FIRST, REMEMBERED, Knowledge
from gpupool.scheduling.snapshot import Expected
from gpupool.tenancy.tables import tenants

RUNS = 1000
"""Ended jobs that are read at start."""
DAYS_NS = 28 * 86400 * 10**9
"""Older claims are not read; a pool of fewer than a hundred jobs a day still knows a month."""
LEARNT = "learnt"
"""The name under which an unreadable past is reported."""
_NS = 10**9

log = logging.getLogger(__name__)

_CLAIMED = (
    # An array asks for all its members, whether or not they are jobs already.
    sa.select(claims, sa.func.coalesce(arrays.c.size, sa.func.count(jobs.c.id)).label("jobs"))
    .outerjoin(arrays, arrays.c.claim_id == claims.c.id)
    .outerjoin(jobs, sa.and_(jobs.c.claim_id == claims.c.id, jobs.c.array_id.is_(None)))
    .where(claims.c.submitted_ns > sa.bindparam("since"))
    .group_by(claims.c.id, arrays.c.size)
    .order_by(claims.c.id.desc())
    .limit(REMEMBERED)
)
_MOVES = (
    sa.select(claims, allocations.c.id.label("allocation"), allocations.c.granted_ns, allocations.c.released_ns)
    .join(claims, claims.c.id == allocations.c.claim_id)
    .order_by(allocations.c.id.desc())
    .limit(REMEMBERED)
)
"""What was given out, and came back."""
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
    .where(jobs.c.ended_ns.is_not(None), jobs.c.state == JobState.DONE, jobs.c.started_ns.is_not(None))
    .order_by(jobs.c.ended_ns.desc())
    .limit(RUNS)
)


class Learnt:
    """Not thread-safe: the mirror calls it under its lock."""

    def __init__(self) -> None:
        self.history = History()
        self.fault: PolicyFault | None = None
        """What of the past could not be read; None once enough has come since to expect something."""
        self._since_fault = 0
        self.is_loaded = False
        self._knowledge = Knowledge()
        self._milli = 0

    @property
    def expected(self) -> Expected:
        return self._knowledge.expected

    def load(self, connection: sa.Connection, now_ns: int) -> None:
        """Read the latest claims and runs; rows that cannot be read are reported and cost only what they taught."""
        self.fault = None
        self._knowledge = Knowledge(self._milli)
        self.history = History()
        with self._forgiving():
            for row in reversed(connection.execute(_CLAIMED, {"since": max(0, now_ns - DAYS_NS)}).all()):
                self._knowledge.claim_came(shape_of(row), row.jobs)
        with self._forgiving():
            self._load_moves(connection)
        with self._forgiving():
            for row in reversed(connection.execute(_RUNS).all()):
                self.ran(row.tenant, row.array_name or row.name, shape_of(row), (row.ended_ns - row.started_ns) // _NS)
        self._knowledge.hand_out()
        self.is_loaded = True

    def _load_moves(self, connection: sa.Connection) -> None:
        """Starts and ends in the order in which they happened."""
        moves: list[tuple[int, int, int, Callable[[Shape], None], Shape]] = []
        for row in connection.execute(_MOVES):
            shape = shape_of(row)
            moves.append((row.granted_ns, 0, row.allocation, self._knowledge.claim_started, shape))
            if row.released_ns is not None:
                moves.append((row.released_ns, 1, row.allocation, self._knowledge.claim_gave_back, shape))
        for *_, tell, shape in sorted(moves, key=lambda move: move[:3]):
            tell(shape)

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        """A store that refuses is an error of the store; what it gave and nobody can read stops no pool."""
        try:
            yield
        except (GpupoolError, sa.exc.SQLAlchemyError):
            raise
        except Exception as error:
            said = "what the pool has learnt from its past cannot be read; it learns anew"
            self.fault = fault_of(LEARNT, said, error)
            self._since_fault = 0
            log.exception("%s", said)

    def set_capacity(self, milli: int) -> None:
        """How much compute the pool has."""
        self._milli = milli
        self._knowledge.set_capacity(milli)

    def claimed(self, shape: Shape, count: int) -> None:
        """A claim was accepted, for so many jobs."""
        self._knowledge.claim_came(shape, count)
        self._since_fault += 1
        if self._since_fault >= FIRST:
            self.fault = None

    def started(self, shape: Shape) -> None:
        """A job holds what it asked for from now on."""
        self._knowledge.claim_started(shape)

    def gave_back(self, shape: Shape) -> None:
        """A job holds nothing any more."""
        self._knowledge.claim_gave_back(shape)

    def compare(self, before: Mapping[str, Held], after: Mapping[str, Held]) -> None:
        """What was given back and given out between two looks at the ledger, where no note told of it."""
        for job, held in before.items():
            if job not in after:
                self.gave_back(held.shape)
        for job, held in after.items():
            if job not in before:
                self.started(held.shape)

    def ran(self, tenant: str, name: str, shape: Shape, seconds: int) -> None:
        """A job came to its own end after that long."""
        self.history = self.history.observe(tenant, name, shape, seconds)

    def seconds(self, tenant: str, name: str, shape: Shape, limit: int | None) -> int | None:
        """How long such a job will run at most: its limit, else what the past says, else None."""
        if limit is not None:
            return limit
        learnt = self.history.seconds(tenant, name, shape)
        return None if learnt is None else coarse(learnt)


def coarse(seconds: int) -> int:
    """Rounded up to three binary digits, so that jobs which run about as long wait in one class.

    >>> [coarse(seconds) for seconds in (7, 61, 3600)]
    [7, 64, 4096]
    """
    step = 1 << max(0, seconds.bit_length() - 3)
    return -(-seconds // step) * step
