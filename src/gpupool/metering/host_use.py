"""Read what jobs held of nodes' processors and main memory, to price it.

Allocations are the book of it: each keeps its amounts for as long as it lives, and is never
removed. So this part is exact to the second in any range. What no job holds of a node is not
counted, and pods are not: their processors and main memory are the cluster's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import MIB, NANOS_PER_SECOND
from gpupool.metering.books import HostAmount
from gpupool.metering.reading import ReportQuery, choose_greatest, choose_least, sum_bigint
from gpupool.metering.tables import allocations_view, jobs_view, owner_spans

#: Ids of a group, and what it held.
GroupHostUse = tuple[Mapping[str, int | None], HostAmount]


def read_host_use(connection: sa.Connection, ask: ReportQuery) -> Iterator[GroupHostUse]:
    """Read by group what was held in the range; nothing of the groups that held nothing."""
    pieces = sa.union_all(_select_last_owner(ask), _select_earlier_owners(ask)).subquery()
    keys = [pieces.c[key] for key in ask.key_columns]
    query = sa.select(
        *keys,
        sum_bigint(pieces.c.cpu_milli * pieces.c.counted).label("cpu"),
        sum_bigint(pieces.c.host_mib * pieces.c.counted).label("memory"),
    )
    for row in connection.execute(query.group_by(*keys) if keys else query):
        amount = HostAmount(row.cpu or 0, row.memory or 0)
        if amount != HostAmount():
            yield {key: row._mapping[key] for key in ask.key_columns}, amount


def _select_last_owner(ask: ReportQuery) -> Any:
    """Select what was held since a job's last change of owner, or since it was granted."""
    changed = (
        sa.select(sa.func.max(owner_spans.c.end_s))
        .where(owner_spans.c.job_id == jobs_view.c.id)
        .scalar_subquery()
    )
    since_s = choose_greatest(_GRANTED_S, sa.func.coalesce(changed, 0))
    return _select_pieces(ask, jobs_view.c.user_id, since_s, _compute_end(ask))


def _select_earlier_owners(ask: ReportQuery) -> Any:
    """Select what was held before a job's owner changed, for each owner that it had."""
    since_s = choose_greatest(_GRANTED_S, owner_spans.c.start_s)
    until_s = choose_least(_compute_end(ask), owner_spans.c.end_s)
    query = _select_pieces(ask, owner_spans.c.user_id, since_s, until_s)
    return query.join(owner_spans, owner_spans.c.job_id == jobs_view.c.id)


def _select_pieces(ask: ReportQuery, user_id: Any, start_s: Any, end_s: Any) -> Any:
    held = allocations_view.c
    job = jobs_view.c
    counted = choose_least(end_s, ask.until_s) - choose_greatest(start_s, ask.since_s)
    query = (
        sa.select(
            job.tenant_id.label("tenant_id"),
            job.project_id.label("project_id"),
            user_id.label("user_id"),
            job.id.label("job_id"),
            held.cpu_milli.label("cpu_milli"),
            (held.host_bytes // MIB).label("host_mib"),
            counted.label("counted"),
        )
        .select_from(allocations_view)
        .join(jobs_view, jobs_view.c.id == held.job_id)
        .where(start_s < ask.until_s, end_s > ask.since_s, start_s < end_s)
    )
    return query if ask.tenant_id is None else query.where(job.tenant_id == ask.tenant_id)


#: Whole seconds of the ledger's clock, as for cards.
_GRANTED_S = allocations_view.c.granted_ns // NANOS_PER_SECOND


def _compute_end(ask: ReportQuery) -> Any:
    return sa.func.coalesce(allocations_view.c.released_ns // NANOS_PER_SECOND, ask.until_s)
