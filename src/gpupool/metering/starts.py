"""Read how many promised starts were kept and how many estimates came true."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.metering.tables import start_tallies
from gpupool.scheduling import PROMISE
from gpupool.wire.report import StartsOut


def read_starts(connection: sa.Connection) -> StartsOut:
    """Read the totals of the whole pool, as the placer counts them."""
    is_promise = start_tallies.c.sort == PROMISE
    kept = sa.func.sum(start_tallies.c.kept)
    missed = sa.func.sum(start_tallies.c.missed)
    query = sa.select(
        is_promise.label("promise"), kept.label("kept"), missed.label("missed")
    ).group_by(is_promise)
    promised = (0, 0)
    estimated = (0, 0)
    for row in connection.execute(query):
        if row.promise:
            promised = int(row.kept), int(row.missed)
        else:
            estimated = int(row.kept), int(row.missed)
    return StartsOut(
        promises_kept=promised[0],
        promises_broken=promised[1],
        estimates_true=estimated[0],
        estimates_false=estimated[1],
    )
