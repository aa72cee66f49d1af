"""Queries of the event log, and which events a caller may see. Knows no HTTP."""

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
class EventEntry:
    """One event and its tenant; None for events of the pool."""

    tenant_id: int | None
    event: Event

    @property
    def seq(self) -> int:
        """The number of the event in the log."""
        return self.event.seq


#: Kinds of the pool's own events that tell of other tenants' quotas.
FOR_ADMINS = "cohort."


def can_see_event(principal: Principal, tenant_id: int | None, kind: str) -> bool:
    """Return whether the caller may see an event: the pool's, its tenant's, or any for an admin."""
    if principal.sees_all or tenant_id == principal.tenant_id:
        return True
    return tenant_id is None and not kind.startswith(FOR_ADMINS)


def read_events(
    connection: sa.Connection, principal: Principal, after: int, limit: int
) -> list[Event]:
    """Read events above `after` that the caller may see, in order."""
    query = _select_entries(after, limit)
    if not principal.sees_all:
        of_pool = sa.and_(events.c.tenant_id.is_(None), events.c.kind.not_like(f"{FOR_ADMINS}%"))
        query = query.where(sa.or_(of_pool, events.c.tenant_id == principal.tenant_id))
    return [entry.event for entry in _read_rows(connection, query)]


def read_entries(connection: sa.Connection, after: int, limit: int) -> Sequence[EventEntry]:
    """Read events of every tenant above `after`, in order."""
    return _read_rows(connection, _select_entries(after, limit))


def check_resumable(connection: sa.Connection, after: int, epoch: str | None = None) -> None:
    """Raise EventsReset for a position of another log: its epoch differs, or this log has not given
    the number.

    A caller that sends no epoch is checked by the number alone.
    """
    # The number alone would miss a restored log that has grown past it since.
    last = read_last_event(connection)
    current = read_event_epoch(connection)
    if epoch is not None and epoch != current:
        raise EventsReset(
            f"the event log was replaced, as by a restore: got epoch {epoch}, expected {current}",
            hint="look at what the pool is now, then go on:  "
            f"gpupool events --after {last} --epoch {current}",
            last_event=last,
            event_epoch=current,
        )
    if after > last:
        raise EventsReset(
            f"event {after} is beyond the end of this log, which is event {last}; "
            "a pool that was restored goes back",
            hint=f"look at what the pool is now, then go on:  gpupool events --after {last}",
            last_event=last,
            event_epoch=current,
        )


def read_event_epoch(connection: sa.Connection) -> str:
    """Read the id of this event log."""
    return str(connection.execute(sa.select(pool.c.event_epoch)).scalar_one())


def read_last_event(connection: sa.Connection) -> int:
    """Read the number of the last event."""
    return int(connection.execute(sa.select(pool.c.event_seq)).scalar_one())


def _select_entries(after: int, limit: int) -> sa.Select[Any]:
    return (
        sa.select(events, tenants.c.name.label("tenant"))
        .outerjoin(tenants, tenants.c.id == events.c.tenant_id)
        .where(events.c.seq > after)
        .order_by(events.c.seq)
        .limit(limit)
    )


def _read_rows(connection: sa.Connection, query: sa.Select[Any]) -> list[EventEntry]:
    found = []
    for row in connection.execute(query):
        event = Event(
            seq=row.seq,
            at_ns=row.at_ns,
            kind=row.kind,
            subject=row.subject,
            tenant=row.tenant,
            data=row.data,
        )
        found.append(EventEntry(row.tenant_id, event))
    return found
