"""Who was told to leave for whom, read back from the event log: what a server that was killed knew of it.

The request to leave, and a claim's placement, are written with their events in one transaction each; so the log says
for every claim that waits whether somebody left for it since it last sat, and no row is needed beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from gpupool.allocations.together import LATEST_EVENTS
from gpupool.store.tables import events

_RECENT = events.c.seq > sa.select(sa.func.max(events.c.seq)).scalar_subquery() - LATEST_EVENTS
_TOLD = sa.select(events.c.seq, events.c.subject, events.c.data).where(_RECENT, events.c.kind == "job.preempted")
_PLACED = (
    sa.select(events.c.subject, sa.func.max(events.c.seq).label("seq"))
    .where(
        _RECENT,
        events.c.kind == "job.placed",
        events.c.subject.in_(sa.bindparam("jobs", expanding=True)),
    )
    .group_by(events.c.subject)
)


def read_owed(connection: sa.Connection, waiting: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    """(job, claim) for everybody who was told to leave for a claim that waits, since that sat the last time.

    `waiting`: by job or gang that waits, the jobs that it is.
    """
    rows = connection.execute(_TOLD.order_by(events.c.seq)).all()
    told = [(row.seq, row.subject, row.data.get("for", "")) for row in rows]
    told = [one for one in told if one[2] in waiting]
    if not told:
        return []
    jobs = sorted({job for _, _, claim in told for job in waiting[claim]})
    placed = {row.subject: row.seq for row in connection.execute(_PLACED, {"jobs": jobs})}
    return [(job, claim) for seq, job, claim in told if all(placed.get(one, 0) < seq for one in waiting[claim])]
