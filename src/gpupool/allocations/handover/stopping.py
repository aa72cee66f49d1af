"""Requests the end of all that a leaver runs or waits with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.handover.leaver_rows import count_stopped
from gpupool.allocations.stop import StopService
from gpupool.allocations.store.tables import HAS_REST, IS_LIVE, arrays, jobs
from gpupool.base.errors import NotFound, WrongState
from gpupool.model.tenant import Principal, UserRole
from gpupool.store.database import Store

Row = Any


class LeaverStops:
    """Stops jobs of leavers as an admin would. Thread-safe; idempotent."""

    def __init__(self, store: Store, stops: StopService) -> None:
        self._store = store
        self._stops = stops

    def list_jobs(self, row: Row) -> list[str]:
        """List the live jobs and arrays of a row of `LEAVER`, by public id."""
        singles = sa.select(jobs.c.public_id).where(jobs.c.user_id == row.user_id, IS_LIVE)
        # Of an array the jobs that have no row yet are ended with it.
        waiting = sa.select(arrays.c.public_id).where(arrays.c.user_id == row.user_id, HAS_REST)
        with self._store.read() as connection:
            return [*connection.execute(waiting).scalars(), *connection.execute(singles).scalars()]

    def stop_jobs(self, row: Row, names: Sequence[str]) -> None:
        """Request the end of these jobs and arrays, and count those that it ends. Idempotent."""
        author = Principal(0, row.made_by, row.tenant_id, row.tenant, UserRole.ADMIN)
        note = partial(count_stopped, row=row)
        for name in names:
            try:
                self._stops.stop_job(name, author, None, note)
            except (NotFound, WrongState):
                # It ended by itself in between, or with its array.
                continue
