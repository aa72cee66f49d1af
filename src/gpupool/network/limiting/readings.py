"""Keeps what agents have read back of bandwidth limits. Everything runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from gpupool.network.limiting.reading import read_limit_work
from gpupool.network.limiting.tables import bandwidth_readings
from gpupool.store.write_transaction import WriteTransaction
from gpupool.wire.network.promises import LimitReading


def merge_readings(write: WriteTransaction, readings: Sequence[LimitReading]) -> None:
    """Put the readings of a machine in place of those before. Idempotent.

    Those of other machines stay; those of ports and gateways without a limit go. A measurement
    stays with the port or gateway that it was made at.
    """
    present = {row.key for row in write.execute(sa.select(bandwidth_readings.c.key))}
    gone = (
        present - {limit.key for limit in read_limit_work(write.connection)} if present else set()
    )
    if gone:
        ours = bandwidth_readings.c.key.in_(gone)
        write.execute(bandwidth_readings.delete().where(ours))
    for reading in readings:
        values = reading.model_dump()
        if reading.key in present:
            changed = bandwidth_readings.update().where(bandwidth_readings.c.key == reading.key)
            write.execute(changed.values(**values))
        else:
            write.execute(bandwidth_readings.insert().values(**values))
            present.add(reading.key)
