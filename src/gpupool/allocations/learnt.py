"""What the pool has learnt from its own past: how long jobs run, and which shapes are asked for.

Read at start from the ledger, then carried along. What is expected is handed out anew only now and then, because a
policy begins anew with each change of it.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp2
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.gangs import shape_of
from gpupool.allocations.tables import arrays, claims, jobs
from gpupool.base.errors import GpupoolError
from gpupool.model.claim import Shape
from gpupool.model.job import JobState
from gpupool.scheduling.estimates import History
from gpupool.scheduling.guarded import PolicyFault, fault_of
from gpupool.scheduling.snapshot import Expected
from gpupool.tenancy.tables import tenants

REMEMBERED = 1000
"""Claims, and ended jobs, that are read at start and kept."""
DAYS_NS = 7 * 86400 * 10**9
HALF_LIFE = 250
"""After so many later claims one weighs half."""
AFRESH = 64
"""After so many claims what is expected is handed out anew."""
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
    .limit(REMEMBERED)
)


@dataclass(frozen=True)
class _Claimed:
    shape: Shape
    jobs: int


class Learnt:
    """Not thread-safe: the mirror calls it under its lock."""

    def __init__(self) -> None:
        self.history = History()
        self.expected = Expected()
        self.fault: PolicyFault | None = None
        """What of the past could not be read; None once enough has come since."""
        self._claimed: deque[_Claimed] = deque(maxlen=REMEMBERED)
        self._since = 0

    def load(self, connection: sa.Connection, now_ns: int) -> None:
        """Read the latest claims and runs; rows that cannot be read are reported and cost only what they taught."""
        self.fault = None
        self._claimed.clear()
        self.history = History()
        with self._forgiving():
            rows = connection.execute(_CLAIMED, {"since": max(0, now_ns - DAYS_NS)}).all()
            self._claimed.extend(_Claimed(shape_of(row), row.jobs) for row in reversed(rows))
        with self._forgiving():
            for row in reversed(connection.execute(_RUNS).all()):
                self.ran(row.tenant, row.array_name or row.name, shape_of(row), (row.ended_ns - row.started_ns) // _NS)
        self.hand_out()

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
            log.exception("%s", said)

    def claimed(self, shape: Shape, count: int) -> None:
        """Somebody asked for this, that often."""
        self._claimed.append(_Claimed(shape, count))
        self._since += 1
        if self._since >= AFRESH:
            self.fault = None
            self.hand_out()

    def ran(self, tenant: str, name: str, shape: Shape, seconds: int) -> None:
        """A job came to its own end after that long."""
        self.history = self.history.observe(tenant, name, shape, seconds)

    def seconds(self, tenant: str, name: str, shape: Shape, limit: int | None) -> int | None:
        """How long such a job will run at most: its limit, else what the past says, else None."""
        if limit is not None:
            return limit
        learnt = self.history.seconds(tenant, name, shape)
        return None if learnt is None else coarse(learnt)

    def hand_out(self) -> None:
        """Say anew what is expected."""
        self._since = 0
        weights: Counter[Shape] = Counter()
        for age, one in enumerate(reversed(self._claimed)):
            weights[one.shape] += _thousandths(age) * one.jobs
        ordered = sorted(weights.items(), key=_most_first)
        self.expected = Expected(tuple(shape for shape, _ in ordered), tuple(weight / 1000 for _, weight in ordered))


def _thousandths(age: int) -> int:
    """What a claim weighs that so many came after."""
    return round(1000 * exp2(-age / HALF_LIFE))


def coarse(seconds: int) -> int:
    """Rounded up to three binary digits, so that jobs which run about as long wait in one class.

    >>> [coarse(seconds) for seconds in (7, 61, 3600)]
    [7, 64, 4096]
    """
    step = 1 << max(0, seconds.bit_length() - 3)
    return -(-seconds // step) * step


def _most_first(item: tuple[Shape, int]) -> tuple[Any, ...]:
    shape, weight = item
    return -weight, shape.gpu_milli, shape.count, shape.memory_bytes or 0, shape.model or "", repr(shape)
