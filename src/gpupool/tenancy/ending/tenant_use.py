"""What keeps a tenant from being deleted: jobs, users, reservations and networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import StillInUse
from gpupool.model.reservation import ReservationState
from gpupool.tenancy.tables import networks_view, reservations_view

Row = sa.Row[Any]


@dataclass(frozen=True)
class TenantUse:
    """How many live jobs and users a tenant has."""

    jobs: int
    users: int


def refuse_while_used(connection: sa.Connection, row: Row, use: TenantUse, now_ns: int) -> None:
    """Refuse to delete a tenant that has something. Raises StillInUse with the counts."""
    held = row.held_milli or row.held_memory_bytes
    if use.jobs or use.users or held:
        raise StillInUse(
            f"tenant {row.name} still has {_count_noun(use.jobs, 'live job')} and "
            f"{_count_noun(use.users, 'user')}",
            hint=f"stop its jobs and move or delete its users: gpupool ps --tenant {row.name}; "
            "gpupool user list",
            jobs=use.jobs,
            users=use.users,
            held_milli=row.held_milli,
        )
    if reserved := _count_reservations(connection, row.id, now_ns):
        raise StillInUse(
            f"tenant {row.name} still has {_count_noun(reserved, 'reservation')}",
            hint=f"end them: gpupool reservation delete NAME --tenant {row.name}",
            reservations=reserved,
        )
    # Else its rules, peerings and addresses would be those of the next tenant of its name.
    mine = sa.select(sa.func.count()).where(networks_view.c.tenant_id == row.id)
    if networks := connection.execute(mine).scalar_one():
        raise StillInUse(
            f"tenant {row.name} still has {_count_noun(networks, 'network')}",
            hint=f"delete them: gpupool network delete NAME --tenant {row.name}",
            networks=networks,
        )


def _count_reservations(connection: sa.Connection, tenant_id: int, now_ns: int) -> int:
    """Count the tenant's reservations that are not over, also by time."""
    r = reservations_view.c
    repeats = (r.until_ns - 1 - r.start_ns) // r.every_ns
    last_ns = r.end_ns + sa.case((r.every_ns.is_(None), 0), else_=repeats * r.every_ns)
    query = sa.select(sa.func.count()).where(
        r.tenant_id == tenant_id,
        r.state != ReservationState.ENDED,
        sa.or_(last_ns.is_(None), last_ns > now_ns),
    )
    return int(connection.execute(query).scalar_one())


def _count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
