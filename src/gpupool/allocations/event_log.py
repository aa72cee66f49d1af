"""Reading the event log: which events a caller may see, and the queries. Knows no HTTP and no event loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import EventsReset
from gpupool.model.tenant import Principal
from gpupool.store.tables import events, pool
from gpupool.tenancy.tables import tenants
from gpupool.wire.common import Event


@dataclass(frozen=True)
class Entry:
    """One event and the tenant it belongs to (None: the pool)."""

    tenant_id: int | None
    event: Event

    @property
    def seq(self) -> int:
        return self.event.seq


#: Kinds of the pool's own events that tell of other tenants' quotas.
FOR_ADMINS = "cohort."


def may_see(principal: Principal, tenant_id: int | None, kind: str) -> bool:
    """The rule of the whole log: the pool's own events and those of the caller's tenant; an admin sees all."""
    if principal.sees_all or tenant_id == principal.tenant_id:
        return True
    return tenant_id is None and not kind.startswith(FOR_ADMINS)


def read_events(connection: sa.Connection, principal: Principal, after: int, limit: int) -> list[Event]:
    """Events above `after` that the caller may see, in order: `may_see` as a condition."""
    query = _entries(after, limit)
    if not principal.sees_all:
        of_pool = sa.and_(events.c.tenant_id.is_(None), events.c.kind.not_like(f"{FOR_ADMINS}%"))
        query = query.where(sa.or_(of_pool, events.c.tenant_id == principal.tenant_id))
    return [entry.event for entry in _read(connection, query)]


def read_entries(connection: sa.Connection, after: int, limit: int) -> Sequence[Entry]:
    """Events of every tenant above `after`, in order."""
    return _read(connection, _entries(after, limit))


def check_resumable(connection: sa.Connection, after: int, epoch: str | None = None) -> None:
    """Raise EventsReset for a position of another log: its epoch differs, or this log has not given the number.

    A caller that sends no epoch is checked by the number alone.
    """
    last = last_event(connection)
    current = event_epoch(connection)
    if epoch is not None and epoch != current:
        raise EventsReset(
            f"the event log was replaced, as by a restore: got epoch {epoch}, expected {current}",
            hint=f"look at what the pool is now, then go on:  gpupool events --after {last} --epoch {current}",
            last_event=last,
            event_epoch=current,
        )
    if after > last:
        raise EventsReset(
            f"event {after} is beyond the end of this log, which is event {last}; a pool that was restored goes back",
            hint=f"look at what the pool is now, then go on:  gpupool events --after {last}",
            last_event=last,
            event_epoch=current,
        )


def event_epoch(connection: sa.Connection) -> str:
    """The id of this event log."""
    return str(connection.execute(sa.select(pool.c.event_epoch)).scalar_one())


def last_event(connection: sa.Connection) -> int:
    """The number of the last event."""
    return int(connection.execute(sa.select(pool.c.event_seq)).scalar_one())


def _entries(after: int, limit: int) -> sa.Select[Any]:
    return (
        sa.select(events, tenants.c.name.label("tenant"))
        .outerjoin(tenants, tenants.c.id == events.c.tenant_id)
        .where(events.c.seq > after)
        .order_by(events.c.seq)
        .limit(limit)
    )


def _read(connection: sa.Connection, query: sa.Select[Any]) -> list[Entry]:
    found = []
    for row in connection.execute(query):
        told = Event(seq=row.seq, at_ns=row.at_ns, kind=row.kind, subject=row.subject, tenant=row.tenant, data=row.data)
        found.append(Entry(row.tenant_id, told))
    return found
