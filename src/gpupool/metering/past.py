"""Read each tenant's past use from the books, for fair share: the longer ago, the less it counts.

Intervals are counted to the second, hours and days as if their use were spread over them evenly.
"""

from __future__ import annotations

from collections import defaultdict

import sqlalchemy as sa

from gpupool.fleet.tables import devices
from gpupool.metering.books import DAY_S, HOUR_S, compute_dominant_micro
from gpupool.metering.tables import intervals, usage_days, usage_hours
from gpupool.scheduling import FORGOTTEN_HALF_LIVES, integrate_decay
from gpupool.tenancy.tables import tenants

_MIB = 1 << 20


def read_past_use(connection: sa.Connection, now_s: int, half_life_s: int) -> dict[str, float]:
    """Read the decayed use by tenant's name, in millionths of a card times seconds.

    What is still held counts up to `now_s`.
    """
    # What is older has decayed to nothing that a decision could see.
    since_s = now_s - half_life_s * FORGOTTEN_HALF_LIVES
    found: dict[str, float] = defaultdict(float)
    for name, micro, start_s, end_s in _read_stretches(connection, since_s, now_s):
        found[name] += micro * integrate_decay(
            now_s - start_s, now_s - min(end_s, now_s), half_life_s
        )
    return dict(found)


def _read_stretches(
    connection: sa.Connection, since_s: int, now_s: int
) -> list[tuple[str, float, int, int]]:
    """Read (tenant, millionths of a card, from, until) of everything that ended after `since_s`."""
    found: list[tuple[str, float, int, int]] = []
    for row in connection.execute(_select_seats(since_s, now_s)):
        micro = compute_dominant_micro(row.gpu_milli, row.memory_mib, row.memory_bytes // _MIB)
        found.append((row.name, micro, row.start_s, row.until_s))
    for table, slot, width_s in (
        (usage_hours, usage_hours.c.hour_s, HOUR_S),
        (usage_days, usage_days.c.day_s, DAY_S),
    ):
        total = sa.func.sum(table.c.dominant_micro_seconds).label("total")
        query = sa.select(tenants.c.name, slot.label("slot"), total).join(
            tenants, tenants.c.id == table.c.tenant_id
        )
        rows = connection.execute(
            query.where(slot > since_s - width_s).group_by(tenants.c.name, slot)
        )
        for name, slot_s, sum_micro in rows:
            found.append((name, int(sum_micro) / width_s, slot_s, slot_s + width_s))
    return found


def _select_seats(since_s: int, now_s: int) -> sa.Select[tuple[str, int, int, int, int, int]]:
    until = sa.func.coalesce(intervals.c.end_s, now_s).label("until_s")
    columns = (
        tenants.c.name,
        intervals.c.gpu_milli,
        intervals.c.memory_mib,
        devices.c.memory_bytes,
    )
    late = sa.or_(intervals.c.end_s.is_(None), intervals.c.end_s > since_s)
    return (
        sa.select(*columns, intervals.c.start_s, until)
        .join(tenants, tenants.c.id == intervals.c.tenant_id)
        .join(devices, devices.c.id == intervals.c.device_id)
        .where(late)
    )
