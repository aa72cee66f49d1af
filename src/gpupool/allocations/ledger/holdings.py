"""What each tenant holds: sums in the rows of `tenants`, changed with every grant and release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import tenants

Row = sa.Row[Any]

# Sums are kept, so that a plan reads one row for each tenant and no seats.
_HOLD = (
    tenants.update()
    .where(tenants.c.id == sa.bindparam("tenant"))
    .values(
        held_milli=tenants.c.held_milli + sa.bindparam("milli"),
        held_memory_bytes=tenants.c.held_memory_bytes + sa.bindparam("bytes"),
        generation=tenants.c.generation + 1,
    )
    .returning(*tenants.c)
)


def add_holdings(write: WriteTransaction, by_tenant: Mapping[int, Counter[str]]) -> tuple[Row, ...]:
    """Add milli-devices and bytes to what tenants hold.

    Args:
        write: The transaction.
        by_tenant: Amounts by the tenant's row id; negative ones subtract.

    Returns:
        The tenants' rows as they are now.
    """
    rows = list[Row]()
    for tenant, use in by_tenant.items():
        amounts = {"tenant": tenant, "milli": use["milli"], "bytes": use["bytes"]}
        rows.append(write.execute(_HOLD, amounts).one())
    return tuple(rows)
