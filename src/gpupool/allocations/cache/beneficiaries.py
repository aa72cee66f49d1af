"""Reads from the event log which jobs were evicted or suspended for which claims, after a restart."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from gpupool.allocations.ledger.evictions import LATEST_EVENTS
from gpupool.store.tables import events

# The start of a claim is looked for in the same stretch of the log as its evictions, so a claim
# that was evicted for has its placement in it too.
_RECENT = events.c.seq > sa.select(sa.func.max(events.c.seq)).scalar_subquery() - LATEST_EVENTS
_PREEMPTIONS = sa.select(events.c.seq, events.c.subject, events.c.data).where(
    _RECENT, events.c.kind.in_(("job.preempted", "job.suspended"))
)
_PLACED = (
    sa.select(events.c.subject, sa.func.max(events.c.seq).label("seq"))
    .where(
        _RECENT,
        events.c.kind == "job.placed",
        events.c.subject.in_(sa.bindparam("jobs", expanding=True)),
    )
    .group_by(events.c.subject)
)


def read_eviction_beneficiaries(
    connection: sa.Connection, waiting: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, str]]:
    """Read the evictions whose beneficiaries still wait and have not started since.

    Args:
        connection: A read transaction.
        waiting: The jobs of each waiting job or gang.

    Returns:
        Pairs of victim and beneficiary.
    """
    evictions = list[tuple[int, str, str]]()
    beneficiaries = set[str]()
    for row in connection.execute(_PREEMPTIONS.order_by(events.c.seq)):
        claim = row.data.get("for") or row.data.get("idle_for", "")
        if claim in waiting:
            evictions.append((row.seq, row.subject, claim))
            beneficiaries.update(waiting[claim])
    if not evictions:
        return []
    query = {"jobs": sorted(beneficiaries)}
    placed = {row.subject: row.seq for row in connection.execute(_PLACED, query)}
    pairs = list[tuple[str, str]]()
    for seq, victim, claim in evictions:
        # A claim that has started since and waits again has had the seats of this victim.
        if all(placed.get(job, 0) < seq for job in waiting[claim]):
            pairs.append((victim, claim))
    return pairs
