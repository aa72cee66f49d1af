"""Reading the event log, always from the caller's scope."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.model.tenant import Principal
from gpupool.store.tables import events
from gpupool.tenancy.tables import tenants
from gpupool.wire.common import Event


def read_events(connection: sa.Connection, principal: Principal, after: int, limit: int) -> list[Event]:
    """The log from there on: the pool's own events and those of the caller's tenant."""
    query = (
        sa.select(events, tenants.c.name.label("tenant"))
        .outerjoin(tenants, tenants.c.id == events.c.tenant_id)
        .where(events.c.seq > after)
        .order_by(events.c.seq)
        .limit(limit)
    )
    if not principal.sees_all:
        query = query.where(sa.or_(events.c.tenant_id.is_(None), events.c.tenant_id == principal.tenant_id))
    return [
        Event(seq=row.seq, at_ns=row.at_ns, kind=row.kind, subject=row.subject, tenant=row.tenant, data=row.data)
        for row in connection.execute(query)
    ]
