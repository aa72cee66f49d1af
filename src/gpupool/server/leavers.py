"""What becomes of the jobs of a user that left: the seam between sign-on and allocations."""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa

from gpupool.allocations.service import Allocations
from gpupool.allocations.store.tables import arrays, jobs
from gpupool.base.errors import NotFound, WrongState
from gpupool.model.job import LIVE
from gpupool.model.tenant import Principal
from gpupool.signon.leavers import StopJobs
from gpupool.store.database import Store


def make_job_stopper(store: Store, allocations: Allocations) -> StopJobs:
    """Make what requests the end of the live jobs and arrays of a user, as an admin would."""
    return partial(_stop_jobs, store, allocations)


def _stop_jobs(store: Store, allocations: Allocations, caller: Principal, user_id: int) -> int:
    live = jobs.c.state.in_([str(state) for state in sorted(LIVE)])
    singles = sa.select(jobs.c.public_id).where(jobs.c.user_id == user_id, live)
    # Of an array the jobs that have no row yet are ended with it.
    waiting = sa.select(arrays.c.public_id).where(
        arrays.c.user_id == user_id, arrays.c.stopped_ns.is_(None), arrays.c.made < arrays.c.size
    )
    with store.read() as connection:
        names = [*connection.execute(waiting).scalars(), *connection.execute(singles).scalars()]
    stopped = 0
    for name in names:
        try:
            stopped += len(allocations.stops.stop_job(name, caller, None))
        except (NotFound, WrongState):
            # It ended by itself in between, or with its array.
            continue
    return stopped
