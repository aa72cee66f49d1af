"""Read what jobs held of nodes' processors and main memory, to price it.

Allocations are the book of it: each keeps its amounts for as long as it lives, and is never
removed. So this part is exact to the second in any range. What no job holds of a node is not
counted, and pods are not: their processors and main memory are the cluster's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from gpupool.base.units import MIB, NANOS_PER_SECOND
from gpupool.metering.books import HostAmount
from gpupool.metering.reading import ReportQuery, choose_greatest, choose_least, sum_bigint
from gpupool.metering.tables import allocations_view, jobs_view

#: Ids of a group, and what it held.
GroupHostUse = tuple[Mapping[str, int | None], HostAmount]


def read_host_use(connection: sa.Connection, ask: ReportQuery) -> Iterator[GroupHostUse]:
    """Read by group what was held in the range; nothing of the groups that held nothing."""
    held = allocations_view.c
    job = jobs_view.c
    # Whole seconds of the ledger's clock, as for cards.
    start_s = held.granted_ns // NANOS_PER_SECOND
    end_s = sa.func.coalesce(held.released_ns // NANOS_PER_SECOND, ask.until_s)
    counted = choose_least(end_s, ask.until_s) - choose_greatest(start_s, ask.since_s)
    keys = [job["id" if key == "job_id" else key].label(key) for key in ask.key_columns]
    query = (
        sa.select(
            *keys,
            sum_bigint(held.cpu_milli * counted).label("cpu"),
            sum_bigint(held.host_bytes // MIB * counted).label("memory"),
        )
        .join_from(allocations_view, jobs_view, jobs_view.c.id == held.job_id)
        .where(start_s < ask.until_s, end_s > ask.since_s)
    )
    if ask.tenant_id is not None:
        query = query.where(job.tenant_id == ask.tenant_id)
    for row in connection.execute(query.group_by(*keys) if keys else query):
        amount = HostAmount(row.cpu or 0, row.memory or 0)
        if amount != HostAmount():
            yield {key: row._mapping[key] for key in ask.key_columns}, amount
