"""How many promised starts were kept, and how many estimates came true, as the placer counts them."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.metering.tables import start_tallies
from gpupool.scheduling.foretold import PROMISE
from gpupool.wire.report import StartsOut


def read_starts(connection: sa.Connection) -> StartsOut:
    """The totals of the whole pool."""
    is_promise = start_tallies.c.sort == PROMISE
    kept, missed = sa.func.sum(start_tallies.c.kept), sa.func.sum(start_tallies.c.missed)
    query = sa.select(is_promise.label("promise"), kept.label("kept"), missed.label("missed")).group_by(is_promise)
    found = {bool(row.promise): (int(row.kept), int(row.missed)) for row in connection.execute(query)}
    promised, estimated = found.get(True, (0, 0)), found.get(False, (0, 0))
    return StartsOut(
        promises_kept=promised[0],
        promises_broken=promised[1],
        estimates_true=estimated[0],
        estimates_false=estimated[1],
    )
